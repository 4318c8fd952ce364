"""Tables of `tinytpu run`."""
from __future__ import annotations

from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from ..config import Config
from ..isa.stalls import CAUSES
from ..trace import Launch
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


def cause_table(launches: dict[str, Launch]) -> Table:
  """Where the cycles of a launch went, by engine: cycles and share of each cause, the largest first; causes without any are left out."""
  table = Table(title="where the cycles went", title_justify="left")
  table.add_column("cause")
  for kind in launches:
    table.add_column(kind, justify="right")
    table.add_column("share", justify="right")
  table.add_column("what")
  first = next(iter(launches.values()))
  for cause in sorted(CAUSES, key=lambda name: -first.causes[name]):
    if any(launch.causes[cause] for launch in launches.values()):
      cells = [cell for launch in launches.values()
               for cell in (f"{launch.causes[cause]:,}", f"{launch.causes[cause] / launch.cycles:.1%}")]
      table.add_row(cause, *cells, Text(CAUSES[cause].replace("`", "")))
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
