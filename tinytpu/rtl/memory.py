"""Large memories, whose contents at power-up do not matter."""
from __future__ import annotations

from typing import Any

from amaranth.back import rtlil
from amaranth.lib.memory import Memory

__all__ = ["BlankMemory"]

_BLANK = "blank"


class BlankMemory(Memory):
  """An `amaranth.lib.memory.Memory` without initial contents in the generated Verilog.

  Amaranth states the contents of every memory bit by bit, zeros too: for the two million bits of VMEM it spends most of its
  time on them. Nothing that reads such a memory before writing it may depend on what it finds.

  Args:
    shape, depth: as of `Memory`.
  """

  def __init__(self, *, shape: Any, depth: int) -> None:
    super().__init__(shape=shape, depth=depth, init=[], attrs={_BLANK: 1})


_emit_contents = rtlil.ModuleEmitter.emit_memory


def _emit_contents_unless_blank(self: rtlil.ModuleEmitter, cell_idx: int, cell: Any) -> None:
  if _BLANK not in cell.attributes:
    _emit_contents(self, cell_idx, cell)


rtlil.ModuleEmitter.emit_memory = _emit_contents_unless_blank  # of the pinned Amaranth; it offers no option for this
