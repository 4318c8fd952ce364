"""What a launch may touch, and what a fault may come of.

With TINYTPU_CHECK=1 every access of a kernel must lie within a live buffer that the kernel was given. The simulator ends the launch at the
first that does not (`machine.allow`). Buffers then have guard bytes between them.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...asm.link import Spill
from ...asm.program import Access, ArgKind, Program
from ...environment import flag
from ...isa.faults import Fault, FaultRecord
from ...machine.allow import Allow, Mode, Range
from ..types import WORD
from .vmem_cache import Span

MODES = {Access.IN: Mode.READ, Access.OUT: Mode.WRITE, Access.INOUT: Mode.BOTH}


def checking() -> bool:
  """Whether launches are checked."""
  return flag("TINYTPU_CHECK")


def of_launch(program: Program, spans: Sequence[Span], direct: bool, values: Mapping[tuple[ArgKind, int], int], own: int) -> Allow:
  """What a launch may touch.

  Args:
    spans: the buffers, by number. direct: whether the version in device memory runs. values: of the argument registers that have to do
      with VMEM, by kind and buffer number. own: bytes of VMEM from 0 on that any kernel may use.
  """
  hbm: list[Range] = []
  vmem: list[Range] = [(0, max(own, program.vmem_bytes), Mode.BOTH)]
  told = {b.number for b in program.bufs}
  for a in program.args:
    if a.kind is ArgKind.BUF and a.value not in told:  # a text that says nothing of its buffers
      span = spans[int(a.value)]
      hbm.append((span.address, span.address + span.size, Mode.BOTH))
  for b in program.bufs:
    span = spans[b.number]
    end = span.address + b.bytes
    hbm.append((span.address, end, MODES[b.access]))
    if direct:
      continue
    low, high = span.words(b)
    hbm.append((low, high, Mode.READ))  # transfers bring in whole words
    if (at := values.get((ArgKind.VMEM, b.number))) is not None:
      vmem.append((at, at + b.bytes, MODES[b.access]))
      if values.get((ArgKind.FILL, b.number)):
        vmem.append((at - span.address + low, at - span.address + high, Mode.WRITE))
  return Allow(hbm, vmem)


def of_spills(spills: Sequence[Spill]) -> Allow:
  """What moving ranges of VMEM to device memory may touch."""
  return Allow([(s.hbm, s.hbm + s.bytes, Mode.WRITE) for s in spills], [(s.vmem, s.vmem + s.bytes, Mode.READ) for s in spills])


def together(parts: Sequence[Allow]) -> Allow:
  """What several launches may touch that are linked to one."""
  return Allow(list(dict.fromkeys(r for p in parts for r in p.hbm)), list(dict.fromkeys(r for p in parts for r in p.vmem)))


def misaligned(fault: FaultRecord, addresses: Sequence[int]) -> str:
  """What to do about a fault that comes of a buffer that starts within an element; "" if that is not it. addresses: of the buffers."""
  odd = [f"buffer {n} at byte {address:#x}" for n, address in enumerate(addresses) if address % WORD]
  if fault.cause not in (Fault.VMEM_ALIGN, Fault.HBM_ALIGN, Fault.DMA_ALIGN) or not odd:
    return ""
  return (f"; {', '.join(odd)}: elements of several bytes start at multiples of their size. Copy a part of bytes before it is taken for "
          "wider elements: x.contiguous().bitcast(dtype)")
