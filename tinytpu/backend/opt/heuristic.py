"""How kernels are shaped for the machine, in place of tinygrad's heuristic for GPUs, for this renderer only.

Matrix products go to the matrix unit, padded if need be. Everything else has its lanes filled first: the axes whose
neighbours lie side by side in memory become local, padded to a whole wave where that wastes less than dividing it;
reductions with few outputs spread over the lanes. Then a little upcasting and unrolling lets loads overlap (`unroll.py`).
"""
from __future__ import annotations

import math
from collections.abc import Sequence

from tinygrad.codegen.opt import Opt, OptOps
from tinygrad.codegen.opt.postrange import Scheduler
from tinygrad.helpers import USE_TC
from tinygrad.uop.ops import AxisType, Ops, UOp

from ...config import Config
from ..uops import reducible
from . import lane_reduction
from .access_pattern import side_by_side, size_of, work_along
from .padding import lengthen
from .products import matrix_product
from .unroll import attempt, overlap

MAX_UPCAST = 16
"""Bound on upcast times unroll: elements of a kernel's body per work item."""
BODY_LOADS = 32
"""Loads in a kernel's body that unrolling and upcasting aim for: they overlap, more would only make the program longer."""
GOOD_FILL = 0.75
"""Share of lanes at work with which a kernel that loads nothing is not padded: it has no latency that upcasting would hide, and its
stores need no gate then."""
MAX_WAVES = 4
"""Waves up to which an axis that is no whole number of them becomes one group: upcast so to speak, and nothing is padded or gated."""
MAX_LOCAL = 3
"""Local ids; of more axes tinygrad makes some share one, and reductions across lanes need one to themselves."""
POOR_FILL = 0.8
"""Share of lanes at work in such a group below which a tile takes rows of the axis instead, if they and another axis fill it."""
MAX_SUMS = 4
"""Outputs of a reduction across lanes that a work item computes: their loads and reductions overlap."""
MAX_WASTE = 0.1
"""Share of idle work that padding an axis beyond a whole wave may add, for the sake of upcasting it."""


def optimize(k: Scheduler, config: Config) -> Scheduler:
  """The kernel with opts applied; `k` itself is left alone."""
  if USE_TC > 0 and (product := matrix_product(k, config)) is not None:
    return product
  k = k.copy()
  reduces = [u for u in k.ast.backward_slice if u.op is Ops.REDUCE]
  plan = lane_reduction.choose_lanes(k, config)
  in_order = _unroll_in_order(k, plan.axes if plan is not None else ())
  if plan is not None:
    number = next(k.opt_range)  # local ranges are ordered by number, the lowest fastest
    _fill_lanes(k, config, max(1, config.width // plan.lanes), powers_of_two=plan.columns, most_axes=MAX_LOCAL - 1)
    _upcast(k, config, max(1, min(MAX_SUMS, BODY_LOADS // max(1, _loads(k)))))
    lane_reduction.spread(k, plan, next(k.opt_range) if plan.columns else number)
    _unroll(k, lane_reduction.BODY // (max(1, _loads(k)) * k.upcast_size()), in_order)
  else:
    room = config.width // (1 if all(reducible(u.arg[0], u.dtype) for u in reduces) else _group(k, config))
    overlap(k, config, _fill_lanes(k, config, room), in_order)
  return k


def _divisor(n: int, most: int) -> int:
  """The largest divisor of n that is at most `most`, or 1."""
  return next((d for d in range(min(n, most), 1, -1) if n % d == 0), 1)


# -- lanes --------------------------------------------------------------------------------------------
def _fill_lanes(k: Scheduler, config: Config, room: int, powers_of_two: bool = False, most_axes: int = MAX_LOCAL) -> int:
  """Make output axes local, `room` of the lanes; returns the waves of a group. powers_of_two: by such amounts only."""
  outputs = [r for r in k.ranges_of(AxisType.GLOBAL) if size_of(r) is not None]
  loads = _loads(k)
  enough = 1.0 if loads else GOOD_FILL
  for rng in sorted(outputs, key=lambda r: side_by_side(k, r), reverse=True):
    if room == 1 or rng not in k.rngs or len(k.ranges_of(AxisType.LOCAL)) == most_axes:
      continue
    size, axis = size_of(rng) or 1, k.rngs.index(rng)
    waves, most = -(-size // config.width), min(MAX_WAVES, BODY_LOADS // max(1, loads))
    block = min(size & -size, room)
    rows = room == config.width <= 4 * block and size < POOR_FILL * waves * room and any(
      (size_of(r) or 1) % (room // block) == 0 for r in outputs if r is not rng)
    if not rows and room == config.width and size % room and 1 < waves <= most and attempt(k, OptOps.LOCAL, axis, size):
      return waves
    if not rows and size > room and _divisor(size, room) < enough * room:  # not a whole number of waves
      unit = next(u for u in (8 * room, 4 * room, 2 * room, room) if u == room or -(-size // u) * u <= size * (1 + MAX_WASTE))
      padded = -(-size // unit) * unit
      if size / padded >= _divisor(size, room) / room:
        _pad(k, axis, unit)
        size, axis = padded, [r.arg for r in k.rngs].index(rng.arg)
    amount = block if powers_of_two or rows else _divisor(size, room)
    if amount > 1 and attempt(k, OptOps.LOCAL, axis, amount):
      room //= amount
  return 1


def _pad(k: Scheduler, axis: int, unit: int) -> None:
  """Round an output axis up to a multiple of `unit`."""
  rng = k.rngs[axis]
  lengthen(k, {rng: -(-(rng.vmax + 1) // unit) * unit})
  k.applied_opts.append(Opt(OptOps.PADTO, axis, unit))


def _group(k: Scheduler, config: Config) -> int:
  """Spread a reduction that the cross-lane unit has no operation for over the lanes that few outputs leave idle, by way of a LOCAL
  buffer; returns how many lanes it takes."""
  outputs = [r for r in k.ranges_of(AxisType.GLOBAL) if size_of(r) is not None]
  reduces = [r for r in k.ranges_of(AxisType.REDUCE) if size_of(r) is not None]
  room = config.width // (1 << (math.prod(size_of(r) or 1 for r in outputs) - 1).bit_length())
  order = sorted(range(len(reduces)), key=lambda i: side_by_side(k, reduces[i]), reverse=True)
  for i in order:
    amount = _divisor(size_of(reduces[i]) or 1, room)
    if amount >= 4 and attempt(k, OptOps.GROUP, k.ranges_of(AxisType.REDUCE).index(reduces[i]), amount):
      return amount
  return 1


# -- overlap ------------------------------------------------------------------------------------------
def _loads(k: Scheduler) -> int:
  """Loads in the kernel's body."""
  stored = {u.src[0] for u in k.ast.backward_slice if u.op is Ops.STORE}
  return sum(b not in stored for b in k.bufs)


def _upcast(k: Scheduler, config: Config, most: int) -> int:
  """Upcast an output axis by at most `most`, the one along which least is done anew; returns by how much."""
  outputs = [r for r in k.ranges_of(AxisType.GLOBAL) if size_of(r) is not None]
  for rng in sorted(outputs, key=lambda r: (work_along(k, r, config), -side_by_side(k, r))):
    amount = _divisor(size_of(rng) or 1, most)
    if amount > 1 and k.upcast_size() * amount <= MAX_UPCAST and attempt(k, OptOps.UPCAST, k.rngs.index(rng), amount):
      return amount
  return 1


def _unroll_in_order(k: Scheduler, taken: Sequence[UOp]) -> list[UOp]:
  """Unroll sums that are to go in order, all of them or nothing: of what is unrolled in part, each part is summed up by itself. Returns
  their ranges, without those `taken`."""
  sums = [u for u in k.ast.toposort() if u.op is Ops.REDUCE and lane_reduction.in_order(u)]
  ranges = list(dict.fromkeys(r for u in sums for r in u.src[1:] if r in k.rngs and r not in taken))
  if sum(map(lane_reduction.terms, sums)) * max(1, _loads(k)) <= 2 * BODY_LOADS:
    for r in ranges:
      attempt(k, OptOps.UNROLL, k.unrollable_dims.index(k.rngs.index(r)), 0)
  return ranges


def _unroll(k: Scheduler, most: int, in_order: Sequence[UOp]) -> None:
  """Unroll the innermost reduction loop by at most `most`, unless its sum is to go in order."""
  axes = [i for i, axis in enumerate(k.unrollable_dims) if k.axis_types[axis] is AxisType.REDUCE and k.rngs[axis] not in in_order]
  if axes and most > 1:
    size = k.full_shape[k.unrollable_dims[axes[-1]]]
    if (amount := _divisor(size, most)) > 1:
      attempt(k, OptOps.UNROLL, axes[-1], 0 if amount == size else amount)
