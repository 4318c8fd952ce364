"""The chip's trace port: what the issue stage does in a cycle and why. Only of a chip made with `traced`, for simulation: other chips have
neither the port nor what is behind it."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature

from ..config import Config
from ..isa import stalls, timing
from ..isa.table import SLOTS
from .delay import Delay

__all__ = ["TransferTrace", "by_cause", "trace_port"]


def trace_port() -> Signature:
  """What is traced in a cycle.

  Members (Out):
    first, running, draining: of a launch, `first` in cycle 0. drains: a bit for each of `isa.stalls.DRAINS`: what is outstanding.
    present: a group is; issue: it issues; pc: Out(32), its word index, or where a fault is taken: fault.
    waits: conditions of issue that do not hold, a bit for each of `isa.stalls.WAITS`.
    slots: operations of the group, a bit for each slot; vmem, hbm, dma_in, dma_out: it has one for this unit, if it issues.
    vmem_cycles: Out(2), VMEM accesses in this cycle. hbm_line: a line of a direct access that issued two cycles ago or earlier.
    dma_in_done, dma_out_done, dma_in_line, dma_out_line: see `TransferTrace`.
  """
  bits = ("first", "running", "draining", "present", "issue", "fault", "vmem", "hbm", "dma_in", "dma_out", "hbm_line",
          "dma_in_done", "dma_out_done", "dma_in_line", "dma_out_line")
  return Signature(dict.fromkeys(bits, Out(1)) | {
    "pc": Out(32), "waits": Out(len(stalls.WAITS)), "drains": Out(len(stalls.DRAINS)), "slots": Out(len(SLOTS)), "vmem_cycles": Out(2)})


def by_cause(waits: Sequence[tuple[str, Value]] | Mapping[str, Value], causes: Iterable[str] = stalls.WAITS) -> Value:
  """One bit for each of `causes`: whether any of its conditions, given with the cause's name, is set.

  Raises:
    ValueError: a cause that is none of them.
  """
  found: dict[str, list[Value]] = {cause: [] for cause in causes}
  for cause, value in waits.items() if isinstance(waits, Mapping) else waits:
    if cause not in found:
      raise ValueError(f"isa.stalls knows no such cause as {cause}")
    found[cause].append(value)
  return Cat(Cat(values).any() if values else Const(0, 1) for values in found.values())


class TransferTrace(wiring.Component):
  """When the transfers of a DMA engine end, and which lines are whose, seen from outside.

  Members:
    start: In(1), a transfer issues. fault: In(1), the one of the cycle before is refused. unfinished: In(3), line: In(1): the engine's.
    done: Out(1), this is the first cycle in which the oldest transfer is finished.
    late: Out(1), `line`, so late that lines between two `done` are those of the transfer that the second ends; a line of the cycle of a
      `done` is the next transfer's.
  """

  def __init__(self, config: Config, inbound: bool) -> None:
    self.config, self.inbound = config, inbound
    super().__init__({"start": In(1), "fault": In(1), "unfinished": In(timing.DMA_QUEUE.bit_length()), "line": In(1), "done": Out(1),
                      "late": Out(1)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    expected = Signal(len(self.unfinished) + 1)  # if none ended
    m.d.sync += expected.eq(self.unfinished + self.start - self.fault)
    m.d.comb += self.done.eq(expected != self.unfinished)
    if self.inbound:  # a transfer is finished hbm_latency + 2 cycles after its last line, else two
      m.submodules.delay = delay = Delay(1, self.config.hbm_latency + 1)
      m.d.comb += [delay.i.eq(self.line), self.late.eq(delay.o)]
    else:
      m.d.sync += self.late.eq(self.line)
    return m
