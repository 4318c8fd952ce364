"""Corrections to tinygrad's lowering, for this renderer only.

64-bit integers: division goes another way altogether (`long_division`): tinygrad's is long, and 0.14 splits one by a negative constant
into words wrongly (its own `EMULATED_DTYPES=long DEV=PYTHON` gives 5 // -2 = 0). And tinygrad takes the low word of a float as if a
conversion to 32 bits wrapped; this machine's saturates, so the words are cut apart before.

Words: the low word of a 64-bit integer is an unsigned number made a signed one, of which tinygrad takes it that it is never negative
(a quotient by a power of two then is a shift): as the same bits, it may be.

Gated loads: 0.14 lets a load, of what is cast afterwards, give a value in place of what its gate keeps out, but as a value of the load's
dtype: from `x.cast(float).pad(value=0.5)`, of integers, 0 is left of the 0.5. Here that is done only where nothing is lost.

Indices: those of 64 bits are cut to 32 before 64-bit values are taken apart, as tinygrad takes none apart that is an index; and those
of 8 and 16 bits become as wide, since words of 64-bit values are at twice their index, which must not wrap.
"""
from __future__ import annotations

from tinygrad.codegen.late import gater
from tinygrad.dtype import DType, dtypes, truncate
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat

from ..uops import constant
from .long_division import divide

LONG = (dtypes.int64, dtypes.uint64)
OTHER = (*LONG, dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16)
"""Dtypes of indices that are not of 32 bits."""


def _from_float(d: UOp, x: UOp) -> UOp:
  x = x.cast(dtypes.float32)
  negative = x < 0
  size = negative.where(-x, x)
  high = (size * 2.0**-32).alu(Ops.TRUNC)  # exact, as is what is left of it
  low = size - high * 2.0**32
  bits = (high.cast(dtypes.uint32).cast(d.dtype) * 2**32) + low.cast(dtypes.uint32).cast(d.dtype)
  return negative.where(-bits, bits)


def _narrow(u: UOp) -> UOp | None:
  """An index as one of 32 bits, which addresses have. (tinygrad takes 64 where it cannot tell that 32 are enough.)"""
  if len(u.src) != 2:
    return None
  at = u.src[1]
  if at.op is Ops.WHERE and at.src[2].is_invalid and at.src[1].dtype in OTHER:
    return u.replace(src=(u.src[0], at.src[1].cast(dtypes.int32).valid(at.src[0])))
  return u.replace(src=(u.src[0], at.cast(dtypes.int32))) if at.dtype in OTHER else None


def _signed(u: UOp, x: UOp) -> UOp:
  return x.bitcast(dtypes.int32).cast(u.dtype)


CORRECTIONS = PatternMatcher([
  (UPat(Ops.INDEX, name="u"), _narrow),
  (UPat((Ops.CDIV, Ops.CMOD), LONG, src=(UPat.var("x"), UPat.var("y")), name="d"), divide),
  (UPat(Ops.CAST, LONG, src=(UPat.var("x", dtypes.floats),), name="d"), _from_float),
  (UPat(Ops.CAST, (dtypes.int8, dtypes.int16, dtypes.int32), src=(UPat.var("x", dtypes.uint32),), name="u"), _signed)])


def move_gate(gate: UOp, l: UOp, a: UOp, w: UOp) -> UOp | None:
  """A load with the value `a` for where its gate is closed, in place of a choice between `a` and the load, cast to `w`'s dtype."""
  same = l.dtype == w.dtype or a.is_invalid or a.op is Ops.CAST and a.src[0].dtype == l.dtype
  if not same and a.op is Ops.CONST and (value := constant(a)) is not None:
    a, same = a.const_like(value), _holds(l.dtype, value)
  return gater.move_where_load(gate, l, a, w) if same else None


def _holds(dtype: DType, value: float | bool) -> bool:
  """Whether a value of a dtype can be exactly this one."""
  if dtype in dtypes.floats:
    return bool(truncate[dtype](value) == value)
  return float(value).is_integer() and dtype.min <= value <= dtype.max and str(float(value)) != "-0.0"
