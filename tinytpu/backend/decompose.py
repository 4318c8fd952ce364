"""A correction to tinygrad's decomposition of 64-bit integers, for this renderer only.

tinygrad 0.14 splits a division by a negative 64-bit constant into words wrongly (its own `EMULATED_DTYPES=long DEV=PYTHON` gives
5 // -2 = 0). Divisions by a negative constant are turned into divisions by its magnitude before they are split.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from tinygrad import codegen
from tinygrad.dtype import dtypes
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat


def _by_magnitude(d: UOp, x: UOp, c: UOp) -> UOp | None:
  if (n := int(c.val)) >= 0 or n == -1 << 63:
    return None
  magnitude = x.const_like(-n)
  if d.op is Ops.CDIV:
    return -x.alu(Ops.CDIV, magnitude)
  if d.op is Ops.CMOD:
    return x.alu(Ops.CMOD, magnitude)
  return (-x).alu(Ops.FLOORDIV, magnitude) if d.op is Ops.FLOORDIV else -(-x).alu(Ops.FLOORMOD, magnitude)


MAGNITUDES = PatternMatcher([
  (UPat((Ops.CDIV, Ops.CMOD, Ops.FLOORDIV, Ops.FLOORMOD), dtypes.int64, src=(UPat.var("x"), UPat.cvar("c")), name="d"), _by_magnitude)])


def install(supported: tuple[Ops, ...]) -> None:
  """Put the correction before tinygrad's early decompositions for the renderer that supports exactly these UOps."""
  theirs: Callable[[tuple[Ops, ...]], PatternMatcher] = codegen.get_simplifying_rewrite_patterns
  if getattr(theirs, "tinytpu", False):
    return

  @wraps(theirs)
  def patterns(ops: tuple[Ops, ...]) -> PatternMatcher:
    return MAGNITUDES + theirs(ops) if ops == supported else theirs(ops)
  patterns.tinytpu = True  # type: ignore[attr-defined]
  codegen.get_simplifying_rewrite_patterns = patterns  # type: ignore[assignment]
