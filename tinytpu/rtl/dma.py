"""DMA engines: transfers of rows between HBM and VMEM beside the running program."""
from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa.faults import Fault
from ..isa.timing import DMA_QUEUE, DMA_WORDS
from .delay import Delay
from .float_common import name
from .interfaces import hbm_port, memory_fault, memory_issue, vmem_dma_port
from .opcodes import is_op

__all__ = ["DmaEngine"]


class DmaEngine(wiring.Component):
  """One direction of DMA: up to DMA_QUEUE transfers, done in order, one HBM line per cycle.

  A transfer that issues in t is checked in t + 1, where a fault is raised (and the transfer dropped). It works from cycle t + 2 on, or
  follows its predecessor without a gap, n cycles long: each cycle one line of a row, row after row, plane after plane. VMEM gets
  the whole line's words at once: the first slot's word address, which may lie before the row, and a mask of the row's slots. A
  transfer of no planes, rows or bytes takes one cycle and moves nothing.

  - Inbound: the line is requested at once, its words are written to VMEM in the cycle of the response, and the
    transfer is finished two cycles after its last one.
  - Outbound: the words are read from VMEM at once and written to HBM in the cycle after; the transfer is finished two cycles after
    its last write.

  Args:
    inbound: HBM to VMEM (dmai), else VMEM to HBM (dmao).

  Members:
    issue: In(memory_issue): the other codes are ignored. ready: Out(1), a transfer may issue in this cycle.
    unfinished: Out(3), transfers issued in earlier cycles and not finished. fault: Out(memory_fault), in t + 1.
    vmem: Out(vmem_dma_port). port: Out(hbm_port). line: Out(1), a line is moved (counted where the HBM port is used).
  """

  def __init__(self, config: Config, inbound: bool) -> None:
    self.config, self.inbound = config, inbound
    super().__init__({
      "issue": In(memory_issue(config)), "ready": Out(1), "unfinished": Out(DMA_QUEUE.bit_length()), "fault": Out(memory_fault()),
      "vmem": Out(vmem_dma_port(config)), "port": Out(hbm_port(config)), "line": Out(1)})

    place = (config.vmem_words - 1).bit_length()
    self.transfer = data.StructLayout({  # addresses, pitches and length in words; no words: one empty row
      "hbm": 30, "hbm_pitch": 30, "hbm_plane": 30, "vmem": place, "vmem_pitch": place, "vmem_plane": place,
      "words": place + 1, "rows": 32, "planes": 32})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    checked, accepted = self._check(m)

    # The transfer at work, behind it a queue. A checked transfer joins the queue unless it can start at once.
    working, finishing = Signal(), Signal()
    last = Signal()  # the cycle is the working transfer's last
    m.submodules.queue = queue = Memory(shape=self.transfer, depth=DMA_QUEUE, init=[])
    enter, head = queue.write_port(), queue.read_port(domain="comb")
    waiting = Signal(range(DMA_QUEUE + 1))
    free = name(m, ~working | last, "free")
    leave = name(m, free & (waiting != 0), "leave")
    bypass = name(m, free & (waiting == 0) & accepted, "bypass")
    m.d.comb += [enter.data.eq(checked), enter.en.eq(accepted & ~bypass)]
    with m.If(enter.en):
      m.d.sync += enter.addr.eq(enter.addr + 1)
    with m.If(leave):
      m.d.sync += head.addr.eq(head.addr + 1)
    m.d.sync += waiting.eq(waiting + enter.en - leave)
    with m.If(free):
      m.d.sync += working.eq(leave | bypass)
    following = Signal(self.transfer)
    m.d.comb += following.eq(Mux(waiting != 0, head.data.as_value(), checked.as_value()))

    count, check = Signal(range(DMA_QUEUE + 1)), self._checking
    m.d.sync += count.eq(count + accepted - finishing)
    m.d.comb += [self.unfinished.eq(count + check), self.ready.eq(self.unfinished < DMA_QUEUE)]

    active, line, word, mask = self._step(m, working, free, following, last)
    (self._inbound if self.inbound else self._outbound)(m, active, line, word, mask, working & last, finishing)
    return m

  def _check(self, m: Module) -> tuple[data.View, Value]:
    """Registers of t + 1 and the check: the transfer in words, and whether it is accepted in this cycle."""
    issue, config = self.issue, self.config
    names = ("base", "r", "hplane", "vbase", "c2", "vplane", "nbytes")
    held = {field: Signal(32, name=f"held_{field}") for field in (*names, "x", "planes")}
    self._checking = Signal()
    m.d.sync += self._checking.eq(issue.start & is_op(issue.code, "dmai" if self.inbound else "dmao"))
    with m.If(issue.start):
      m.d.sync += [register.eq(getattr(issue, field)) for field, register in held.items()]

    empty = name(m, (held["planes"] == 0) | (held["x"] == 0) | (held["nbytes"] == 0), "empty")
    steps, jumps = name(m, (held["x"] - 1)[:32], "steps"), name(m, (held["planes"] - 1)[:32], "jumps")
    outside = []
    for base, pitch, plane, size in (("base", "r", "hplane", config.hbm_bytes), ("vbase", "c2", "vplane", config.vmem_bytes)):
      # Start of the last row, relative to the base: 65 bits.
      reach = name(m, steps * held[pitch] + jumps * held[plane], f"{base}_reach")
      beyond = (reach[33:] != 0) | ((reach[:33] + held[base] + held["nbytes"]) > size)
      outside.append(name(m, ~empty & beyond, f"{base}_outside"))
    # Words of all rows; a factor alone beyond the limit is too many.
    factors = (held["planes"], held["x"], held["nbytes"][2:])
    bits = DMA_WORDS.bit_length()
    lines = name(m, factors[0][:bits] * factors[1][:bits], "all_rows")
    total = name(m, lines[:bits] * factors[2][:bits], "all_words")
    too_many = name(m, ~empty & (Cat(*(factor[bits:] for factor in factors), lines[bits:]).any() | (total > DMA_WORDS)), "too_many")
    odd = [held[field][:2] != 0 for field in names]
    info: Value = Mux(outside[1] & ~outside[0], held["vbase"], held["base"])
    for field, bad in reversed(list(zip(names, odd, strict=True))):
      info = Mux(bad, held[field], info)
    misaligned = name(m, Cat(*odd) != 0, "misaligned")
    m.d.comb += [
      self.fault.valid.eq(self._checking & (misaligned | outside[0] | outside[1] | too_many)),
      self.fault.cause.eq(Mux(misaligned, Fault.DMA_ALIGN, Mux(outside[0] | outside[1], Fault.DMA_BOUNDS, Fault.DMA_SIZE))),
      self.fault.info.eq(info)]

    checked = Signal(self.transfer)
    m.d.comb += [
      checked.hbm.eq(held["base"][2:]), checked.hbm_pitch.eq(held["r"][2:]), checked.vmem.eq(held["vbase"][2:]),
      checked.vmem_pitch.eq(held["c2"][2:]), checked.hbm_plane.eq(held["hplane"][2:]), checked.vmem_plane.eq(held["vplane"][2:]),
      checked.words.eq(Mux(empty, 0, held["nbytes"][2:])), checked.rows.eq(Mux(empty, 1, held["x"])),
      checked.planes.eq(Mux(empty, 1, held["planes"]))]
    return checked, self._checking & ~self.fault.valid

  def _step(self, m: Module, working: Signal, free: Value, following: data.View, last: Signal) -> tuple[Value, Value, Value, Value]:
    """Walk the transfer at work. Of this cycle: whether a line is moved, which, the VMEM word of its first slot, mask of slots."""
    n = self.config.vector_lanes
    slots = (n - 1).bit_length()
    # Where the row starts, rows left in the plane and planes left; where the plane starts; words left in the row.
    row, plane, left = Signal(self.transfer), Signal(self.transfer), Signal.like(following.words)
    hbm, vmem = Signal.like(following.hbm), Signal.like(following.vmem)  # next word of the row
    slot = hbm[:slots]
    end = name(m, slot + left, "end")
    row_ends = name(m, end <= n, "row_ends")
    below = Const((1 << n) - 1, n)
    mask = name(m, Mux(row_ends, ~(below << end[:slots + 1]), below)[:n] & (below << slot)[:n], "mask")

    plane_ends = name(m, row.rows == 1, "plane_ends")
    m.d.comb += last.eq(row_ends & plane_ends & (row.planes == 1))
    next_hbm = name(m, Mux(plane_ends, plane.hbm + plane.hbm_plane, row.hbm + row.hbm_pitch)[:30], "next_hbm")
    next_vmem = name(m, Mux(plane_ends, plane.vmem + plane.vmem_plane, row.vmem + row.vmem_pitch)[:len(vmem)], "next_vmem")
    with m.If(free):
      m.d.sync += [row.eq(following), plane.eq(following), left.eq(following.words), hbm.eq(following.hbm), vmem.eq(following.vmem)]
    with m.Elif(row_ends):
      m.d.sync += [row.rows.eq(row.rows - 1), row.hbm.eq(next_hbm), row.vmem.eq(next_vmem),
                   left.eq(row.words), hbm.eq(next_hbm), vmem.eq(next_vmem)]
      with m.If(plane_ends):
        m.d.sync += [row.rows.eq(plane.rows), row.planes.eq(row.planes - 1), plane.hbm.eq(next_hbm), plane.vmem.eq(next_vmem)]
    with m.Else():
      moved = n - slot
      m.d.sync += [left.eq(left - moved), hbm.eq(Cat(Const(0, slots), (hbm[slots:] + 1)[:30 - slots])), vmem.eq(vmem + moved)]
    return working & (left != 0), hbm[slots:], name(m, (vmem - slot)[:len(vmem)], "word"), mask

  def _inbound(self, m: Module, active: Value, line: Value, word: Value, mask: Value, ending: Value, finishing: Signal) -> None:
    vmem, port = self.vmem, self.port
    m.d.comb += [port.valid.eq(active), port.line.eq(line), self.line.eq(active)]
    m.submodules.delay = delay = Delay(2 + len(word) + len(mask), self.config.hbm_latency)
    ended = Signal()
    m.d.comb += [
      delay.i.eq(Cat(active, ending, mask, word)), vmem.write.eq(1), vmem.data.eq(port.rdata),
      Cat(vmem.valid, ended, vmem.mask, vmem.word[:len(word)]).eq(delay.o)]
    m.d.sync += finishing.eq(ended)

  def _outbound(self, m: Module, active: Value, line: Value, word: Value, mask: Value, ending: Value, finishing: Signal) -> None:
    vmem, port = self.vmem, self.port
    writing, to_line, to_mask, ended = Signal(), Signal.like(line), Signal.like(mask), Signal()
    m.d.sync += [writing.eq(active), to_line.eq(line), to_mask.eq(mask), ended.eq(ending), finishing.eq(ended)]
    m.d.comb += [
      vmem.valid.eq(active), vmem.word.eq(word), vmem.mask.eq(mask),
      port.valid.eq(writing), port.write.eq(1), port.line.eq(to_line), port.data.eq(vmem.rdata),
      port.bytemask.eq(Cat(*(bit.replicate(4) for bit in to_mask))), self.line.eq(writing)]
