"""The checking mode of the simulator: a launch that names the bytes it may touch ends at the first access outside them."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntFlag

import numpy as np

from ..asm.disassembler import group_at
from ..config import Config
from ..isa.encoding import PACKET_WORDS, WORD_BYTES
from ..iss.permit import DENIED, HBM_READ, HBM_WRITE, VMEM_READ, VMEM_WRITE
from .base import LaunchError

NAMES = {"vmem": "VMEM", "hbm": "device memory"}


class Mode(IntFlag):
  """What a range permits."""
  READ = 1
  WRITE = 2
  BOTH = 3


Range = tuple[int, int, int]
"""Byte addresses start and stop (the first behind it), and a Mode."""


@dataclass(frozen=True)
class Allow:
  """What the accesses of a launch may touch: ranges of device memory and of VMEM, in any order, which may overlap.

  Every active element of a load, store or atomic operation, and every row of a DMA transfer, must lie within *one* range that
  permits it: a row that runs from one range into the next is refused, even if they touch. Elements that are masked off, and transfers
  that move nothing, are free. An atomic operation reads and writes. Fetching the program is not checked.
  """
  hbm: Sequence[Range] = ()
  vmem: Sequence[Range] = ()

  def table(self, config: Config) -> np.ndarray:
    """The ranges as the simulator takes them, see `iss.permit.OFF`.

    Raises:
      LaunchError: a range that is not within memory or has no such mode.
    """
    rows = [(0, 0, 0)]
    for space, size, scale in (("vmem", config.vmem_bytes, VMEM_READ), ("hbm", config.hbm_bytes, HBM_READ)):
      for start, stop, mode in getattr(self, space):
        if not 0 <= start <= stop <= size:
          raise LaunchError(f"allow.{space}: range {start:#x} to {stop:#x} must lie within {NAMES[space]} ({size:#x} bytes)")
        if not 1 <= mode <= Mode.BOTH:
          raise LaunchError(f"allow.{space}: range {start:#x} to {stop:#x} must permit 1 (reading), 2 (writing) or 3, not {mode}")
        rows.append((start, stop, mode * scale))
    return np.array(rows, np.int64)


class AccessError(RuntimeError):
  """An access that the launch does not permit (`Allow`). As at a fault, it has no effect, older operations and the others of its group
  complete; but the hardware knows no such end, so that the engines of "both" are out of step afterwards.

  Attributes: pc: word index, in the program, of its group; cycle; space: "vmem" or "hbm"; write: whether it writes;
  start, stop: byte addresses, of the element or the row.
  """

  def __init__(self, allow: Allow, group: str, pc: int, cycle: int, space: str, write: bool, start: int, stop: int):
    self.pc, self.cycle, self.space, self.write, self.start, self.stop = pc, cycle, space, write, start, stop
    mode = Mode.WRITE if write else Mode.READ
    ranges: Sequence[Range] = getattr(allow, space)
    near = min((r for r in ranges if r[2] & mode), key=lambda r: max(r[0] - start, stop - r[1], 0), default=None)
    verb = "write" if write else "read"
    nearest = f"the nearest range is {near[0]:#x} to {near[1]:#x}" if near else "there is no such range"
    super().__init__(f"word {pc} ({group}), cycle {cycle}: {verb}s {stop - start} bytes of {NAMES[space]} at {start:#x}, "
                     f"outside all that it may {verb}; {nearest}")


def denied(allow: Allow, hbm: np.ndarray, program: int, cause: int, pc: int, cycle: int, info: int) -> AccessError:
  """The error of what the simulator recorded in place of a fault. hbm: device memory; program: the program's byte address."""
  mode, start = cause - DENIED, info & 0xFFFFFFFF
  packet = program + (pc - pc % PACKET_WORDS) * WORD_BYTES
  group = group_at(hbm[packet:packet + PACKET_WORDS * WORD_BYTES].view(np.uint64), pc % PACKET_WORDS)
  space, stop = "hbm" if mode & (HBM_READ | HBM_WRITE) else "vmem", start + (info >> 32 & 0xFFFFFFFF)
  return AccessError(allow, group, pc, cycle, space, bool(mode & (VMEM_WRITE | HBM_WRITE)), start, stop)
