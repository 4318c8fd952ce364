"""The TensorCore: front end, issue, operand stage, units and memories, wired together."""
from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import encoding as enc
from ..isa import stalls
from ..isa.counters import COUNTERS
from ..isa.table import OPS
from .control import Control
from .counters import Counters
from .decode import SLOTS, Decode, field
from .dma import DmaEngine
from .fetch import Fetch
from .hbm import HBM_CLOCKS, HbmUnit
from .interfaces import hbm_port, memory_fault, scalar_result, tile_bits
from .issue import Issue, fault_record
from .mxu import MATRIX_CLOCKS, MatrixUnit
from .operands import Operands
from .reduce import REDUCE_CLOCKS, ReduceUnit
from .scalar import ScalarUnit
from .scoreboard import Scoreboard
from .trace import TransferTrace, by_cause, trace_port
from .vmem import VMEM_CLOCKS, VmemUnit
from .vpu import VECTOR_CLOCKS, VectorUnit
from .window import Space, Window
from .xlu import CrossUnit

__all__ = ["CLOCK_ENABLES", "Core"]

CLOCK_ENABLES = (dict.fromkeys(VECTOR_CLOCKS, "vector_unit") | dict.fromkeys(MATRIX_CLOCKS, "matrix_unit")
                 | dict.fromkeys(REDUCE_CLOCKS, "reduce_unit")
                 | dict.fromkeys(VMEM_CLOCKS, "vmem_unit") | dict.fromkeys(HBM_CLOCKS, "hbm_unit"))
"""Clock domains that may rest, and the unit whose output `<domain>_enable` says when not."""


class Core(wiring.Component):
  """One TensorCore with its four HBM ports; timing and faults as in docs/timing.md.

  Members:
    launch: In(1), the next cycle is cycle 0; invalidate: In(1); program, entry: In(32); limit: In(64); see `csr.Csr`.
    busy: Out(1), a launch is under way, or what it left behind: a refill, results for s0. cycles: Out(64); fault: Out(fault_record()).
    counter: In(4), counter_value: Out(64). scalar: In(6), scalar_value: Out(32), scalar_write: In(scalar_result).
    window_request: In(1), window_space: In(Space), window_index: In(28), window_busy: Out(1), window_tile: Out(tile).
    fetch, vector, dma_in, dma_out: Out(hbm_port). <domain>_enable: Out(1), for each of `CLOCK_ENABLES`.
    trace: Out(trace_port()), if traced.
  """

  def __init__(self, config: Config, traced: bool = False):
    self.config, self.traced = config, traced
    super().__init__({
      "launch": In(1), "invalidate": In(1), "program": In(32), "entry": In(32), "limit": In(64), "busy": Out(1),
      "cycles": Out(64), "fault": Out(fault_record()), "counter": In((len(COUNTERS) - 1).bit_length()), "counter_value": Out(64),
      "scalar": In(6), "scalar_value": Out(32), "scalar_write": In(scalar_result()), "window_request": In(1),
      "window_space": In(Space), "window_index": In(28), "window_busy": Out(1), "window_tile": Out(tile_bits(config)),
      **{f"{domain}_enable": Out(1) for domain in CLOCK_ENABLES},
      **{port: Out(hbm_port(config)) for port in ("fetch", "vector", "dma_in", "dma_out")},
      **({"trace": Out(trace_port())} if traced else {})})

  def elaborate(self, platform) -> Module:
    m = Module()
    config = self.config
    m.submodules.fetch_unit = self.fetch_unit = Fetch(config)
    m.submodules.decode = self.decode = Decode()
    m.submodules.issue = self.issue = Issue(self.traced)
    m.submodules.control = self.control = Control()
    m.submodules.operands = self.operands = Operands(config)
    m.submodules.scoreboard = self.scoreboard = Scoreboard(config, vector_releases=6, scalar_releases=2, traced=self.traced)
    m.submodules.window = self.window = Window(config)
    m.submodules.counters = self.counters = Counters()
    m.submodules.scalar_unit = self.scalar_unit = ScalarUnit()
    m.submodules.vector_unit = self.vector_unit = VectorUnit(config)
    m.submodules.cross_unit = self.cross_unit = CrossUnit(config)
    m.submodules.reduce_unit = self.reduce_unit = ReduceUnit(config)
    m.submodules.matrix_unit = self.matrix_unit = MatrixUnit(config)
    m.submodules.vmem_unit = self.vmem_unit = VmemUnit(config)
    m.submodules.hbm_unit = self.hbm_unit = HbmUnit(config)
    m.submodules.dma_in_engine = self.dma_in_engine = DmaEngine(config, True)
    m.submodules.dma_out_engine = self.dma_out_engine = DmaEngine(config, False)

    self._front_end(m)
    self._units(m)
    self._results(m)
    self._memories(m)
    self._host(m)
    if self.traced:
      self._trace(m)
    return m

  def _front_end(self, m: Module) -> None:
    fetch, decode, issue, control, board = self.fetch_unit, self.decode, self.issue, self.control, self.scoreboard
    group = decode.group
    m.d.comb += [
      fetch.lookup.eq(issue.lookup), fetch.pc.eq(issue.lookup_pc), fetch.base.eq(self.program), fetch.invalidate.eq(self.invalidate),
      decode.packet.eq(fetch.packet), decode.offset.eq(issue.pc),
      issue.launch.eq(self.launch), issue.entry.eq(self.entry), issue.limit.eq(self.limit),
      issue.present.eq(fetch.present), issue.illegal.eq(group.illegal), issue.length.eq(group.length),
      control.pc.eq(issue.pc), control.following.eq(issue.following), control.issue.eq(issue.issue), control.clear.eq(self.launch),
      control.a.eq(self.operands.branch_a), control.c.eq(self.operands.branch_c),
      issue.halt.eq(control.halt), issue.target.eq(control.target), issue.control_fault.eq(control.fault),
      issue.control_info.eq(control.info), board.issue.eq(issue.issue), self.operands.issue.eq(issue.issue)]
    for slot in SLOTS:
      op = getattr(group, slot)
      sinks = [getattr(board.group, slot), getattr(self.operands.group, slot)] + ([control.op] if slot == "C" else [])
      for sink in sinks:
        m.d.comb += [sink.valid.eq(op.valid), sink.word.eq(op.word), sink.control.eq(op.control)]

    # Memory units that cannot take the group's operations in this cycle.
    store = group.T.control
    full = ((group.L.valid | (group.T.valid & store.vmem)) & ~self.vmem_unit.ready) | (group.T.valid & (
      (store.hbm & ~self.hbm_unit.ready) | (store.dmai & ~self.dma_in_engine.ready) | (store.dmao & ~self.dma_out_engine.ready)))
    m.d.comb += [
      issue.stall.eq(board.stall | control.stall | full),
      control.unfinished_in.eq(self.dma_in_engine.unfinished), control.unfinished_out.eq(self.dma_out_engine.unfinished)]

  def _units(self, m: Module) -> None:
    operands, window = self.operands, self.window
    for source, unit in ((operands.scalar, self.scalar_unit), (operands.vector, self.vector_unit), (operands.cross, self.cross_unit),
                         (operands.cross, self.reduce_unit), (operands.cross, self.matrix_unit)):
      m.d.comb += [getattr(unit.issue, name).eq(getattr(source, name)) for name in source.signature.members]
    m.d.comb += [self.scalar_unit.cycle.eq(self.issue.cycle), self.scalar_unit.loop_index.eq(self.control.index),
                 self.scalar_unit.loop_depth.eq(self.control.depth), self.control.distance.eq(operands.scalar.b)]
    with m.If(window.pop):  # the host reads a bucket
      m.d.comb += [self.matrix_unit.issue.start.eq(1), self.matrix_unit.issue.code.eq(OPS["ppop"].code),
                   self.matrix_unit.issue.bucket.eq(window.index_out)]

    control = self.decode.group.T.control
    hbm, vmem = self.hbm_unit.issue, self.vmem_unit
    for sink, source, enable in ((vmem.load, operands.load, 1), (vmem.store, operands.store, control.vmem),
                                 (hbm, operands.store, control.hbm), (self.dma_in_engine.issue, operands.store, control.dmai),
                                 (self.dma_out_engine.issue, operands.store, control.dmao)):
      m.d.comb += [getattr(sink, name).eq(getattr(source, name)) for name in source.signature.members if name != "start"]
      m.d.comb += sink.start.eq(source.start & enable)

  def _results(self, m: Module) -> None:
    """Write-back and release of registers. A load that faults releases its register without writing it."""
    operands, board = self.operands, self.scoreboard
    cross, reduce, pop, window = self.cross_unit.result, self.reduce_unit.result, self.matrix_unit.result, self.window
    m.d.comb += [
      operands.vector_cross.valid.eq(cross.valid | reduce.valid | (pop.valid & ~window.busy)),
      operands.vector_cross.reg.eq(Mux(cross.valid, cross.reg, Mux(reduce.valid, reduce.reg, pop.reg))),
      operands.vector_cross.data.eq(Mux(cross.valid, cross.data, Mux(reduce.valid, reduce.data, pop.data)))]
    for sink, source in ((operands.vector_vector, self.vector_unit.result), (operands.vector_load, self.vmem_unit.result),
                         (operands.vector_hbm, self.hbm_unit.result), (operands.scalar_alu, self.scalar_unit.fast),
                         (operands.scalar_slow, self.scalar_unit.slow), (operands.scalar_cross, self.cross_unit.scalar),
                         (operands.scalar_host, self.scalar_write), (window.popped, pop)):
      m.d.comb += [sink.valid.eq(source.valid), sink.reg.eq(source.reg), sink.data.eq(source.data)]

    load_reg, store_reg, was_load = Signal(6), Signal(6), Signal()
    m.d.sync += [load_reg.eq(operands.load.d), store_reg.eq(operands.store.d), was_load.eq(self.decode.group.T.control.write_v)]
    hbm_load_fault = Signal()
    m.d.comb += hbm_load_fault.eq(self.hbm_unit.fault.valid & was_load)
    releases = [(r.valid, r.reg) for r in (operands.vector_vector, operands.vector_cross, operands.vector_load, operands.vector_hbm)]
    releases += [(self.vmem_unit.load_fault.valid, load_reg), (hbm_load_fault, store_reg)]
    for i, (valid, reg) in enumerate(releases):
      release = getattr(board, f"vector_release{i}")
      m.d.comb += [release.valid.eq(valid), release.reg.eq(reg)]
    for i, result in enumerate((operands.scalar_slow, operands.scalar_cross)):
      release = getattr(board, f"scalar_release{i}")
      m.d.comb += [release.valid.eq(result.valid), release.reg.eq(result.reg)]

    loads = Signal(range(Config.VREGS + 1))  # direct HBM loads outstanding, each of another register
    begun = self.hbm_unit.issue.start & self.decode.group.T.control.write_v
    m.d.sync += loads.eq(loads + begun - self.hbm_unit.result.valid - hbm_load_fault)  # both may come in one cycle
    m.d.comb += [
      self.control.fence_ok.eq(self.hbm_unit.stores_done & (loads == 0)), self.control.quiet.eq(self.issue.quiet),
      self.issue.quiet.eq(board.quiet & self.vmem_unit.idle & self.hbm_unit.stores_done
                          & (self.dma_in_engine.unfinished == 0) & (self.dma_out_engine.unfinished == 0))]

  def _memories(self, m: Module) -> None:
    vmem, window = self.vmem_unit, self.window
    for unit, port in ((self.fetch_unit, self.fetch), (self.hbm_unit, self.vector), (self.dma_in_engine, self.dma_in),
                       (self.dma_out_engine, self.dma_out)):
      wiring.connect(m, wiring.flipped(port), unit.port)
    wiring.connect(m, self.dma_in_engine.vmem, vmem.dma_in)
    outward = self.dma_out_engine.vmem
    for name in ("valid", "write", "word", "mask", "data"):
      m.d.comb += getattr(vmem.dma_out, name).eq(Mux(window.reading, getattr(window.vmem, name), getattr(outward, name)))
    m.d.comb += [outward.rdata.eq(vmem.dma_out.rdata), window.vmem.rdata.eq(vmem.dma_out.rdata)]

    issue = self.issue
    units = (vmem.store_fault, self.hbm_unit.fault, self.dma_in_engine.fault, self.dma_out_engine.fault)
    for name in memory_fault().members:
      value = getattr(units[0], name)
      for unit in units[1:]:  # a group has one operation of slot T: at most one is valid
        value = Mux(unit.valid, getattr(unit, name), value)
      m.d.comb += [getattr(issue.store_fault, name).eq(value), getattr(issue.load_fault, name).eq(getattr(vmem.load_fault, name))]

  def _host(self, m: Module) -> None:
    issue, window, operands, counters = self.issue, self.window, self.operands, self.counters
    fault = issue.fault
    m.d.comb += [
      self.busy.eq(issue.running | issue.draining | ~self.fetch_unit.idle | ~self.scoreboard.rest), self.cycles.eq(issue.cycles),
      self.fault.cause.eq(fault.cause), self.fault.pc.eq(fault.pc), self.fault.cycle.eq(fault.cycle), self.fault.info.eq(fault.info),
      counters.clear.eq(self.launch), counters.select.eq(self.counter), self.counter_value.eq(counters.value),
      window.request.eq(self.window_request), window.space.eq(self.window_space), window.index.eq(self.window_index),
      window.vreg.eq(operands.host_tile), self.window_busy.eq(window.busy), self.window_tile.eq(window.tile),
      operands.host.eq(~issue.running), operands.host_scalar.eq(self.scalar), operands.host_vector.eq(window.index_out),
      self.scalar_value.eq(operands.host_word)]
    m.d.comb += [getattr(self, f"{domain}_enable").eq(getattr(getattr(self, unit), f"{domain}_enable"))
                 for domain, unit in CLOCK_ENABLES.items()]

    group = self.decode.group
    events = {
      "groups": issue.issue, **{f"slot_{slot}": issue.issue & getattr(group, slot).valid for slot in SLOTS},
      "div_ops": issue.issue & group.V.valid & group.V.control.is_DIV, "mxu_steps": issue.issue & group.X.valid & group.X.control.step,
      "vmem_cycles": self.vmem_unit.busy_cycle, "hbm_lines": self.hbm_unit.line,
      "dma_lines": self.dma_in_engine.line + self.dma_out_engine.line, "refills": self.fetch_unit.refill}
    if events.keys() != set(COUNTERS):
      raise ValueError(f"the core counts {sorted(events)}, but isa.counters lists {sorted(COUNTERS)}")
    m.d.comb += [getattr(counters, f"add_{name}").eq(event) for name, event in events.items()]

  def _trace(self, m: Module) -> None:
    issue, group, board, trace = self.issue, self.decode.group, self.scoreboard, self.trace
    dma = {"in": self.dma_in_engine, "out": self.dma_out_engine}
    store, control = group.T.control, self.control
    uses = {"vmem": group.L.valid | (group.T.valid & store.vmem), "hbm": group.T.valid & store.hbm,
            "dma_in": group.T.valid & store.dmai, "dma_out": group.T.valid & store.dmao}
    code = field(group.C.word, enc.CODE)
    waits = {name: control.stall & (code == OPS[name].code) for name in ("fence", "barrier", "dwaiti", "dwaito")}
    waits |= {"unit_vmem": uses["vmem"] & ~self.vmem_unit.ready, "unit_hbm": uses["hbm"] & ~self.hbm_unit.ready}
    waits |= {f"queue_dma_{way}": uses[f"dma_{way}"] & ~engine.ready for way, engine in dma.items()}
    drains = {"drain_dma_out": dma["out"].unfinished != 0, "drain_dma_in": dma["in"].unfinished != 0, "drain_hbm": ~control.fence_ok,
              "drain_vmem": ~self.vmem_unit.idle, "drain_result": ~issue.quiet}
    m.d.comb += [
      trace.first.eq(issue.first), trace.running.eq(issue.running), trace.draining.eq(issue.draining),
      trace.drains.eq(by_cause(drains, stalls.DRAINS)),
      trace.present.eq(issue.there), trace.issue.eq(issue.issue), trace.fault.eq(issue.taken),
      trace.pc.eq(Mux(issue.taken, issue.taken_pc, issue.pc)), trace.waits.eq(board.waits | by_cause(waits)),
      trace.slots.eq(Cat(getattr(group, slot).valid for slot in SLOTS)),
      trace.vmem_cycles.eq(self.vmem_unit.busy_cycle), trace.hbm_line.eq(self.hbm_unit.line)]
    m.d.comb += [getattr(trace, unit).eq(use) for unit, use in uses.items()]
    for way, engine in dma.items():
      m.submodules[f"trace_dma_{way}"] = tap = TransferTrace(self.config, way == "in")
      m.d.comb += [tap.start.eq(issue.issue & uses[f"dma_{way}"]), tap.fault.eq(engine.fault.valid), tap.unfinished.eq(engine.unfinished),
                   tap.line.eq(engine.line), getattr(trace, f"dma_{way}_done").eq(tap.done), getattr(trace, f"dma_{way}_line").eq(tap.late)]
