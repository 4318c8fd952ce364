"""Tokens of one operation's text."""
from __future__ import annotations

import re
import struct
from typing import NamedTuple

from .errors import ParseError

_TOKEN = re.compile(r"""
    (?P<number> 0[xX][0-9a-fA-F]+\b | 0[bB][01]+\b
              | (?: \d+\.\d* | \.\d+ ) (?: [eE][+-]?\d+ )? (?![\w.])
              | \d+ (?: [eE][+-]?\d+ )? (?![\w.]) )
  | (?P<name> \.?[A-Za-z_$][\w.$]* )
  | (?P<punct> [,:;\[\]+\-?@] )
  | (?P<space> \s+ )
""", re.VERBOSE)
FLOAT_NAMES = {"inf": 0x7F800000, "nan": 0x7FC00000}
SIGN = 0x80000000


class Token(NamedTuple):
  """kind: "number", "name", "punct" or "end"; column: from 0 in the text."""
  kind: str
  text: str
  column: int


def tokenize(text: str) -> list[Token]:
  """The tokens of `text`, closed by one of kind "end".

  Raises:
    ParseError: a character that starts no token.
  """
  tokens, at = [], 0
  while at < len(text):
    match = _TOKEN.match(text, at)
    if match is None:
      bad = re.match(r"[\w.$]+", text[at:])
      word = bad.group() if bad else text[at]
      raise ParseError(f"{word!r} is no register, number, name or punctuation of TASM", at, len(word))
    if match.lastgroup != "space":
      tokens.append(Token(match.lastgroup or "", match.group(), at))
    at = match.end()
  tokens.append(Token("end", "", at))
  return tokens


def is_float(number: str) -> bool:
  """Whether a number token is a float literal: it has a point, or an exponent without being hexadecimal."""
  return number[:2].lower() not in ("0x", "0b") and any(c in number for c in ".eE")


def float_bits(value: float) -> int:
  """The bits of `value` rounded to float32.

  Raises:
    OverflowError: finite, but beyond float32.
  """
  return int(struct.unpack("<I", struct.pack("<f", value))[0])
