"""Traces of launches: what every group waited for, and where the cycles went; the same from both engines, see docs/timing.md."""
from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from typing import Any, TextIO

import numpy as np

from ..isa import stalls
from ..isa.stalls import CAUSES, FIELDS
from ..isa.table import SLOTS

EVENT = np.dtype([(name, "<i8") for name in FIELDS])
"""An event: the fields of `isa.stalls.FIELDS`, 8 bytes each."""
_NAMES = tuple(CAUSES)


@dataclass(frozen=True)
class Launch:
  """One launch.

  Attributes:
    program: byte address of the program in device memory. entry: word index at which it began.
    cycles: that it took.
    causes: cycles by cause, all of `isa.stalls.CAUSES` in order; they sum to `cycles`, also where events were dropped.
    events: the groups in order of issue, and a fault last; an array of `EVENT`.
    dropped: later events that found no room.
  """
  program: int
  entry: int
  cycles: int
  causes: dict[str, int]
  events: np.ndarray
  dropped: int

  def difference(self, other: Launch) -> tuple[str, str, str] | None:
    """The first thing in which two launches' traces differ, with both its values: an event before sums; None if nothing does."""
    shared = min(len(self.events), len(other.events))
    if (at := np.flatnonzero(self.events[:shared] != other.events[:shared])).size:
      a, b = (describe(launch.events[at[0]]) for launch in (self, other))
      first, second = (", ".join(f"{name} {event[name]}" for name in FIELDS if a[name] != b[name]) for event in (a, b))
      return f"event {at[0]}", first, second
    sums = [("events", len(self.events), len(other.events))]
    sums += [(name, getattr(self, name), getattr(other, name)) for name in ("program", "entry", "cycles", "dropped")]
    sums += [(f"cycles of {cause}", self.causes[cause], other.causes[cause]) for cause in CAUSES]
    return next(((what, str(x), str(y)) for what, x, y in sums if x != y), None)


@dataclass(eq=False)
class Trace:
  """What the launches of an engine did, in order (see `machine.open_engine`). An engine adds to it. A launch that an error or an
  interrupt ends is not added; one whose result an interrupt lost may or may not be.

  Attributes:
    capacity: events that are kept, 0 to 2^32, of all launches together; 80 bytes each, and as much again while an engine is open. What
      comes later is dropped and counted.
    most: launches that are kept, from 1. launches: those; dropped: how many came later.
    room: events that still find room.

  Raises:
    ValueError: capacity or most out of range.
  """
  capacity: int = 1 << 20
  most: int = 1 << 16
  launches: list[Launch] = field(default_factory=list, init=False)
  dropped: int = field(default=0, init=False)
  room: int = field(default=0, init=False)

  def __post_init__(self) -> None:
    if not 0 <= self.capacity <= 1 << 32:
      raise ValueError(f"a trace keeps 0 to {1 << 32} events, not {self.capacity}")
    if self.most < 1:
      raise ValueError(f"a trace keeps at least one launch, not {self.most}")
    self.room = self.capacity

  def add(self, program: int, entry: int, cycles: int, causes: np.ndarray, events: np.ndarray, count: int) -> None:
    """Add a launch.

    Args:
      causes: int64, cycles by cause. events: int64 (n, fields), at most `room` rows; count: events that there were.
    """
    if len(self.launches) >= self.most:
      self.dropped += 1
      return
    self.room -= len(events)
    kept = np.ascontiguousarray(events).view(EVENT).reshape(-1)
    self.launches.append(Launch(program, entry, cycles, dict(zip(_NAMES, map(int, causes), strict=True)), kept, count - len(kept)))

  def clear(self) -> None:
    """Forget all launches: there is room again."""
    self.launches.clear()
    self.dropped, self.room = 0, self.capacity

  def follow(self, other: Trace) -> None:
    """Become a copy of `other`, whose launches are shared."""
    self.launches, self.dropped, self.room = list(other.launches), other.dropped, other.room


def describe(event: Any) -> dict[str, Any]:
  """An event with names in place of numbers: kind "group" or "fault", slots as letters, cause by its name, "" where it did not wait."""
  values: dict[str, Any] = {name: int(event[name]) for name in FIELDS}
  values["kind"] = "fault" if values["kind"] == stalls.FAULT else "group"
  values["slots"] = "".join(letter for i, letter in enumerate(SLOTS) if values["slots"] >> i & 1)
  values["cause"] = _NAMES[values["cause"]] if values["wait"] else ""
  return values


def write_json(trace: Trace, file: TextIO) -> None:
  """Write a trace as JSON, an event a line: {"dropped": launches, "launches": [{"program", "entry", "cycles", "causes", "dropped",
  "events": [as `describe`]}]}."""
  file.write(f'{{"dropped": {trace.dropped}, "launches": [')
  for i, launch in enumerate(trace.launches):
    head = {name: getattr(launch, name) for name in ("program", "entry", "cycles", "causes", "dropped")}
    file.write(",\n" * (i > 0) + json.dumps(head)[:-1] + ', "events": [')
    for j, event in enumerate(launch.events):
      file.write(",\n" * (j > 0) + json.dumps(describe(event)))
    file.write("]}")
  file.write("]}\n")


def write_csv(trace: Trace, file: TextIO) -> None:
  """Write a trace's events as CSV, with a heading: the number of the launch, then as `describe`. What was dropped is not told."""
  writer = csv.DictWriter(file, ["launch", *FIELDS], lineterminator="\n")
  writer.writeheader()
  for i, launch in enumerate(trace.launches):
    writer.writerows({"launch": i, **describe(event)} for event in launch.events)
