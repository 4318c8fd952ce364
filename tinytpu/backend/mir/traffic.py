"""What a memory access costs: lines of HBM, cycles of VMEM's banks; and from that the cycles of a block of machine IR.

An estimate, made before registers are allocated and operations scheduled: good enough to say where a buffer should lie.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from ...config import Config
from ...isa import timing
from .ir import Inst, Loop, Reg, Traffic, walk


def traffic(config: Config, offsets: np.ndarray) -> Traffic:
  """Of the words that hold the bytes `offsets` (int64, one per element) from a line's start: summed over the beats."""
  lanes, lines, conflicts = config.vector_lanes, 0, 0
  for beat in range(0, len(offsets), lanes):
    words = np.unique(offsets[beat:beat + lanes] // 4)
    lines += len(np.unique(words // lanes))
    conflicts += int(np.bincount(words % lanes).max())
  return Traffic(max(1, lines), max(1, conflicts))


def scattered(config: Config) -> Traffic:
  """Of elements at random: a line each, and three words in the worst bank, as among sixteen."""
  return Traffic(config.width, 3 * config.beats)


class Estimate:
  """Follows a block in program order. staged: whether the buffer that starts at an address register lies in VMEM.

  Attributes:
    now: the cycle in which the operation that issues last does.
  """

  def __init__(self, config: Config, staged: Callable[[Reg], bool]):
    self.config, self.staged = config, staged
    self.now = 0
    self.ready: dict[Reg, int] = {}
    self.free: dict[str, int] = {}

  def run(self, items: list[Inst | Loop]) -> int:
    """Cycles of a block."""
    at = 0
    while at < len(items):
      item = items[at]
      if isinstance(item, Loop):
        self._loop(item)
        at += 1
        continue
      end = next((i for i in range(at, len(items)) if isinstance(items[i], Loop)), len(items))
      self._straight([x for x in items[at:end] if isinstance(x, Inst)])
      at = end
    return self.now

  def _loop(self, loop: Loop) -> None:
    """All passes take alike, once what the loop needs is there."""
    needs = {r for x in walk(loop.body) for r in x.reads()}
    self.now = max([self.now, *(t for r, t in self.ready.items() if r in needs)])
    self.now += loop.trips * (Estimate(self.config, self.staged).run(loop.body) + 1)

  def _straight(self, block: list[Inst]) -> None:
    """No operation before what it reads; none of a unit before the one ahead of it is through; no more than slots and groups hold."""
    slots = Counter(x.op.slot for x in block)
    last = self.now + max([*slots.values(), len(block) // self.config.GROUP])
    for x in block:
      chained = x.dst if "pm" in x.op.operands else None  # a matrix step does not wait for its bucket
      start = max([self.now, *(self.ready.get(r, 0) for r in x.reads() if r is not chained)])
      unit, n, latency = self._unit(x)
      if unit:
        start = max(start, self.free.get(unit, 0))
        self.free[unit] = start + n
      last = max(last, start + 1)
      if x.dst is not None:
        self.ready[x.dst] = start + latency
    self.now = last

  def _unit(self, x: Inst) -> tuple[str, int, int]:
    """The unit that an operation keeps busy ("": none for more than a cycle), for how long, and its latency."""
    latency = timing.latency(self.config, x.op.timing) if x.op.timing else 0
    if x.mem is None:
      n = timing.interval(self.config, x.op.timing) if x.op.timing else 1
      return x.unit if n > 1 else "", n, latency
    if x.op.name[0] == "v" or self.staged(x.mem.base):
      n = x.mem.traffic.conflicts
      return x.op.slot if x.dst is None else "L", n, timing.LOAD + n
    n = x.mem.traffic.lines
    return "h", n, timing.HBM_ISSUE + n + self.config.hbm_latency


def cycles(items: list[Inst | Loop], config: Config, staged: Callable[[Reg], bool]) -> int:
  """Cycles of a program, without what its buffers in VMEM cost beforehand and afterwards."""
  return Estimate(config, staged).run(items)
