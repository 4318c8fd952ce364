"""Corrections to tinygrad's decomposition of 64-bit integers, for this renderer only.

tinygrad 0.14 splits a division by a negative 64-bit constant into words wrongly (its own `EMULATED_DTYPES=long DEV=PYTHON` gives
5 // -2 = 0), so such a division becomes one by the constant's magnitude first. And it takes the low word of a float as if a
conversion to 32 bits wrapped; this machine's saturates, so the words are cut apart before.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps

from tinygrad import codegen
from tinygrad.dtype import dtypes
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat

LEAST = -1 << 63


def _by_magnitude(d: UOp, x: UOp, c: UOp) -> UOp | None:
  if (n := int(c.val)) >= 0:
    return None
  if n == LEAST:  # its magnitude is no int64: only LEAST itself divides to 1
    least, zero = x.eq(x.const_like(LEAST)), x.const_like(0)
    quotient, rest = least.where(x.const_like(1), zero), least.where(zero, x)
  else:
    quotient, rest = -x.alu(Ops.CDIV, x.const_like(-n)), x.alu(Ops.CMOD, x.const_like(-n))
  if d.op in (Ops.CDIV, Ops.CMOD):
    return quotient if d.op is Ops.CDIV else rest
  down = rest.ne(0) & (x < 0).ne(True)  # signs differ and something remains: rounding down is one further
  return down.where(quotient - 1, quotient) if d.op is Ops.FLOORDIV else down.where(rest + n, rest)


def _from_float(d: UOp, x: UOp) -> UOp:
  x = x.cast(dtypes.float32)
  negative = x < 0
  size = negative.where(-x, x)
  high = (size * 2.0**-32).alu(Ops.TRUNC)  # exact, as is what is left of it
  low = size - high * 2.0**32
  bits = (high.cast(dtypes.uint32).cast(d.dtype) * 2**32) + low.cast(dtypes.uint32).cast(d.dtype)
  return negative.where(-bits, bits)


CORRECTIONS = PatternMatcher([
  (UPat((Ops.CDIV, Ops.CMOD, Ops.FLOORDIV, Ops.FLOORMOD), dtypes.int64, src=(UPat.var("x"), UPat.cvar("c")), name="d"), _by_magnitude),
  (UPat(Ops.CAST, (dtypes.int64, dtypes.uint64), src=(UPat.var("x", dtypes.floats),), name="d"), _from_float)])


def install(supported: tuple[Ops, ...]) -> None:
  """Put the corrections before tinygrad's early decompositions for the renderer that supports exactly these UOps."""
  theirs: Callable[[tuple[Ops, ...]], PatternMatcher] = codegen.get_simplifying_rewrite_patterns
  if getattr(theirs, "tinytpu", False):
    return

  @cache  # asked for every kernel, and a matcher is dear to make
  @wraps(theirs)
  def patterns(ops: tuple[Ops, ...]) -> PatternMatcher:
    return CORRECTIONS + theirs(ops) if ops == supported else theirs(ops)
  patterns.tinytpu = True  # type: ignore[attr-defined]
  codegen.get_simplifying_rewrite_patterns = patterns  # type: ignore[assignment]
