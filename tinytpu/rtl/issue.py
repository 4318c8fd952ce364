"""The issue stage's state: program counter, cycle count, run, drain and faults."""
from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature

from ..isa import encoding as enc
from ..isa.faults import Fault
from .interfaces import memory_fault

__all__ = ["Issue", "fault_record"]


def fault_record() -> Signature:
  """isa.faults.FaultRecord as registers."""
  return Signature({"cause": Out(4), "pc": Out(32), "cycle": Out(64), "info": Out(32)})


class Issue(wiring.Component):
  """Decides in every cycle whether the present group issues, takes faults, and ends the launch when all is quiet.

  Args:
    traced: with the outputs `there` and `taken`.

  Members:
    launch: In(1): the next cycle is cycle 0, at group `entry` (In(32)); only while not `running` nor `draining`.
    limit: In(64), cycle of the watchdog's fault, 0 for none.
    present, illegal: In(1), length: In(3): of the present group. stall: In(1), it must wait.
    halt: In(1), target: In(32), control_fault: In(4), control_info: In(32): from the control unit.
    load_fault, store_fault: In(memory_fault), of slots L and T. quiet: In(1), nothing is outstanding.
    issue: Out(1). pc, following: Out(32), the group to issue next and the one behind it.
    first: Out(1), cycle 0. lookup: Out(1), lookup_pc: Out(32): to fetch.
    running, draining: Out(1). cycle: Out(64), now. cycles: Out(64), of the last launch. fault: Out(fault_record()).
    there: Out(1), if traced: a group is present; taken: Out(1), a fault is taken, of the group at taken_pc: Out(32).
  """

  def __init__(self, traced: bool = False) -> None:
    self.traced = traced
    super().__init__({
      "launch": In(1), "entry": In(32), "limit": In(64), "present": In(1), "illegal": In(1), "length": In(range(enc.PACKET_WORDS + 1)),
      "stall": In(1), "halt": In(1), "target": In(32), "control_fault": In(4), "control_info": In(32),
      "load_fault": In(memory_fault()), "store_fault": In(memory_fault()), "quiet": In(1),
      "issue": Out(1), "pc": Out(32), "following": Out(32), "first": Out(1), "lookup": Out(1), "lookup_pc": Out(32),
      "running": Out(1), "draining": Out(1), "cycle": Out(64), "cycles": Out(64), "fault": Out(fault_record())}
      | ({"there": Out(1), "taken": Out(1), "taken_pc": Out(32)} if traced else {}))

  def elaborate(self, platform) -> Module:
    m = Module()
    issued_pc = Signal(32)  # of the group of the cycle before, whose memory operations fault now
    present, memory, watchdog, group_fault = Signal(), Signal(), Signal(), Signal()
    m.d.comb += [
      present.eq(self.running & self.present & ~self.first),
      memory.eq(self.load_fault.valid | self.store_fault.valid),
      watchdog.eq(self.running & (self.limit != 0) & (self.cycle == self.limit)),
      group_fault.eq(self.illegal | (self.control_fault != Fault.NONE)),
      self.issue.eq(present & ~(memory | watchdog | group_fault | self.stall)),
      self.following.eq(self.pc + self.length),
      self.lookup.eq(self.first | (self.issue & ~self.halt)),
      self.lookup_pc.eq(Mux(self.first, self.pc, self.target)),
    ]
    with m.If(self.running | self.draining):
      m.d.sync += [self.cycle.eq(self.cycle + 1), self.first.eq(0)]
    with m.If(self.issue):
      m.d.sync += [self.pc.eq(self.target), issued_pc.eq(self.pc)]
      with m.If(self.halt):
        m.d.sync += [self.running.eq(0), self.draining.eq(1)]

    fault = self.fault
    with m.If(memory):
      first = self.load_fault.valid
      m.d.sync += [
        fault.cause.eq(Mux(first, self.load_fault.cause, self.store_fault.cause)),
        fault.info.eq(Mux(first, self.load_fault.info, self.store_fault.info)), fault.pc.eq(issued_pc)]
    with m.Elif(watchdog):
      m.d.sync += [fault.cause.eq(Fault.WATCHDOG), fault.info.eq(0), fault.pc.eq(self.pc)]
    with m.Elif(present & group_fault):
      m.d.sync += [
        fault.cause.eq(Mux(self.illegal, Fault.ILLEGAL, self.control_fault)),
        fault.info.eq(Mux(self.illegal, 0, self.control_info)), fault.pc.eq(self.pc)]
    with m.If(memory | watchdog | (present & group_fault)):
      m.d.sync += [fault.cycle.eq(self.cycle), self.running.eq(0), self.draining.eq(1)]
    with m.Elif(self.draining & self.quiet):
      m.d.sync += [self.draining.eq(0), self.cycles.eq(self.cycle)]

    if self.traced:
      m.d.comb += [self.there.eq(present), self.taken.eq(memory | watchdog | (present & group_fault)),
                   self.taken_pc.eq(Mux(memory, issued_pc, self.pc))]

    with m.If(self.launch):
      m.d.sync += [
        self.running.eq(1), self.first.eq(1), self.cycle.eq(0), self.pc.eq(self.entry),
        fault.cause.eq(Fault.NONE), fault.pc.eq(0), fault.cycle.eq(0), fault.info.eq(0)]
    return m
