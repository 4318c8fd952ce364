"""REG buffers with computed indices: arrays of the work items, in VMEM, as registers have no computed numbers.

Element e of wave w is one tile, at word (w * elements + e) * width + lane: each lane finds its own element in its own bank.
"""
from __future__ import annotations

from tinygrad.dtype import AddrSpace
from tinygrad.uop.ops import Ops, UOp

from ...isa.encoding import MemType
from ..mir.builder import Val, imm
from ..mir.ir import Mem
from ..uops import integer
from .arithmetic import Values
from .memory import Memory


def element_index(index: UOp) -> int | None:
  """The constant that an INDEX of a REG buffer names, or None if it is computed."""
  return integer(index.src[1]) if len(index.src) == 2 else None


def register_buffer(index: UOp) -> UOp | None:
  """The REG buffer that an INDEX is of; None: it is of another kind of memory."""
  buffer = index.src[0]
  while buffer.op is Ops.AFTER:
    buffer = buffer.src[0]
  return buffer if index.op is Ops.INDEX and buffer.op is Ops.BUFFER and buffer.addrspace is AddrSpace.REG else None


class Arrays:
  """Arrays of one kernel.

  Args: uops: its linear program. base: VMEM byte address of the first of them.
  Attributes: top: byte address behind the last.
  Raises: UnsupportedError: they need more VMEM than there is.
  """

  def __init__(self, values: Values, memory: Memory, uops: list[UOp], base: int):
    self.values, self.memory, self.b, self.lanes = values, memory, memory.b, memory.lanes
    self.bases: dict[UOp, int] = {}
    self.top = base
    for u in uops:
      buffer = register_buffer(u) if u.op is Ops.INDEX else None
      if buffer is not None and buffer not in self.bases and element_index(u) is None:
        self.bases[buffer] = self.top
        self.top += 4 * self.lanes.config.width * self.lanes.waves * buffer.max_numel()
        if self.top > (room := self.lanes.config.vmem_bytes):
          raise values.fail(buffer, f"arrays of {buffer.max_numel()} elements for each of {self.lanes.count} work items need "
                                    f"{self.top - base} bytes of VMEM, there are {room - base}")

  def holds(self, index: UOp) -> bool:
    """Whether an INDEX is of one of these arrays."""
    return register_buffer(index) in self.bases

  def load(self, u: UOp, gate: Val | None) -> Val:
    """The element that a LOAD names, of every lane its own; 0 where gated off."""
    regs = tuple(self.b.load(f"vld{form}", mem, lines) for form, mem, lines in self._accesses(u.src[0], gate))
    return Val("v", regs, depth=self.b.depth)

  def store(self, u: UOp, gate: Val | None) -> None:
    """Write the element that a STORE names, where not gated off."""
    data = self.b.to_vector(self.values.value(u.src[1]))
    for wave, (form, mem, lines) in enumerate(self._accesses(u.src[0], gate)):
      self.b.store(f"vst{form}", data.at(wave), mem, lines)  # type: ignore[arg-type]

  def _accesses(self, index: UOp, gate: Val | None) -> list[tuple[str, Mem, int]]:
    """Address form, memory operand and cycles for each wave."""
    buffer = register_buffer(index)
    assert buffer is not None and len(index.src) == 2
    width, elements = self.lanes.config.width, buffer.max_numel()
    shift = imm(width.bit_length() - 1)
    at = self.values.value(index.src[1])
    vector = at.file in "vp"
    word = self.b.vector("vadd", self.b.vector("vshl", at, shift), self.b.vector("vlid")) if vector else \
      self.b.scalar("sshl", at, shift)
    accesses = []
    for wave in range(self.lanes.waves):
      base = self.b.to_scalar(imm(self.bases[buffer] + 4 * width * elements * wave)).regs[0]
      mask = self.memory.mask(gate, vector, width, wave)
      if vector:
        mem = Mem(base, MemType.W, self.b.to_scalar(imm(0)).regs[0], 0, index=word.at(wave), mask=mask)  # type: ignore[arg-type]
        accesses.append(("x", mem, 2))
      else:
        accesses.append(("", Mem(base, MemType.W, self.b.to_scalar(word).regs[0], 0, mask=mask), 1))
    return accesses
