"""Tokens of one operation's text."""
from __future__ import annotations

import math
import re
import struct
from typing import NamedTuple

from .errors import ParseError, quote

_TOKEN = re.compile(r"""
    (?P<number> 0[xX][0-9a-fA-F]+\b | 0[bB][01]+\b
              | (?: [0-9]+\.[0-9]* | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? (?![\w.])
              | [0-9]+ (?: [eE][+-]?[0-9]+ )? (?![\w.]) )
  | (?P<name> \.?[A-Za-z_$][\w.$]* )
  | (?P<punct> [,:;\[\]+\-?@] )
  | (?P<space> [ \t]+ )
""", re.VERBOSE)
_WORD = re.compile(r"[\w.$]+")
_DIGITS = 40  # more are beyond every range, and many more beyond what Python converts
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
      bad = _WORD.match(text, at)
      word = bad.group() if bad else text[at]
      raise ParseError(f"{quote(word)} is no register, number, name or punctuation of TASM", at, len(word))
    if match.lastgroup != "space":
      tokens.append(Token(match.lastgroup or "", match.group(), at))
    at = match.end()
  tokens.append(Token("end", "", at))
  return tokens


def is_float(number: str) -> bool:
  """Whether a number token is a float literal: it has a point, or an exponent without being hexadecimal."""
  return number[:2].lower() not in ("0x", "0b") and any(c in number for c in ".eE")


def integer(number: str) -> int:
  """The value of an integer token, decimal, hexadecimal or binary. More than 40 decimal digits count as 2^128, beyond every range."""
  if number[:2].lower() in ("0x", "0b"):
    return int(number, 0)
  digits = number.lstrip("0") or "0"
  return int(digits) if len(digits) <= _DIGITS else 1 << 128


def decimal(word: str) -> int | None:
  """The value of a word of decimal digits, as `integer` has it; None for any other word."""
  return integer(word) if word.isascii() and word.isdecimal() else None


def float_bits(number: str) -> int:
  """The bits of the float32 that a literal stands for, rounded to nearest even.

  Raises:
    ValueError: no literal. OverflowError: finite, but beyond float32.
  """
  value = float(number)
  if math.isinf(value) and number.strip("+- ").lower() not in ("inf", "infinity"):
    raise OverflowError(f"{number} does not fit float32")
  return int(struct.unpack("<I", struct.pack("<f", value))[0])
