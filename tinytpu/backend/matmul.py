"""Matrix products in place of tinygrad's tensor-core heuristic: which kernels take the matrix unit, and how they are blocked."""
from __future__ import annotations

import itertools
import math
from copy import copy

from tinygrad.codegen.opt import KernelOptError, Opt, OptOps
from tinygrad.codegen.opt.postrange import Scheduler
from tinygrad.dtype import Invalid, dtypes
from tinygrad.helpers import USE_TC
from tinygrad.uop.ops import AxisType, Ops, UOp

from ..config import Config
from .packing import BYTES
from .products import operands_vary, padding_is_harmless, product, stride
from .rows import fit_rows
from .tensorcore import byte_core

MAX_TILES = 8
"""Bound on the tiles of C that are upcast along M or N."""
MAX_CHOICES = 3
"""Choices of axes for a product that are tried."""


def matrix_product(k: Scheduler, config: Config) -> Scheduler | None:
  """The kernel on the matrix unit, or None if it has no matrix product that fits."""
  k = fit_rows(k, config)
  for candidate in filter(None, (k, _of_bytes(k, config))):
    for axis in _choices(candidate):
      if not padding_is_harmless(candidate, axis):
        continue
      tk = candidate.copy()
      try:
        rngs = tk.apply_opt(Opt(OptOps.TC, axis, (-1, 2, USE_TC.value)))
      except KernelOptError:
        continue
      if operands_vary(tk):
        _block(tk, rngs)
        return tk
  return None


def _choices(k: Scheduler) -> list[int]:
  """The first few of tinygrad's choices of axes (N, M, K) for its tensor-core opt, those without an axis that is upcast already."""
  if (factors := product(k)) is None:
    return []
  a, b = (set(f.ranges) for f in factors)
  n, m, reduce = (sorted(r, key=lambda r: r.arg[0], reverse=True) for r in (b - a, a - b, k.reduceops[0].src[1:]))
  choices = enumerate(itertools.product(n, m, reduce))
  return [i for i, axes in choices if all(r.arg[-1] is not AxisType.UPCAST for r in axes)][:MAX_CHOICES]


def _of_bytes(k: Scheduler, config: Config) -> Scheduler | None:
  """A kernel that sums products of int8 numbers, each made int32 before it is multiplied, with that product written as tinygrad's matcher
  wants it (int8 times int8, made int32), and the tensor core that does not wrap."""
  reduce = k.reduceops[0] if k.reduceops else None
  if reduce is None or reduce.arg[0] is not Ops.ADD or reduce.dtype != dtypes.int32 or reduce.src[0].op is not Ops.MUL:
    return None
  a, b = (_byte(s) for s in reduce.src[0].src)
  if a is None or b is None:
    return None
  tk = k.copy()
  tk.ren = copy(k.ren)
  tk.ren.tensor_cores = [byte_core(config)]
  tk.ast = k.ast.substitute({reduce.src[0]: UOp(Ops.MUL, src=(a, b)).cast(dtypes.int32)})
  for rng in k.ranges_of(AxisType.GLOBAL):
    if rng.src[0].divides(BYTES * config.lanes) is not None and any(stride(x.src[1], rng) == 1 for x in (*_loads(a), *_loads(b))):
      tk.apply_opt(Opt(OptOps.UPCAST, tk.rngs.index(rng), BYTES), append_opt=False)  # words then hold what several tiles need
  return tk


def _loads(u: UOp) -> list[UOp]:
  return [x for x in u.backward_slice_with_self if x.op is Ops.INDEX]


def _byte(u: UOp) -> UOp | None:
  """An int32 value as the int8 value that it is; None if it may be another."""
  if u.op is Ops.CAST and u.src[0].dtype == dtypes.int8:
    return u.src[0]
  if u.op is Ops.CONST:
    return UOp.const(u.val, dtypes.int8) if u.val is Invalid or -128 <= u.val <= 127 else None
  if u.op is Ops.CAST and u.src[0].op is Ops.CONST:
    return _byte(u.src[0])
  if u.op is Ops.WHERE or u.op is Ops.MAX:
    chosen = [_byte(s) for s in u.src[-2:]]
    return None if None in chosen else u.replace(dtype=None, src=(*u.src[:-2], *chosen))  # type: ignore[arg-type]
  return None


def _block(k: Scheduler, rngs: list[UOp]) -> None:
  """Block a matrix product: as many tiles of C as there are accumulators, so that each loaded tile is used several times. K is left
  to `pipeline`, which keeps the order of the sum. rngs: what is left of N, M, K."""
  step = next(u for u in k.ast.backward_slice if u.op is Ops.WMMA)
  have_m, have_n = (math.prod(r.vmax + 1 for r in operand.ranges if r.arg[-1] is AxisType.UPCAST) for operand in step.src[:2])
  n, m = ([d for d in range(1, MAX_TILES + 1) if rngs[i].src[0].divides(d) is not None] for i in (0, 1))
  fits = [(a, b) for a in m for b in n if a * b * have_m * have_n <= Config.PSUMS]
  tiles_m, tiles_n = max(fits, key=lambda ab: (ab[0] * ab[1], -(ab[0] * have_m + ab[1] * have_n)))
  for dim, amount in ((1, tiles_m), (0, tiles_n)):
    if amount > 1:
      k.apply_opt(Opt(OptOps.UPCAST, k.rngs.index(rngs[dim]), amount))
