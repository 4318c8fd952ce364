"""What can stop a program, and the record it leaves."""
from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Fault(IntEnum):
  """Fault causes, as in the FAULT control register. A fault ends the launch; older operations and the
  other operations of the faulting group complete, the faulting operation has no effect."""
  NONE = 0
  ILLEGAL = 1          # unknown operation code, or a group that breaks the group rules
  VMEM_BOUNDS = 2      # VMEM access at or beyond vmem_bytes
  VMEM_ALIGN = 3       # VMEM address not a multiple of the element size
  HBM_BOUNDS = 4       # HBM access at or beyond hbm_bytes
  HBM_ALIGN = 5        # HBM address not a multiple of the element size
  LOOP_OVERFLOW = 6    # loops nested deeper than LOOP_DEPTH
  LOOP_UNDERFLOW = 7   # lend without a loop
  TRAP = 8             # the trap operation
  WATCHDOG = 9         # cycle limit of the launch reached
  DMA_ALIGN = 10       # DMA address, pitch or length not a multiple of four bytes
  DMA_BOUNDS = 11      # DMA row outside VMEM or HBM
  DMA_SIZE = 12        # DMA transfer of more than DMA_WORDS words


@dataclass(frozen=True)
class FaultRecord:
  """cause; pc: word index, in the program, of the faulting group (WATCHDOG: of the group waiting to
  issue); cycle of the fault; info: the lowest faulting lane's byte address, the trap's immediate, or 0."""
  cause: Fault
  pc: int
  cycle: int
  info: int

  def __str__(self) -> str:
    return f"{self.cause.name} at word {self.pc}, cycle {self.cycle}, info {self.info:#x}"
