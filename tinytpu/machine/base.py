"""What an engine is, and how to open one."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..config import Config
from ..isa.faults import FaultRecord
from ..trace import Trace

if TYPE_CHECKING:
  from .allow import Allow

KINDS = ("iss", "rtl", "both")
DEFAULT_LIMIT = 1 << 36
"""Watchdog limit in cycles of a launch that names none: more than any sensible kernel, and not for ever."""


class LaunchError(ValueError):
  """A launch that the host interface refuses: where the program lies, too many arguments, a value out of range."""


@dataclass(frozen=True)
class RunResult:
  """Outcome of a launch.

  Attributes:
    cycles: from cycle 0 to the first in which nothing was outstanding any more (docs/timing.md).
    fault: what stopped the program, None after `halt`.
    counters: events by name, see isa.counters.
  """
  cycles: int
  fault: FaultRecord | None
  counters: dict[str, int]


class Engine(Protocol):
  """A machine with its memories. Everything is zero at first. Registers, VMEM, PSUM and the instruction buffer survive
  launches; a launch clears the loop stack only.

  Threads may share an engine: `launch` and `state` wait for each other. What they read and write in `hbm` is theirs to order.

  An interrupt (KeyboardInterrupt) leaves an engine at rest. A launch that it meets comes to its end first if that is near (a second
  or so), and its effects are complete though its result is lost; else it is abandoned by a reset: memories and registers hold what the
  program had written, or part of it, and the instruction buffer is empty. Which of both happened is not told.

  After `os.fork` the child has an engine of its own, a copy of the parent's, unless another thread was using it or it writes a
  waveform: those are refused in the child.

  Raises (every method and `hbm`):
    guard.EngineError: the engine is closed, in the middle of a launch (used by a signal handler), or lost in a fork.
  """

  @property
  def config(self) -> Config:
    """Parameters of the machine."""

  @property
  def trace(self) -> Trace | None:
    """Where launches are added to, None of an engine that does not trace."""

  @property
  def hbm(self) -> np.ndarray:
    """All of device memory: uint8, (hbm_bytes,), pages backed by host memory when touched."""

  def launch(self, program_address: int, args: Sequence[int] = (), *, entry: int = 0, limit: int | None = None,
             invalidate: bool = False, allow: Allow | None = None, repeat: int = 1) -> RunResult:
    """Run the program at `program_address` (a multiple of Config.ibuf_block_bytes) from word `entry` to its end.

    Args:
      args: words for the scalar registers from Config.ARG_BASE on, -2^31 to 2^32 - 1 each.
      limit: cycle in which the watchdog ends the launch; None: DEFAULT_LIMIT.
      invalidate: forget the instruction buffer first; needed when memory that held a program changed.
      allow: the only bytes that the program may touch, for the simulator to check; cycles and results are the same with and without.
        The RTL ignores it, and "both" checks on its simulator. None: all of memory.
      repeat: launches at once, one right after the other, also after a fault; arguments are set, and the buffer forgotten, before the
        first only. The result is the last one's.

    Raises:
      LaunchError: an argument out of range; the message names it.
      allow.AccessError: an access outside `allow`.
    """

  def state(self) -> dict[str, np.ndarray]:
    """Copies of the state: sregs uint32 (64,), vregs uint32 (64, width), psums uint32 (16, width), vmem uint8 (vmem_bytes,)."""

  def close(self) -> None:
    """Give memory back. Afterwards everything but `close` raises EngineError."""


def check_launch(config: Config, program_address: int, args: Sequence[int], entry: int, limit: int | None,
                 repeat: int) -> tuple[np.ndarray, int]:
  """Check a launch's arguments, alike for every engine.

  Returns:
    args as uint32 array, and the limit to use.

  Raises:
    LaunchError: as Engine.launch.
  """
  if program_address % config.ibuf_block_bytes or not 0 <= program_address < config.hbm_bytes:
    raise LaunchError(f"program address must be a multiple of an instruction buffer block ({config.ibuf_block_bytes} bytes) within memory, "
                      f"not {program_address:#x}")
  if len(args) > (most := Config.SREGS - Config.ARG_BASE):
    raise LaunchError(f"at most {most} arguments fit the argument registers, not {len(args)}")
  for i, value in enumerate(args):
    if not -(1 << 31) <= value < 1 << 32:
      raise LaunchError(f"argument {i} must fit 32 bits, not {value}")
  if not 0 <= entry < 1 << 32:
    raise LaunchError(f"entry must be a word index of 0 to 2^32 - 1, not {entry}")
  if limit is not None and not 1 <= limit <= DEFAULT_LIMIT:
    raise LaunchError(f"limit must be 1 to {DEFAULT_LIMIT} cycles, not {limit}")
  if repeat < 1:
    raise LaunchError(f"repeat must be at least 1, not {repeat}")
  return np.array([int(v) & 0xFFFFFFFF for v in args], np.uint32), DEFAULT_LIMIT if limit is None else limit


def open_engine(config: Config, kind: str = "iss", progress: Callable[[str], None] | None = None,
                waveform: Path | None = None, trace: Trace | None = None) -> Engine:
  """Open an engine for `config`: "iss", the simulator, or "rtl", the Verilated RTL. Same program, same memory, same cycles:
  "both" runs every launch on either and raises `both.EngineMismatch` if they differ.

  Args:
    progress: called with a line of text before and after anything slow (compilation that is not in the cache yet).
    waveform: file to write (.vcd or .fst), not of the simulator alone.
    trace: every launch is added to it (docs/trace.md). The engine is then another build, and slower; without it nothing is.

  Raises:
    ValueError: unknown kind (the message lists those that exist), or a waveform of the simulator.
  """
  if kind == "iss" and waveform:
    raise ValueError("waveforms show the hardware's signals, and the simulator has none: use the engine rtl")
  if kind == "iss":
    from .iss import IssEngine
    return IssEngine(config, progress, trace)
  if kind == "rtl":
    from .rtl import RtlEngine
    return RtlEngine(config, progress, waveform, trace)
  if kind == "both":
    from .both import BothEngine
    return BothEngine(config, progress, waveform, trace)
  raise ValueError(f"unknown engine {kind!r}; engines: {', '.join(KINDS)}")
