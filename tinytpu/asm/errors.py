"""Errors of the assembler and of the program container."""
from __future__ import annotations


class TasmError(ValueError):
  """Assembly text that cannot be assembled.

  Attributes:
    message: what is wrong and what was expected. file: name of the source. line, column: place, from 1.
    source: the line's text. length: characters that the caret line marks.
  """

  def __init__(self, message: str, file: str, line: int, column: int, source: str, length: int = 1):
    self.message, self.file, self.line, self.column, self.source, self.length = message, file, line, column, source, length
    # Tabs stay tabs in the caret line, so that the caret stands under its column in any terminal.
    margin = "".join("\t" if c == "\t" else " " for c in source[:column - 1])
    super().__init__(f"{file}:{line}:{column}: {message}\n  {source}\n  {margin}{'^' * max(1, length)}")


class ParseError(ValueError):
  """A fault within one operation's text, before it is known where that text stands: column (from 0) and length are relative to it."""

  def __init__(self, message: str, column: int, length: int = 1):
    super().__init__(message)
    self.column, self.length = column, length


class ContainerError(ValueError):
  """Bytes that are no program container, or one of another version or instruction set; names section and byte offset."""
