"""The device's timeline in tinygrad's profiler (PROFILE=1, VIZ=1): simulated time, kernel after kernel."""
from __future__ import annotations

from decimal import Decimal

from tinygrad.device import Compiled, ProfileDeviceEvent
from tinygrad.helpers import PROFILE, ProfileRangeEvent, perf_counter_us


class Timeline:
  """Launches of a device, back to back from the moment of the first one on: how long the host took in between is not the machine's time.

  Args: device: name of the device. clock_hz: cycles in a second.
  """

  def __init__(self, device: str, clock_hz: int):
    self.device, self.clock_hz = device, clock_hz
    self.cycles = 0

  def add(self, name: str, cycles: int, profile_key: bytes | None = None) -> None:
    """Note a launch of `cycles`, if profiling is on."""
    if not PROFILE:
      return
    if self.cycles == 0:
      Compiled.profile_events.append(ProfileDeviceEvent(self.device, perf_counter_us()))
    start, self.cycles = self.cycles, self.cycles + cycles
    Compiled.profile_events.append(ProfileRangeEvent(self.device, name, self._us(start), self._us(self.cycles), profile_key))

  def _us(self, cycle: int) -> Decimal:
    return Decimal(cycle) * 1_000_000 / self.clock_hz
