"""Corrections to tinygrad's decomposition of 64-bit integers, for this renderer only.

Division goes another way altogether (`longdiv`): tinygrad's is long, and 0.14 splits one by a negative constant into words wrongly
(its own `EMULATED_DTYPES=long DEV=PYTHON` gives 5 // -2 = 0). And tinygrad takes the low word of a float as if a conversion to 32
bits wrapped; this machine's saturates, so the words are cut apart before.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps

from tinygrad import codegen
from tinygrad.dtype import dtypes
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat

from .longdiv import divide

LONG = (dtypes.int64, dtypes.uint64)


def _from_float(d: UOp, x: UOp) -> UOp:
  x = x.cast(dtypes.float32)
  negative = x < 0
  size = negative.where(-x, x)
  high = (size * 2.0**-32).alu(Ops.TRUNC)  # exact, as is what is left of it
  low = size - high * 2.0**32
  bits = (high.cast(dtypes.uint32).cast(d.dtype) * 2**32) + low.cast(dtypes.uint32).cast(d.dtype)
  return negative.where(-bits, bits)


CORRECTIONS = PatternMatcher([
  (UPat((Ops.CDIV, Ops.CMOD), LONG, src=(UPat.var("x"), UPat.var("y")), name="d"), divide),
  (UPat(Ops.CAST, LONG, src=(UPat.var("x", dtypes.floats),), name="d"), _from_float)])


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
