"""Reference functions of the packed operations: each of a word's four bytes by itself, as a signed integer.

Like `semantics`: 32-bit words to one 32-bit word, compiled by Numba.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .semantics import _jit, i32, u32

__all__ = ["abs_", "absd", "adds", "eq", "lt", "max_", "min_", "mul", "mulh", "neg", "relu", "sign", "subs"]


@_jit
def _byte(x, n):
  """Byte n of a word, sign-extended."""
  return i32(np.int8((x >> u32(8 * n)) & u32(0xFF)))


@_jit
def _join(b0, b1, b2, b3):
  """The word of the low bytes of four integers, the first lowest."""
  return u32((b0 & 0xFF) | (b1 & 0xFF) << 8 | (b2 & 0xFF) << 16 | (b3 & 0xFF) << 24)


def _each(f: Callable[..., Any]) -> Callable[..., int]:
  """`f` of one byte for all four."""
  function = _jit(f)

  @_jit
  def packed(a):
    return _join(function(_byte(a, 0)), function(_byte(a, 1)), function(_byte(a, 2)), function(_byte(a, 3)))
  return packed


def _pairs(f: Callable[..., Any]) -> Callable[..., int]:
  """`f` of two bytes in the same place for all four places."""
  function = _jit(f)

  @_jit
  def packed(a, b):
    return _join(function(_byte(a, 0), _byte(b, 0)), function(_byte(a, 1), _byte(b, 1)),
                 function(_byte(a, 2), _byte(b, 2)), function(_byte(a, 3), _byte(b, 3)))
  return packed


adds = _pairs(lambda x, y: max(-128, min(127, x + y)))
subs = _pairs(lambda x, y: max(-128, min(127, x - y)))
min_ = _pairs(lambda x, y: min(x, y))
max_ = _pairs(lambda x, y: max(x, y))
absd = _pairs(lambda x, y: abs(x - y))
eq = _pairs(lambda x, y: 1 if x == y else 0)
lt = _pairs(lambda x, y: 1 if x < y else 0)
mul = _pairs(lambda x, y: x * y)
mulh = _pairs(lambda x, y: x * y >> 8)
neg = _each(lambda x: min(127, -x))
abs_ = _each(lambda x: min(127, abs(x)))
relu = _each(lambda x: max(0, x))
sign = _each(lambda x: (1 if x > 0 else 0) - (1 if x < 0 else 0))
