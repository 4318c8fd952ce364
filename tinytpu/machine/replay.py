"""A launch looked at between its groups: it is run again from the start, up to there.

The watchdog is what stops it: a launch with the limit t issues what issues before cycle t, and ends when all of that has had its effect.
So a state is that of program order, also of transfers, and both engines have the same (docs/timing.md, Faults).
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..isa import stalls
from ..isa.faults import Fault
from ..isa.instruction import Instr
from ..isa.table import is_memory, reads, writes
from ..trace import Trace
from ..trace.spans import group_at
from .base import Engine, RunResult

FILES = {"s": "sregs", "v": "vregs", "p": "psums"}
"""Register files as `Engine.state` names them."""


@dataclass(frozen=True)
class Place:
  """What can be watched. kind: "s", "v" or "p", register `at`; or "vmem" or "hbm", `words` of 32 bits from byte address `at` on."""
  kind: str
  at: int
  words: int = 1

  def of(self, engine: Engine) -> np.ndarray:
    """Its contents: uint32; of a vector register or bucket all elements."""
    if self.kind in FILES:
      return np.atleast_1d(engine.state()[FILES[self.kind]][self.at]).copy()
    memory = engine.hbm if self.kind == "hbm" else engine.state()["vmem"]
    return np.frombuffer(memory[self.at:self.at + 4 * self.words].tobytes(), "<u4")

  def written(self, group: Sequence[Instr]) -> bool:
    """Whether a group may write it."""
    if self.kind in FILES:
      return any(access.file == self.kind and getattr(op, access.field) == self.at for op in group for access in writes(op.op))
    transfer = "dmao" if self.kind == "hbm" else "dmai"
    return any(op.op.name == transfer or is_memory(op.op) and op.op.name[0] == self.kind[0] and not writes(op.op) for op in group)


@dataclass(frozen=True)
class Stop:
  """Between two groups. cycle: in which the group at word `pc` issues; after: whether it has."""
  cycle: int
  pc: int
  after: bool = False


class Replay:
  """One launch.

  Args:
    open: opens an engine on which the launch has not been made yet, with memory as it should be, and a trace if there is one.
    launch: makes it, with a limit in cycles.
    words: the program, uint64. limit: of the launch as it is. room: groups of it that can be looked at.
  """

  def __init__(self, open: Callable[[Trace | None], Engine], launch: Callable[[Engine, int], RunResult], words: np.ndarray, limit: int,
               room: int):
    self._open, self._launch, self.words, self.limit, self.room = open, launch, words, limit, room

  @property
  def groups(self) -> np.ndarray:
    """Events of the groups that issue, in order (docs/trace.md); as many as there is room for."""
    return self._traced[0]

  @property
  def dropped(self) -> int:
    """Events of the launch that found no room: its last groups, at which nothing stops."""
    return self._traced[1]

  @cached_property
  def _traced(self) -> tuple[np.ndarray, int]:
    trace = Trace(self.room)
    engine = self._open(trace)
    try:
      self._launch(engine, self.limit)
    finally:
      engine.close()
    events = (launch := trace.launches[0]).events
    return events[(events["kind"] == stalls.GROUP) & (events["pc"] < len(self.words))], launch.dropped

  def group(self, pc: int) -> list[Instr]:
    """The operations of a group."""
    return list(group_at(self.words, pc))

  def breaks(self, pcs: Sequence[int]) -> Iterator[Stop]:
    """Before each group at one of these words."""
    for event in self.groups[np.isin(self.groups["pc"], pcs)]:
      yield Stop(int(event["cycle"]), int(event["pc"]))

  def changes(self, places: Sequence[Place]) -> Iterator[tuple[Stop, dict[Place, tuple[np.ndarray, np.ndarray]]]]:
    """After each group that changes one of these places: what it was before, and is then. Every group that may have is looked at, which
    takes a launch each."""
    with self.before_all() as engine:
      known = {place: place.of(engine) for place in places}
    may = {int(pc): any(place.written(self.group(int(pc))) for place in places) for pc in np.unique(self.groups["pc"])}
    for event in self.groups:
      if not may[int(event["pc"])]:
        continue
      stop = Stop(int(event["cycle"]), int(event["pc"]), True)
      with self.at(stop) as engine:
        now = {place: place.of(engine) for place in places}
      if changed := {p: (known[p], now[p]) for p in places if not np.array_equal(known[p], now[p])}:
        yield stop, changed
      known = now

  @contextmanager
  def before_all(self) -> Iterator[Engine]:
    """The engine before the launch."""
    engine = self._open(None)
    try:
      yield engine
    finally:
      engine.close()

  @contextmanager
  def at(self, stop: Stop) -> Iterator[Engine]:
    """The engine as it is at a stop."""
    with self.before_all() as engine:
      result = self._launch(engine, stop.cycle + stop.after)
      fault = result.fault
      assert fault is None or fault.cause != Fault.WATCHDOG or stop.after or fault.pc == stop.pc, "the launch takes another course"
      yield engine

  def operands(self, engine: Engine, pc: int) -> dict[str, np.ndarray]:
    """The registers that a group reads, by name: uint32; all elements of a vector register or bucket. Predicates are left out."""
    state, found = engine.state(), dict[str, np.ndarray]()
    for op in self.group(pc):
      for access in reads(op.op, op.bkind, bool(op.masked)):
        number = getattr(op, access.field)
        if access.file in FILES and (access.file, number) != ("s", 0):
          found[f"{access.file}{number}"] = np.atleast_1d(state[FILES[access.file]][number])
    return found
