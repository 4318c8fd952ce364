"""Rewrites on tinygrad's UOps just before linearization: operations that the machine lacks and that tinygrad would
decompose into ones that it lacks too."""
from __future__ import annotations

import math

from tinygrad.codegen.decomp.transcendental import cody_waite_reduction, sin_poly, sin_poly_small
from tinygrad.dtype import dtypes
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat

TWO_OVER_PI = (0x00000000, 0x28BE60DB, 0x9391054A, 0x7F09D5F4, 0x7D4D3770, 0x36D8A566, 0x4F10E410)
"""Bits of 2/pi, most significant word first, with 32 zero bits before the point."""
SMALL_ANGLE = 30.0
"""Below this, the argument of a sine is reduced by subtracting multiples of pi in float32."""
_U32 = dtypes.uint32


def _word(value: int) -> UOp:
  return UOp.const(value & 0xFFFFFFFF, _U32)


def _high_product(a: UOp, b: UOp) -> UOp:
  """Upper 32 bits of the product of two uint32."""
  a0, a1, b0, b1 = a & 0xFFFF, a.alu(Ops.SHR, _word(16)), b & 0xFFFF, b.alu(Ops.SHR, _word(16))
  middle = a1 * b0 + (a0 * b0).alu(Ops.SHR, _word(16))
  other = a0 * b1 + (middle & 0xFFFF)
  return a1 * b1 + middle.alu(Ops.SHR, _word(16)) + other.alu(Ops.SHR, _word(16))


def _large_sine(x: UOp) -> UOp:
  """Sine of a float32 from `SMALL_ANGLE` to its largest value, by Payne and Hanek's reduction in 32-bit integers.

  x = m * 2^e with 0.5 <= m < 1; of m * 2/pi * 2^e the 64 bits around the point that matter are summed up in (high, low):
  two bits of quadrant, 62 of fraction. The angle is taken from the nearer side of the quadrant exactly, then rounded.
  """
  bits = x.bitcast(_U32)
  m = ((bits & 0x7FFFFF) | 0x800000).alu(Ops.SHL, _word(8))
  e = (bits.alu(Ops.SHR, _word(23)) & 0xFF) - 126
  word, by = e.alu(Ops.SHR, _word(5)), e & 31

  def take(offset: int) -> UOp:
    out = _word(0)
    for i in range(len(TWO_OVER_PI) - 1 - offset, -1, -1):
      out = word.ne(i).where(out, _word(TWO_OVER_PI[i + offset]))
    return out

  def window(offset: int) -> UOp:
    return take(offset).alu(Ops.SHL, by) | take(offset + 1).alu(Ops.SHR, _word(1)).alu(Ops.SHR, _word(31) - by)
  low = m * window(1)
  low_sum = low + _high_product(m, window(2))
  high = m * window(0) + _high_product(m, window(1)) + (low_sum < low).cast(_U32)
  odd = (high.alu(Ops.SHR, _word(30)) & 1).ne(0)
  negative = (high.alu(Ops.SHR, _word(31)) & 1).ne(0)
  part = high & 0x3FFFFFFF
  above = _word(1 << 30) - part - low_sum.ne(0).cast(_U32)  # 2^62 less the fraction: the way to the quadrant's end
  top, rest = odd.where(above, part), odd.where(_word(0) - low_sum, low_sum)
  angle = (top.cast(dtypes.float32) * 2.0**32 + rest.cast(dtypes.float32)) * (math.pi / 2**63)
  value = sin_poly(angle)
  # quadrant 0: sin r; 1: sin(pi/2 - r); 2 and 3 the same, negated
  return negative.where(value * -1.0, value)


def _sine(x: UOp) -> UOp:
  if x.dtype != dtypes.float32:
    return _sine(x.cast(dtypes.float32)).cast(x.dtype)
  sign = x < 0.0
  size = sign.where(x * -1.0, x)
  finite = size < math.inf
  size = finite.where(size, size.const_like(0.0))
  small = sin_poly_small(*cody_waite_reduction(size))
  value = (size < SMALL_ANGLE).where(small, _large_sine(size))
  return finite.where(x.ne(0.0).where(sign.where(value * -1.0, value), x), x.const_like(math.nan))


final_rewrites = PatternMatcher([(UPat(Ops.SIN, src=(UPat.var("x"),)), _sine)])
REWRITTEN_OPS = (Ops.SIN,)
"""What tinygrad is to leave to these rewrites."""
