"""How accesses step through memory along a kernel's ranges: what the optimiser decides by."""
from __future__ import annotations

from tinygrad.codegen.opt.postrange import Scheduler
from tinygrad.uop.ops import Ops, UOp

from ...config import Config
from ...isa import timing
from ..uops import integer


def size_of(rng: UOp) -> int | None:
  """Passes of a range; None if that is no constant."""
  return integer(rng.src[0])


def stride(index: UOp, rng: UOp) -> int | None:
  """Elements that `index` moves when `rng` counts up; None if that is no constant."""
  return _step(index.get_idx(), rng)


def _step(u: UOp, rng: UOp) -> int | None:
  if u is rng:
    return 1
  if rng not in u.ranges:
    return 0
  if u.op is Ops.ADD:
    steps = [_step(s, rng) for s in u.src]
    return None if None in steps else sum(s or 0 for s in steps)
  if u.op is Ops.MUL and u.src[1].op is Ops.CONST and (step := _step(u.src[0], rng)) is not None:
    return step * u.src[1].val
  return None


def side_by_side(k: Scheduler, rng: UOp) -> int:
  """How many accesses an axis steps through element by element, stores counting double, less those it jumps about in."""
  stored = {u.src[0] for u in k.ast.backward_slice if u.op is Ops.STORE}
  score = 0
  for b in k.bufs:
    step, weight = stride(b.src[1], rng), 2 if b in stored else 1
    score += weight * (2 if step == 1 else 1 if step == 0 else -1 if step is None else 0)
  return score


SLOW = {**dict.fromkeys((Ops.RECIPROCAL, Ops.FDIV, Ops.SQRT, Ops.CDIV, Ops.CMOD, Ops.FLOORDIV, Ops.FLOORMOD), "DIV"),
        **dict.fromkeys((Ops.EXP2, Ops.LOG2, Ops.SIN), "TRANS"), Ops.INDEX: "ALU"}
"""Latency classes of what upcasting had better not repeat: slow operations, and loads."""


def work_along(k: Scheduler, rng: UOp, config: Config) -> int:
  """Cycles of loads and slow operations that depend on a range: what upcasting it would multiply."""
  return sum(timing.interval(config, SLOW[u.op]) for u in k.ast.backward_slice if u.op in SLOW and rng in u.ranges)
