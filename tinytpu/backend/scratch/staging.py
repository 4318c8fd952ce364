"""Staging: buffers that a kernel reaches often enough lie in VMEM while it works on them.

An access in HBM takes a cycle for each line and, if anything waits for it, the latency of the memory; in VMEM it takes three cycles,
beside a store. So a kernel has two versions: one works on device memory alone, the other takes some buffers to be in VMEM, at addresses
that are arguments, or brings others in slabs (see `double_buffer`). Which one runs, where in VMEM a buffer lies, and whether it is
there already, is the runtime's business (`runtime/vmem_cache.py`). A buffer that is not there is copied in by the kernel itself, before its
first access; what it has written stays in VMEM.

The cycles of both versions are estimated by counting (see `mir/traffic.py`). Small buffers are taken to be there; of large ones, which
sooner make way for others, the copy is counted.

DMA moves words. Buffers of narrower elements may start and end within one: the copy in VMEM starts at the same byte of a word.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from ...asm.program import Access, Buf
from ...config import Config
from ...isa.table import OPS
from ..lower.kernel import Kernel, Parameter
from ..mir.ir import S0, Inst, Loop, Reg, inst, walk
from ..mir.traffic import cycles
from ..types import WORD
from .double_buffer import Cut, Slabs, Stream, choose_cut, outermost, stream, transfer
from .must_write import Coverage

MAX_ROUNDS = 6
"""Parameters that may be left out of those that are staged."""
SMALL = 1 / 8
"""Share of VMEM up to which a buffer is taken to stay there."""
OVERHEAD = 8
"""Cycles of copying beside lines and latency: the operations that start it, and waiting for them."""


@dataclass
class Copy:
  """A parameter that is touched. reads, writes: whether the kernel loads from it, stores to it; whole: whether it writes all of it;
  fits: whether VMEM holds all of it, beside others that fit; stream: its window, if it can come in slabs."""
  parameter: Parameter
  reads: bool = False
  writes: bool = False
  whole: bool = False
  fits: bool = False
  stream: Stream | None = None

  @property
  def inbound(self) -> bool:
    """Whether its contents are needed before the kernel starts."""
    return self.reads or not self.whole

  @property
  def narrow(self) -> bool:
    """Whether it may start or end within a word."""
    return self.parameter.itemsize < WORD

  @property
  def filled(self) -> bool:
    """Whether the kernel may have to copy it in: its contents, or what lies beside it in its first and last word."""
    return self.inbound or self.narrow

  @property
  def room(self) -> int:
    """Bytes of VMEM that it takes."""
    return -(-self.parameter.bytes // WORD) * WORD + WORD * self.narrow

  def buf(self, words: bool) -> Buf:
    """What the runtime must know of it."""
    access = Access.IN if not self.writes else Access.INOUT if self.inbound else Access.OUT
    return Buf(self.parameter.number, self.parameter.bytes, access, words)


@dataclass(frozen=True)
class Choice:
  """What is staged. copies: as a whole; slabs: piece by piece. cycles: of the kernel then, without copies."""
  copies: list[Copy]
  slabs: Cut | None = None
  cycles: int = 0


@dataclass(frozen=True)
class Staged:
  """What became of a program. bufs: its buffers; top: the first byte of VMEM behind what it uses at fixed places; cycles: an estimate,
  without what must come in before; moved: whether anything is staged, so that the two differ."""
  bufs: list[Buf]
  top: int
  cycles: int = 0
  moved: bool = False


def stage(program: Kernel, coverage: Coverage, config: Config, base: int, words: set[Reg]) -> Staged:
  """Stage what pays, in place.

  Args:
    coverage: of the same kernel. base: first byte of VMEM that is free. words: addresses of the buffers that must start at words.
  """
  room = config.vmem_bytes - base
  copies = _touched(program)
  _fit(copies, coverage, config, room)
  if (loop := outermost(program.items)) is not None:
    for c in copies:
      c.stream = stream(program.items, loop, c.parameter.base, c.parameter.bytes, c.narrow, c.parameter.origin)
  bufs = [c.buf(c.parameter.base in words) for c in copies]
  choice = choose(program, _addressable(program, copies), config, room)
  if not choice.copies and choice.slabs is None:
    return Staged(bufs, base, cycles(program.items, config, lambda base: False))
  stager = _Stager(program)
  for copy in choice.copies:
    stager.add(copy)
  if choice.slabs is not None:
    base = stager.cut(choice.slabs, -(-base // config.line_bytes) * config.line_bytes, config)
  stager.finish()
  return Staged(bufs, base, choice.cycles, True)


def _touched(program: Kernel) -> list[Copy]:
  found = {p.base: Copy(p) for p in program.parameters}
  for x in walk(program.items):
    if x.mem is not None and (copy := found.get(x.mem.base)) is not None:
      copy.reads |= x.dst is not None
      copy.writes |= x.dst is None
  return [c for c in found.values() if c.reads or c.writes]


def _fit(copies: list[Copy], coverage: Coverage, config: Config, room: int) -> None:
  """Find the smallest parameters, as many as fit VMEM together."""
  for c in sorted(copies, key=lambda c: c.room):
    room -= c.room + config.line_bytes
    if room >= 0:
      c.fits = True
      c.whole = c.writes and not c.reads and coverage.whole(c.parameter.slot, c.parameter.elements)


def _addressable(program: Kernel, copies: list[Copy]) -> list[Copy]:
  """Those that can be staged, as far as there are argument registers for them."""
  left = program.args.left
  found = []
  for c in copies:
    if c.fits and (needed := 1 + c.filled) <= left:
      left -= needed
    else:
      c.fits = False
    if c.fits or c.stream is not None:
      found.append(c)
  return found


# -- what pays ----------------------------------------------------------------------------------------
def choose(program: Kernel, candidates: list[Copy], config: Config, room: int) -> Choice:
  """The cheapest way to stage parameters, found by leaving out one after the other; nothing, if that takes longer than
  device memory alone. As long is good enough: what is in VMEM already need not be moved."""
  direct, _ = _cheapest(program, [], config, room)
  best, choice = _cheapest(program, candidates, config, room)
  for _ in range(MAX_ROUNDS):
    fewer = [[x for x in candidates if x is not c] for c in candidates]
    found = [(*_cheapest(program, rest, config, room), rest) for rest in fewer]
    if not found or (least := min(found, key=lambda f: f[0]))[0] >= best:
      break
    best, choice, candidates = least
  return choice if best <= direct else Choice([])


def _cheapest(program: Kernel, chosen: list[Copy], config: Config, room: int) -> tuple[float, Choice]:
  """Cycles of the kernel with exactly these parameters staged, in slabs or not, and how; infinite if they do not fit."""
  bases = {c.parameter.base for c in chosen}
  total = cycles(program.items, config, lambda base: base in bases)
  options = [(math.inf, Choice([]))]
  if all(c.fits for c in chosen):
    options.append((total + _copying(chosen, config), Choice(chosen, None, total)))
  whole = [c for c in chosen if c.stream is None]
  loop = outermost(program.items)
  if loop is not None and len(whole) < len(chosen):
    body = cycles(loop.body, config, lambda base: base in bases) + 1
    left = min(room // 2, room - sum(c.room + config.line_bytes for c in whole))
    slabs = choose_cut(loop, [c.stream for c in chosen if c.stream is not None], config, body, left)
    if slabs is not None:
      options.append((total + _copying(whole, config) + slabs.cycles, Choice(whole, slabs, total + math.ceil(slabs.cycles))))
  return min(options, key=lambda option: option[0])


def _copying(copies: list[Copy], config: Config) -> int:
  """Cycles that copies of large buffers take, before the kernel and at some time after it."""
  total = 0
  large = [c for c in copies if c.parameter.bytes > SMALL * config.vmem_bytes]
  for way, latency in (([c for c in large if c.inbound], config.hbm_latency), ([c for c in large if c.writes], 0)):
    if way:
      total += sum(-(-c.parameter.bytes // config.line_bytes) for c in way) + latency + OVERHEAD
  return total


# -- the copies ---------------------------------------------------------------------------------------
class _Stager:
  """Moves accesses of one program to VMEM and adds the transfers ahead of it."""

  def __init__(self, program: Kernel):
    self.args, self.items = program.args, program.items
    self.fills: list[Inst] = []
    self.amounts: list[Reg] = []
    self.before: list[Inst | Loop] = []
    self.one = self._put(self.fills, "sadd", S0, 1)
    self.bases: set[Reg] = set()
    self.outer: Loop | None = None

  def add(self, copy: Copy) -> None:
    """Let a parameter be worked on in VMEM."""
    p = copy.parameter
    local = self.args.take(f"vmem {p.number}")
    self._move(p.base, local)
    if copy.filled:
      self.amounts.append(self.args.take(f"fill {p.number}"))
      to, source = [self._put(self.fills, "sand", address, -WORD & 0xFFFFFFFF) if copy.narrow else address for address in (local, p.base)]
      self.fills.append(transfer(to, source, self.amounts[-1], self.one, p.origin))

  @staticmethod
  def _put(to: list[Inst], name: str, *operands: Reg | int) -> Reg:
    reg = Reg("s")
    to.append(inst(name, reg, *operands))
    return reg

  def _filling(self, wait: bool) -> list[Inst | Loop]:
    """The fills, skipped if none is needed: a transfer of nothing takes as long as one of a line. wait: until they are done."""
    if not self.amounts:
      return []
    code: list[Inst] = []
    total = self.amounts[0]
    for amount in self.amounts[1:]:
      total = self._put(code, "sor", total, amount)
    waits = [inst("dwaiti", None, 0, origin=tuple(sorted({n for x in self.fills for n in x.origin})))] if wait else []
    return [*code, Loop([*self.fills, *waits], given=total, trips=1)]

  def _move(self, base: Reg, local: Reg) -> None:
    """Let accesses of the buffer at `base` go to VMEM, at `local`."""
    self.bases.add(local)
    for x in walk(self.items):
      if x.mem is not None and x.mem.base is base:
        x.op = OPS["v" + x.op.name[1:]]
        x.mem.base, x.mem.space, x.lines = local, repr(local), x.mem.traffic.conflicts

  def cut(self, slabs: Cut, at: int, config: Config) -> int:
    """Let parameters come in slabs, from byte address `at` of VMEM on; returns the first byte behind."""
    start: list[Inst] = []
    code = Slabs(slabs, config, at, self._put(start, "sadd", S0, 1))
    self.before += [*start, *code.before]
    for s, local in code.locals.items():
      self._move(s.base, local)
    self.outer = code.cut(self.items)
    return code.top

  def finish(self) -> None:
    """Put the transfers in. Slabs wait for what comes before them, unless something is accessed even before."""
    for x in walk(self.items):
      if x.mem is not None and x.op.name[0] == "h":
        x.mem.space = repr(x.mem.base)  # buffers that are written overlap no others where this version runs
    first = next(x for x in self.items if any(y.mem is not None and (y.mem.base in self.bases or y.dst is None) for y in walk([x])))
    self.items[:] = [*self._filling(first is not self.outer), *self.before, *self.items]
