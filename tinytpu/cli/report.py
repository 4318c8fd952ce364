"""Tables and comparisons of `tinytpu run`."""
from __future__ import annotations

from typing import Any

import numpy as np
from rich.table import Table

from ..config import Config
from .common import say

_CHUNK = 1 << 24


def counter_table(name: str, outcomes: dict[str, Any], config: Config) -> Table:
  """A table with a column per engine: cycles, time, simulation speed, counters. Values: (RunResult, seconds) by engine."""
  table = Table(title=f"{name} on {config.name}", title_justify="left")
  table.add_column("")
  for kind in outcomes:
    table.add_column(kind, justify="right")
  runs = list(outcomes.values())
  table.add_row("cycles", *(f"{result.cycles:,}" for result, _ in runs))
  table.add_row(f"time at {config.clock_hz / 1e9:g} GHz", *(f"{result.cycles / config.clock_hz * 1e6:,.3f} µs" for result, _ in runs))
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


def compare(engines: dict[str, Any], outcomes: dict[str, Any]) -> list[str]:
  """What differs between two engines after a launch, a line for each kind of state; empty if nothing does."""
  (name_a, a), (name_b, b) = engines.items()
  result_a, result_b = outcomes[name_a][0], outcomes[name_b][0]
  lines = []
  for what, x, y in (("cycles", result_a.cycles, result_b.cycles), ("fault", result_a.fault, result_b.fault)):
    if x != y:
      lines.append(f"{what}: {name_a} {x}, {name_b} {y}")
  for counter in sorted(result_a.counters.keys() | result_b.counters.keys()):
    count_a, count_b = result_a.counters.get(counter, 0), result_b.counters.get(counter, 0)
    if count_a != count_b:
      lines.append(f"counter {counter}: {name_a} {count_a}, {name_b} {count_b}")
  state_a, state_b = a.state(), b.state()
  for key in state_a:
    if (at := _first_difference(np.asarray(state_a[key]).reshape(-1), np.asarray(state_b[key]).reshape(-1))) is not None:
      lines.append(f"{key}: first at element {at}")
  if (at := _first_difference(a.hbm, b.hbm)) is not None:
    lines.append(f"device memory: first at address {at:#x}, {name_a} {a.hbm[at]:#x}, {name_b} {b.hbm[at]:#x}")
  return lines


def _first_difference(x: np.ndarray, y: np.ndarray) -> int | None:
  for start in range(0, len(x), _CHUNK):
    if not np.array_equal(x[start:start + _CHUNK], y[start:start + _CHUNK]):
      return start + int(np.flatnonzero(x[start:start + _CHUNK] != y[start:start + _CHUNK])[0])
  return None
