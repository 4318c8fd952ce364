"""When each unit was busy, from a launch's events and its program: what docs/timing.md says of units, applied to them."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..config import Config
from ..isa import stalls, timing
from ..isa.instruction import Instr, decode
from ..isa.table import is_memory
from .events import Launch

_PIPELINED = {"scalar_alu": ("SCALAR", "SMUL"), "psum": ("PPOP", "PPUSH", "PCLR")}
"""Units that take an operation in every cycle, by the classes that they serve."""
UNIT_OF = {name: unit for units in (timing.UNITS, _PIPELINED) for unit, classes in units.items() for name in classes}
"""By latency class, the unit that serves it."""
SPAN_UNITS = (*timing.UNITS, *_PIPELINED, "vmem", "hbm", "dma_in", "dma_out", "fetch")
"""Units that have spans."""
SPAN = np.dtype([("unit", "<i8"), ("start", "<i8"), ("stop", "<i8"), ("event", "<i8")])
"""A span: number of the unit in `SPAN_UNITS`; first cycle, and the one behind the last; number of the event of its group."""


def spans(launch: Launch, words: np.ndarray, config: Config) -> np.ndarray:
  """The busy spans of all units, unit by unit and in order; those of one unit never overlap.

  A span begins in the cycle in which the group issues, and ends before the first in which another operation of the unit could. Of
  `dma_in` and `dma_out` it is the cycles in which lines are requested; of `fetch` those in which the group was not present.

  Args:
    launch: the events that it kept are looked at. words: its program, uint64, as it was in the instruction buffer. config: of its machine.

  Returns:
    Array of `SPAN`.

  Raises:
    ValueError: an event lies outside of `words`.
    isa.instruction.DecodeError: a word there is no instruction: it is another program.
  """
  events = launch.events
  found: list[tuple[str, np.ndarray, np.ndarray, np.ndarray]] = []  # unit, start, stop, event
  numbers = np.flatnonzero(events["fetch"] > 0)
  begin = (events["cycle"] - events["wait"] - events["fetch"])[numbers]
  found.append(("fetch", begin, begin + events["fetch"][numbers], numbers))

  issued = events["kind"] == stalls.GROUP
  faulted = np.zeros(len(events), bool)  # the group's memory operation has faulted: a fault of the same group, a cycle later
  faulted[:-1] = ~issued[1:] & (events["pc"][1:] == events["pc"][:-1]) & (events["cycle"][1:] == events["cycle"][:-1] + 1)
  for pc in np.unique(events["pc"][issued]):
    at = np.flatnonzero(issued & (events["pc"] == pc))
    cycle = events["cycle"][at]
    ops = [op for op in group_at(words, int(pc)) if op.op.slot not in ("", "C")]
    for op in ops:
      unit = UNIT_OF.get(op.op.timing)
      if unit:
        found.append((unit, cycle, cycle + timing.interval(config, op.op.timing), at))
      elif op.op.name[:3] in ("hld", "hst"):
        real = at[~faulted[at] | (events["lines"][at] > 0)]
        found.append(("hbm", events["cycle"][real], events["cycle"][real] + np.maximum(events["lines"][real], 1), real))
      elif op.op.name in ("dmai", "dmao"):
        real = at[events["end"][at] > 0]
        last = events["end"][real] - (config.hbm_latency + 1 if op.op.name == "dmai" else 2)
        found.append(("dma_in" if op.op.name == "dmai" else "dma_out", last - np.maximum(events["lines"][real], 1), last, real))
    if any(is_memory(op.op) and op.op.name[0] == "v" for op in ops):
      real = at[events["vmem"][at] > 0]
      # The store's first cycle is the load's last.
      shared = all(any(op.op.name.startswith(name) for op in ops) for name in ("vld", "vst")) & ~faulted[real]
      found.append(("vmem", events["cycle"][real], events["cycle"][real] + events["vmem"][real] - shared, real))
  result = np.zeros(sum(len(numbers) for *_, numbers in found), SPAN)
  place = 0
  for unit, start, stop, numbers in found:
    part = result[place:place + len(numbers)]
    part["unit"], part["start"], part["stop"], part["event"] = SPAN_UNITS.index(unit), start, stop, numbers
    place += len(numbers)
  return result[np.lexsort((result["start"], result["unit"]))]


def group_at(words: np.ndarray, pc: int) -> Iterator[Instr]:
  """The operations of the group that begins at word `pc`.

  Raises:
    ValueError: the group goes on behind the program. isa.instruction.DecodeError: a word is no instruction.
  """
  chain = True
  while chain:
    if pc >= len(words):
      raise ValueError(f"the trace has a group at word {pc}, the program {len(words)} words: it is another one")
    op, chain = decode(int(words[pc]))
    pc += 1
    yield op
