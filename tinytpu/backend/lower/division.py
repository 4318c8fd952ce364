"""Integer division by constants: a high product and shifts in place of the divider, exact over the whole range.

The quotient of n / d is floor(n * m / 2^p) for a suitable m, a little above 2^p / d. For signed n the product rounds down, so that
the quotient of a negative one is one too small, which its sign bit corrects. (Warren, Hacker's Delight, chapter 10.)
"""
from __future__ import annotations

from tinygrad.uop.ops import Ops, UOp

from ..mir.builder import Builder, Val, imm
from ..types import kind
from ..uops import constant

BITS = 32


def divides(u: UOp) -> int | None:
  """The divisor, if a UOp divides by a constant that high products serve."""
  if u.op not in (Ops.CDIV, Ops.CMOD) or not isinstance(d := constant(u.src[1]), int):
    return None
  return d if 2 <= abs(d) < 1 << BITS - (kind(u.dtype) == "i") and (d > 0 or kind(u.dtype) == "i") else None


def divide(b: Builder, u: UOp, n: Val, d: int, positive: bool) -> Val:
  """Quotient (CDIV) or remainder (CMOD) of a vector `n` of 32-bit integers by the constant d, rounded toward zero. positive: whether
  it is known of a signed n that it is nowhere negative."""
  if kind(u.dtype) == "u":
    q = _unsigned(b, n, d, BITS)
  elif d > 0 and positive:
    q = _unsigned(b, n, d, BITS - 1)
  else:
    q = _signed(b, n, d)
  return q if u.op is Ops.CDIV else b.vector("vsub", n, b.vector("vmul", q, imm(d)))


def multiplier(d: int, bits: int, least: int) -> tuple[int, int]:
  """(m, p) with m above 2^p / d, p the smallest from `least` on for which n // d == n * m >> p for all 0 <= n < 2^bits."""
  top = (1 << bits) // d * d - 1  # the largest n with the largest remainder
  p = least
  while (1 << p) <= top * (d - (1 << p) % d):
    p += 1
  return (1 << p) // d + 1, p


def _unsigned(b: Builder, n: Val, d: int, bits: int) -> Val:
  m, p = multiplier(d, bits, BITS)
  if m < 1 << BITS:
    return b.vector("vshr", b.vector("vmulhu", n, imm(m)), imm(p - BITS)) if p > BITS else b.vector("vmulhu", n, imm(m))
  high = b.vector("vmulhu", n, imm(m - (1 << BITS)))  # n + high has a bit too many: halve the difference first
  half = b.vector("vadd", b.vector("vshr", b.vector("vsub", n, high), imm(1)), high)
  return b.vector("vshr", half, imm(p - BITS - 1)) if p > BITS + 1 else half


def _signed(b: Builder, n: Val, d: int) -> Val:
  m, p = multiplier(abs(d), BITS - 1, BITS)
  q = b.vector("vmulh", n, imm(m))
  if m >> BITS - 1:  # taken as m - 2^32
    q = b.vector("vadd", q, n)
  if p > BITS:
    q = b.vector("vsar", q, imm(p - BITS))
  q = b.vector("vadd", q, b.vector("vshr", n, imm(BITS - 1)))
  return q if d > 0 else b.vector("vsub", imm(0), q)
