"""List scheduling: linear code to issue groups.

Within each stretch without labels and branches, operations are ordered by the longest path that hangs on them and packed
into groups, one operation per slot. Any order that respects the dependences is correct, since the hardware interlocks;
this one hides latencies. Registers are physical here: write after read may share a group (operands are read first),
write after write waits for the first result. Loads and stores of one memory keep their order where a store is involved.
"""
from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from ...config import Config
from ...isa import timing
from ..mir.ir import Code, Group, Inst, Label, Reg

WAITS = ("fence", "dwaiti", "dwaito", "barrier")
"""Control operations that wait for memory."""


@dataclass
class _Node:
  inst: Inst
  after: list[tuple[_Node, int]] = field(default_factory=list)  # (successor, least distance in cycles)
  waits: int = 0
  ready: int = 0
  height: int = 0
  index: int = 0


def latency(item: Inst, config: Config) -> int:
  """Cycles from issue to a readable result; 0 without one."""
  if "dma" in item.op.operands:
    return config.hbm_latency  # no result, but the sooner it starts the better
  cycles = timing.latency(config, item.op.timing) if item.op.timing else 0
  if item.op.timing == "HBM_ISSUE":
    return cycles + item.lines + config.hbm_latency
  return cycles + item.lines if item.op.timing == "LOAD" else cycles


def _memory(item: Inst) -> tuple[str, bool] | None:
  """What an operation touches, a memory ("h" or "v") or a space in it that nothing else touches, and whether it stores."""
  return None if item.mem is None else (item.mem.space or item.op.name[0], item.op.name[1:3] == "st")


def _graph(block: list[Inst], config: Config) -> list[_Node]:
  nodes = [_Node(item, index=i) for i, item in enumerate(block)]
  writer: dict[tuple[str, int | None], _Node] = {}
  readers: dict[tuple[str, int | None], list[_Node]] = {}
  stores: dict[str, _Node] = {}
  loads: dict[str, list[_Node]] = {}

  def edge(a: _Node, b: _Node, distance: int) -> None:
    if a is not b:
      a.after.append((b, distance))
      b.waits += 1

  def name(reg: Reg) -> tuple[str, int | None]:
    return reg.file, reg.number

  for node in nodes:
    item = node.inst
    chained = "pm" in item.op.operands  # a matrix step follows the one before it on its bucket without waiting
    for reg in item.reads():
      if (w := writer.get(name(reg))) is not None:
        edge(w, node, 1 if chained and reg is item.dst and w.inst.op.timing in timing.STEPS else latency(w.inst, config))
      readers.setdefault(name(reg), []).append(node)
    if item.dst is not None and name(item.dst) != ("s", 0):
      key = name(item.dst)
      for r in readers.pop(key, []):
        edge(r, node, 0)
      if (w := writer.get(key)) is not None and not chained:
        edge(w, node, latency(w.inst, config))
      writer[key] = node
    if (touch := _memory(item)) is not None:
      memory, is_store = touch
      if (s := stores.get(memory)) is not None:
        edge(s, node, 1)
      if is_store:
        for ld in loads.pop(memory, []):
          edge(ld, node, 0)
        stores[memory] = node
      else:
        loads.setdefault(memory, []).append(node)
  for node in reversed(nodes):
    alone = latency(node.inst, config) - (node.inst.lines if node.inst.dst is not None else 0)  # results for later: in order, however long
    node.height = max([alone, *(d + s.height for s, d in node.after), *_turns(node, config)])
  return nodes


def _turns(node: _Node, config: Config) -> list[int]:
  """The least cycles from a node to the end of what waits for it and takes turns on one unit, for each such unit."""
  queues: dict[str, list[tuple[int, int, int]]] = {}
  for s, d in node.after:
    if busy := s.inst.unit:
      queues.setdefault(busy, []).append((d, _busy(s.inst, config), s.height))
  return [min(d for d, _, _ in q) + sum(b for _, b, _ in q) - max(b for _, b, _ in q) + min(h for _, _, h in q)
          for q in queues.values() if len(q) > 1]


def _block(block: list[Inst], config: Config) -> list[Group]:
  groups: list[Group] = []
  future: list[tuple[int, int, int]] = []  # (cycle, -height, index) of nodes whose predecessors have all issued
  nodes = _graph(block, config)
  for n in nodes:
    if not n.waits:
      heapq.heappush(future, (0, -n.height, n.index))
  cycle, free = 0, dict.fromkeys(("h", "v", *timing.UNITS), 0)
  ready: list[tuple[int, int]] = []
  while future or ready:
    while future and future[0][0] <= cycle:
      _, height, index = heapq.heappop(future)
      heapq.heappush(ready, (height, index))
    group: Group = []
    slots: set[str] = set()
    written: set[tuple[str, int | None]] = set()
    left = []
    while ready and len(group) < config.GROUP:
      height, index = heapq.heappop(ready)
      node = nodes[index]
      item = node.inst
      busy = item.unit
      target = (item.dst.file, item.dst.number) if item.dst is not None else None
      beside = busy == "v" and any(_pair(x, item) for x in group)
      if item.op.slot in slots or busy and free[busy] > cycle and not beside or target in written:
        left.append((height, index))
        continue
      group.append(item)
      slots.add(item.op.slot)
      if target is not None:
        written.add(target)
      if busy:
        free[busy] = (free[busy] - 1 if beside else cycle) + _busy(item, config)
      for successor, distance in node.after:
        successor.ready = max(successor.ready, cycle + distance)
        successor.waits -= 1
        if not successor.waits:
          if successor.ready <= cycle:
            heapq.heappush(ready, (-successor.height, successor.index))
          else:
            heapq.heappush(future, (successor.ready, -successor.height, successor.index))
    for entry in left:
      heapq.heappush(ready, entry)
    if group:
      groups.append(group)
      cycle += 1
    else:
      cycle = min([c for c, _, _ in future[:1]] + [f for f in free.values() if f > cycle])
  return groups


def _pair(a: Inst, b: Inst) -> bool:
  """Whether VMEM takes both in one group: a load and a store, whose last and first cycles coincide."""
  loads = [x for x in (a, b) if x.op.name.startswith("vld")]
  stores = [x for x in (a, b) if x.op.name.startswith("vst")]
  return len(loads) == len(stores) == 1


def _busy(item: Inst, config: Config) -> int:
  """The cycles for which it does."""
  return item.lines if item.mem is not None else timing.interval(config, item.op.timing)


def schedule(code: Code, config: Config) -> list[Group | Label]:
  """Issue groups of a program whose registers are numbered; labels in between."""
  out: list[Group | Label] = []
  block: list[Inst] = []

  def flush() -> None:
    out.extend(_block(block, config))
    block.clear()

  for item in code.items:
    if isinstance(item, Label):
      flush()
      out.append(item)
    elif item.op.slot == "C":
      flush()
      last = out[-1] if out else None
      needs = {(r.file, r.number) for r in item.reads()}
      alone = "C" if item.op.name not in WAITS else "CLT"  # a wait says nothing of what issues with it
      if isinstance(last, list) and len(last) < config.GROUP and not any(
          x.op.slot in alone or x.dst is not None and (x.dst.file, x.dst.number) in needs for x in last):
        last.append(item)
      else:
        out.append([item])
    else:
      block.append(item)
  flush()
  return out
