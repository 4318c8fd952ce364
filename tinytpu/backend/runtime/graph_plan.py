"""VMEM in a batch of kernels that is planned once and run many times: what the kernels hand each other stays there, and what a run leaves
there the next one finds.

The plan is made by a `Residency` of its own, call by call, as if nothing were in VMEM. Before a run, the device's `Residency` makes
way for it: what is in the plan's way goes to device memory, but for what the batch overwrites unread, and for what lies just where the
plan would bring it. Afterwards it holds what the plan holds at its end.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...asm.link import Spill
from ...asm.program import ArgKind, Program
from ...config import Config
from .heap import ALIGN
from .vmem_cache import Admission, Entry, Residency, Span, contents_count

INPUTS = 1 << 40
"""Addresses that stand for buffers which change from run to run: input n lies at (n + 1) times this, plus an offset below ALIGN, which
must be the same in every run."""


def stand_in(number: int, address: int, size: int) -> Span:
  """What stands for input `number` in the plan. address, size: of the first run."""
  return Span(INPUTS * (number + 1) + address % ALIGN, size, stays=False)


@dataclass(frozen=True)
class First:
  """An entry that a call fills unless it is there before the run: number of the call, argument register that says so."""
  call: int
  register: int
  entry: Entry


@dataclass(frozen=True)
class Preparation:
  """What a run needs. spills: to be done before. fills: (call, register) to bytes. kept: entries of the device's Residency that the
  plan takes over, by entry of the plan."""
  spills: list[Spill]
  fills: dict[tuple[int, int], int]
  kept: dict[Entry, Entry]


class Batch:
  """The plan. Args: calls: programs and their buffers, `stand_in`s for those that change.

  Attributes:
    admissions: how each call is launched. firsts: fills that may be left out.
  """

  def __init__(self, config: Config, calls: Sequence[tuple[Program, Sequence[Span]]]):
    self.admissions: list[Admission] = []
    self.firsts: list[First] = []
    self._ranges: list[tuple[int, int]] = []  # of device memory, that calls use, in their order
    self._unread: list[tuple[int, int]] = []  # those that are overwritten before they are read
    self._direct: list[tuple[int, int]] = []  # those that a call reaches in device memory
    self._places = [(0, max(program.vmem_bytes for program, _ in calls))]  # of VMEM, that are used
    plan = Residency(config)
    for number, (program, spans) in enumerate(calls):
      self._add(number, program, plan.admit(program, spans), spans)
    self._last = plan.entries

  def _add(self, number: int, program: Program, admission: Admission, spans: Sequence[Span]) -> None:
    self.admissions.append(admission)
    registers = {a.value: a.register for a in program.args if a.kind is ArgKind.FILL}
    mine = {b.number: spans[b.number].words(b) for b in program.bufs}
    for b in program.bufs:
      low, high = mine[b.number]
      if _meets((low, high), self._ranges):
        continue
      read = [mine[other.number] for other in program.bufs if contents_count(other, spans[other.number])]
      if not contents_count(b, spans[b.number]) and not _meets((low, high), read):
        self._unread.append((low, high))
      entry = admission.held.get(b.number)
      if entry is not None and admission.values[ArgKind.FILL, b.number] and not _meets((entry.at, entry.end), self._places):
        self.firsts.append(First(number, registers[b.number], entry))
    self._ranges += mine.values()
    self._direct += [r for n, r in mine.items() if n not in admission.held]
    self._places += [(entry.at, entry.end) for entry in admission.held.values()]

  def _moved(self, low: int, high: int, inputs: Mapping[int, int]) -> tuple[int, int]:
    """Where a range of the plan lies in a run."""
    by = inputs[low // INPUTS - 1] - low // INPUTS * INPUTS if low >= INPUTS else 0
    return low + by, high + by

  def fits(self, inputs: Mapping[int, int]) -> bool:
    """Whether a run may follow the plan: no input may overlap another one, or a buffer that stays.

    Args:
      inputs: by number, how far an input's address is above its offset in the plan: a multiple of ALIGN.
    """
    taken = [r for r in self._ranges if r[0] < INPUTS]
    for number in inputs:
      mine = {self._moved(*r, inputs) for r in self._ranges if r[0] // INPUTS == number + 1}
      if any(_meets(r, taken) for r in mine):
        return False
      taken += mine
    return True

  def prepare(self, residency: Residency, inputs: Mapping[int, int]) -> Preparation:
    """Make way for a run in the device's Residency."""
    ranges = {self._moved(*r, inputs) for r in self._ranges}
    firsts = {(*self._moved(f.entry.low, f.entry.high, inputs), f.entry.at): f for f in self.firsts}
    run = Preparation([], {}, {})
    for e in list(residency.entries):
      if (first := firsts.get((e.low, e.high, e.at))) is not None:
        reached = _meets((first.entry.low, first.entry.high), self._direct)
        if e.dirty and (reached or first.entry not in self._last):  # the plan takes it to be clean, and so to need no spill
          run.spills.append(e.spill())
          e.dirty = False
        run.kept[first.entry] = e
      elif _meets((e.low, e.high), ranges) or _meets((e.at, e.end), self._places):
        dead = any(low <= e.low and e.high <= high for low, high in self._unread)
        if e.dirty and not dead:
          run.spills.append(e.spill())
        residency.entries.remove(e)
    for f in self.firsts:
      run.fills[f.call, f.register] = 0 if f.entry in run.kept else f.entry.high - f.entry.low
    return run

  def finish(self, residency: Residency, inputs: Mapping[int, int], run: Preparation, failed: bool = False) -> None:
    """Note what a run leaves in VMEM. failed: it was stopped somewhere, so that only what was there before is sure to be there still."""
    residency.clock += 1
    now: dict[tuple[int, int, int], Entry] = {}
    for e in self._last if not failed else [e for e in self._last if e in run.kept]:
      low, high = self._moved(e.low, e.high, inputs)
      dirty = e.dirty or e in run.kept and run.kept[e].dirty
      now[low, high, e.at] = Entry(low, high, e.at, dirty, residency.clock)
    others = [e for e in residency.entries if e not in run.kept.values() and (e.low, e.high, e.at) not in now]
    residency.entries = sorted([*others, *now.values()], key=lambda e: e.low)  # at once, and the same if it is done again


def _meets(one: tuple[int, int], others: Sequence[tuple[int, int]] | set[tuple[int, int]]) -> bool:
  return any(one[0] < high and low < one[1] for low, high in others)
