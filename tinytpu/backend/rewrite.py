"""Rewrites on tinygrad's UOps just before linearization."""
from __future__ import annotations

from tinygrad.codegen.decomp.dtype import pm_dtype_decomps
from tinygrad.dtype import dtypes
from tinygrad.renderer import Renderer
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat, graph_rewrite


def _decompose_late_longs(ctx: Renderer, sink: UOp) -> UOp | None:
  """tinygrad's decomposition of sine brings 64-bit integers in after it has decomposed them: decompose those too."""
  if not any(u.dtype in (dtypes.int64, dtypes.uint64) for u in sink.toposort()):
    return None
  return graph_rewrite(sink, pm_dtype_decomps, ctx=(set(), ctx), name="decomp late dtypes")


final_rewrites = PatternMatcher([(UPat(Ops.SINK, name="sink"), _decompose_late_longs)])
