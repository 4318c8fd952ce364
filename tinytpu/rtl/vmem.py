"""The VMEM unit: banked scratchpad with a load port, a store port and two DMA ports."""
from __future__ import annotations

from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa.faults import Fault
from ..isa.table import OPS
from .address import LaneAddresses
from .align import LoadCollect, Narrow, StoreMerge, low_bits
from .conflict import BankSchedule, row_bits
from .float_common import name
from .interfaces import memory_fault, memory_issue, tile_bits, vector_result, vmem_dma_port
from .memory import BlankMemory
from .once import place
from .opcodes import is_op
from .select import part, tree

__all__ = ["VMEM_CLOCKS", "VmemUnit"]

VMEM_CLOCKS = ("vmem_load", "vmem_store")
"""Clock domains of `VmemUnit` that may rest while its output `<domain>_enable` is low."""

_LOADS = tuple(op.name for op in OPS.values() if op.slot == "L")
_ATOMICS = tuple(op.name for op in OPS.values() if op.name.startswith("vatom"))
_STORES = (*(op.name for op in OPS.values() if op.name.startswith("vst")), *_ATOMICS)


class _Access(NamedTuple):
  """One side's access: `pending` elements of the whole tile, served `beat` by beat by the `banks` at `addresses` (of the beat)."""
  banks: Any  # BankSchedule
  addresses: list[Signal]
  mtype: Signal
  pending: Signal
  beat: Signal
  left: Signal       # pending after this cycle's access
  following: Signal  # the beat of the next access
  last: Signal       # nothing follows


class VmemUnit(wiring.Component):
  """VMEM and its access unit: one bank of 32-bit words per vector lane, bank = word address mod vector_lanes.

  A load or store that issues in t has its addresses, check and bank schedule (`BankSchedule`) from t + 1 on, where a fault is raised
  and the banks are first accessed. Its beats are served in order, each in as many cycles as its worst bank has distinct words, at
  least one; n cycles in all. A load's words arrive one
  cycle after each access; its result is raised in t + 1 + n, with the last of them. The store of a group with a load
  starts in the cycle of the load's last access; reads see memory before the writes of their cycle. A faulting operation is
  dropped in t + 1 and takes no access cycle.

  An atomic add has its first access when the load beside it has had its last, because it reads through the same ports: each bank
  reads the word of one element per cycle and writes the sum in the next, which makes one cycle more in all.

  The clock domains `VMEM_CLOCKS` may rest at the end of cycles in which their `<domain>_enable` is low, which changes no result and
  saves most of the unit's time in simulation; otherwise they tick with `sync`.

  DMA accesses have ports of their own and are never stalled; racing accesses to one word are undefined.

  Members:
    load: In(memory_issue), slot L: any code. store: In(memory_issue), slot T: codes that are not vst* or vatom* are ignored.
    ready: Out(1), a group with a VMEM access may issue in this cycle.
    result: Out(vector_result), of loads.
    load_fault, store_fault: Out(memory_fault), in t + 1.
    dma_in: In(vmem_dma_port), writes; dma_out: In(vmem_dma_port), reads.
    idle: Out(1), no access is in progress.
    busy_cycle: Out(2), accesses that take place in this cycle: 0, 1 or 2 (a load's last with a store's first).
    <domain>_enable: Out(1), for each of `VMEM_CLOCKS`; combinational from `load` and `store`.
  """

  def __init__(self, config: Config) -> None:
    self.config = config
    issue, fault, dma = memory_issue(config), memory_fault(), vmem_dma_port(config)
    super().__init__({
      "load": In(issue), "store": In(issue), "ready": Out(1), "result": Out(vector_result(config)),
      "load_fault": Out(fault), "store_fault": Out(fault), "dma_in": In(dma), "dma_out": In(dma),
      "idle": Out(1), "busy_cycle": Out(2), **{f"{domain}_enable": Out(1) for domain in VMEM_CLOCKS}})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    config = self.config
    n, low = config.vector_lanes, low_bits(config)

    # Both accesses: operation, elements not served yet, schedule of the beat.
    load_start = name(m, self.load.start & is_op(self.load.code, *_LOADS), "load_start")
    store_start = name(m, self.store.start & is_op(self.store.code, *_STORES), "store_start")
    load = self._access(m, platform, "load", load_start, self.load, self.load_fault)
    store = self._access(m, platform, "store", store_start, self.store, self.store_fault)
    load_busy, store_busy = Signal(), Signal()

    # The load goes first, the store starts beside its last access.
    load_go = name(m, load_busy & ~self.load_fault.valid, "load_go")
    load_done = name(m, ~load_go | load.last, "load_done")
    atomic, draining = Signal(), Signal()  # what slot T holds is an atomic add; all its words have been read
    store_waits = name(m, store_busy & ~self.store_fault.valid, "store_waits")
    store_go = name(m, store_waits & Mux(atomic, ~load_go, load_done), "store_go")
    store_last = name(m, Mux(atomic, draining, store.last), "store_last")
    store_done = name(m, load_done & (~store_waits | (store_go & store_last)), "store_done")
    m.d.comb += [
      self.ready.eq(store_done), self.idle.eq(~load_busy & ~store_busy), self.busy_cycle.eq(load_go + store_go)]
    first, reg = Signal(), Signal(6)
    m.d.vmem_load += load_busy.eq(load_start | ~load_done)
    with m.If(load_start):
      m.d.vmem_load += [load.pending.eq(self.load.mask), load.beat.eq(0), first.eq(1), reg.eq(self.load.d)]
    with m.Else():
      m.d.vmem_load += [load.pending.eq(Mux(load_go, load.left, 0)), load.beat.eq(load.following), first.eq(0)]
    with m.If(store_start):
      m.d.vmem_store += [store.pending.eq(self.store.mask), store.beat.eq(0), store_busy.eq(1), draining.eq(0),
                         atomic.eq(is_op(self.store.code, *_ATOMICS))]
    with m.Elif(store_go | self.store_fault.valid):
      left = name(m, Mux(self.store_fault.valid, 0, store.left), "left")
      m.d.vmem_store += [store.pending.eq(left), store.beat.eq(store.following), store_busy.eq(store_go & ~store_last),
                         draining.eq(store.last)]

    merge = place(m, platform, "merge", "merge", StoreMerge, config)
    m.d.comb += [merge.served.eq(store.banks.served), merge.mtype.eq(store.mtype)]
    data = Signal(tile_bits(config), reset_less=True)
    with m.If(store_start):
      m.d.vmem_store += data.eq(self.store.data)
    now = name(m, part(data, store.beat, 32 * n) if config.beats > 1 else data, "data_now")
    for e in range(n):
      narrow = place(m, platform, f"narrow{e}", "narrow", Narrow)
      m.d.comb += [narrow.word.eq(now.word_select(e, 32)), narrow.mtype.eq(store.mtype), merge.data[e].eq(narrow.o),
                   merge.low[e].eq(store.addresses[e][:low])]

    # A load's words arrive in the cycle after their access.
    collect = place(m, platform, "collect", "collect", LoadCollect, config, domain="vmem_load")
    arrives = {"valid": load_go, "first": first, "last": load.last, "reg": reg, "mtype": load.mtype, "beat": load.beat,
               "served": load.banks.served}
    for member, value in arrives.items():
      port = getattr(collect, member)
      register = Signal(port.shape(), name=f"arrives_{member}")
      m.d.vmem_load += register.eq(value)
      m.d.comb += port.eq(register)
    for e in range(n):
      register = Signal(low, name=f"arrives_low{e}", reset_less=True)
      m.d.vmem_load += register.eq(load.addresses[e])
      m.d.comb += collect.low[e].eq(register)
    wiring.connect(m, collect.result, wiring.flipped(self.result))
    m.d.comb += [
      store.banks.alone.eq(atomic), self.vmem_load_enable.eq(load_start | load_busy | collect.valid | (store_busy & atomic)),
      self.vmem_store_enable.eq(store_start | store_busy)]

    writing = name(m, store_go & ~atomic, "writing")
    atomic_go = name(m, store_go & atomic & ~draining, "atomic_go")
    self._banks(m, load_go, writing, atomic_go, load.banks, store.banks, merge, collect)
    return m

  def _access(self, m: Module, platform: object, side: str, start: Value, operation: wiring.PureInterface,
              fault: wiring.PureInterface) -> _Access:
    """Registers of one side, of which `pending` and `beat` are to be driven, its addresses and its schedule."""
    config, domain, n = self.config, f"vmem_{side}", self.config.vector_lanes
    lanes = place(m, platform, f"{side}_lanes", "vmem_lanes", LaneAddresses, config, config.vmem_bytes, Fault.VMEM_ALIGN, Fault.VMEM_BOUNDS,
                  domain=domain)
    banks = place(m, platform, f"{side}_banks", "banks", BankSchedule, config)
    pending, mtype = Signal(config.width, name=f"{side}_pending"), Signal(4, name=f"{side}_type")
    beat = Signal(range(config.beats), name=f"{side}_beat")
    wiring.connect(m, wiring.flipped(operation), lanes.operation)
    wiring.connect(m, lanes.fault, wiring.flipped(fault))
    with m.If(start):
      m.d[domain] += mtype.eq(operation.mtype)
    addresses = [name(m, tree(lanes.addresses[e::n], beat), f"{side}_address{e}") for e in range(n)]
    now = name(m, part(pending, beat, n) if config.beats > 1 else pending, f"{side}_now")
    m.d.comb += [lanes.capture.eq(start), lanes.checked.eq(pending), banks.pending.eq(now)]
    m.d.comb += [port.eq(address) for port, address in zip(banks.addresses, addresses, strict=True)]
    served = Cat(*(Mux(beat == b, banks.served, 0) for b in range(config.beats)))
    over = name(m, (now & ~banks.served) == 0, f"{side}_over")  # the beat's last access
    return _Access(banks, addresses, mtype, pending, beat, name(m, pending & ~served, f"{side}_left"),
                   name(m, (beat + over)[:len(beat)], f"{side}_following"),
                   name(m, over & (beat == config.beats - 1), f"{side}_last"))

  def _banks(self, m: Module, load_go: Value, store_go: Value, atomic_go: Value, load_banks: Any, store_banks: Any,
             merge: Any, collect: Any) -> None:
    """The memories, and what each bank's four ports do."""
    adding = Signal()  # sums are due of what an atomic add has read in the cycle before
    m.d.vmem_store += adding.eq(atomic_go)
    config = self.config
    n, slots = config.vector_lanes, low_bits(config) - 2
    to_bank = self._rotate(m, self.dma_in.valid, self.dma_in.data, self.dma_in.word[:slots], "in")
    to_mask = self._rotate(m, self.dma_in.valid, self.dma_in.mask, self.dma_in.word[:slots], "in_mask")
    of_mask = self._rotate(m, self.dma_out.valid, self.dma_out.mask, self.dma_out.word[:slots], "out_mask")
    collected = []
    out_word = Signal(slots)
    with m.If(self.dma_out.valid):
      m.d.sync += out_word.eq(self.dma_out.word)
    out_valid = Signal()
    m.d.sync += out_valid.eq(self.dma_out.valid)
    out_data = []
    inbound = name(m, self.dma_in.valid & self.dma_in.write, "inbound")
    for b in range(n):
      m.submodules[f"bank{b}"] = bank = BlankMemory(shape=32, depth=config.vmem_words // n)
      load, out = bank.read_port(domain="vmem_load"), bank.read_port()
      store, into = bank.write_port(granularity=8), bank.write_port(granularity=8)
      m.d.comb += [
        load.addr.eq(Mux(atomic_go, store_banks.rows[b], load_banks.rows[b])),
        load.en.eq(Mux(atomic_go, store_banks.used[b], load_go & load_banks.used[b])),
        into.addr.eq(self._row(m, self.dma_in.word, b, f"in_row{b}")), into.data.eq(to_bank.word_select(b, 32)),
        into.en.eq((inbound & to_mask[b]).replicate(4)),
        out.addr.eq(self._row(m, self.dma_out.word, b, f"out_row{b}")), out.en.eq(self.dma_out.valid & of_mask[b])]
      out_data.append(out.data)
      collected.append(load.data)
      valid, row, total = self._sum(m, b, atomic_go & store_banks.used[b], store_banks.rows[b], merge.words[b], load.data)
      m.d.comb += [
        store.addr.eq(Mux(adding, row, store_banks.rows[b])), store.data.eq(Mux(adding, total, merge.words[b])),
        store.en.eq(Mux(adding, valid.replicate(4), Mux(store_go, merge.enables[b], 0)))]
    m.d.comb += [collect.words.eq(Cat(*collected)), self.dma_out.rdata.eq(self._rotate(m, out_valid, Cat(*out_data), -out_word, "out"))]

  @staticmethod
  def _sum(m: Module, bank: int, reads: Value, row: Value, addend: Value, word: Value) -> tuple[Value, Value, Value]:
    """An atomic add in one bank: it `reads` the word at `row`, which arrives as `word` in the next cycle. Of that cycle: whether there
    is a sum, its row, the sum. A row read twice running gets the second addend on top of the first sum, still on its way."""
    valid, at, operand = Signal(name=f"sum_valid{bank}"), Signal.like(row, name=f"sum_row{bank}"), Signal(32, name=f"sum_operand{bank}")
    again, before = Signal(name=f"sum_again{bank}"), Signal(32, name=f"sum_before{bank}")
    total = name(m, (Mux(again, before, word) + operand)[:32], f"sum{bank}")
    m.d.vmem_store += valid.eq(reads)
    with m.If(reads):
      m.d.vmem_store += [at.eq(row), operand.eq(addend), again.eq(valid & (at == row))]
    with m.If(valid):
      m.d.vmem_store += before.eq(total)
    return valid, at, total

  def _row(self, m: Module, word: Value, bank: int, label: str) -> Value:
    """Row of `bank` in an access to consecutive words from `word` on: one further for banks before the first."""
    slots = low_bits(self.config) - 2
    row = word[slots:slots + row_bits(self.config)]
    return row if bank == self.config.vector_lanes - 1 else name(m, (row + (word[:slots] > bank))[:len(row)], label)

  def _rotate(self, m: Module, valid: Value, values: Value, by: Value, label: str) -> Value:
    """A value per bank, moved up by `by` places modulo their number if `valid`: what has left above comes in below."""
    bits = len(values) // self.config.vector_lanes
    out = Signal(len(values), name=f"{label}_rotated")
    with m.If(valid):  # as a shift of two copies, which is a copy of memory in simulation
      m.d.comb += out.eq((Cat(values, values) >> Cat(Const(0, bits.bit_length() - 1), (-by)[:len(by)]))[:len(values)])
    return out
