"""Matrix products in place of tinygrad's tensor-core heuristic: which kernels take the matrix unit, and in what form."""
from __future__ import annotations

import itertools
from copy import copy

from tinygrad.codegen.opt import KernelOptError, Opt, OptOps
from tinygrad.codegen.opt.postrange import Scheduler
from tinygrad.dtype import Invalid, dtypes
from tinygrad.helpers import USE_TC
from tinygrad.uop.ops import AxisType, Ops, UOp

from ...config import Config
from ..types import BYTES
from ..uops import integer
from .access_pattern import stride
from .legality import operands_vary, padding_is_harmless, product
from .padding import lengthen, with_axis
from .tensorcore import byte_core
from .tiling import MIN_K, Axes, choose_tiling, vector_pays, worth_padding

MAX_CHOICES = 3
"""Choices of axes for a product that are tried."""


def matrix_product(k: Scheduler, config: Config) -> Scheduler | None:
  """The kernel on the matrix unit, or None if it has no matrix product that fits."""
  k = _with_both_axes(k, config)
  for candidate in filter(None, (k, _of_bytes(k, config))):
    for axes in _choices(candidate):
      if (tk := _on_matrix_unit(candidate, axes)) is not None:
        return tk
  return None


def _on_matrix_unit(k: Scheduler, axes: Axes) -> Scheduler | None:
  """The kernel on the matrix unit by this choice of axes, padded and blocked; None if it does not fit or would not pay."""
  factors = product(k)
  assert factors is not None
  tc = next((c for c in k.ren.tensor_cores if c.dtype_in == factors[0].dtype), None)
  if tc is None or not worth_padding(axes, tc) or (tiling := choose_tiling(factors, axes, tc)) is None:
    return None
  if axes.k in tiling.sizes and not padding_is_harmless(k, axes.k):
    return None
  tk = k.copy()
  lengthen(tk, tiling.sizes)
  try:
    n, m, _ = tk.apply_opt(Opt(OptOps.TC, axes.number, (-1, 2, USE_TC.value)))
  except KernelOptError:
    return None
  if not operands_vary(tk):
    return None
  for rng, amount in ((m, tiling.m), (n, tiling.n)):
    if amount > 1:
      tk.apply_opt(Opt(OptOps.UPCAST, tk.rngs.index(rng), amount))
  return tk


def _with_both_axes(k: Scheduler, config: Config) -> Scheduler:
  """The kernel; with an axis more if a factor of its product is a vector, which has none of its own, and that pays."""
  if (factors := product(k)) is None or all(r.vmax + 1 < MIN_K * config.lanes for r in k.reduceops[0].src[1:]):
    return k
  a, b = (set(f.ranges) for f in factors)
  if (a <= b) == (b <= a):
    return k
  vector, matrix = factors if a <= b else factors[::-1]
  return vector_pays(matrix, b ^ a, config) and with_axis(k, vector, config.lanes) or k


def _choices(k: Scheduler) -> list[Axes]:
  """The first few of tinygrad's choices of axes for its tensor-core opt, without those that are upcast already."""
  if (factors := product(k)) is None:
    return []
  a, b = (set(f.ranges) for f in factors)
  n, m, reduce = (sorted(r, key=lambda r: r.arg[0], reverse=True) for r in (b - a, a - b, k.reduceops[0].src[1:]))
  choices = [Axes(i, *axes) for i, axes in enumerate(itertools.product(n, m, reduce))]
  return [c for c in choices if all(r.arg[-1] is not AxisType.UPCAST for r in c[1:])][:MAX_CHOICES]


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
  loads = [u for f in (a, b) for u in f.backward_slice_with_self if u.op is Ops.INDEX]
  for rng in k.ranges_of(AxisType.GLOBAL):
    if rng.src[0].divides(BYTES * config.lanes) is not None and any(stride(u.src[1], rng) == 1 for u in loads):
      tk.apply_opt(Opt(OptOps.UPCAST, tk.rngs.index(rng), BYTES), append_opt=False)  # words then hold what several tiles need
  return tk


def _byte(u: UOp) -> UOp | None:
  """An int32 value as the int8 value that it is; None if it may be another."""
  if u.op is Ops.CAST and u.src[0].dtype == dtypes.int8:
    return u.src[0]
  if u.op is Ops.CONST and u.val is Invalid:
    return UOp.const(Invalid, dtypes.int8)
  if (c := integer(u)) is not None:
    return UOp.const(c, dtypes.int8) if -128 <= c <= 127 else None
  if u.op is Ops.WHERE or u.op is Ops.MAX:
    chosen = [_byte(s) for s in u.src[-2:]]
    return None if None in chosen else u.replace(dtype=None, src=(*u.src[:-2], *chosen))  # type: ignore[arg-type]
  return None
