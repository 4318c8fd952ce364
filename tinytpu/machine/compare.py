"""What two engines disagree in after a launch."""
from __future__ import annotations

import numpy as np

from .base import Engine, RunResult

_CHUNK = 1 << 24


def compare(engines: dict[str, Engine], results: dict[str, RunResult], hbm_bytes: int | None = None,
            launches: int = 1) -> list[str]:
  """What differs between two engines after a launch, a line for each kind of state; empty if nothing does.

  Args:
    engines, results: the two engines and what they returned, by name. hbm_bytes: how much of device memory is compared; None: all.
    launches: of engines that trace, how many launches, from the last one back, are compared event by event.
  """
  (name_a, a), (name_b, b) = engines.items()
  result_a, result_b = results[name_a], results[name_b]
  lines = []
  for what, x, y in (("cycles", result_a.cycles, result_b.cycles), ("fault", result_a.fault, result_b.fault)):
    if x != y:
      lines.append(f"{what}: {name_a} {x}, {name_b} {y}")
  for counter in sorted(result_a.counters.keys() | result_b.counters.keys()):
    count_a, count_b = result_a.counters.get(counter, 0), result_b.counters.get(counter, 0)
    if count_a != count_b:
      lines.append(f"counter {counter}: {name_a} {count_a}, {name_b} {count_b}")
  if a.trace is not None and b.trace is not None:
    for launch_a, launch_b in zip(a.trace.launches[-launches:], b.trace.launches[-launches:], strict=True):
      if found := launch_a.difference(launch_b):
        lines.append(f"trace, {found[0]}: {name_a} {found[1]}; {name_b} {found[2]}")
  state_a, state_b = a.state(), b.state()
  for key in state_a:
    if (at := _first_difference(state_a[key].reshape(-1), state_b[key].reshape(-1))) is not None:
      lines.append(f"{key}: first at element {at}")
  if (at := _first_difference(a.hbm[:hbm_bytes], b.hbm[:hbm_bytes])) is not None:
    lines.append(f"device memory: first at address {at:#x}, {name_a} {a.hbm[at]:#x}, {name_b} {b.hbm[at]:#x}")
  return lines


def _first_difference(x: np.ndarray, y: np.ndarray) -> int | None:
  for start in range(0, len(x), _CHUNK):
    if not np.array_equal(x[start:start + _CHUNK], y[start:start + _CHUNK]):
      return start + int(np.flatnonzero(x[start:start + _CHUNK] != y[start:start + _CHUNK])[0])
  return None
