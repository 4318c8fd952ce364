"""Which parts of device memory lie in VMEM, and where: planned by the runtime, launch by launch.

An entry is a range of device memory, whole words, with a place in VMEM. Entries do not overlap, neither here nor there. A *dirty* one holds
what the range in device memory does not hold yet. It gets there (a *spill*) when its place is needed, when the host or a kernel that
works on device memory reads it, and not at all if it is freed or wholly overwritten before: so what kernels hand each other stays on chip.

Ranges, not buffers, are the key, since tinygrad's buffers may be views of one another: whoever touches device memory, be it the host or a
kernel, first says which range, and gets the spills that must come before.
"""
from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from ...asm.link import Spill
from ...asm.program import Access, ArgKind, Buf, Program
from ...config import Config
from ..types import WORD

FILL_SHARE = 0.5
"""Share of a fill's lines that is counted against the launch at hand: the next ones find the buffer in place."""
LAUNCH = 100
"""Cycles of a spill beside its lines, roughly: it is a launch of its own."""


@dataclass(eq=False)
class Entry:
  """Bytes `low` to `high` of device memory, multiples of a word, at byte `at` of VMEM. used: number of the launch that used it last."""
  low: int
  high: int
  at: int
  dirty: bool = False
  used: int = 0

  @property
  def end(self) -> int:
    """The first byte of VMEM behind."""
    return self.at + self.high - self.low

  def spill(self) -> Spill:
    """The transfer that brings device memory up to date."""
    return Spill(self.at, self.low, self.high - self.low)


@dataclass(frozen=True)
class Span:
  """The buffer that a kernel is given: byte address and size. stays: whether it is the same in every run of a batch that is planned
  once."""
  address: int
  size: int
  stays: bool = True

  def words(self, buf: Buf) -> tuple[int, int]:
    """First byte of, and first byte behind, the whole words that hold what the kernel uses."""
    return self.address // WORD * WORD, -(-(self.address + buf.bytes) // WORD) * WORD


class Held(NamedTuple):
  """A buffer's entry, whether it is new, and whether its kernel must fill it."""
  entry: Entry
  fresh: bool
  fill: bool


@dataclass(frozen=True)
class Admission:
  """How to launch a program. direct: its version in device memory. values: of the argument registers that have to do with VMEM, by kind
  and buffer number. spills: to be done before. held: entries of the buffers in VMEM, by number. fresh: those of them that are new."""
  direct: bool
  values: dict[tuple[ArgKind, int], int]
  spills: list[Spill]
  held: dict[int, Entry]
  fresh: list[Entry]


class Snapshot(NamedTuple):
  """A table at one time. entries: with whether they were dirty, and when they were used last."""
  clock: int
  entries: list[tuple[Entry, bool, int]]


class Residency:
  """Contents of one VMEM."""

  def __init__(self, config: Config):
    self.config = config
    self.entries: list[Entry] = []  # by place in device memory
    self.clock = 0

  # -- what others do with device memory -----------------------------------------------------------
  def overlapping(self, low: int, high: int) -> list[Entry]:
    """Entries with bytes between `low` and `high` of device memory."""
    first = bisect_right(self.entries, low, key=lambda e: e.high)
    return self.entries[first:bisect_left(self.entries, high, lo=first, key=lambda e: e.low)]

  def read(self, low: int, high: int) -> list[Spill]:
    """Before a range of device memory is read there: the spills that bring it up to date."""
    spills = []
    for e in self.overlapping(low, high):
      if e.dirty:
        spills.append(e.spill())
        e.dirty = False
    return spills

  def write(self, low: int, high: int, whole: bool = True) -> list[Spill]:
    """Before a range of device memory is written there, or freed: forget what VMEM holds of it. The spills keep what lies beside it, or
    (`whole` is false) all that is not written."""
    spills = []
    for e in self.overlapping(low, high):
      spills += self._drop(e, e.dirty and not (whole and low <= e.low and e.high <= high))
    return spills

  def clear(self, low: int, high: int) -> list[Spill]:
    """Before bytes `low` to `high` of VMEM are used otherwise."""
    return [spill for e in [e for e in self.entries if e.at < high and low < e.end] for spill in self._drop(e, e.dirty)]

  def _drop(self, e: Entry, spill: bool) -> list[Spill]:
    self.entries.remove(e)
    return [e.spill()] if spill else []

  def insert(self, entry: Entry) -> None:
    """Add an entry that overlaps none."""
    insort(self.entries, entry, key=lambda e: e.low)

  # -- what did not happen --------------------------------------------------------------------------
  def snapshot(self) -> Snapshot:
    """The table as it is, to be `restore`d if what follows is interrupted before VMEM changes. (Spills do not change it.)"""
    return Snapshot(self.clock, [(e, e.dirty, e.used) for e in self.entries])

  def restore(self, snapshot: Snapshot) -> None:
    """Make the table what it was."""
    for e, dirty, used in snapshot.entries:
      e.dirty, e.used = dirty, used
    self.clock, self.entries = snapshot.clock, [e for e, _, _ in snapshot.entries]

  # -- launches -------------------------------------------------------------------------------------
  def admit(self, program: Program, spans: Sequence[Span]) -> Admission:
    """Plan a launch: choose the version, find places, note what will be where afterwards.

    Args:
      spans: the buffers, by number.

    Raises:
      RuntimeError: a program of one version takes more buffers in VMEM than fit.
    """
    self.clock += 1
    spills = self.clear(0, program.vmem_bytes)
    placed = [b for b in program.bufs if _has(program, ArgKind.VMEM, b)]
    held: dict[int, Held] | None = None
    if not program.direct or not (_must_be_direct(program, placed, spans) or self._direct_pays(program, placed, spans)):
      held = self._hold(program, placed, spans, spills)
    if held is None and not program.direct:
      raise RuntimeError(f"kernel {program.name} takes more buffers in VMEM than its {self.config.vmem_bytes} bytes hold")
    values: dict[tuple[ArgKind, int], int] = {}
    for b in program.bufs:
      low, high = spans[b.number].words(b)
      if (mine := (held or {}).get(b.number)) is not None:
        values[ArgKind.VMEM, b.number] = mine.entry.at + spans[b.number].address - mine.entry.low
        values[ArgKind.FILL, b.number] = high - low if mine.fill else 0
      elif b.access is not Access.OUT:
        spills += self.read(low, high)
    for b in program.bufs:  # now what is written may be forgotten, even if something that is read overlaps it
      if b.writes and b.number not in (held or {}):
        spills += self.write(*spans[b.number].words(b), whole=not contents_count(b, spans[b.number]))
    entries = {number: h.entry for number, h in (held or {}).items()}
    for b in program.bufs:
      if b.writes and b.number in entries:
        entries[b.number].dirty = True
    return Admission(held is None, values, spills, entries, [h.entry for h in (held or {}).values() if h.fresh])

  def failed(self, admission: Admission) -> None:
    """After a launch that was stopped: forget what it may not have brought in."""
    self.entries = [e for e in self.entries if e not in admission.fresh]

  def _hold(self, program: Program, placed: list[Buf], spans: Sequence[Span], spills: list[Spill]) -> dict[int, Held] | None:
    """Entries for buffers, by number; adds the spills that make room. None, and no new entries, if that cannot be."""
    held: dict[int, Held] = {}
    for b in placed:
      low, high = spans[b.number].words(b)
      over = self.overlapping(low, high)
      entry = next((e for e in over if e.low <= low and high <= e.high), None)
      fresh, fill = entry is None, entry is None and contents_count(b, spans[b.number])
      if entry is None and (entry := self._make(low, high, fill, program.vmem_bytes, held, spills)) is None:
        break
      entry.used = self.clock
      held[b.number] = Held(entry, fresh, fill)
    outside = [spans[b.number].words(b) for b in program.bufs if b.writes and b.number not in held]
    # A buffer that is written in device memory may lie in an entry that holds more than the buffer which needs it.
    if len(held) == len(placed) and not any(h.entry.low < high and low < h.entry.high for h in held.values() for low, high in outside):
      return held
    new = [h.entry for h in held.values() if h.fresh]
    self.entries = [e for e in self.entries if e not in new]
    return None

  def _make(self, low: int, high: int, counts: bool, floor: int, held: Mapping[int, Held], spills: list[Spill]) -> Entry | None:
    """A new entry above `floor`, if there is room. counts: whether what the range holds does."""
    pinned = [h.entry for h in held.values()]
    over = self.overlapping(low, high)
    if any(e in pinned for e in over):
      return None
    for e in over:
      spills += self._drop(e, e.dirty and (counts or e.low < low or e.high > high))
    if (at := self._place(high - low, low, floor, pinned, spills)) is None:
      return None
    entry = Entry(low, high, at)
    self.insert(entry)
    return entry

  def _place(self, size: int, low: int, floor: int, pinned: list[Entry], spills: list[Spill]) -> int | None:
    """A place for `size` bytes above `floor`, as high as possible, in step with lines from `low` on. The entries that were used longest
    ago make way, but none of `pinned`; adds their spills."""
    line = self.config.line_bytes
    if size + sum(e.end - e.at for e in pinned) > self.config.vmem_bytes - floor:
      return None
    while True:
      top = self.config.vmem_bytes
      for end, start in [*((e.end, e.at) for e in sorted(self.entries, key=lambda e: -e.at)), (floor, floor)]:
        at = top - size - (top - size - low) % line
        if at >= max(end, floor):
          return at
        top = start
      others = [e for e in self.entries if e not in pinned]
      if not others:
        return None
      oldest = min(others, key=lambda e: e.used)
      spills += self._drop(oldest, oldest.dirty)

  def _direct_pays(self, program: Program, placed: list[Buf], spans: Sequence[Span]) -> bool:
    """Whether the version in device memory is estimated to be the better one, with what lies in VMEM now."""
    if not placed:
      return False
    line = self.config.line_bytes
    staged, direct = map(float, program.cycles)
    fills = 0
    for b in placed:
      low, high = spans[b.number].words(b)
      over = self.overlapping(low, high)
      if contents_count(b, spans[b.number]) and not any(e.low <= low and high <= e.high for e in over):
        fills += -(-(high - low) // line)
      direct += sum(-(-(e.high - e.low) // line) + LAUNCH for e in over if e.dirty)
    if fills:
      staged += FILL_SHARE * fills + self.config.hbm_latency
    if any(b.writes for b in placed):
      staged -= self.config.hbm_latency  # which the next kernel need not wait for
    return direct < staged


def contents_count(b: Buf, span: Span) -> bool:
  """Whether what a buffer holds before a launch must be there: the kernel does not write all of it, or there is something beside it
  in its first or last word."""
  return b.access is not Access.OUT or span.words(b) != (span.address, span.address + b.bytes)


def _has(program: Program, kind: ArgKind, b: Buf) -> bool:
  return any(a.kind is kind and a.value == b.number for a in program.args)


def _must_be_direct(program: Program, placed: list[Buf], spans: Sequence[Span]) -> bool:
  """Whether buffers do not meet what a program's first version asks of them (`Program`)."""
  for b in program.bufs:
    span = spans[b.number]
    if span.size < b.bytes or b.words and span.address % WORD:
      return True
    if b in placed and (b.writes and not span.stays or contents_count(b, span) and not _has(program, ArgKind.FILL, b)):
      return True
  for a, b in combinations(program.bufs, 2):
    (low, high), (low_b, high_b) = spans[a.number].words(a), spans[b.number].words(b)
    if low < high_b and low_b < high and (a.writes or b.writes or a in placed and b in placed and (low, high) != (low_b, high_b)):
      return True
  return False
