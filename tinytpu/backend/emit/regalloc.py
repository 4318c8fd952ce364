"""Linear-scan register allocation.

Live intervals are ranges of positions in linear code, stretched over loops. Registers are handed out in turn (oldest
free first), which leaves the scheduler few false dependences. When a file runs out, the interval that costs least
is spilled as a whole: constants are recomputed at their uses, vectors live in VMEM slots, scalars in slots by way of a
vector. Spilled operands pass through a few registers set aside for that, only in kernels that spill.
"""
from __future__ import annotations

from bisect import insort
from collections import deque
from dataclasses import dataclass

from ...config import Config
from ...isa import encoding as enc
from ...isa.encoding import MemType
from ...isa.table import OPS
from ..errors import UnsupportedError
from ..mir.ir import S0, Code, Inst, Label, Mem, Origin, Reg, inst

SCRATCH = {"v": 4, "s": 4}
"""Registers set aside per file when it spills: as many as one operation reads, and one for scalars in transit."""


@dataclass
class Interval:
  """A register's life: positions `start` to `end`; cost: uses, weighted by loop depth."""
  reg: Reg
  start: int
  end: int
  cost: float = 0.0


def spill_bytes(config: Config) -> int:
  """VMEM bytes at address 0 that are kept for spills: what a memory operand's offset reaches."""
  return min((1 << enc.OFF.width - 1) * 4, config.vmem_bytes // 2)


def _intervals(code: Code) -> list[Interval]:
  depth = [0] * (len(code.items) + 1)
  for a, b in code.loops:
    for i in range(a, b + 1):
      depth[i] += 1
  live: dict[Reg, Interval] = {}
  for at, item in enumerate(code.items):
    if isinstance(item, Label):
      continue
    for reg in (*item.reads(), *((item.dst,) if item.dst is not None else ())):
      if reg.number is None:
        span = live.setdefault(reg, Interval(reg, at, at))
        span.end = at
        span.cost += 8.0 ** min(depth[at], 6)
  for a, b in sorted(code.loops, key=lambda r: r[1] - r[0]):
    for span in live.values():
      if span.start < a < span.end < b:
        span.end = b
  return sorted(live.values(), key=lambda s: s.start)


def _scan(spans: list[Interval], free: list[int]) -> tuple[dict[Reg, int], list[Reg]]:
  """Registers of one file, and those that must be spilled."""
  pool, spilled = deque(free), list[Reg]()
  active: list[Interval] = []
  numbers: dict[Reg, int] = {}
  by_end = lambda s: s.end  # noqa: E731
  for span in spans:
    while active and active[0].end <= span.start:
      pool.append(numbers[active.pop(0).reg])
    if pool:
      numbers[span.reg] = pool.popleft()
      insort(active, span, key=by_end)
      continue
    victim = min((*active, span), key=lambda s: (s.reg.remat is None, s.cost / (s.end - s.start + 1)))
    spilled.append(victim.reg)
    if victim is not span:
      numbers[span.reg] = numbers.pop(victim.reg)
      active.remove(victim)
      insort(active, span, key=by_end)
  return numbers, spilled


def allocate(code: Code, config: Config, kernel: str, arguments: int) -> Code:
  """Give every register a number; may add spill code, so the positions of loops are gone from the result.

  Args: arguments: argument registers in use, from `Config.ARG_BASE` on.
  Raises:
    UnsupportedError: PSUM buckets or spill slots run out.
  """
  spans = _intervals(code)
  free = {"v": list(range(config.VREGS)), "p": list(range(config.PSUMS)),
          "s": [n for n in range(1, config.SREGS) if not config.ARG_BASE <= n < config.ARG_BASE + arguments]}
  numbers: dict[Reg, int] = {}
  spilled: list[Reg] = []
  scratch: dict[str, list[int]] = {"v": [], "s": []}
  for file in "psv":  # vectors last: spilled scalars travel through vector registers
    mine = [s for s in spans if s.reg.file == file]
    got, lost = _scan(mine, free[file]) if not (file == "v" and any(r.file == "s" for r in spilled)) else ({}, [S0])
    if lost and file == "p":
      raise UnsupportedError(f"kernel {kernel} keeps more than {config.PSUMS} matrix accumulators at once; upcast less")
    if lost:
      scratch[file] = free[file][-SCRATCH[file]:]
      got, lost = _scan(mine, free[file][:-SCRATCH[file]])
    numbers |= got
    spilled += lost
  for reg, n in numbers.items():
    reg.number = n
  return code if not spilled else _spill(code, config, kernel, set(spilled), scratch)


def _spill(code: Code, config: Config, kernel: str, spilled: set[Reg], scratch: dict[str, list[int]]) -> Code:
  spiller = _Spiller(config, kernel, spilled, scratch)
  for item in code.items:
    if isinstance(item, Label):
      spiller.out.append(item)
    else:
      spiller.rewrite(item)
  return Code(spiller.out, [])


class _Spiller:
  """Puts loads before and stores after the operations that use spilled registers."""

  def __init__(self, config: Config, kernel: str, spilled: set[Reg], scratch: dict[str, list[int]]):
    self.config, self.kernel, self.spilled, self.scratch = config, kernel, spilled, scratch
    self.out: list[Inst | Label] = []
    self.slots: dict[Reg, int] = {}
    self.limit = spill_bytes(config) // config.tile_bytes
    self.taken: dict[Reg, Reg] = {}
    self.spare: dict[str, list[Reg]] = {}
    self.origin: Origin = ()

  def _slot(self, reg: Reg) -> Mem:
    n = self.slots.setdefault(reg, len(self.slots))
    if n >= self.limit:
      raise UnsupportedError(f"kernel {self.kernel} needs more than {self.limit} spilled registers; unroll or upcast less")
    return Mem(S0, MemType.W, S0, n * self.config.width)

  def _transit(self) -> Reg:
    """The vector register through which scalars travel."""
    return Reg("v", self.scratch["v"][-1])

  def _add(self, item: Inst, *more: Inst) -> None:
    """Append operations that serve the one at hand."""
    for x in (item, *more):
      x.origin = self.origin
      self.out.append(x)

  def _place(self, reg: Reg) -> Reg:
    """The register that holds `reg` for the operation at hand."""
    if reg not in self.spilled:
      return reg
    if reg not in self.taken:
      self.taken[reg] = got = self.spare[reg.file].pop(0)
      if reg.remat is not None:
        self._add(Inst(reg.remat.op, got, list(reg.remat.srcs)))
      elif reg.file == "v":
        self._add(Inst(OPS["vld"], got, [], self._slot(reg)))
      else:
        self._add(Inst(OPS["vld"], self._transit(), [], self._slot(reg)), inst("xtos", got, self._transit(), 0))
    return self.taken[reg]

  def rewrite(self, item: Inst) -> None:
    """Append an operation with its spill code."""
    dst, self.origin = item.dst, item.origin
    if dst is not None and dst in self.spilled and dst.remat is item:
      return  # recomputed at every use
    self.taken, self.spare = {}, {f: [Reg(f, n) for n in numbers] for f, numbers in self.scratch.items()}
    item.substitute(self._place)
    self.out.append(item)
    if dst is None or dst not in self.spilled:
      return
    item.dst = self.taken.get(dst) or Reg(dst.file, self.scratch[dst.file][0])
    if dst.file == "v":
      self._add(Inst(OPS["vst"], None, [item.dst], self._slot(dst)))
    else:
      self._add(inst("vmov", self._transit(), item.dst), Inst(OPS["vst"], None, [self._transit()], self._slot(dst)))
