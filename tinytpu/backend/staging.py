"""Staging: buffers that a kernel reaches often enough are copied to VMEM by DMA, worked on there, and copied back.

An access in HBM takes a cycle for each line and, if anything waits for it, the latency of the memory; in VMEM it takes three cycles,
beside a store. What the copies cost is counted against that, for each buffer (see `traffic`). A buffer that is written comes in too,
unless the kernel certainly writes all of it.

Parameters may overlap, as views of one buffer. What is read through one of them was there before the launch: nobody else's work item may
write it, its own does so afterwards. So copies come in before anything is written. And what is written back must not undo what was
written through another parameter: where several are written, they stay in HBM.

DMA moves words. Buffers of narrower elements may start and end within one: the copy in VMEM then starts at the same byte of a word
as the buffer. Words are read whole; what is written back are the buffer's whole words, and its first and last bytes by stores.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from ..config import Config
from ..isa.encoding import MemType
from ..isa.table import OPS
from .coverage import Coverage
from .ir import S0, Inst, Loop, Mem, Reg, inst, walk
from .lower import Parameter, Program
from .slabs import WORD, Plan, Slabs, Stream, outermost, plan, stream, transfer
from .traffic import cycles

GAIN = 0.97
"""Staging must bring the cycles of a kernel below this share."""
MAX_ROUNDS = 6
"""Parameters that may be left out of those that are staged."""
PLAIN = "plain"
"""Label of a program's second version, which stages nothing, and prefix of the labels in it."""
OVERHEAD = 8
"""Cycles of a direction beside lines and latency: the operations that start it, and waiting for them."""


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
  def room(self) -> int:
    """Bytes of VMEM that it takes."""
    return -(-self.parameter.bytes // WORD) * WORD + WORD * self.narrow


@dataclass(frozen=True)
class Choice:
  """What is staged. copies: as a whole; slabs: piece by piece."""
  copies: list[Copy]
  slabs: Plan | None = None


def stage(program: Program, coverage: Coverage, config: Config, base: int) -> tuple[int, bool]:
  """Stage what pays, in place.

  Args:
    coverage: of the same kernel. base: first byte of VMEM that is free.

  Returns:
    the first byte of VMEM that is free afterwards, 0 if nothing is staged; and whether the program jumps to the label `PLAIN`, for buffers
    that overlap.
  """
  room = config.vmem_bytes - base
  copies = _touched(program)
  _fit(copies, coverage, config, room)
  if (loop := outermost(program.items)) is not None:
    for c in copies:
      c.stream = stream(program.items, loop, c.parameter.base, c.parameter.bytes, c.narrow)
  choice = choose(program, [c for c in copies if c.fits or c.stream is not None], config, room)
  if not choice.copies and choice.slabs is None:
    return 0, False
  stager = _Stager(config, program)
  for copy in choice.copies:
    base = _aligned(base, config)
    stager.add(copy, base)
    base += copy.room
  if choice.slabs is not None:
    base = stager.cut(choice.slabs, copies, _aligned(base, config))
  stager.finish()
  return base, stager.guarded


def _aligned(at: int, config: Config) -> int:
  return -(-at // config.line_bytes) * config.line_bytes


def _touched(program: Program) -> list[Copy]:
  found = {p.base: Copy(p) for p in program.parameters}
  for x in walk(program.items):
    if x.mem is not None and (copy := found.get(x.mem.base)) is not None:
      copy.reads |= x.dst is not None
      copy.writes |= x.dst is None
  return [c for c in found.values() if c.reads or c.writes]


def _fit(copies: list[Copy], coverage: Coverage, config: Config, room: int) -> None:
  """Find the smallest parameters, as many as fit VMEM together."""
  outputs = sum(c.writes for c in copies)
  for c in sorted(copies, key=lambda c: c.room):
    if c.parameter.bytes < WORD or c.writes and outputs > 1:
      continue
    room -= c.room + config.line_bytes
    if room >= 0:
      c.fits = True
      c.whole = c.writes and not c.reads and coverage.whole(c.parameter.slot, c.parameter.elements)


# -- what pays ----------------------------------------------------------------------------------------
def choose(program: Program, candidates: list[Copy], config: Config, room: int) -> Choice:
  """The cheapest way to stage parameters, found by leaving out one after the other; nothing, unless it gains enough."""
  direct, _ = _cheapest(program, [], config, room)
  best, choice = _cheapest(program, candidates, config, room)
  for _ in range(MAX_ROUNDS):
    fewer = [[x for x in candidates if x is not c] for c in candidates]
    found = [(*_cheapest(program, rest, config, room), rest) for rest in fewer]
    if not found or (least := min(found, key=lambda f: f[0]))[0] >= best:
      break
    best, choice, candidates = least
  return choice if best < GAIN * direct else Choice([])


def _cheapest(program: Program, chosen: list[Copy], config: Config, room: int) -> tuple[float, Choice]:
  """Cycles of the kernel with exactly these parameters staged, in slabs or not, and how; infinite if they do not fit."""
  bases = {c.parameter.base for c in chosen}
  total = cycles(program.items, config, lambda base: base in bases)
  options = [(math.inf, Choice([]))]
  if all(c.fits for c in chosen):
    options.append((total + _copying(chosen, config), Choice(chosen)))
  whole = [c for c in chosen if c.stream is None]
  loop = outermost(program.items)
  if loop is not None and len(whole) < len(chosen):
    body = cycles(loop.body, config, lambda base: base in bases) + 1
    left = room - sum(c.room + config.line_bytes for c in whole)
    slabs = plan(loop, [c.stream for c in chosen if c.stream is not None], config, body, left)
    if slabs is not None:
      options.append((total + _copying(whole, config) + slabs.cycles, Choice(whole, slabs)))
  return min(options, key=lambda option: option[0])


def _copying(copies: list[Copy], config: Config) -> int:
  """Cycles that copies as a whole take before and after the kernel."""
  total = 0
  for way, latency in (([c for c in copies if c.inbound], config.hbm_latency), ([c for c in copies if c.writes], 0)):
    if way:
      total += sum(-(-c.parameter.bytes // config.line_bytes) for c in way) + latency + OVERHEAD
  return total


# -- the copies ---------------------------------------------------------------------------------------
class _Stager:
  """Moves accesses of one program to VMEM and adds the transfers around it."""

  def __init__(self, config: Config, program: Program):
    self.config, self.items = config, program.items
    self.before: list[Inst] = []
    self.after: list[Inst] = []
    self.one = self._constant(1)
    self.wait = False
    self.bases: set[Reg] = set()
    self.guarded = False
    self.outer: Loop | None = None

  def _constant(self, value: int) -> Reg:
    reg = Reg("s")
    reg.remat = inst("sadd", reg, S0, value)
    self.before.append(reg.remat)
    return reg

  def _put(self, to: list[Inst], name: str, file: str, *operands: Reg | int) -> Reg:
    reg = Reg(file)
    to.append(inst(name, reg, *operands))
    return reg

  def add(self, copy: Copy, at: int) -> None:
    """Let a parameter be worked on in VMEM, at or (if it is narrow) up to three bytes after byte address `at`."""
    p = copy.parameter
    if copy.narrow:
      shift = self._put(self.before, "sand", "s", p.base, WORD - 1)
      local = self._put(self.before, "sadd", "s", shift, at)
    else:
      local = self._constant(at)
    self._move(p.base, local)
    if copy.inbound:
      self.wait = True
      if copy.narrow:
        start = self._put(self.before, "ssub", "s", p.base, shift)
        size = self._put(self.before, "sand", "s", self._put(self.before, "sadd", "s", shift, p.bytes + WORD - 1), -WORD & 0xFFFFFFFF)
        self.before.append(transfer(self._constant(at), start, size, self.one, "dmai"))
      else:
        self.before.append(transfer(local, p.base, self._constant(p.bytes), self.one, "dmai"))
    if copy.writes:
      if copy.narrow:
        self._back(p, local, shift)
      else:
        self.after.append(transfer(local, p.base, self._constant(p.bytes), self.one, "dmao"))

  def _move(self, base: Reg, local: Reg) -> None:
    """Let accesses of the buffer at `base` go to VMEM, at `local`."""
    self.bases.add(local)
    for x in walk(self.items):
      if x.mem is not None and x.mem.base is base:
        x.op = OPS["v" + x.op.name[1:]]
        x.mem.base, x.mem.space, x.lines = local, repr(local), x.mem.traffic.conflicts

  def cut(self, slabs: Plan, copies: list[Copy], at: int) -> int:
    """Let parameters come in slabs, from byte address `at` of VMEM on; returns the first byte behind. A slab that comes in while others
    are worked on could bring what was written already, if a parameter that is written overlaps: then the program goes to `PLAIN`."""
    code = Slabs(slabs, self.config, at, self.one)
    self.before += code.before
    for s, local in code.locals.items():
      self._move(s.base, local)
    overlap: Reg | None = None
    for s in slabs.streams:
      for w in (c.parameter for c in copies if c.writes):
        behind = self._put(self.before, "sadd", "s", self._put(self.before, "ssub", "s", w.base, s.base), w.bytes - 1)
        one = self._put(self.before, "sltu", "s", behind, s.bytes + w.bytes - 1)
        overlap = one if overlap is None else self._put(self.before, "sor", "s", overlap, one)
    if overlap is not None:
      self.before.append(Inst(OPS["bne"], None, [overlap, S0], target=PLAIN))
      self.guarded = True
    self.outer = code.cut(self.items)
    return code.top

  def _back(self, p: Parameter, local: Reg, shift: Reg) -> None:
    """Write a narrow parameter back: whole words by DMA, `head` bytes before and `tail` bytes after them by stores."""
    put = self._put
    head = put(self.after, "sand", "s", put(self.after, "ssub", "s", S0, shift), WORD - 1)
    left = put(self.after, "ssub", "s", self._constant(p.bytes), head)
    tail = put(self.after, "sand", "s", left, WORD - 1)
    words = put(self.after, "ssub", "s", left, tail)
    source, target = put(self.after, "sadd", "s", local, head), put(self.after, "sadd", "s", p.base, head)
    self.after.append(transfer(source, target, words, self.one, "dmao"))
    lane = put(self.after, "vlid", "v")
    for x, count in ((S0, head), (put(self.after, "sadd", "s", head, words), tail)):
      mask, data = put(self.after, "vlt", "v", lane, count), Reg("v")
      self.after.append(Inst(OPS["vld"], data, [], Mem(local, MemType.U8, x, mask=mask)))
      self.after.append(Inst(OPS["hst"], None, [data], Mem(p.base, MemType.U8, x, mask=mask)))

  def finish(self) -> None:
    """Put the transfers in: inbound ones first, to be waited for before the first access; outbound ones before the end."""
    items = self.items
    first = next(i for i, item in enumerate(items)
                 if any(x.mem is not None and (x.mem.base in self.bases or x.dst is None) for x in walk([item])))
    halt = items.pop()
    wait = [inst("dwaiti", None, 0)] if self.wait and items[first] is not self.outer else []  # slabs wait themselves
    # An outbound transfer knows nothing of stores under way.
    after = [inst("barrier", None), *self.after] if self.after else []
    items[:] = [*self.before, *items[:first], *wait, *items[first:], *after, halt]
