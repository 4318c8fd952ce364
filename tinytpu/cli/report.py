"""Tables of `tinytpu run`."""
from __future__ import annotations

from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from ..config import Config
from .common import console, say


def counter_table(name: str, outcomes: dict[str, Any], config: Config) -> Table:
  """A table with a column per engine: cycles, time, simulation speed, counters. Values: (RunResult, seconds) by engine."""
  table = Table(title=Text(f"{name} on {config.name}"), title_justify="left")  # a name is no markup
  micro = "us" if console.options.ascii_only else "µs"
  table.add_column("")
  for kind in outcomes:
    table.add_column(kind, justify="right")
  runs = list(outcomes.values())
  table.add_row("cycles", *(f"{result.cycles:,}" for result, _ in runs))
  table.add_row(f"time at {config.clock_hz / 1e9:g} GHz", *(f"{result.cycles / config.clock_hz * 1e6:,.3f} {micro}" for result, _ in runs))
  table.add_row("simulated cycles/s", *(f"{result.cycles / max(seconds, 1e-9):,.0f}" for result, seconds in runs), end_section=True)
  for counter in runs[0][0].counters:
    if any(result.counters.get(counter) for result, _ in runs):
      table.add_row(counter, *(f"{result.counters.get(counter, 0):,}" for result, _ in runs))
  return table


def print_registers(state: dict[str, np.ndarray]) -> None:
  """Print the scalar registers, vector registers and PSUM buckets of an engine's state that are not zero."""
  scalars = np.asarray(state["sregs"])
  for number in np.flatnonzero(scalars):
    say(f"s{number:<3} {int(scalars[number]):#010x}  {int(scalars[number].astype(np.int32))}")
  for letter, key in (("v", "vregs"), ("p", "psums")):
    for index, tile in enumerate(np.asarray(state[key])):
      if tile.any():
        say(f"{letter}{index:<3} {' '.join(f'{int(word):08x}' for word in tile.reshape(-1))}")
