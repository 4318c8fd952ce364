"""The issue stage: what may issue, and that a launch with a watchdog stops running."""
from __future__ import annotations

from amaranth.hdl import Assert, Assume, Cover, Signal

from tinytpu.isa.faults import Fault
from tinytpu.rtl.issue import Issue

from ..mutants import Mutant
from ..proof import Invariant, Theorem
from ..spec import Spec


def _launched() -> tuple[Spec, Issue]:
  """Launches as the host makes them: while nothing runs, and with a limit that stays. Memory faults are those of the group before."""
  unit = Issue()
  s, limit, issued = Spec(unit), Signal(64), Signal()
  s.m.d.sync += [limit.eq(unit.limit), issued.eq(unit.issue)]
  s.m.d.comb += [
    Assume(~(unit.launch & (unit.running | unit.draining))), Assume(~(unit.running | unit.draining) | (unit.limit == limit)),
    Assume(~(unit.load_fault.valid | unit.store_fault.valid) | issued),
    Assert(~(unit.running & unit.draining), "the program runs and drains"),
    Assert(~issued | unit.running | unit.draining, "the launch is over in the cycle after a group has issued")]
  s.shown += [unit.running, unit.draining, unit.cycle]
  return s, unit


def watchdog() -> Spec:
  """`running` ends with cycle `limit` at the latest."""
  s, unit = _launched()
  s.m.d.comb += [
    Assert(~(unit.running & (unit.limit != 0)) | (unit.cycle <= unit.limit), "the program runs on behind its limit"),
    Assert(~unit.issue | (unit.limit == 0) | (unit.cycle < unit.limit), "a group issues in the cycle of the limit or later"),
    Cover(unit.draining & (unit.fault.cause == Fault.WATCHDOG) & (unit.fault.cycle == 5), "the watchdog ends a program in its cycle 5")]
  return s


def one_fault() -> Spec:
  """What issues is present and without fault; a launch ends only when all is quiet, and its fault is that of its first end."""
  s, unit = _launched()
  memory = unit.load_fault.valid | unit.store_fault.valid
  ended, cause, cycle = Signal(), Signal(4), Signal(64)
  was_draining, was_quiet = Signal(), Signal()
  s.m.d.sync += [ended.eq(unit.draining & ~memory), cause.eq(unit.fault.cause), cycle.eq(unit.fault.cycle), was_draining.eq(unit.draining),
                 was_quiet.eq(unit.quiet)]
  s.m.d.comb += [
    Assert(~unit.issue | (unit.present & unit.running & ~unit.stall & ~memory & ~unit.illegal & (unit.control_fault == Fault.NONE)),
           "a group issues that must not"),
    Assert(~(ended & unit.draining) | ((unit.fault.cause == cause) & (unit.fault.cycle == cycle)),
      "the fault of a program that has ended changes"),
    Assert(~was_draining | unit.draining | was_quiet, "a launch ends although something is outstanding"),
    Cover(was_draining & ~unit.draining & (unit.fault.cause == Fault.ILLEGAL), "an illegal group ends a launch"),
    Cover(unit.issue & unit.halt, "halt issues")]
  return s


THEOREMS = [
  Theorem("issue.watchdog", "A program with a limit does not run, and issues nothing, behind it.", "docs/timing.md, Faults",
          Invariant(watchdog, 1, reach=9),
          (Mutant("issue", "self.cycle == self.limit", "self.cycle[:63] == self.limit[1:]"),
           Mutant("issue", "present & ~(memory | watchdog | group_fault", "present & ~(memory | group_fault")), quick=True),
  Theorem("issue.groups", "A group issues only if it is present, legal and need not wait; a launch ends only when all is quiet; its fault "
          "stays.",
          "docs/timing.md, Issue, Halt, Faults", Invariant(one_fault, 2, reach=6),
          (Mutant("issue", "memory | watchdog | group_fault | self.stall", "watchdog | group_fault | self.stall"),
           Mutant("issue", "self.draining & self.quiet", "self.draining"),
           Mutant("issue", "present.eq(self.running & self.present & ~self.first)", "present.eq(self.present & ~self.first)")), quick=True),
]
