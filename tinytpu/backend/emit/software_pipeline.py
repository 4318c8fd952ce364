"""Software pipelining of matrix loops: the operands of the next pass are loaded while this one computes.

A loop of matrix steps spends its time in the matrix unit if its loads, which take tens of cycles from HBM, are issued
a pass ahead. A loop whose passes are shorter than that is unrolled first (here rather than by tinygrad, which would change
the order in which products are summed). Then two passes become one, with two sets of operands: while one set is computed with,
the other is loaded. The last pass loads its own operands once more instead of reading past the end.
"""
from __future__ import annotations

from collections import Counter
from functools import partial

from ...config import Config
from ...isa import timing
from ..mir.ir import S0, Inst, Loop, Mem, Reg, inst

MAX_PASS_LOADS = 20
"""Loops with more loads are left alone: twice as many tiles would not fit the registers."""
MAX_STRAIGHT = 32
"""Loops with no more loads than this in all their passes become straight code."""
MIN_CYCLES = 96
"""Matrix unit cycles that a pass should take, to cover the loads of the next."""


def pipeline(items: list[Inst | Loop], config: Config) -> list[Inst | Loop]:
  """A block with its innermost matrix loops pipelined."""
  out: list[Inst | Loop] = []
  for item in items:
    if isinstance(item, Loop):
      if _candidate(item):
        before, after = _unroll(item, config)
        first, last = _split(item)
        out += [*before, *first, *([item] if _passes(item) else []), *last, *after]
        continue
      item.body = pipeline(item.body, config)
    out.append(item)
  return out


def _passes(loop: Loop) -> int | None:
  """The number of passes, if it is constant."""
  constant = loop.count.remat if loop.count is not None else None
  return constant.srcs[1] if constant is not None and constant.op.name == "sadd" and isinstance(constant.srcs[1], int) else None


def _candidate(loop: Loop) -> bool:
  """Whether a loop is innermost, has a constant number of passes, runs matrix steps, and touches memory by few loads from HBM only."""
  body = [x for x in loop.body if isinstance(x, Inst)]
  loads = [x for x in body if x.mem is not None]
  return (len(body) == len(loop.body) and loop.counter is not None and _passes(loop) is not None and 0 < len(loads) <= MAX_PASS_LOADS
          and all(x.op.name.startswith("hld") for x in loads) and any(x.op.timing == "MM" for x in body))


def _body(loop: Loop) -> list[Inst]:
  return [x for x in loop.body if isinstance(x, Inst)]


def _unroll(loop: Loop, config: Config) -> tuple[list[Inst], list[Inst]]:
  """Unroll a loop in place if its passes are short and carry nothing over but buckets; returns what goes before and after it. What
  goes after it are the passes that the unrolled ones leave over; if that is all, the loop is left with no passes."""
  body, passes = _body(loop), _passes(loop)
  assert passes is not None and loop.counter is not None
  loads = sum(x.mem is not None for x in body)
  busy = sum(timing.interval(config, x.op.timing) for x in body if x.op.timing in timing.STEPS)
  amount = min(-(-MIN_CYCLES // busy), MAX_PASS_LOADS // loads)
  if passes * loads <= MAX_STRAIGHT:
    amount = passes + 1
  if amount <= 1 or _carries(body):
    return [], []
  start, count = Reg("s"), Reg("s")
  count.remat = inst("sadd", count, S0, passes // amount)
  after = [y for i in range(passes // amount * amount, passes) for y in _copy(loop, body, S0, i)]
  out = [inst("smul", start, loop.counter, amount, origin=loop.origin)]
  for i in range(amount):
    out += _copy(loop, body, start, i)
  loop.body[:], loop.count, loop.trips = out, count, passes // amount
  return [count.remat], after


def _carries(body: list[Inst]) -> bool:
  """Whether a pass reads a register, other than a bucket that it adds to, which it or an earlier pass has written before."""
  written = [x.dst for x in body if x.dst is not None and "pm" not in x.op.operands]
  seen: set[Reg] = set()
  for x in body:
    if any(r in written and r not in seen for r in x.reads()):
      return True
    seen.update([x.dst] if x.dst is not None else [])
  return len(set(written)) != len(written)


def _copy(loop: Loop, body: list[Inst], base: Reg, plus: int) -> list[Inst]:
  """A pass with base + plus in place of the counter."""
  at = Reg("s")
  assert loop.counter is not None
  return [inst("sadd", at, base, plus, origin=loop.origin), *_clone(body, {loop.counter: at}, keep=False)[0]]


def _split(loop: Loop) -> tuple[list[Inst], list[Inst]]:
  """Pipeline a loop in place if it can be done; returns what goes before it and after it.

  A pass of the new loop is two of the old one: the first computes with one set of operands while the other is loaded, the second the
  other way round, so that no operand changes registers. A pass that is left over follows the loop."""
  body, passes = _body(loop), _passes(loop)
  loads = [x for x in body if x.mem is not None]
  assert passes is not None and loop.counter is not None
  needed = _slice(body, loads, loop.counter)
  if needed is None or passes < 2 or _carries(body):
    return [], []
  rest = [x for x in body if x not in loads]
  used = {r for x in rest if x not in needed for r in x.reads()}
  for x in reversed(rest):
    if x.dst in used:
      used.update(x.reads())
  kept = [x for x in rest if x not in needed or x.dst in used]
  uses = Counter(r for x in kept for r in x.reads())
  needed = [x for x in needed if x.mem is None] + sorted(loads, key=lambda x: -uses[x.dst] if x.dst else 0)  # what most steps wait for

  count, even, odd, following, bounded = (Reg("s") for _ in range(5))
  count.remat = inst("sadd", count, S0, passes // 2)
  first, _ = _clone(needed, {loop.counter: S0}, keep=True)
  step = partial(inst, origin=loop.origin)
  loop.body[:] = [step("sadd", even, loop.counter, loop.counter), step("sadd", odd, even, 1)]
  other, renamed = _clone(needed, {loop.counter: odd}, keep=False)
  loop.body += other
  loop.body += _clone(kept, {loop.counter: even}, keep=False)[0]
  loop.body += [step("sadd", following, even, 2), step("smin", bounded, following, passes - 1)]
  loop.body += _clone(needed, {loop.counter: bounded}, keep=True)[0]
  loop.body += _clone(kept, {**{x.dst: renamed[x.dst] for x in loads if x.dst is not None}, loop.counter: odd}, keep=False)[0]
  loop.count, loop.trips = count, passes // 2
  last = Reg("s")
  after = [step("sadd", last, S0, passes - 1), *_clone(kept, {loop.counter: last}, keep=False)[0]] if passes % 2 else []
  return [*first, count.remat], after


def _slice(body: list[Inst], loads: list[Inst], counter: Reg) -> list[Inst] | None:
  """The loads and the operations that their addresses and masks are made of, in order; None if those depend on a load, or on
  something that changes from pass to pass other than the counter."""
  position = {id(x): i for i, x in enumerate(body)}
  defined = {x.dst: x for x in body if x.dst is not None}
  writes = [x.dst for x in body if x.dst is not None]
  todo, found = list(loads), {id(x): x for x in loads}
  while todo:
    x = todo.pop()
    for reg in x.reads():
      source = defined.get(reg)
      if source is None or reg is counter:
        continue
      if source.mem is not None or "pm" in source.op.operands or writes.count(reg) != 1 or position[id(source)] >= position[id(x)]:
        return None
      if id(source) not in found:
        found[id(source)] = source
        todo.append(source)
  return [x for x in body if id(x) in found]


def _clone(needed: list[Inst], known: dict[Reg, Reg], keep: bool) -> tuple[list[Inst], dict[Reg, Reg]]:
  """Copies with fresh results, and registers replaced as in `known` (the counter, for one); keep: loads keep theirs."""
  renamed = dict(known)
  out = []
  for x in needed:
    mem = Mem(**vars(x.mem)) if x.mem is not None else None
    if mem is not None and mem.reach is not None and any(reg in known for reg, *_ in mem.reach.steps):
      mem.reach = None  # the counter is another now
    copy = Inst(x.op, x.dst, list(x.srcs), mem, lines=x.lines, origin=x.origin)
    copy.substitute(lambda reg: renamed.get(reg, reg))
    if x.dst is not None and not (keep and x.mem is not None) and "pm" not in x.op.operands:
      copy.dst = renamed[x.dst] = Reg(x.dst.file)
    out.append(copy)
  return out, renamed
