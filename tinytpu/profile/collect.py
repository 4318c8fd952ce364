"""Gathers what the device does in this process, launch by launch, and writes it all to a folder when the process ends."""
from __future__ import annotations

import hashlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import numpy as np

from ..asm.origins import Origins
from ..backend.runtime import watch
from ..backend.runtime.stats import SPILL
from ..config import Config
from ..isa.counters import COUNTERS
from ..isa.stalls import CAUSES, DRAINS, NUMBER
from ..machine import RunResult
from ..trace import SPAN_UNITS, Launch, Trace
from .code import Code
from .timeline import Timeline

if TYPE_CHECKING:
  from ..backend.device import TinyTPUDevice

EVENTS = 1 << 21
"""Events of one launch that are looked at; of those that come later only the sums are known."""
SAY_EVERY = 2.0
"""Seconds between two lines of progress."""
NEEDED = ("plotly", "perfetto")
"""Packages that the extra `profile` brings."""


@dataclass
class Tally:
  """What all launches of a kernel did together. kind: "kernel", "spill" or "batch" (of kernels, what belongs to none of them).
  causes, counters, units: int64, in the order of `isa.stalls.CAUSES`, `isa.counters.COUNTERS`, `trace.SPAN_UNITS`.
  codes: its code, and which part of it, by the code's number."""
  name: str
  kind: str = "kernel"
  launches: int = 0
  faults: int = 0
  causes: np.ndarray = field(default_factory=lambda: np.zeros(len(CAUSES), np.int64))
  counters: np.ndarray = field(default_factory=lambda: np.zeros(len(COUNTERS), np.int64))
  units: np.ndarray = field(default_factory=lambda: np.zeros(len(SPAN_UNITS), np.int64))
  codes: dict[tuple[int, int], tuple[Code, int]] = field(default_factory=dict)

  @property
  def cycles(self) -> int:
    """Cycles of all its launches."""
    return int(self.causes.sum())

  def add(self, causes: np.ndarray, counters: np.ndarray, units: np.ndarray) -> None:
    """Add sums."""
    self.causes += causes
    self.counters += counters
    self.units += units


class Collector:
  """A `watch.Watcher` that keeps sums of all launches, and a timeline of the first.

  Attributes:
    config: of the devices, once there is one. engine: what they run on. launches, faults, kept, dropped: launches, those that faulted;
    events that were looked at, and those that found no room.
    tallies: by name, in order of the first launch. timeline: see there.

  Args:
    progress: told now and then how far it is.
    events: see `EVENTS`.
  """

  def __init__(self, progress: Callable[[str], None] | None = None, events: int = EVENTS, timeline: Timeline | None = None):
    self.config: Config | None = None
    self.engine = ""
    self.launches = self.faults = self.kept = self.dropped = self.cycles = 0
    self.tallies: dict[tuple[str, str], Tally] = {}
    self.timeline = timeline if timeline is not None else Timeline()
    self._codes: dict[tuple[bytes, tuple[tuple[int, str], ...], int], Code] = {}
    self._lock = threading.Lock()
    self._progress, self._events, self._said = progress, events, time.monotonic()

  def opened(self, device: TinyTPUDevice) -> None:
    """Trace a device."""
    device.trace = Trace(self._events)
    self.config, self.engine = device.config, device.kind

  def launched(self, device: TinyTPUDevice, name: str, address: int, result: RunResult, parts: Sequence[tuple[int, str]]) -> None:
    """Add a launch, and forget its events."""
    assert device.trace is not None
    with self._lock, undisturbed():
      launch = device.trace.launches[-1]
      device.trace.clear()
      self.timeline.hold(device.device, ((e.at, e.end, e.low) for e in device.residency.entries))
      self.add(device.device, name, device.code(address), device.config, launch, result, parts, device.origins(address))

  def add(self, device: str, name: str, words: np.ndarray, config: Config, launch: Launch, result: RunResult,
          parts: Sequence[tuple[int, str]] = (), origins: Origins | None = None) -> None:
    """Add a launch. Arguments as of `watch.Watcher`, with the code's words, where they come from, and the trace's launch."""
    parts = tuple(parts) or ((0, name),)
    key = hashlib.sha256(words.tobytes()).digest(), parts, id(origins)
    code = self._codes.get(key) or self._codes.setdefault(key, Code(words, config, parts, origins))
    causes, counters, units = code.add(launch)
    self.launches += 1
    self.cycles += launch.cycles
    self.faults += result.fault is not None
    self.kept += len(launch.events)
    self.dropped += launch.dropped
    all_causes, all_counters = (np.array(list(sums.values()), np.int64) for sums in (launch.causes, result.counters))
    if len(parts) == 1:
      causes[0], counters[0] = all_causes, all_counters
    else:  # the first kernel is launched, the last one ends the launch
      causes[0, NUMBER["launch"]] += all_causes[NUMBER["launch"]]
      last = int(np.flatnonzero(counters.any(axis=1))[-1]) if counters.any() else 0
      for cause in (*DRAINS, "fault"):
        causes[last, NUMBER[cause]] += all_causes[NUMBER[cause]]
    for i, (_, part) in enumerate(parts):
      tally = self._tally(part, "spill" if part == SPILL else "kernel")
      tally.launches += 1
      tally.faults += result.fault is not None and len(parts) == 1
      tally.add(causes[i], counters[i], units[i])
      tally.codes[id(code), i] = code, i
    rest = all_causes - causes.sum(axis=0)
    if rest.any():  # events that found no room
      self._tally(name, "batch").add(rest, all_counters - counters.sum(axis=0), np.zeros(len(SPAN_UNITS), np.int64))
      self._tally(name, "batch").launches += 1
    self.timeline.add(device, name, code, launch, units.sum(axis=0))
    if self._progress and time.monotonic() - self._said > SAY_EVERY:
      self._said = time.monotonic()
      self._progress(f"{self.launches:,} launches, {self.cycles:,} cycles")

  def _tally(self, name: str, kind: str) -> Tally:
    return self.tallies.setdefault((kind, name), Tally(name, kind))


@contextmanager
def undisturbed() -> Iterator[None]:
  """SIGINT and SIGTERM that come meanwhile are dealt with at the end, so that no sum has a launch which another lacks."""
  if threading.current_thread() is not threading.main_thread():
    yield
    return
  came: list[tuple[int, FrameType | None]] = []
  before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
  mine = [number for number, handler in before.items() if callable(handler)]  # others end the process at once, or nothing
  try:
    for number in mine:
      signal.signal(number, lambda *arguments: came.append(arguments))
    yield
  finally:
    for number in mine:
      signal.signal(number, before[number])
    for which, frame in came[:1]:
      before[signal.Signals(which)](which, frame)  # type: ignore[operator, misc]


def say(line: str) -> None:
  """Say something on standard error, if it is open."""
  if sys.stderr is not None:
    print(f"tinytpu profile: {line}", file=sys.stderr, flush=True)


def need_packages() -> None:
  """Check that reports can be written.

  Raises:
    RuntimeError: a package is missing; says how to install it.
  """
  if missing := [name for name in NEEDED if find_spec(name) is None]:
    raise RuntimeError(f"a profile needs {' and '.join(missing)}: pip install 'tinytpu[profile]'")


def begin(folder: str | Path) -> Callable[[], None]:
  """Trace all devices that are opened in this process from now on. SIGTERM, if the program leaves it as it was, ends the program as an exit
  with code 143 does, so that it can be reported.

  Args:
    folder: where the report goes; it is made if it does not exist.

  Returns:
    what writes the report; to be called once, when nothing is launched any more. It does nothing if nothing was launched, and in a process
    that this one forked.

  Raises:
    OSError: the folder cannot be made. RuntimeError: a package is missing.
  """
  need_packages()
  path = Path(folder).absolute()
  path.mkdir(parents=True, exist_ok=True)
  collector, process = Collector(say), os.getpid()
  watch.watcher = collector
  if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
    signal.signal(signal.SIGTERM, _exit)

  def finish() -> None:
    if os.getpid() != process or not collector.launches:
      return
    if threading.current_thread() is threading.main_thread():
      for number in (signal.SIGINT, signal.SIGTERM):  # another one, of an impatient user or to all processes, would lose the report
        signal.signal(number, signal.SIG_IGN)
    from .report import write
    say(f"{collector.launches:,} launches, {collector.cycles:,} cycles; writing {path}")
    try:
      write(collector, path)
    except OSError as error:
      say(f"the report could not be written: {error}")
    if getattr(sys, "last_type", None) is KeyboardInterrupt and not hasattr(sys, "ps1"):
      _end_by_interrupt()
  return finish


def _exit(*_: object) -> None:
  """End the program, once: SIGTERM to a group of processes comes twice, by way of the command `profile` too."""
  signal.signal(signal.SIGTERM, signal.SIG_IGN)
  sys.exit(128 + signal.SIGTERM)


def _end_by_interrupt() -> None:
  """End by SIGINT, as Python does after an interrupt that nobody caught, unless code was compiled since: what was imported to write has."""
  for stream in (sys.stdout, sys.stderr):
    if stream is not None:
      stream.flush()
  signal.signal(signal.SIGINT, signal.SIG_DFL)
  os.kill(os.getpid(), signal.SIGINT)
