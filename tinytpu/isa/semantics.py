"""What each lane-wise operation computes: the reference functions of the table.

Every function maps 32-bit words (`numpy.uint32`) to one 32-bit word, and is written in the subset of
Python that Numba compiles, so that the simulator runs these very functions. Floats are IEEE 754 binary32
in a word's bits, rounded to nearest even, subnormals kept; every NaN result is `NAN`.
"""
# ruff: noqa: D103  (one line each: the table's doc field says what they mean)
from __future__ import annotations

import math

import numpy as np
from numba import njit

u32, i32, f32, u64, i64, f64 = np.uint32, np.int32, np.float32, np.uint64, np.int64, np.float64
NAN = u32(0x7FC00000)

_jit = njit(inline="always", error_model="numpy")


@_jit
def as_f(x):
  return u32(x).view(f32)


@_jit
def as_i(x):
  return u32(x).view(i32)


@_jit
def of_i(x):
  return u32(u64(x) & u64(0xFFFFFFFF))


@_jit
def of_f(x):
  """The bits of a float32 result, NaNs made canonical."""
  return NAN if x != x else f32(x).view(u32)


# -- integers ---------------------------------------------------------------------------------------
@_jit
def add(a, b): return u32(a + b)
@_jit
def sub(a, b): return u32(a - b)
@_jit
def mul(a, b): return u32(u64(a) * u64(b))
@_jit
def and_(a, b): return u32(a & b)
@_jit
def or_(a, b): return u32(a | b)
@_jit
def xor(a, b): return u32(a ^ b)
@_jit
def shl(a, b): return u32(u64(a) << u64(b & u32(31)))
@_jit
def shr(a, b): return u32(a >> (b & u32(31)))
@_jit
def sar(a, b): return of_i(i64(as_i(a)) >> i64(b & u32(31)))
@_jit
def min_(a, b): return a if as_i(a) < as_i(b) else b
@_jit
def max_(a, b): return b if as_i(a) < as_i(b) else a
@_jit
def minu(a, b): return a if a < b else b
@_jit
def maxu(a, b): return b if a < b else a
@_jit
def lt(a, b): return u32(1) if as_i(a) < as_i(b) else u32(0)
@_jit
def ltu(a, b): return u32(1) if a < b else u32(0)
@_jit
def eq(a, b): return u32(1) if a == b else u32(0)
@_jit
def ne(a, b): return u32(1) if a != b else u32(0)
@_jit
def mov(a, b): return b
@_jit
def sel(a, b, c): return b if a != u32(0) else c


@_jit
def divu(a, b): return u32(0xFFFFFFFF) if b == u32(0) else u32(u64(a) // u64(b))


@_jit
def remu(a, b): return a if b == u32(0) else u32(u64(a) % u64(b))


@_jit
def _magnitude(x): return u32(-i64(as_i(x))) if as_i(x) < i32(0) else x


@_jit
def div(a, b):
  if b == u32(0):
    return u32(0xFFFFFFFF)
  q = divu(_magnitude(a), _magnitude(b))
  return sub(u32(0), q) if (a ^ b) >> u32(31) else q


@_jit
def rem(a, b):
  if b == u32(0):
    return a
  r = remu(_magnitude(a), _magnitude(b))
  return sub(u32(0), r) if a >> u32(31) else r


@_jit
def fldiv(a, b):
  if b == u32(0):
    return u32(0xFFFFFFFF)
  q = div(a, b)
  return sub(q, u32(1)) if rem(a, b) != u32(0) and (a ^ b) >> u32(31) else q


@_jit
def flmod(a, b):
  r = rem(a, b)
  return add(r, b) if b != u32(0) and r != u32(0) and (a ^ b) >> u32(31) else r


@_jit
def mulh(a, b): return of_i(i64(as_i(a)) * i64(as_i(b)) >> i64(32))
@_jit
def mulhu(a, b): return u32(u64(a) * u64(b) >> u64(32))
@_jit
def abs_(a): return _magnitude(a)
@_jit
def sign(a): return u32(0xFFFFFFFF) if as_i(a) < i32(0) else u32(1) if a != u32(0) else u32(0)
@_jit
def absd(a, b): return of_i(abs(i64(as_i(a)) - i64(as_i(b))))
@_jit
def absdu(a, b): return u32(a - b) if b < a else u32(b - a)
@_jit
def adds(a, b): return of_i(max(i64(-1 << 31), min(i64((1 << 31) - 1), i64(as_i(a)) + i64(as_i(b)))))
@_jit
def subs(a, b): return of_i(max(i64(-1 << 31), min(i64((1 << 31) - 1), i64(as_i(a)) - i64(as_i(b)))))
@_jit
def addsu(a, b): return u32(min(u64(a) + u64(b), u64(0xFFFFFFFF)))
@_jit
def subsu(a, b): return u32(a - b) if b < a else u32(0)


# -- bits -------------------------------------------------------------------------------------------
@_jit
def rotl(a, b): return u32((u64(a) << u64(b & u32(31))) | (u64(a) << u64(b & u32(31))) >> u64(32))
@_jit
def rotr(a, b): return rotl(a, u32(u32(32) - (b & u32(31))))
@_jit
def axr(a, b, c): return u32(rotl(a, b) ^ u32(a + c))


@_jit
def popc(a):
  pairs = u64(a) - (u64(a) >> u64(1) & u64(0x55555555))
  fours = (pairs & u64(0x33333333)) + (pairs >> u64(2) & u64(0x33333333))
  bytes_ = (fours + (fours >> u64(4))) & u64(0x0F0F0F0F)
  return u32((bytes_ * u64(0x01010101) >> u64(24)) & u64(0x3F))


@_jit
def ctz(a): return popc(u32(~a & u32(a - u32(1))))


@_jit
def clz(a):
  for shift in (1, 2, 4, 8, 16):  # to ones from the highest one down
    a = u32(a | a >> u32(shift))
  return popc(u32(~a))


@_jit
def bswap(a):
  swapped = (u64(a) << u64(8) & u64(0xFF00FF00)) | (u64(a) >> u64(8) & u64(0x00FF00FF))
  return u32(swapped << u64(16) | swapped >> u64(16))


# -- float32 ----------------------------------------------------------------------------------------
@_jit
def fadd(a, b): return of_f(f32(as_f(a) + as_f(b)))
@_jit
def fsub(a, b): return of_f(f32(as_f(a) - as_f(b)))
@_jit
def fmul(a, b): return of_f(f32(as_f(a) * as_f(b)))
@_jit
def fdiv(a, b): return of_f(f32(as_f(a) / as_f(b)))
@_jit
def frcp(a): return of_f(f32(f32(1.0) / as_f(a)))
@_jit
def fsqrt(a): return of_f(f32(np.sqrt(as_f(a))))
@_jit
def fabs(a): return NAN if as_f(a) != as_f(a) else a & u32(0x7FFFFFFF)
@_jit
def fneg(a): return NAN if as_f(a) != as_f(a) else a ^ u32(0x80000000)
@_jit
def fsign(a): return NAN if as_f(a) != as_f(a) else u32(0) if as_f(a) == f32(0) else (a & u32(0x80000000)) | u32(0x3F800000)
@_jit
def flt(a, b): return u32(1) if as_f(a) < as_f(b) else u32(0)
@_jit
def fle(a, b): return u32(1) if as_f(a) <= as_f(b) else u32(0)
@_jit
def feq(a, b): return u32(1) if as_f(a) == as_f(b) else u32(0)
@_jit
def fne(a, b): return u32(0) if as_f(a) == as_f(b) else u32(1)


@_jit
def fmax(a, b):
  x, y = as_f(a), as_f(b)
  if x != x or y != y:
    return NAN
  if x == y:
    return a & b  # equal, or zeros of either sign: +0 wins
  return b if x < y else a


@_jit
def fmin(a, b):
  x, y = as_f(a), as_f(b)
  if x != x or y != y:
    return NAN
  if x == y:
    return a | b
  return a if x < y else b


@_jit
def fsmax(a, b): return a if as_f(b) < as_f(a) else b
@_jit
def fsmin(a, b): return a if as_f(a) < as_f(b) else b


@_jit
def i2f(a): return of_f(f32(as_i(a)))
@_jit
def u2f(a): return of_f(f32(a))


@_jit
def f2i(a):
  x = as_f(a)
  if x != x:
    return u32(0)
  if x >= f32(2147483648.0):
    return u32(0x7FFFFFFF)
  if x < f32(-2147483648.0):
    return u32(0x80000000)
  return of_i(i64(x))


@_jit
def f2u(a):
  x = as_f(a)
  if x != x or x <= f32(-1.0):
    return u32(0)
  if x >= f32(4294967296.0):
    return u32(0xFFFFFFFF)
  return of_i(i64(x))


@_jit
def ftrunc(a):
  if (a >> u32(23)) & u32(0xFF) < u32(150):  # below 2^23: there may be a fraction
    return of_f(f32(math.trunc(f64(as_f(a))))) | (a & u32(0x80000000))
  return NAN if as_f(a) != as_f(a) else a


# -- 16-bit floats ----------------------------------------------------------------------------------
@_jit
def f2b(a):
  """float32 -> bfloat16 bits, to nearest even."""
  if as_f(a) != as_f(a):
    return u32(0x7FC0)
  return u32((u64(a) + u64(0x7FFF) + u64((a >> u32(16)) & u32(1))) >> u64(16))


@_jit
def b2f(a):
  w = u32(u64(a & u32(0xFFFF)) << u64(16))
  return NAN if as_f(w) != as_f(w) else w


@_jit
def f2h(a):
  """float32 -> float16 bits, to nearest even, subnormals kept, overflow to infinity."""
  sign = (a >> u32(16)) & u32(0x8000)
  exp = i32((a >> u32(23)) & u32(0xFF)) - i32(127)
  man = u64(a & u32(0x7FFFFF))
  if exp == i32(128):
    return u32(0x7E00) if man else u32(sign | u32(0x7C00))
  if exp < i32(-25):
    return sign
  if exp > i32(15):
    return u32(sign | u32(0x7C00))
  if exp < i32(-14):
    shift = u64(i32(13) + i32(-14) - exp)
    full, base = man | u64(0x800000), u64(0)
  else:
    shift = u64(13)
    full, base = man, u64(u32(exp + i32(15))) << u64(10)
  kept, rest, half = full >> shift, full & ((u64(1) << shift) - u64(1)), u64(1) << (shift - u64(1))
  if rest > half or (rest == half and kept & u64(1)):
    kept += u64(1)
  return u32(u64(sign) | (base + kept))


@_jit
def h2f(a):
  sign = u32(u64(a & u32(0x8000)) << u64(16))
  exp, man = (a >> u32(10)) & u32(0x1F), a & u32(0x3FF)
  if exp == u32(31):
    return NAN if man else u32(sign | u32(0x7F800000))
  if exp == u32(0):
    return u32(sign | f32(f32(man) * f32(5.9604644775390625e-08)).view(u32))
  return u32(sign | u32(u64(exp + u32(112)) << u64(23)) | u32(u64(man) << u64(13)))


@_jit
def roundh(a): return h2f(f2h(a))
@_jit
def roundb(a): return b2f(f2b(a))
