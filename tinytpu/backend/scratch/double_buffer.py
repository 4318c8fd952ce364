"""Slabs: buffers that a kernel reads through once come to VMEM piece by piece, the next one while it works on the one before.

The outermost loop becomes two: slabs, and the passes of each. A slab needs the bytes that its passes reach, a window that moves on by
the same step with every pass. There are two places in VMEM for it, which take turns.
"""
from __future__ import annotations

from dataclasses import dataclass

from ...config import Config
from ...isa.table import OPS
from ..mir.ir import S0, Inst, Loop, Mem, Origin, Reg, inst, walk
from ..types import WORD

MAX_HALO = 0.25
"""Share of a slab that may be loaded twice, since the windows of neighbouring slabs overlap."""


@dataclass(frozen=True)
class Stream:
  """A buffer's window. base: register of its address; bytes: its size; narrow: whether it may start within a word. low: the first byte
  that the first pass reaches, a multiple of a word; span: bytes that each pass reaches; step: how far that moves from pass to pass;
  origin: as an operation's."""
  base: Reg
  bytes: int
  narrow: bool
  low: int
  span: int
  step: int
  origin: Origin = ()

  def chunk(self, passes: int) -> int:
    """Bytes that a slab of so many passes takes in VMEM."""
    return -(-((passes - 1) * self.step + self.span + (WORD - 1) * self.narrow) // WORD) * WORD


@dataclass(frozen=True)
class Cut:
  """Streams through the slabs of a loop. passes: of a slab, a power of two; cycles: what they add to those of the kernel."""
  loop: Loop
  streams: tuple[Stream, ...]
  passes: int
  cycles: float

  @property
  def room(self) -> int:
    """Bytes of VMEM that it takes, for any alignment of lines of 64 words."""
    return sum(2 * s.chunk(self.passes) for s in self.streams)


def outermost(items: list[Inst | Loop]) -> Loop | None:
  """The loop that can be cut into slabs: the only one at the top, counted, and not too deep for the hardware's stack."""
  loops = [x for x in items if isinstance(x, Loop)]
  if len(loops) != 1 or loops[0].count is None or loops[0].counter is None or _height(loops[0]) >= Config.LOOP_DEPTH:
    return None
  return loops[0]


def _height(loop: Loop) -> int:
  return 1 + max([_height(x) for x in loop.body if isinstance(x, Loop)], default=0)


def stream(items: list[Inst | Loop], loop: Loop, base: Reg, size: int, narrow: bool, origin: Origin = ()) -> Stream | None:
  """The window that a buffer of `size` bytes is read through by a loop, if all its accesses are loads in that loop and keep to one."""
  mine = [x for x in walk(items) if x.mem is not None and x.mem.base is base]
  inside = {id(x) for x in walk(loop.body)}
  windows = [_window(x.mem, loop) for x in mine if x.mem is not None]
  if any(x.dst is None or id(x) not in inside for x in mine) or any(w is None for w in windows):
    return None
  known = [w for w in windows if w is not None]
  if len({step for _, _, step in known}) != 1 or (step := known[0][2]) <= 0:
    return None
  low = min(a for a, _, _ in known) // WORD * WORD
  return Stream(base, size, narrow, low, max(b for _, b, _ in known) + 1 - low, step, origin) if low >= 0 else None


def _window(mem: Mem, loop: Loop) -> tuple[int, int, int] | None:
  """First and last byte that an access reaches in the first pass of a loop, and how far they move with each."""
  if mem.reach is None:
    return None
  low, high, step = mem.reach.low, mem.reach.high, 0
  for counter, size, last in mem.reach.steps:
    if counter is loop.counter:
      step += size
    else:
      low, high = low + min(0, size * last), high + max(0, size * last)
  return low, high, step


def choose_cut(loop: Loop, streams: list[Stream], config: Config, body: int, room: int) -> Cut | None:
  """The best slabs for streams that are read together; None if there are none. body: cycles of a pass. room: bytes of VMEM."""
  best: Cut | None = None
  overhead = 12 + 6 * len(streams)
  passes = 1
  while passes * 2 <= loop.trips:
    slabs = -(-loop.trips // passes)
    lines = sum(-(-s.chunk(passes) // config.line_bytes) for s in streams)
    waits = max(0, lines - passes * body - overhead)
    found = Cut(loop, tuple(streams), passes, config.hbm_latency + overhead + lines + slabs * (overhead + waits))
    fits = all(s.step * passes % WORD == 0 and s.chunk(passes) <= (1 + MAX_HALO) * s.step * passes for s in streams)
    if fits and found.room + 2 * len(streams) * config.line_bytes <= room and (best is None or found.cycles < best.cycles):
      best = found
    passes *= 2
  return best


class Slabs:
  """Code of a plan. `at`: first byte of VMEM that is free, a multiple of a line; `one`: a register that holds 1.

  Attributes:
    before: operations that start the first slab, ahead of everything else. locals: by stream, the register that stands for the buffer's
    address in the loop. top: first byte of VMEM behind.
  """

  def __init__(self, plan: Cut, config: Config, at: int, one: Reg):
    self.plan, self.one = plan, one
    self.before: list[Inst] = []
    self.body: list[Inst] = []
    self.locals: dict[Stream, Reg] = {}
    for s in plan.streams:
      size = -(-s.chunk(plan.passes) // config.line_bytes) * config.line_bytes
      self.locals[s] = self._stream(s, at, size)
      at += 2 * size
    self.top = at

  def _put(self, to: list[Inst], name: str, *operands: Reg | int, into: Reg | None = None) -> Reg:
    reg = into if into is not None else Reg("s")
    to.append(inst(name, reg, *(o if isinstance(o, Reg) else o & 0xFFFFFFFF for o in operands)))
    return reg

  def _stream(self, s: Stream, at: int, size: int) -> Reg:
    """Code that loads one stream. In slab k the buffer seems to start `k` steps of a slab before its place in VMEM."""
    put, first, rest_of = self._put, self.before, self.body
    step, chunk = s.step * self.plan.passes, s.chunk(self.plan.passes)
    shift: Reg = put(first, "sand", s.base, WORD - 1) if s.narrow else S0
    source = put(first, "sadd", put(first, "ssub", s.base, shift), s.low)
    left = put(first, "sadd", shift, s.bytes + WORD - 1)
    left = put(first, "sand", left, -WORD)
    left = put(first, "ssub", left, s.low)
    place = put(first, "sadd", S0, at)
    first.append(transfer(place, source, put(first, "smin", left, chunk), self.one, s.origin))
    source, left = put(first, "sadd", source, step), put(first, "ssub", left, step)
    place = put(first, "sadd", place, size)
    local = put(first, "sadd", shift, at - s.low + size + step)
    turn = put(first, "sadd", S0, -size - step)
    amount = put(rest_of, "smax", put(rest_of, "smin", left, chunk), 0)
    rest_of.append(transfer(place, source, amount, self.one, s.origin))
    put(rest_of, "sadd", source, step, into=source)
    put(rest_of, "ssub", left, step, into=left)
    put(rest_of, "sadd", local, turn, into=local)
    put(rest_of, "ssub", -2 * step, turn, into=turn)
    put(rest_of, "ssub", 2 * at + size, place, into=place)
    return local

  def cut(self, items: list[Inst | Loop]) -> Loop:
    """Put slabs in the place of the loop among `items`; returns the loop over them."""
    loop, passes = self.plan.loop, self.plan.passes
    assert loop.count is not None
    control: list[Inst] = []
    slabs = self._put(control, "sshr", self._put(control, "sadd", loop.count, passes - 1), passes.bit_length() - 1)
    left = self._put(control, "sadd", loop.count, 0)
    counter = self._put(control, "sadd", S0, 0)
    count = self._put(self.body, "smin", left, passes)
    self._put(self.body, "ssub", left, passes, into=left)
    inner = Loop(loop.body, count, loop.counter, trips=passes, origin=loop.origin)
    wait = inst("dwaiti", None, len(self.plan.streams), origin=tuple(sorted({n for s in self.plan.streams for n in s.origin})))
    outer = Loop([*self.body, wait, inner], slabs, counter, trips=-(-loop.trips // passes), origin=loop.origin)
    at = next(i for i, x in enumerate(items) if x is loop)
    items[at:at + 1] = [*control, outer]
    return outer


def transfer(vmem: Reg, hbm: Reg, size: Reg, one: Reg, origin: Origin) -> Inst:
  """A DMA operation of one row of `size` bytes to VMEM; `one` holds 1."""
  return Inst(OPS["dmai"], None, [vmem, S0, S0, hbm, S0, S0, size, one, S0], origin=origin)
