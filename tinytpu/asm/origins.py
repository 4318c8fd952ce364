"""Where operations come from: the UOps that each was made of, and the calls in the user's program that those were made by."""
from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .errors import ContainerError, quote
from .lexer import decimal

MAX_TEXT_BYTES, MAX_PER_OPERATION = 1023, 255
_COUNT, _TEXT = struct.Struct("<I"), struct.Struct("<H")
_SEPARATORS = "#;"
NONE = "-"
"""In a `.from` directive: an operation that comes from no UOp."""


@dataclass(frozen=True)
class Call:
  """A call in the user's program. method: of a Tensor, "relu", or "relu.backward" for its gradient. where: FILE:LINE, or other text."""
  method: str
  where: str

  def __str__(self) -> str:
    return f"{self.method} {self.where}"


@dataclass(frozen=True)
class Origin:
  """A UOp. text: in short what it is. calls: what it was made by, if that is known."""
  text: str
  calls: tuple[Call, ...] = ()

  def __str__(self) -> str:
    return " ; ".join([self.text, *map(str, self.calls)])


@dataclass(frozen=True)
class Origins:
  """Of a program. uops: those that operations come from. words: for each word of the code the numbers of its UOps, ascending; nothing for
  what the compiler adds of its own, and for padding."""
  uops: tuple[Origin, ...]
  words: tuple[tuple[int, ...], ...]

  def of(self, first: int, words: int) -> list[Origin]:
    """The UOps of the words from `first` on, each once."""
    return [self.uops[n] for n in dict.fromkeys(n for word in self.words[first:first + words] for n in word)]

  def shown(self) -> str:
    """The UOps, a line each."""
    return "\n".join(f"  {n}  {uop}" for n, uop in enumerate(self.uops))

  def fault(self, words: int) -> str:
    """Why a program of so many words cannot have these; "" if it can."""
    for n, uop in enumerate(self.uops):
      for text in (uop.text, *(part for call in uop.calls for part in (call.method, call.where))):
        if fault := text_fault(text):
          return f"UOp {n}: {fault}"
      if bad := next((call.method for call in uop.calls if " " in call.method), ""):
        return f"UOp {n}: a method is one word, not {quote(bad)}"
    if not self.uops:
      return "it names no UOp"
    if len(self.words) != words:
      return f"operations of {len(self.words)} words, the code has {words}"
    for at, numbers in enumerate(self.words):
      if list(numbers) != sorted({*numbers}) or numbers and not 0 <= numbers[0] <= numbers[-1] < len(self.uops):
        return f"word {at}: UOps {numbers} are not ascending numbers below {len(self.uops)}"
      if len(numbers) > MAX_PER_OPERATION:
        return f"word {at}: {len(numbers)} UOps, at most {MAX_PER_OPERATION} can be named"
    return ""

  def to_bytes(self) -> bytes:
    """The payload of a container's section: uint32 UOps; of each uint16 calls, its text, and each call's method and place, texts as uint16
    bytes and UTF-8; then of each word of the code uint8 UOps and their numbers, uint32."""
    parts = [_COUNT.pack(len(self.uops))]
    for uop in self.uops:
      parts.append(_TEXT.pack(len(uop.calls)))
      parts += [_packed(text) for text in (uop.text, *(part for call in uop.calls for part in (call.method, call.where)))]
    parts += [bytes([len(numbers)]) + b"".join(map(_COUNT.pack, numbers)) for numbers in self.words]
    return b"".join(parts)

  @classmethod
  def from_bytes(cls, data: bytes, words: int, base: int) -> Origins:
    """What `to_bytes` made, for a program of so many words. base: offset of `data` in the file, for messages.

    Raises:
      ContainerError: cut short, too long, or no UTF-8.
    """
    read = _Reader(data, base)
    uops = []
    for _ in range(read.number(_COUNT)):
      calls = read.number(_TEXT)
      text = read.text()
      uops.append(Origin(text, tuple(Call(read.text(), read.text()) for _ in range(calls))))
    numbers = tuple(tuple(read.number(_COUNT) for _ in range(read.take(1)[0])) for _ in range(words))
    if read.at != len(data):
      raise ContainerError(f"section FROM at offset {base + read.at}: {len(data) - read.at} bytes too many")
    return cls(tuple(uops), numbers)


class _Reader:
  def __init__(self, data: bytes, base: int):
    self.data, self.base, self.at = data, base, 0

  def take(self, size: int) -> bytes:
    if len(self.data) - self.at < size:
      raise ContainerError(f"section FROM at offset {self.base + self.at}: cut short")
    self.at += size
    return self.data[self.at - size:self.at]

  def number(self, kind: struct.Struct) -> int:
    return int(kind.unpack(self.take(kind.size))[0])

  def text(self) -> str:
    size, at = self.number(_TEXT), self.at
    try:
      return self.take(size).decode()
    except UnicodeDecodeError as error:
      raise ContainerError(f"section FROM at offset {self.base + at}: not UTF-8 ({error.reason} at byte {error.start})") from None


def _packed(text: str) -> bytes:
  data = text.encode()
  return _TEXT.pack(len(data)) + data


def text_fault(text: str) -> str:
  """Why a text cannot stand in a `.uop` directive; "" if it can."""
  if not text or text != text.strip() or not text.isprintable() or any(c in text for c in _SEPARATORS):
    return f"a text must be printable, not empty, without '#', ';' and spaces around it, and not {quote(text)}"
  return f"{quote(text)} has {size} bytes, at most {MAX_TEXT_BYTES} fit" if (size := len(text.encode())) > MAX_TEXT_BYTES else ""


def tidy(text: str) -> str:
  """A text as `.uop` takes it: what cannot stand there becomes "?", what is too long is cut."""
  kept = "".join(c if c.isprintable() and c not in _SEPARATORS else "?" for c in text)
  return kept.encode()[:MAX_TEXT_BYTES].decode(errors="ignore").strip() or "?"


def parse_uop(text: str) -> tuple[int, Origin]:
  """Number and UOp of a `.uop` directive's text after its name.

  Raises:
    ValueError: says what is wrong with it.
  """
  head, *calls = (part.strip() for part in text.split(";"))
  number, _, what = head.partition(" ")
  if (n := decimal(number)) is None or not what.strip():
    raise ValueError("expected .uop N TEXT, and perhaps ; METHOD WHERE")
  found = []
  for call in calls:
    method, _, where = call.partition(" ")
    if not where:
      raise ValueError(f"expected METHOD WHERE, found {quote(call) if call else 'nothing'}")
    found.append(Call(method, where.strip()))
  origin = Origin(what.strip(), tuple(found))
  for part in (origin.text, *(part for call in origin.calls for part in (call.method, call.where))):
    if fault := text_fault(part):
      raise ValueError(fault)
  return n, origin


def parse_from(text: str) -> list[tuple[int, ...]]:
  """Of each operation of a group the UOps that a `.from` directive's text names.

  Raises:
    ValueError: says what is wrong with it.
  """
  numbers = [[decimal(word) for word in part.split()] if part.strip() != NONE else [] for part in text.split(";")]
  if any(n is None for part in numbers for n in part) or not all(map(str.strip, text.split(";"))):
    raise ValueError("expected numbers of UOps, or - for none, for each operation of the next group, separated by ;")
  return [tuple(sorted({n for n in part if n is not None})) for part in numbers]


def numbers_text(group: Sequence[Sequence[int]]) -> str:
  """What a `.from` directive says of the operations of a group."""
  return " ; ".join(" ".join(map(str, numbers)) or NONE for numbers in group)


def uop_texts(uops: Sequence[Origin]) -> Iterator[str]:
  """The `.uop` directives of a program."""
  return (f".uop {n} {uop}" for n, uop in enumerate(uops))
