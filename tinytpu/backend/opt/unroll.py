"""How much a pass of a kernel's loops holds: several outputs, which do not wait for each other, and several terms of reductions.

A pass takes what its busiest unit has to do, and the time until the last result is there. So the larger the better, while all
that is under way fits the registers; and of several ways, the one whose passes do least, since outputs side by side may share what
they load. The estimate counts operations and loads as value numbering will leave them.
"""
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from tinygrad.codegen.opt import KernelOptError, Opt, OptOps
from tinygrad.codegen.opt.postrange import Scheduler
from tinygrad.dtype import dtypes
from tinygrad.uop.ops import AxisType, GroupOp, Ops, UOp

from ...config import Config
from ...isa import timing
from . import lane_reduction
from .access_pattern import SLOW, size_of, stride

MAX_OUTPUTS = 16
"""Bound on the outputs of a work item, in all waves."""
MAX_LOOPED = 40
"""Loads and sums of a loop's pass, so that they fit the registers besides masks and what else a kernel keeps."""
LONG, LONG_MUL, LONG_DIV = 3, 8, 24
"""Registers that a 64-bit value takes in place of one, if it is moved or added, multiplied, divided."""
MAX_UNROLL = 32
"""Bound on the terms of one range, tinygrad's."""
MAX_STRAIGHT_LOADS = 48
"""Loads of what has no loop."""
MAX_CHAINS = 48
"""Additions in a pass that go in ascending order."""
OFTEN = 2
"""Loads for each element of a buffer from which on it is taken to be copied to VMEM."""
FAR_CYCLES, LOAD_CYCLES = 24, 8
"""What a pass takes until the first load is there, and to begin: from HBM (less than its latency, since slabs may help) and from VMEM."""
LOOP_CYCLES = 8
"""Cycles of a loop beside its passes."""
ADDRESS = 8
"""Operations for an address that a range changes otherwise than by equal steps; most are constants if the range is unrolled wholly."""

Amounts = dict[UOp, int]
"""How much of a range goes into one pass."""


def overlap(k: Scheduler, config: Config, waves: int, in_order: Sequence[UOp]) -> None:
  """Upcast an output axis of a kernel and unroll its reductions, in place, as is estimated to take the fewest cycles.

  Args:
    waves: of a group. in_order: ranges of reductions that are not to be unrolled.
  """
  fixed = {r: size_of(r) or 1 for r in k.ranges_of(AxisType.UPCAST, AxisType.UNROLL)}
  bodies = _bodies(k, config)
  choices = [{**fixed, **a} for a in _choices(k, waves, in_order)]
  choices = [a for a in choices if all(b.fits(a, waves) for b in bodies)]
  best = min(choices, key=lambda a: _cycles(bodies, a, waves, config), default={})
  outputs, terms = waves, math.prod(n for r, n in best.items() if r.arg[-1] is AxisType.REDUCE)
  for rng in [r for r in best if r.arg[-1] is AxisType.GLOBAL]:
    if attempt(k, OptOps.UPCAST, k.rngs.index(rng), best[rng]):
      outputs *= best[rng]
  for rng in [r for r in best if r.arg[-1] is AxisType.REDUCE]:
    # In ascending order if the additions of other outputs fill the time: as the loads come. tinygrad does that for 32 terms at most.
    axis, amount = k.unrollable_dims.index(k.rngs.index(rng)), 0 if best[rng] == size_of(rng) else best[rng]
    if _waiting(outputs, terms, config) or not attempt(k, OptOps.UNROLL, axis, amount):
      lane_reduction.unroll(k, rng, best[rng])


def attempt(k: Scheduler, op: OptOps, axis: int, arg: int) -> bool:
  """Apply an opt in place if tinygrad allows it; returns whether it does."""
  try:
    k.apply_opt(Opt(op, axis, arg))
  except KernelOptError:
    return False
  return True


def _waiting(outputs: int, terms: int, config: Config) -> bool:
  """Whether additions in ascending order would wait for each other: there are too few outputs to take turns, or so many additions
  that registers are used again before all outputs have begun."""
  return outputs * timing.interval(config, "FLOAT") < timing.latency(config, "FLOAT") or outputs * terms > MAX_CHAINS


def _divisors(n: int, most: int) -> list[int]:
  return [d for d in range(2, min(n, most) + 1) if n % d == 0]


def _choices(k: Scheduler, waves: int, in_order: Sequence[UOp]) -> Iterator[Amounts]:
  """Ways to cut an output axis and reductions: the innermost reduction first, the next only if that is unrolled wholly."""
  inner = [r for r in reversed(k.ranges_of(AxisType.REDUCE)) if size_of(r) is not None and r not in in_order]
  unrolls: list[Amounts] = [{}]
  for i, r in enumerate(inner):
    whole = {x: size_of(x) or 1 for x in inner[:i]}
    unrolls += [{**whole, r: d} for d in _divisors(size_of(r) or 1, min(MAX_UNROLL, MAX_STRAIGHT_LOADS // math.prod(whole.values())))]
  outputs = [(r, size_of(r) or 1) for r in k.ranges_of(AxisType.GLOBAL) if size_of(r) is not None]
  for up in ({}, *({r: d} for r, n in outputs for d in _divisors(n, MAX_OUTPUTS // waves))):
    for unroll in unrolls:
      yield {**up, **unroll}


class _Body:
  """What is computed in the loops over `ranges`, of which reductions may share several; no ranges: what is computed after them.

  Attributes:
    sums: the reductions. registers: that a value takes. around: all ranges that it is repeated for. loads: what it loads.
    work: cycles of what it computes and stores, by unit and by the ranges that it depends on.
  """

  def __init__(self, ranges: Sequence[UOp], roots: Sequence[UOp], sums: Sequence[UOp], config: Config):
    self.ranges, self.sums = ranges, sums
    self.around = [r for r in dict.fromkeys(r for u in roots for r in u.ranges) if r.arg[-1] in (AxisType.GLOBAL, AxisType.REDUCE)]
    self.loads: list[UOp] = []
    self.work: Counter[tuple[str, tuple[UOp, ...]]] = Counter()
    self.registers = max([1, *map(_registers, (*_computed(roots), *sums))])
    self._copies: dict[tuple[object, ...], int] = {}
    for u in _computed(roots):
      if ranges and not any(r in u.ranges for r in ranges):
        continue
      if u.op is Ops.INDEX:
        self.loads.append(u)
      elif u.op is Ops.STORE:
        self.work["STORE", tuple(u.ranges)] += config.beats
      elif u.op in GroupOp.ALU:
        unit = "ALU" if len(u.src) > 1 and u.src[1].op is Ops.CONST else SLOW.get(u.op, "ALU")
        self.work[unit, tuple(u.ranges)] += timing.interval(config, unit)
    for u in sums:
      self.work["ALU", tuple(u.src[0].ranges)] += timing.interval(config, "FLOAT")

  def copies(self, load: UOp, amounts: Amounts) -> int:
    """Loads of one access in a pass: those whose addresses differ."""
    mine = tuple((n, r) for r, n in amounts.items() if r in load.ranges)
    if (known := self._copies.get((load, mine))) is not None:
      return known
    times, offsets = 1, {0}
    for n, r in mine:
      if (step := stride(load.src[1], r)) is None:
        times *= n
      else:
        offsets = {at + i * step for at in offsets for i in range(n)}
    return self._copies.setdefault((load, mine), times * len(offsets))

  def fits(self, amounts: Amounts, waves: int) -> bool:
    """Whether a pass has the registers that it takes: for loads, and for sums if there are other passes."""
    loads = self.registers * waves * sum(self.copies(u, amounts) for u in self.loads)
    sums = self.registers * self.outputs(amounts, waves)
    looped = any(amounts.get(r, 1) < (size_of(r) or 2) for r in self.ranges)
    return loads + sums <= MAX_LOOPED if looped else loads <= MAX_STRAIGHT_LOADS

  def passes(self, amounts: Amounts, config: Config) -> int:
    """How often it is gone through."""
    return math.prod((size_of(r) or config.width) // amounts.get(r, 1) for r in self.around)

  def busy(self, amounts: Amounts, waves: int, config: Config) -> Counter[str]:
    """Cycles of a pass by unit."""
    busy: Counter[str] = Counter()
    for (unit, ranges), cycles in self.work.items():
      busy[unit] += cycles * waves * _times(ranges, amounts)
    for u in self.loads:
      n = self.copies(u, amounts) * waves * config.beats
      busy["LOAD"] += n
      busy["ALU"] += n * (u.src[1].get_valid().op is not Ops.CONST)
      busy["ALU"] += n * ADDRESS * sum(stride(u.src[1], r) is None and amounts.get(r, 1) < (size_of(r) or 2) for r in self.ranges)
    return busy

  def latency(self, amounts: Amounts, waves: int, config: Config) -> float:
    """Cycles of a pass when no unit is busy."""
    loaded = self.passes(amounts, config) * waves * config.width
    far = any(loaded * self.copies(u, amounts) < OFTEN * u.src[0].max_numel() for u in self.loads)
    cycles = FAR_CYCLES if far else LOAD_CYCLES
    if (terms := _times(self.ranges, amounts)) > 1:
      chain = math.log2(terms) if _waiting(self.outputs(amounts, waves), terms, config) else 1
      cycles += int(timing.latency(config, "FLOAT") * (1 + chain))
    return cycles

  def outputs(self, amounts: Amounts, waves: int) -> int:
    """Sums of a pass."""
    return waves * sum(_times(tuple(u.ranges), amounts) for u in self.sums)


def _cycles(bodies: Sequence[_Body], amounts: Amounts, waves: int, config: Config) -> float:
  """Estimated cycles of a kernel whose last body is what follows its reductions."""
  *loops, last = bodies
  total, busy, latency = 0.0, last.busy(amounts, waves, config), last.latency(amounts, waves, config)
  for body in loops:
    mine, wait = body.busy(amounts, waves, config), body.latency(amounts, waves, config)
    if body.passes(amounts, config) == last.passes(amounts, config):  # no loop is left
      busy, latency = busy + mine, max(latency, wait)
    else:
      total += body.passes(amounts, config) * _pass(mine, wait)
      busy["ALU"] += body.outputs(amounts, waves) * config.beats
      latency += LOOP_CYCLES
  return total + last.passes(amounts, config) * _pass(busy, latency)


def _pass(busy: Counter[str], latency: float) -> float:
  """Cycles of a pass: what is divided is there only when the loads are."""
  return busy["DIV"] + max((n for unit, n in busy.items() if unit != "DIV"), default=0) + latency


def _registers(u: UOp) -> int:
  """Registers that a value takes while it is computed, roughly."""
  if u.dtype not in (dtypes.int64, dtypes.uint64) or u.op not in GroupOp.ALU and u.op not in (Ops.INDEX, Ops.REDUCE):
    return 1
  op = u.arg[0] if u.op is Ops.REDUCE else u.op
  return LONG_MUL if op is Ops.MUL else LONG_DIV if op in (Ops.CDIV, Ops.CMOD, Ops.FLOORDIV, Ops.FLOORMOD) else LONG


def _times(ranges: Sequence[UOp], amounts: Amounts) -> int:
  return math.prod(amounts[r] for r in ranges if r in amounts)


def _bodies(k: Scheduler, config: Config) -> list[_Body]:
  """The loops of a kernel, and what follows them."""
  loops: dict[tuple[UOp, ...], list[UOp]] = {}
  stores = []
  for u in k.ast.toposort():
    if u.op is Ops.REDUCE:
      loops.setdefault(tuple(r for r in u.src[1:] if r.op is Ops.RANGE), []).append(u)
    elif u.op is Ops.STORE:
      stores.append(u)
  out = [_Body(ranges, [u.src[0] for u in sums], sums, config) for ranges, sums in loops.items()]
  return [*out, _Body((), stores, (), config)]


def _computed(roots: Sequence[UOp]) -> list[UOp]:
  """What is computed and loaded for some values, without addresses, and without reductions that they are made of."""
  found: dict[UOp, None] = {}
  todo = list(roots)
  while todo:
    u = todo.pop()
    if u not in found and u.op is not Ops.REDUCE:
      found[u] = None
      todo += () if u.op is Ops.INDEX else u.src[1:2] if u.op is Ops.STORE else u.src
  return list(found)
