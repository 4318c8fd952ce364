"""Direct HBM access: loads and stores of elements anywhere in device memory, coalesced line by line."""
from __future__ import annotations

from amaranth.hdl import Cat, DomainRenamer, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa.faults import Fault
from ..isa.table import OPS
from .address import LaneAddresses, lowest, pick
from .align import LoadCollect, Narrow, StoreMerge, low_bits
from .delay import Delay
from .float_common import name
from .interfaces import hbm_port, memory_fault, memory_issue, tile_bits, vector_result
from .once import place
from .opcodes import is_op
from .select import part, tree

__all__ = ["HBM_CLOCKS", "HbmUnit"]

HBM_CLOCKS = ("hbm_request",)
"""Clock domains of `HbmUnit` that may rest while its output `<domain>_enable` is low."""

_LOADS = tuple(op.name for op in OPS.values() if op.name.startswith("hld"))
_STORES = tuple(op.name for op in OPS.values() if op.name.startswith("hst"))


class HbmUnit(wiring.Component):
  """Direct HBM access, in order, one line per cycle.

  An operation that issues in t has its addresses and check in t + 1, where a fault is raised (and the operation dropped). From t + 1
  on, every cycle picks the line of the lowest element that is still pending and serves all elements of its beat in it; the line is
  requested in the cycle after, from registers. n lines so take n cycles, and the next operation may issue in t + n. HBM answers exactly
  hbm_latency cycles after a request: what a response is for is known without a handshake, from a delay line. The result is raised in
  t + HBM_ISSUE + n + hbm_latency - 1, with the last response. An operation without active elements passes as one beat that
  requests nothing.

  The clock domain `hbm_request`, all but the way of the responses, may rest at the end of cycles in which `hbm_request_enable` is low,
  which changes no result; otherwise it ticks with `sync`.

  Members:
    issue: In(memory_issue): codes that are not hld* or hst* are ignored. ready: Out(1), an operation may issue in this cycle.
    result: Out(vector_result), of loads. fault: Out(memory_fault), in t + 1.
    port: Out(hbm_port). line: Out(1), a line is requested in this cycle.
    stores_done: Out(1), every store that issued in an earlier cycle has reached memory.
    hbm_request_enable: Out(1), combinational from `issue`.
  """

  def __init__(self, config: Config) -> None:
    self.config = config
    super().__init__({
      "issue": In(memory_issue(config)), "ready": Out(1), "result": Out(vector_result(config)), "fault": Out(memory_fault()),
      "port": Out(hbm_port(config)), "line": Out(1), "stores_done": Out(1),
      **{f"{domain}_enable": Out(1) for domain in HBM_CLOCKS}})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    config, issue = self.config, self.issue
    n, low = config.vector_lanes, low_bits(config)

    # The operation: captured in t, served from t + 1 on.
    storing = name(m, is_op(issue.code, *_STORES), "storing")
    start = name(m, issue.start & (storing | is_op(issue.code, *_LOADS)), "start")
    busy, store, first = Signal(), Signal(), Signal()
    pending, mtype, reg = Signal(config.width), Signal(4), Signal(6)
    data = Signal(tile_bits(config), reset_less=True)
    lanes = LaneAddresses(config, config.hbm_bytes, Fault.HBM_ALIGN, Fault.HBM_BOUNDS)
    m.submodules.lanes = DomainRenamer("hbm_request")(lanes)
    wiring.connect(m, wiring.flipped(issue), lanes.operation)
    wiring.connect(m, lanes.fault, wiring.flipped(self.fault))
    m.d.comb += [lanes.capture.eq(start), lanes.checked.eq(pending)]

    # The line of the lowest pending element, and who else of its beat is in it.
    beat = Signal(range(config.beats))
    for b in reversed(range(config.beats)):
      with m.If(pending[n * b:n * b + n] != 0):
        m.d.comb += beat.eq(b)
    addresses = [name(m, tree(lanes.addresses[e::n], beat), f"address{e}") for e in range(n)]
    now = name(m, part(pending, beat, n) if config.beats > 1 else pending, "now")
    lines = [address[low:] for address in addresses]
    line = name(m, pick(lowest(m, now, "leader"), lines), "line_now")
    served = name(m, now & Cat(*(other == line for other in lines)), "served")
    left = name(m, pending & ~Cat(*(Mux(beat == b, served, 0) for b in range(config.beats))), "left")
    go = name(m, busy & ~self.fault.valid, "go")
    last = name(m, left == 0, "last")
    done = name(m, ~go | last, "done")
    m.d.comb += self.ready.eq(done)
    m.d.hbm_request += [busy.eq(~done), pending.eq(Mux(go, left, 0)), first.eq(0)]
    with m.If(start):
      m.d.hbm_request += [
        busy.eq(1), first.eq(1), store.eq(storing), pending.eq(issue.mask), mtype.eq(issue.mtype), reg.eq(issue.d)]
      m.d.hbm_request += data.eq(issue.data)

    merge = place(m, platform, "merge", "merge", StoreMerge, config)
    m.d.comb += [merge.mtype.eq(mtype), merge.served.eq(served)]
    words = name(m, part(data, beat, 32 * n) if config.beats > 1 else data, "data_now")
    for e in range(n):
      narrow = place(m, platform, f"narrow{e}", "narrow", Narrow)
      m.d.comb += [narrow.word.eq(words.word_select(e, 32)), narrow.mtype.eq(mtype), merge.data[e].eq(narrow.o),
                   merge.low[e].eq(addresses[e][:low])]

    # The request, and with it, on its way to the response, what it is for.
    port = self.port
    requesting = Signal()  # also for the beat of an operation that requests nothing
    m.d.hbm_request += [requesting.eq(go), port.valid.eq(go & (pending != 0)), port.write.eq(store), port.line.eq(line)]
    with m.If(go & store):
      m.d.hbm_request += [port.data.eq(Cat(*merge.words)), port.bytemask.eq(Cat(*merge.enables))]
    m.d.comb += [self.line.eq(port.valid), self.hbm_request_enable.eq(start | busy | requesting),
                 self.stores_done.eq(~((busy & store) | (requesting & port.write)))]

    collect = place(m, platform, "collect", "collect", LoadCollect, config)
    purpose: list[tuple[Value, Value]] = [
      (collect.valid, go & ~store), (collect.first, first), (collect.last, last), (collect.reg, reg), (collect.mtype, mtype),
      (collect.beat, beat), (collect.served, served)]
    purpose += [(collect.low[e], addresses[e][:low]) for e in range(n)]
    m.submodules.delay = delay = Delay(sum(len(port) for port, _ in purpose), config.hbm_latency + 1)
    m.d.comb += [delay.i.eq(Cat(*(value for _, value in purpose))), Cat(*(port for port, _ in purpose)).eq(delay.o)]
    m.d.comb += collect.words.eq(self.port.rdata)
    wiring.connect(m, collect.result, wiring.flipped(self.result))
    return m
