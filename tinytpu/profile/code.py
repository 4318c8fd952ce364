"""One piece of code that was launched, and what its groups did, word by word."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..asm.origins import Origins
from ..config import Config
from ..isa import stalls, timing
from ..isa.counters import COUNTERS
from ..isa.stalls import CAUSES, NUMBER
from ..isa.table import is_memory
from ..trace import SPAN_UNITS, Launch
from ..trace.spans import UNIT_OF, group_at

_NAMES = tuple(CAUSES)
DIRECT, DMA_IN, DMA_OUT = (SPAN_UNITS.index(name) for name in ("hbm", "dma_in", "dma_out"))
_VMEM, _FETCH = SPAN_UNITS.index("vmem"), SPAN_UNITS.index("fetch")


class Code:
  """The words of a launched program, and sums of the events of its groups.

  Attributes:
    words: uint64. config: of the machine. parts: for each kernel in it the word from which on it lies, ascending from 0, and its name.
    origins: where its operations come from, if that is known.
    issued, fetch: by word at which a group begins: times that it issued, cycles before in which it was not present. int64.
    waits: by cause, cycles that it was present and waited; int64 by word. Causes that no group had are left out.
  """

  def __init__(self, words: np.ndarray, config: Config, parts: Sequence[tuple[int, str]], origins: Origins | None = None):
    self.words, self.config, self.parts, self.origins = words, config, tuple(parts), origins
    n = len(words)
    self.issued, self.fetch = np.zeros(n, np.int64), np.zeros(n, np.int64)
    self.waits: dict[str, np.ndarray] = {}
    self._decoded = np.zeros(n, bool)
    self._busy: dict[int, np.ndarray] = {}  # by unit, cycles for which a group keeps it busy that do not depend on data
    self._counts: dict[str, np.ndarray] = {}  # by counter, how often a group counts
    self._port = np.zeros(n, np.int64)  # HBM port that the group's lines go through, a number of a unit; 0: none
    self._shared = np.zeros(n, bool)  # the store's first cycle in VMEM is the load's last

  @property
  def cycles(self) -> np.ndarray:
    """By word at which a group begins, all its cycles; int64."""
    return self.issued + self.fetch + sum(self.waits.values())

  def size(self, pc: int) -> int:
    """Operations of the group that begins at a word."""
    return sum(1 for _ in group_at(self.words, pc))

  def _decode(self, pcs: np.ndarray) -> None:
    for pc in map(int, pcs[~self._decoded[pcs]]):
      ops = [op.op for op in group_at(self.words, pc)]
      for op in ops:
        if op.slot:
          self._add(self._counts, f"slot_{op.slot}", pc, 1)
        if op.timing == "DIV":
          self._add(self._counts, "div_ops", pc, 1)
        if op.timing in timing.STEPS:
          self._add(self._counts, "mxu_steps", pc, 1)
        if op.slot in ("", "C"):
          continue
        if unit := UNIT_OF.get(op.timing):
          self._add(self._busy, SPAN_UNITS.index(unit), pc, timing.interval(self.config, op.timing))
        elif op.name[:3] in ("hld", "hst"):
          self._port[pc] = DIRECT
        elif op.name in ("dmai", "dmao"):
          self._port[pc] = DMA_IN if op.name == "dmai" else DMA_OUT
      vmem = [op.name[:3] for op in ops if is_memory(op) and op.name[0] == "v"]
      self._shared[pc] = "vld" in vmem and "vst" in vmem
      self._decoded[pc] = True

  def _add(self, table: dict, key: str | int, pc: int, value: int) -> None:
    table.setdefault(key, np.zeros(len(self.words), np.int64))[pc] += value

  def add(self, launch: Launch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Add the events of a launch.

    Returns:
      for each of `parts` its cycles by cause (of issue, fetch and waiting; int64, a row each), its counters, and busy cycles by unit of
      `trace.SPAN_UNITS`. Events that the trace dropped are in none of them.

    Raises:
      ValueError: a group that issued lies outside of the words.
    """
    n = len(self.words)
    events = launch.events
    groups = events[events["kind"] == stalls.GROUP]
    self._decode(np.unique(groups["pc"]))
    events = events[events["pc"] < n]  # a fault may lie behind the program

    def by_word(at: np.ndarray, cycles: np.ndarray | None = None) -> np.ndarray:
      return np.bincount(at, cycles, n).astype(np.int64)

    issued, fetch = by_word(groups["pc"]), by_word(events["pc"], events["fetch"])
    waits = {}
    for number in np.unique(events["cause"][events["wait"] > 0]):
      mine = events[events["cause"] == number]
      waits[_NAMES[number]] = by_word(mine["pc"], mine["wait"])
    self.issued += issued
    self.fetch += fetch
    for cause, cycles in waits.items():
      self.waits[cause] = self.waits.get(cause, 0) + cycles

    causes = np.zeros((len(self.parts), len(CAUSES)), np.int64)
    counters = np.zeros((len(self.parts), len(COUNTERS)), np.int64)
    units = np.zeros((len(self.parts), len(SPAN_UNITS)), np.int64)
    starts = [start for start, _ in self.parts]

    def put(table: np.ndarray, column: int, words: np.ndarray) -> None:
      table[:, column] += np.add.reduceat(words, starts)

    put(causes, NUMBER["issue"], issued)
    put(causes, NUMBER["fetch"], fetch)
    for cause, cycles in waits.items():
      put(causes, NUMBER[cause], cycles)
    put(counters, COUNTERS.index("groups"), issued)
    put(counters, COUNTERS.index("refills"), by_word(events["pc"][events["fetch"] > 0]))
    for counter, each in self._counts.items():
      put(counters, COUNTERS.index(counter), issued * each)
    for unit, each in self._busy.items():
      put(units, unit, issued * each)
    put(units, _FETCH, fetch)
    vmem = groups["vmem"]
    put(counters, COUNTERS.index("vmem_cycles"), by_word(groups["pc"], vmem))
    put(units, _VMEM, by_word(groups["pc"], vmem - (self._shared[groups["pc"]] & (vmem > 0))))
    port = self._port[groups["pc"]]
    for unit in (DIRECT, DMA_IN, DMA_OUT):
      mine = groups[port == unit]
      put(counters, COUNTERS.index("hbm_lines" if unit == DIRECT else "dma_lines"), by_word(mine["pc"], mine["lines"]))
      if unit != DIRECT:
        mine = mine[mine["end"] > 0]  # others faulted
      elif len(launch.events) > len(groups) and len(mine) and self._failed(launch):
        mine = mine[mine["cycle"] < launch.events[-1]["cycle"] - 1]
      put(units, unit, by_word(mine["pc"], np.maximum(mine["lines"], 1)))
    return causes, counters, units

  @staticmethod
  def _failed(launch: Launch) -> bool:
    """Whether the last group's own access is the fault that ended the launch, before it moved a line."""
    if len(launch.events) < 2:
      return False
    group, fault = launch.events[-2], launch.events[-1]
    return bool(group["pc"] == fault["pc"] and group["cycle"] + 1 == fault["cycle"] and group["lines"] == 0)
