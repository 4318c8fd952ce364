"""Simulator and RTL in step: every launch runs on either, and must do the same on both."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ..config import Config
from ..trace import Trace
from . import guard
from .allow import Allow
from .base import Engine, LaunchError, RunResult
from .compare import compare
from .guard import Guarded, exclusive
from .iss import IssEngine
from .rtl import RtlEngine


class EngineMismatch(RuntimeError):
  """The engines disagree; the message says in what. One of them contradicts docs/timing.md or docs/isa.md."""


class BothEngine(Guarded):
  """`base.Engine` on both engines: the simulator's memory is what the user sees, and the hardware starts each launch from a copy of it.

  Attributes:
    hbm_used: bytes of device memory, from 0, that are copied and compared. All of it at first, which takes a second a launch:
      who knows how much is in use says so.
  """

  def __init__(self, config: Config, progress: Callable[[str], None] | None = None, waveform: Path | None = None,
               trace: Trace | None = None):
    super().__init__()
    self.config, self.trace, self.hbm_used, self._apart = config, trace, config.hbm_bytes, False
    self._mirror = Trace(trace.capacity, trace.most) if trace is not None else None  # of the hardware
    self.engines: dict[str, Engine] = {
      "iss": IssEngine(config, progress, trace), "rtl": RtlEngine(config, progress, waveform, self._mirror)}

  @property
  def hbm(self) -> np.ndarray:
    return self.engines["iss"].hbm

  @exclusive
  def launch(self, program_address: int, args: Sequence[int] = (), *, entry: int = 0, limit: int | None = None,
             invalidate: bool = False, allow: Allow | None = None, repeat: int = 1) -> RunResult:
    """As `Engine.launch`.

    Raises:
      EngineMismatch: cycles, counters, fault, registers, memories or traces are not the same, or an interrupt or error has come between
        the engines before, so that one ran what the other did not.
    """
    if self._apart:
      raise EngineMismatch("the launch before ended in one engine only (an interrupt or an error), and they differ since: open another")
    self.engines["rtl"].hbm[:self.hbm_used] = self.hbm[:self.hbm_used]
    if self.trace is not None and self._mirror is not None:
      self._mirror.follow(self.trace)
    self._apart = True
    results: dict[str, RunResult] = {}
    try:
      for name, engine in self.engines.items():
        guard.step(name)
        results[name] = engine.launch(program_address, args, entry=entry, limit=limit, invalidate=invalidate, allow=allow, repeat=repeat)
    except LaunchError:
      self._apart = bool(results)  # refused before it began
      raise
    self._apart = False
    if differences := compare(self.engines, results, self.hbm_used, repeat):
      raise EngineMismatch(f"engines differ in the program at {program_address:#x}:\n  " + "\n  ".join(differences))
    return results["iss"]

  @exclusive
  def state(self) -> dict[str, np.ndarray]:
    return self.engines["iss"].state()

  def _free(self) -> None:
    for engine in self.engines.values():
      engine.close()
