"""What ran on the device: cycles and event counters, per launch and in sum."""
from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass

host_fallbacks = 0
"""Kernels that the host computed instead of the device. There is no such path: it stays 0, and tests assert it."""

SPILL = "spill"
"""Name of launches that move buffers from VMEM to device memory, between those of kernels."""


@dataclass(frozen=True)
class Launch:
  """One launch. cycles: simulated; counters: events by name (isa.counters); seconds: what the engine took, by the host's clock."""
  device: str
  kernel: str
  cycles: int
  counters: dict[str, int]
  seconds: float = 0.0


class Stats:
  """Launches since the last `reset`: the latest of them one by one in `runs`, all of them in the sums."""

  def __init__(self, keep: int = 4096):
    self.runs: deque[Launch] = deque(maxlen=keep)
    self.reset()

  def reset(self) -> None:
    """Forget everything."""
    self.runs.clear()
    self.launches, self.cycles, self.seconds = 0, 0, 0.0
    self.programs = 0
    """Programs put into device memory: kernels that were compiled or came from tinygrad's cache, and graphs that were linked. As long as it
    stays, everything runs by programs that are there."""
    self.counters: Counter[str] = Counter()
    self.kernels: Counter[str] = Counter()
    """Launches by kernel's name."""
    self.compiled, self.loaded = 0, 0
    """Kernels that this process has compiled, and that it has loaded in place of compiling them (`backend/kept.py`)."""

  def add(self, run: Launch) -> None:
    """Record a launch."""
    self.runs.append(run)
    self.launches += 1
    self.cycles += run.cycles
    self.seconds += run.seconds
    self.counters.update(run.counters)
    self.kernels[run.kernel] += 1


stats = Stats()
"""Of all devices of this process."""
