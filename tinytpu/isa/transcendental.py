"""exp2, log2, sin and cos of float32: the reference functions, exact sequences of integer operations.

Like `semantics`: 32-bit words to one 32-bit word, compiled by Numba, every NaN result `NAN`. `rtl/transcendental.py` is the
same arithmetic as a pipeline, so both engines agree to the bit. All four share one frame. The argument is reduced to

    result = +-(whole + factor * slope)

where `slope` is a quadratic on the segment that the reduced argument falls in (tables in `transcendental_tables`, made by
`transcendental_fit`), and only the logarithm has a whole part:

    exp2   x = n + f, f in [0, 1):                     2^n * 2^f
    log2   x = 2^e * (1 + f), 1 + f in [0.707, 1.414): e + f * (log2(1 + f) / f)
    sin    |x| = (k + t) * pi / 2, |t| <= 1/2:         +-t * (sin(pi / 2 t) / t) or +-cos(pi / 2 t), by k and the signs
    cos    the same with k + 1, without the sign of x

so that the product keeps the relative precision of small results. |x| * 2 / pi is taken from a window of 96 bits of 2 / pi
chosen by x's exponent: what is left out in front is a multiple of 4, what is left out behind is below the rounding
even where x is next to a multiple of pi / 2. The product is cut to 40 bits, and one rounding to nearest ends every function.

Special cases. exp2: integers exact, overflow to infinity, subnormal results rounded like others. log2: powers of two
exact (+0 for 1), -infinity for both zeros, NaN below. sin and cos: NaN for infinities; below 2^-12 sin(x) is x (so
sin(-0) = -0) and cos(x) is 1. Errors over all inputs: `python -m bench.ulp`.
"""
from __future__ import annotations

from enum import IntEnum

import numpy as np
from numba import njit

from .semantics import NAN, f64, i64, u32, u64
from .transcendental_tables import COSINE, EXP2, FRACTION, LOG, LOG_FOLD, POSITION, SEGMENTS, SINE, TWO_OVER_PI

__all__ = ["REFERENCE", "TINY", "TransFn", "cos", "exp2", "log2", "sin"]


class TransFn(IntEnum):
  """The functions, as numbered by the hardware unit's input."""
  EXP2 = 0
  LOG2 = 1
  SIN = 2
  COS = 3


ONE, INF, NEG_INF = u32(0x3F800000), u32(0x7F800000), u32(0xFF800000)
SIGN, MAGNITUDE = u32(0x80000000), u32(0x7FFFFFFF)
OVERFLOW = u32(0x43000000)
"""exp2 is infinite from 128 on."""
UNDERFLOW = u32(0xC3160000)
"""exp2 is zero from -150 down."""
TINY = u32(115 << 23)
"""2^-12: the sine of anything smaller rounds to itself, or next to it, and its cosine to 1."""

_SEGMENTS = np.array(SEGMENTS, np.int64)
_LIMBS = np.array(TWO_OVER_PI, np.uint64)
_UNIT = i64(1) << i64(31)  # the factor 1

_jit = njit(error_model="numpy")


@_jit
def _leading_zeros(value, width):
  """Zeros above the highest one of `value`, which is neither 0 nor wider than `width` bits (at most 63)."""
  # The highest one and no neighbour below it: nothing that the conversion could round up to the next power of two.
  isolated = value & ~(value >> i64(1))
  return i64(width) - i64((f64(isolated).view(u64) >> u64(52)) - u64(1022))


@_jit
def _slope(segment, position):
  """The quadratic of a segment, 31 bits of which FRACTION behind the point."""
  linear = _SEGMENTS[segment, 1] + (position * _SEGMENTS[segment, 2] >> i64(POSITION))
  return _SEGMENTS[segment, 0] + (position * linear >> i64(POSITION))


@_jit
def _product(factor, slope):
  """The upper 40 of the 63 bits of a product."""
  return factor * slope >> i64(23)


@_jit
def _pack(sign, exponent, significand):
  """The float nearest to significand * 2^(exponent - 165), significand having 40 bits; `sign` 0 or SIGN.

  `exponent` is the biased one less 1: the top bit of a normal significand, hidden in the result, adds the 1. With a smaller
  significand and exponent 0 the result is subnormal.
  """
  kept, rest, half = significand >> i64(16), significand & i64(0xFFFF), i64(0x8000)
  if rest > half or (rest == half and kept & i64(1)):
    kept += i64(1)
  return u32(u32((exponent << i64(23)) + kept) | sign)


@_jit
def _normalised(sign, exponent, value):
  """`_pack` of value * 2^(exponent - 165), 0 < value < 2^40."""
  zeros = _leading_zeros(value, 40)
  return _pack(sign, exponent - zeros, value << zeros)


@_jit
def exp2(x):
  """2 to the power x."""
  magnitude = x & MAGNITUDE
  if magnitude > INF:
    return NAN
  if x < SIGN and x >= OVERFLOW:
    return INF
  if x >= UNDERFLOW:
    return u32(0)
  significand = i64(x & u32(0x7FFFFF)) | i64(0x800000)  # also of subnormals, all of which is shifted out
  # Up to 8 bits before the point, 30 behind it.
  fixed = significand << i64(14) >> i64(min(i64(134) - i64(magnitude >> u32(23)), i64(63)))
  if x >= SIGN:
    fixed = -fixed
  n, f = fixed >> i64(30), fixed & i64((1 << 30) - 1)
  slope = _slope(i64(EXP2) + (f >> i64(POSITION)), f & i64((1 << POSITION) - 1))
  if n < i64(-126):
    return _pack(u32(0), i64(0), _product(_UNIT >> (i64(-126) - n), slope) << i64(1))
  return _pack(u32(0), n + i64(126), _product(_UNIT, slope) << i64(1))


@_jit
def log2(x):
  """The binary logarithm of x."""
  magnitude = x & MAGNITUDE
  if magnitude == u32(0):
    return NEG_INF
  if x > INF:
    return NAN
  if x == INF:
    return INF
  exponent = i64(x >> u32(23))
  fraction = i64(x & u32(0x7FFFFF))
  if exponent == i64(0):
    zeros = _leading_zeros(fraction, 24)
    exponent, fraction = i64(1) - zeros, fraction << zeros & i64(0x7FFFFF)
  # |f| in units of 2^-24; its sign is that of `below`.
  segment = fraction >> i64(16)
  below = segment >= i64(LOG_FOLD)
  if below:
    exponent, f = exponent - i64(126), i64(0x800000) - fraction
  else:
    exponent, f = exponent - i64(127), fraction << i64(1)
  slope = _slope(i64(LOG) + segment, (fraction & i64(0xFFFF)) << i64(POSITION - 16))
  if exponent == i64(0):
    if f == i64(0):
      return u32(0)
    zeros = _leading_zeros(f, 24)
    return _normalised(SIGN if below else u32(0), i64(188 - 32 - FRACTION) - zeros, _product(f << zeros << i64(8), slope))
  negative = exponent < i64(0)
  part = _product(f, slope)
  value = (abs(exponent) << i64(FRACTION + 24 - 23)) + (part if negative == below else -part)
  return _normalised(SIGN if negative else u32(0), i64(188 - 24 - FRACTION), value)


@_jit
def _quarter_turns(magnitude):
  """|x| * 2 / pi modulo 4, in units of 2^-62 (uint64), of a float32 from TINY on."""
  significand = u64(magnitude & u32(0x7FFFFF)) | u64(0x800000)
  place = u64(magnitude - TINY) >> u64(23)  # of the window's first bit
  limb, shift = i64(place >> u64(5)), place & u64(31)
  low = u64(0)
  high = u64(0)
  carry = u64(0)
  for k in range(2, -1, -1):
    window = (_LIMBS[limb + k] << u64(32) | _LIMBS[limb + k + 1]) << shift >> u64(32)
    carry = significand * window + (carry >> u64(32))
    low, high = high, carry & u64(0xFFFFFFFF)
  return high << u64(32) | low


@_jit
def _circular(magnitude, sign, quarter):
  """The sine of |x| + quarter * pi / 2, negated if `sign` is SIGN; |x| finite and not tiny."""
  turns = _quarter_turns(magnitude)
  below = (turns >> u64(61)) & u64(1)  # t is negative: from its nearest multiple of pi / 2, x lies below
  quadrant = (turns >> u64(62)) + below + u64(quarter)
  t = i64((turns ^ (u64(0) - below)) & u64((1 << 61) - 1))  # |t|, in units of 2^-62
  segment, position = t >> i64(55), (t >> i64(55 - POSITION)) & i64((1 << POSITION) - 1)
  if quadrant & u64(2):
    sign ^= SIGN
  if quadrant & u64(1):
    return _normalised(sign, i64(188 - 31 - FRACTION), _product(_UNIT, _slope(i64(COSINE) + segment, position)))
  if below:
    sign ^= SIGN
  zeros = _leading_zeros(t, 61)
  factor = t << zeros >> i64(29)  # 32 bits, in units of 2^(-33 - zeros)
  return _normalised(sign, i64(188 - 33 - FRACTION) - zeros, _product(factor, _slope(i64(SINE) + segment, position)))


@_jit
def sin(x):
  """The sine of x radians."""
  magnitude = x & MAGNITUDE
  if magnitude >= INF:
    return NAN
  if magnitude < TINY:
    return x
  return _circular(magnitude, x & SIGN, 0)


@_jit
def cos(x):
  """The cosine of x radians."""
  magnitude = x & MAGNITUDE
  if magnitude >= INF:
    return NAN
  if magnitude < TINY:
    return ONE
  return _circular(magnitude, u32(0), 1)


REFERENCE = {TransFn.EXP2: exp2, TransFn.LOG2: log2, TransFn.SIN: sin, TransFn.COS: cos}
"""The reference function of each."""
