"""64-bit division out of 32-bit operations, in place of tinygrad's bit by bit one, for this renderer only.

tinygrad divides in 64 steps of a shift, a comparison and a subtraction of two words each: a thousand operations for every element
of a kernel's body. Here a quotient is at most three 32-bit divisions (Knuth's algorithm D with the digits that bounds allow, as
written out in Warren's Hacker's Delight, 9-5). Dividing by zero is no error and gives no particular number, as in 32 bits.
"""
from __future__ import annotations

from tinygrad.dtype import dtypes
from tinygrad.uop.ops import Ops, UOp

from ..intervals import Intervals
from ..uops import constant

HALF, WORD = 1 << 16, 1 << 32


def _u32(n: int) -> UOp:
  return UOp.const(n, dtypes.uint32)


def _shl(x: UOp, by: UOp | int) -> UOp:
  return x.alu(Ops.SHL, _u32(by) if isinstance(by, int) else by)


def _shr(x: UOp, by: UOp | int) -> UOp:
  return x.alu(Ops.SHR, _u32(by) if isinstance(by, int) else by)


def _words(x: UOp) -> tuple[UOp, UOp]:
  """High and low word of a uint64."""
  return (x >> 32).cast(dtypes.uint32), x.cast(dtypes.uint32)


def _long(high: UOp, low: UOp) -> UOp:
  return (high.cast(dtypes.uint64) << 32) | low.cast(dtypes.uint64)


def _step(rest: UOp, low: UOp, by: UOp) -> tuple[UOp, UOp]:
  """Quotient and remainder of rest * 2^16 + low, by < 2^16: rest < by, low < 2^16."""
  n = _shl(rest, 16) | low
  q = n.alu(Ops.CDIV, by)
  return q, n - q * by


def _digit(rest: UOp, low: UOp, by: UOp) -> tuple[UOp, UOp]:
  """Quotient and remainder of rest * 2^16 + low, by >= 2^31 (two digits): rest < by, low < 2^16."""
  high, tail = _shr(by, 16), by & HALF - 1
  q = rest.alu(Ops.CDIV, high)
  r = rest - q * high
  for _ in range(2):  # the first digit alone may overestimate by two
    over = (r < HALF) & ((q < HALF).ne(True) | ((_shl(r, 16) | low) < q * tail))
    q, r = over.where(q - 1, q), over.where(r + high, r)
  return q, _shl(rest, 16) + low - q * by


def _two_words(high: UOp, low: UOp, by: UOp) -> UOp:
  """Quotient, of one word, of high * 2^32 + low, by >= 2^31: high < by."""
  q1, rest = _digit(high, _shr(low, 16), by)
  q0, _ = _digit(rest, low & HALF - 1, by)
  return _shl(q1, 16) + q0


def _leading_zeros(x: UOp) -> UOp:
  """Zeros above the highest one of a uint32 that is not 0, from the exponent of it as a float32."""
  top = x & (_shr(x, 1) ^ WORD - 1)  # so that it does not round up to the next power
  return _u32(158) - _shr(top.cast(dtypes.float32).bitcast(dtypes.uint32), 23)


def _unsigned(x: UOp, y: UOp, bounds: Intervals) -> tuple[UOp, UOp]:
  """Quotient and remainder of two uint64."""
  (x1, x0), (y1, y0) = _words(x), _words(y)
  (_, x_most), (_, y_most) = bounds.of(x), bounds.of(y)
  if x_most < WORD and y_most < WORD:
    q = x0.alu(Ops.CDIV, y0)
    return q.cast(dtypes.uint64), (x0 - q * y0).cast(dtypes.uint64)
  q1 = x1.alu(Ops.CDIV, y0)
  rest = x1 - q1 * y0
  if y_most < HALF:
    qa, rest = _step(rest, _shr(x0, 16), y0)
    qb, rest = _step(rest, x0 & HALF - 1, y0)
    return _long(q1, _shl(qa, 16) | qb), rest.cast(dtypes.uint64)
  single = y1.eq(0)  # then normalise by a shift of both; else divide half of x by the highest word of y, and correct
  shift = _leading_zeros(single.where(y0, y1)) & 31
  beyond = _u32(31) - shift
  by = single.where(_shl(y0, shift), _shl(y1, shift) | _shr(_shr(y0, 1), beyond))
  high = single.where(_shl(rest, shift) | _shr(_shr(x0, 1), beyond), _shr(x1, 1))
  low = single.where(_shl(x0, shift), _shl(x1, 31) | _shr(x0, 1))
  q0 = _two_words(high, low, by)
  guess = _shr(q0, beyond)
  q = _long(single.where(q1, _u32(0)), single.where(q0, guess.ne(0).where(guess - 1, guess)))
  r = x - q * y
  short = (r < y).ne(True)
  return short.where(q + 1, q), short.where(r - y, r)


def divide(d: UOp, x: UOp, y: UOp) -> UOp:
  """CDIV or CMOD `d` of int64 or uint64 `x` and `y`, without a 64-bit division."""
  bounds = Intervals()

  def size(v: UOp) -> tuple[UOp | None, UOp]:
    """Whether a value is negative (None: never), and its magnitude as uint64."""
    if v.dtype == dtypes.uint64 or bounds.of(v)[0] >= 0:
      return None, v.cast(dtypes.uint64)
    return v < 0, (v < 0).where(-v, v).cast(dtypes.uint64)
  x, y = (v if (n := constant(v)) is None else v.const_like(n) for v in (x, y))  # so that their ranges are what they stand for
  (x_sign, x_size), (y_sign, y_size) = size(x), size(y)
  q, r = _unsigned(x_size, y_size, bounds)
  if d.op is Ops.CDIV:
    sign = x_sign if y_sign is None else y_sign if x_sign is None else x_sign.ne(y_sign)
    result = q.cast(d.dtype)
  else:
    sign, result = x_sign, r.cast(d.dtype)
  return result if sign is None else sign.where(-result, result)
