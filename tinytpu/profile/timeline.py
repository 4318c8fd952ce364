"""When kernels ran, units were busy and groups waited: of the first launches, as many as there is room for."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..asm.disassembler import group_at
from ..isa.stalls import CAUSES
from ..trace import SPAN_UNITS, Launch, spans
from .code import Code

STAYS = 20_000
"""Ranges in VMEM that are kept."""
LANES = (*SPAN_UNITS, *CAUSES)
"""What spans are of: a unit that was busy, or a cause for which a group waited."""
LANE_SPAN = np.dtype([("lane", "<i8"), ("start", "<i8"), ("stop", "<i8"), ("pc", "<i8")])
"""Number in `LANES`; first cycle, and the one behind the last, on the device's clock; word of the group."""


class Piece(NamedTuple):
  """A kernel that ran, or a batch of them (then its kernels follow, `inner`). start, stop: cycles of its device's clock, which runs in
  launches only."""
  device: str
  name: str
  start: int
  stop: int
  inner: bool = False


class Stay(NamedTuple):
  """A range of device memory that lay in VMEM. at, end: bytes there; low: its first byte in device memory; start, stop: as a piece's."""
  device: str
  at: int
  end: int
  low: int
  start: int
  stop: int


@dataclass
class Timeline:
  """The first launches.

  Attributes:
    most: pieces that are kept. room: spans that are kept.
    pieces: what ran. spans: of every launch that found room its device, code, and spans (`LANE_SPAN`).
    launches: how many of them found room. cut: whether something did not, of pieces or spans.
    loads: of every launch whose spans found none, or not all: its device, first cycle, the one behind its last, and the cycles for which it
    kept each unit busy. At most as many as pieces.
    busy: cycles that each unit was busy in the spans that are kept.
    now: the clock of each device, cycles.
    stays: what has lain in VMEM and does not any more; at most `STAYS`. See `held`.
  """
  most: int = 20_000
  room: int = 400_000
  pieces: list[Piece] = field(default_factory=list)
  spans: list[tuple[str, Code, np.ndarray]] = field(default_factory=list)
  loads: list[tuple[str, int, int, np.ndarray]] = field(default_factory=list)
  launches: int = 0
  cut: bool = False
  now: dict[str, int] = field(default_factory=dict)
  stays: list[Stay] = field(default_factory=list)
  _there: dict[str, dict[tuple[int, int, int], int]] = field(default_factory=dict)  # of each device: (at, end, low), since when

  def add(self, device: str, name: str, code: Code, launch: Launch, units: np.ndarray) -> None:
    """Add a launch that follows those before on its device. units: cycles for which it kept each busy."""
    start = self.now.get(device, 0)
    self.now[device] = start + launch.cycles
    pieces = [Piece(device, name, start, start + launch.cycles), *_kernels(device, code, launch, start)]
    if self.most < len(pieces):
      self.most, self.cut = 0, True
    self.pieces += pieces[:self.most]
    self.most -= len(pieces[:self.most])
    if not self.room:
      self.cut = True
      self._load(device, start, launch, units)
      return
    found = _lanes(code, launch, start)
    if launch.dropped or len(found) > self.room:
      self.cut = True
      self._load(device, start, launch, units)
      found = found[np.argsort(found["start"], kind="stable")][:self.room] if not self.launches else found[:0]
      self.room = len(found)
    self.launches += bool(len(found))
    self.room = 0 if self.cut else self.room - len(found)
    self.spans.append((device, code, found))

  def hold(self, device: str, ranges: Iterable[tuple[int, int, int]]) -> None:
    """Note what a device's VMEM holds from now on: (at, end, low) of each range. Between the kernels of a batch nobody looks."""
    now, there = self.now.get(device, 0), self._there.setdefault(device, {})
    ranges = set(ranges)
    for gone in there.keys() - ranges:
      since = there.pop(gone)
      if len(self.stays) < STAYS:
        self.stays.append(Stay(device, *gone, since, now))
    for come in ranges - there.keys():
      there[come] = now

  @property
  def held(self) -> list[Stay]:
    """All that has lain in VMEM, also what still does, in the order of time; as far as it found room."""
    still = (Stay(device, *place, since, self.now.get(device, 0)) for device, there in self._there.items()
             for place, since in there.items())
    return sorted((stay for stay in (*self.stays, *still) if stay.stop > stay.start), key=lambda stay: stay.start)

  def _load(self, device: str, start: int, launch: Launch, units: np.ndarray) -> None:
    if self.most:
      self.loads.append((device, start, start + launch.cycles, units))

  @property
  def busy(self) -> dict[str, int]:
    cycles = np.zeros(len(LANES), np.int64)
    for _, _, found in self.spans:
      np.add.at(cycles, found["lane"], found["stop"] - found["start"])
    return {unit: int(n) for unit, n in zip(SPAN_UNITS, cycles, strict=False)}


class Texts:
  """Assembly text of groups, each made once."""

  def __init__(self) -> None:
    self._known: dict[tuple[int, int], str] = {}

  def __call__(self, code: Code, pc: int) -> str:
    key = id(code), pc
    if key not in self._known:
      self._known[key] = group_at(code.words, pc)
    return self._known[key]


def _kernels(device: str, code: Code, launch: Launch, start: int) -> list[Piece]:
  """The kernels of a batch, each from its first group on to the next one's."""
  events = launch.events
  if len(code.parts) < 2 or not len(events):
    return []
  part = np.searchsorted([begin for begin, _ in code.parts], events["pc"], "right") - 1
  numbers, first = np.unique(part, return_index=True)
  begins = (events["cycle"] - events["wait"] - events["fetch"])[first]
  stops = [*begins[1:], launch.cycles]
  return [Piece(device, code.parts[i][1], start + int(a), start + int(b), True) for i, a, b in zip(numbers, begins, stops, strict=True)]


def _lanes(code: Code, launch: Launch, start: int) -> np.ndarray:
  """Spans of a launch's units and waits."""
  events = launch.events
  units = spans(launch, code.words, code.config)
  waits = events[events["wait"] > 0]
  found = np.zeros(len(units) + len(waits), LANE_SPAN)
  busy, waited = found[:len(units)], found[len(units):]
  busy["lane"], busy["start"], busy["stop"], busy["pc"] = units["unit"], units["start"], units["stop"], events["pc"][units["event"]]
  waited["lane"], waited["start"], waited["stop"] = len(SPAN_UNITS) + waits["cause"], waits["cycle"] - waits["wait"], waits["cycle"]
  waited["pc"] = waits["pc"]
  found["start"] += start
  found["stop"] += start
  return found
