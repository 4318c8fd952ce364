"""Errors of the assembler and of the program container, and how they quote what a file says."""
from __future__ import annotations

QUOTED = 60
"""Characters of a file's text that a message quotes at most."""
_SHOWN, _MESSAGE = 120, 500


def shorten(text: str, most: int = QUOTED) -> str:
  """The text, cut after `most` characters, with every character that is not printable written as an escape."""
  cut = text if len(text) <= most else text[:most] + "..."
  return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def quote(text: str) -> str:
  """The same in quotation marks."""
  return repr(text if len(text) <= QUOTED else text[:QUOTED] + "...")


class TasmError(ValueError):
  """Assembly text that cannot be assembled.

  Attributes:
    message: what is wrong and what was expected. file: name of the source. line, column: place, from 1.
    source: the line's text, whole. length: characters that the caret line marks.
  """

  def __init__(self, message: str, file: str, line: int, column: int, source: str, length: int = 1):
    self.message, self.file, self.line, self.column, self.source, self.length = message, file, line, column, source, length
    # Of a long line the part around the column is shown. Tabs stay tabs in the caret line, so that the caret stands under its column
    # in any terminal.
    start = 0 if column <= _SHOWN // 2 else column - _SHOWN // 2
    before, after = source[start:column - 1], source[column - 1:start + _SHOWN]
    marked = min(max(1, length), max(1, len(after)))
    margin = "".join("\t" if c == "\t" else " " * len(shorten(c)) for c in before)
    shown = "\t".join(shorten(part, _SHOWN) for part in (before + after).split("\t"))
    dots = ("..." if start else "", "..." if start + _SHOWN < len(source) else "")
    super().__init__(f"{shorten(file, _MESSAGE)}:{line}:{column}: {shorten(message, _MESSAGE)}\n"
                     f"  {dots[0]}{shown}{dots[1]}\n  {' ' * len(dots[0])}{margin}{'^' * marked}")


class ParseError(ValueError):
  """A fault within one operation's text, before it is known where that text stands: column (from 0) and length are relative to it."""

  def __init__(self, message: str, column: int, length: int = 1):
    super().__init__(message)
    self.column, self.length = column, length


class ContainerError(ValueError):
  """A program that no container can hold, or bytes that are none, or of another version or instruction set; names section and byte
  offset."""
