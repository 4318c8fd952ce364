"""The device's timeline in tinygrad's profiler (PROFILE=1, VIZ=1): simulated time, kernel after kernel, and beside it a lane a unit."""
from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import cached_property

from tinygrad.device import Compiled, ProfileDeviceEvent
from tinygrad.helpers import PROFILE, ProfileRangeEvent, perf_counter_us


class Timeline:
  """Launches of a device, back to back from the moment of the first one on: how long the host took in between is not the machine's time.

  Args: device: name of the device. clock_hz: cycles in a second.
  """

  def __init__(self, device: str, clock_hz: int):
    self.device, self.clock_hz = device, clock_hz
    self.cycles = 0
    self.lanes: set[str] = set()

  def add(self, name: str, cycles: int, profile_key: bytes | None = None, busy: Mapping[str, float] | None = None) -> None:
    """Note a launch of `cycles`, if profiling is on. busy: shares of it for which units were; on a unit's lane it stands as one span, from
    the launch's start on."""
    if not PROFILE:
      return
    start, self.cycles = self.cycles, self.cycles + cycles
    self._span(self.device, name, start, self.cycles, profile_key)
    for unit, share in (busy or {}).items():
      if share:
        self._span(f"{self.device} {unit}", f"{name}: {share:.1%}", start, start + round(share * cycles))

  def _span(self, lane: str, name: str, start: int, stop: int, profile_key: bytes | None = None) -> None:
    if lane not in self.lanes:
      self.lanes.add(lane)
      Compiled.profile_events.append(ProfileDeviceEvent(lane, self.began))
    Compiled.profile_events.append(ProfileRangeEvent(lane, name, self._us(start), self._us(stop), profile_key))

  def _us(self, cycle: int) -> Decimal:
    return Decimal(cycle) * 1_000_000 / self.clock_hz

  @cached_property
  def began(self) -> Decimal:
    """When the first launch was, by the host's clock."""
    return perf_counter_us()
