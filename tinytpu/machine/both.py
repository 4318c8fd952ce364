"""Simulator and RTL in step: every launch runs on either, and must do the same on both."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ..config import Config
from .allow import Allow
from .base import Engine, RunResult
from .compare import compare
from .iss import IssEngine
from .rtl import RtlEngine


class EngineMismatch(RuntimeError):
  """The engines disagree; the message says in what. One of them contradicts docs/timing.md or docs/isa.md."""


class BothEngine:
  """`base.Engine` on both engines: the simulator's memory is what the user sees, and the hardware starts each launch from a copy of it.

  Attributes:
    hbm_used: bytes of device memory, from 0, that are copied and compared. All of it at first, which takes a second a launch:
      who knows how much is in use says so.
  """

  def __init__(self, config: Config, progress: Callable[[str], None] | None = None, waveform: Path | None = None):
    self.config, self.hbm_used = config, config.hbm_bytes
    self.engines: dict[str, Engine] = {"iss": IssEngine(config, progress), "rtl": RtlEngine(config, progress, waveform)}

  @property
  def hbm(self) -> np.ndarray:
    return self.engines["iss"].hbm

  def launch(self, program_address: int, args: Sequence[int] = (), *, entry: int = 0, limit: int | None = None,
             invalidate: bool = False, allow: Allow | None = None, repeat: int = 1) -> RunResult:
    """As `Engine.launch`.

    Raises:
      EngineMismatch: cycles, counters, fault, registers or memories are not the same.
    """
    self.engines["rtl"].hbm[:self.hbm_used] = self.hbm[:self.hbm_used]
    results = {name: engine.launch(program_address, args, entry=entry, limit=limit, invalidate=invalidate, allow=allow,
                                    repeat=repeat)
               for name, engine in self.engines.items()}
    if differences := compare(self.engines, results, self.hbm_used):
      raise EngineMismatch(f"engines differ in the program at {program_address:#x}:\n  " + "\n  ".join(differences))
    return results["iss"]

  def state(self) -> dict[str, np.ndarray]:
    return self.engines["iss"].state()

  def close(self) -> None:
    for engine in self.engines.values():
      engine.close()
