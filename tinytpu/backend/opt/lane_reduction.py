"""Reductions spread over the lanes: when that is faster, and how the kernel is rewritten for it.

A reduction of K elements becomes one of K / g for each of g lanes, and one across those lanes (`uops.across`). The lanes are a row of
the tile, a column, or all of it; which of these, if any, follows from the lines of memory that the loads would touch. Each lane
combines several elements in a balanced tree before it adds them to its sum, so that their loads are under way at once. What does
not divide evenly is combined after the loop, the last elements under a gate that puts the operation's identity in their place.

Short sums of floats go nowhere: they take their terms in ascending order.
"""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from tinygrad.codegen.opt.postrange import Scheduler
from tinygrad.helpers import count
from tinygrad.uop.ops import AxisType, Ops, UOp, identity_element

from ...config import Config
from ...isa import timing
from ...isa.table import OPS
from ..types import kind
from ..uops import TREES, Across, across, combine, reducible
from .access_pattern import size_of, stride

BODY = 48
"""Loads that are to be under way at once."""
PASS_CYCLES = 10
"""Cycles of a pass of a loop beside loads and their latency."""
IN_ORDER = 8
"""Sums and products of floats of fewer terms than this take them one after the other, as numpy's do."""


class Spread(NamedTuple):
  """How reductions go to lanes. lanes: how many; columns: they are a column of the tile, not its row (or all of it); axes: the range of
  each reduction that is divided among them; cost: estimate in cycles."""
  lanes: int
  columns: bool
  axes: tuple[UOp, ...]
  cost: float


def choose_lanes(k: Scheduler, config: Config) -> Spread | None:
  """The best way to spread a kernel's reductions; None: leave them in one lane each."""
  whole = [u for u in k.ast.toposort() if u.op is Ops.REDUCE and _whole(u)]
  reduces = [u for u in whole if not in_order(u)]
  if not reduces or any(not reducible(u.arg[0], u.dtype) for u in reduces) or any(map(_entangled, whole)):
    return None
  outputs = k.ranges_of(AxisType.GLOBAL)
  fixed = {r for u in whole if in_order(u) for r in u.src[1:]}
  best = Spread(1, False, (), sum(min(_cost(u, r, 1, False, outputs, config) for r in u.src[1:]) for u in reduces))
  for lanes, columns in ((config.lanes, False), (config.sublanes, True), (config.width, False)):
    choices = [[(_cost(u, r, lanes, columns, outputs, config), i, r) for i, r in enumerate(u.src[1:])
                if (size_of(r) or 0) > 1 and r not in fixed] for u in reduces]
    if columns and not any((size_of(r) or 1) % config.lanes == 0 for r in outputs) or not all(choices):
      continue
    chosen = [min(c)[2] for c in choices]
    cost = sum(min(c)[0] for c in choices)
    if cost < best.cost:
      best = Spread(lanes, columns, tuple(dict.fromkeys(chosen)), cost)
  return best if best.lanes > 1 else None


def in_order(u: UOp) -> bool:
  """Whether a reduction is so short that its terms are combined in ascending order."""
  if u.arg[0] is Ops.MAX or kind(u.dtype) != "f":
    return False
  return terms(u) < IN_ORDER


def terms(u: UOp) -> float:
  """Of a reduction; infinitely many if that is no constant."""
  return math.prod((size_of(r) if r.op is Ops.RANGE else None) or math.inf for r in u.src[1:])


def _whole(u: UOp) -> bool:
  """Whether a reduction stands alone: not inside another's loop, over plain ranges of known order."""
  return not any(r.arg[-1] is not AxisType.GLOBAL for r in u.ranges) and all(r.op is Ops.RANGE for r in u.src[1:])


def _entangled(u: UOp) -> bool:
  """Whether tinygrad might take a condition on the lane, around what a reduction across lanes gives, to hold within that too: it does so
  in indices, and in expressions that load nothing."""
  inside = [x for x in u.backward_slice if x.op in (Ops.REDUCE, Ops.INDEX)]
  return any(any(y.op is Ops.REDUCE for y in x.src[1].backward_slice) for x in inside if x.op is Ops.INDEX) or (
    any(x.op is Ops.REDUCE for x in inside) and all(x.op is Ops.REDUCE for x in inside))


def _cost(u: UOp, r: UOp, lanes: int, columns: bool, outputs: Sequence[UOp], config: Config) -> float:
  """Estimated cycles of a reduction with its range `r` divided among `lanes` lanes, outputs in the others."""
  loads = [x for x in u.src[0].backward_slice_with_self if x.op is Ops.INDEX]
  others = config.width // lanes
  best = math.inf
  for out in (*outputs, *([] if outputs else [None])):
    sizes = [(size_of(o) or config.width, o) for o in outputs]
    waves = math.prod(-(-n // others) if o is out else n for n, o in sizes)
    passes = math.prod(-(-(size_of(x) or config.width) // (lanes if x is r else 1)) for x in u.src[1:])
    lines = sum(_lines(x, r, out, lanes, columns, config) for x in loads)
    trips = -(-waves * passes * max(1, len(loads)) // BODY)
    cost = trips * (config.hbm_latency + PASS_CYCLES) + waves * passes * (lines + 1)
    if lanes > 1:
      name = TREES[u.arg[0], kind(u.dtype)] + ("t" if lanes == config.width else "c" if columns else "r")
      of = OPS[name].timing
      cost += waves * timing.interval(config, of) + -(-waves // 4) * timing.latency(config, of)
    best = min(best, cost)
  return best


def _lines(index: UOp, r: UOp, out: UOp | None, lanes: int, columns: bool, config: Config) -> int:
  """Lines of memory that one wave touches by an access."""
  steps = [(lanes, stride(index.src[1], r)), (config.width // lanes, 0 if out is None else stride(index.src[1], out))]
  if any(step is None for n, step in steps if n > 1):
    return config.width
  (n, a), (m, b) = steps
  return len({(i * (a or 0) + j * (b or 0)) // config.vector_lanes for i in range(n) for j in range(m)})


# -- the rewrite --------------------------------------------------------------------------------------
def spread(k: Scheduler, chosen: Spread, lane_number: int) -> None:
  """Rewrite the kernel by the plan; the lanes become a local range with the number given, which orders it among the others."""
  lane = UOp.range(chosen.lanes, lane_number, AxisType.LOCAL, dtype=chosen.axes[0].dtype)
  for r in chosen.axes:
    reduce = next(u for u in k.ast.toposort() if u.op is Ops.REDUCE and r in u.src[1:])
    loads = sum(math.prod(size_of(a) or 1 for a in x.ranges if a.arg[-1] is AxisType.UPCAST)
                for x in reduce.src[0].backward_slice_with_self if x.op is Ops.INDEX and r in x.ranges)
    full, rest = divmod(size_of(r) or 1, chosen.lanes)
    passes = _passes(full, max(1, loads))
    loop = UOp.range(passes, next(k.opt_range), AxisType.REDUCE, dtype=r.dtype) if passes > 1 else None
    while (reduce := next((u for u in k.ast.toposort() if u.op is Ops.REDUCE and r in u.src[1:]), None)) is not None:  # type: ignore[assignment]
      k.ast = k.ast.substitute({reduce: across(reduce.arg[0], _in_lane(reduce, r, lane, loop, full, rest, k.opt_range), lane)})


def _passes(full: int, loads: int) -> int:
  """Passes for `full` elements of so many loads each: as few as make a pass `BODY` loads at most, or up to twice that to divide evenly."""
  least = -(-full * loads // BODY)
  return next((n for n in range(least, min(2 * least, full) + 1) if n and full % n == 0), min(least, full))


def unroll(k: Scheduler, r: UOp, amount: int) -> None:
  """Combine `amount` terms along a range in each pass, in place and in a balanced tree."""
  passes = (size_of(r) or 1) // amount
  loop = r.replace(src=(r.src[0].const_like(passes),)) if passes > 1 else None
  while (reduce := next((u for u in k.ast.toposort() if u.op is Ops.REDUCE and r in u.src[1:]), None)) is not None:
    at = [UOp.const(n, r.dtype) if loop is None else loop * amount + n for n in range(amount)]
    value = _tree(reduce.arg[0], [reduce.src[0].substitute({r: n}) for n in at])
    ranges = [o for o in (loop if o is r else o for o in reduce.src[1:]) if o is not None]
    k.ast = k.ast.substitute({reduce: value.reduce(*ranges, arg=(reduce.arg[0], 0)) if ranges else value})


def _in_lane(reduce: UOp, r: UOp, lane: UOp, loop: UOp | None, full: int, rest: int, numbers: count) -> UOp:
  """What one lane combines: its share of `full` elements in each pass of the loop, what that leaves, then one of `rest` if there is one.
  Loops within are others outside of that loop than in it: one cannot be in two places. numbers: of ranges, none of them in use."""
  op, x, g = reduce.arg[0], reduce.src[0], int(lane.vmax + 1)
  within = dict.fromkeys(s for u in x.toposort() if u.op is Ops.REDUCE for s in u.src[1:] if s.op is Ops.RANGE)
  outside = {s: s.replace(arg=(next(numbers), *s.arg[1:])) for s in within} if loop is not None else {}

  def at(n: UOp | int, others: Mapping[UOp, UOp] = MappingProxyType({})) -> UOp:
    return x.substitute({**others, r: n * g + lane})

  passes = int(loop.vmax + 1) if loop is not None else 0
  together = full // max(1, passes)
  done = passes * together
  straight = [at(n, outside) for n in range(done, full)]
  if rest:
    straight.append((lane < rest).where(_gated(at(full, outside), lane, lane < rest), UOp.const(identity_element(op, x.dtype), x.dtype)))
  others = tuple(o for o in reduce.src[1:] if o is not r)
  if loop is not None:
    body = _tree(op, [at(loop * together + n) for n in range(together)])
    looped = body.reduce(loop, *(() if straight else others), arg=(op, 0))
    if not straight:
      return looped
    straight.append(looped)
  value = _tree(op, straight)
  return value.reduce(*others, arg=(op, 0)) if others else value


def _gated(x: UOp, lane: UOp, gate: UOp) -> UOp:
  """`x` with the loads that depend on the lane made only where the gate holds, save those of reductions across the lanes, which are made
  for the other lanes."""
  done = {u: UOp(Ops.CUSTOM, u.dtype, (), f"reduction {i}") for i, u in enumerate(x.toposort()) if isinstance(u.arg, Across)}
  x = x.substitute(done)
  x = x.substitute({b: b.replace(src=(b.src[0], b.src[1].get_idx().valid(b.src[1].get_valid() & gate)))
                    for b in x.backward_slice_with_self if b.op is Ops.INDEX and lane in b.src[1].backward_slice_with_self})
  return x.substitute({stand_in: u for u, stand_in in done.items()})


def _tree(op: Ops, terms: list[UOp]) -> UOp:
  """Balanced: the longest chain of a sum of n is log n."""
  while len(terms) > 1:
    terms = [combine(op, a, b) for a, b in zip(terms[::2], terms[1::2], strict=False)] + terms[len(terms) & ~1:]
  return terms[0]
