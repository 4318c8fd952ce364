"""The scoreboard: what is outstanding, and whether a decoded group must wait for it."""
from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, Signature

from ..config import Config
from ..isa import encoding as enc
from ..isa import stalls, timing
from ..isa.table import OPS, SLOTS
from .decode import CONTROL, field, group, slot_reads, used
from .trace import by_cause

__all__ = ["Scoreboard", "release"]


def release() -> Signature:
  """A register stops being outstanding at the end of this cycle."""
  return Signature({"valid": Out(1), "reg": Out(6)})


class Scoreboard(wiring.Component):
  """Keeps registers, PSUM buckets, shared write ports, dividers, transcendental pipelines and the matrix array that are in use.

  `stall` tells of the decoded group in this cycle; `issue` marks that it issues. What is set at the end of cycle t is
  seen by the group in t + 1; a release in cycle t + L - 1 frees the register for t + L. A program ends when all is
  quiet; the next one begins when all is at rest, too, so nothing is left over for it.

  Args:
    config: for the latencies.
    vector_releases, scalar_releases: how many result buses (and faults) release registers.
    traced: with the output `waits`.

  Members:
    group: In(group()); issue: In(1).
    vector_release<i>, scalar_release<i>: In(release()).
    stall: Out(1), conditions 1 to 4 of docs/timing.md, except for memories. quiet: Out(1), no result outstanding.
    rest: Out(1), no unit is occupied and no write port reserved; results for s0, which are never outstanding, are through.
    waits: Out(a bit for each of isa.stalls.WAITS), if traced: the conditions that make `stall`.
  """

  def __init__(self, config: Config, vector_releases: int, scalar_releases: int, traced: bool = False):
    self.config, self.traced = config, traced
    self.counts = {"v": vector_releases, "s": scalar_releases}
    names = [f"vector_release{i}" for i in range(vector_releases)] + [f"scalar_release{i}" for i in range(scalar_releases)]
    super().__init__({"group": In(group()), "issue": In(1), "stall": Out(1), "quiet": Out(1), "rest": Out(1)}
                     | {name: In(release()) for name in names} | ({"waits": Out(len(stalls.WAITS))} if traced else {}))

  def elaborate(self, platform) -> Module:
    m = Module()
    busy = {"v": Signal(Config.VREGS, name="busy_v"), "s": Signal(Config.SREGS, name="busy_s")}
    ops = {slot: getattr(self.group, slot) for slot in SLOTS}
    registers: list[tuple[str, Value, Value]] = []  # that the group must wait for: file, number, if it has an operation that names it
    for slot, op in ops.items():
      control = data.View(CONTROL, op.control)
      for read in slot_reads(slot):
        registers.append((read.file, field(op.word, read.field), op.valid & read.needed(op.word, control)))
      for file in busy:
        if used(slot, f"write_{file}"):
          registers.append((file, field(op.word, enc.D), op.valid & control[f"write_{file}"]))
    waits: list[tuple[str, Value]] = [("", named & busy[file].bit_select(number, 1)) for file, number, named in registers]

    for file, prefix in (("v", "vector"), ("s", "scalar")):
      releases = [getattr(self, f"{prefix}_release{i}") for i in range(self.counts[file])]
      cleared = [Mux(r.valid, 1 << r.reg, 0) for r in releases]
      sets = [Mux(self.issue & op.valid & self._late(slot, op.control, file), 1 << field(op.word, enc.D), 0)
              for slot, op in ops.items() if used(slot, f"write_{file}")]
      down, up = Signal.like(busy[file], name=f"down_{file}"), Signal.like(busy[file], name=f"up_{file}")
      m.d.comb += [down.eq(_or(cleared)), up.eq(_or(sets))]
      keep = busy[file] & ~down | up
      m.d.sync += busy[file].eq(keep if file == "v" else Cat(Const(0), keep[1:Config.SREGS]))  # nothing waits for s0

    buckets = self._buckets(m, ops["X"], waits)
    occupied = self._ports(m, ops, waits)
    m.d.comb += [self.stall.eq(Cat(value for _, value in waits).any()),
                 self.quiet.eq(~(busy["v"].any() | busy["s"].any() | Cat(buckets).any())),
                 self.rest.eq(~Cat(occupied).any())]
    if self.traced:
      m.d.comb += self.waits.eq(by_cause([wait for wait in waits if wait[0]] + self._producers(m, ops, busy, registers)))
    return m

  def _producers(self, m: Module, ops: dict[str, wiring.PureInterface], busy: dict[str, Signal],
                 registers: list[tuple[str, Value, Value]]) -> list[tuple[str, Value]]:
    """The waits for registers, by what produces the result: the operation that was the last to write the register."""
    def writes(slot: str, file: str, kind: Value | int = 1) -> Value:
      op = ops[slot]
      return Mux(self.issue & op.valid & op.control[f"write_{file}"] & kind, 1 << field(op.word, enc.D), 0)

    writers = {file: [slot for slot in SLOTS if used(slot, f"write_{file}")] for file in busy}
    written = {file: _or([writes(slot, file) for slot in slots]) for file, slots in writers.items()}
    waits: list[tuple[str, Value]] = []
    for cause, classes in stalls.RESULTS.items():
      slot = next(o.slot for o in OPS.values() if o.timing in classes)
      for file in (f for f in busy if slot in writers[f]):
        # Slots L and T write registers with operations of one class only.
        kind = _or([ops[slot].control[f"is_{c}"] for c in classes]) if f"is_{classes[0]}" in CONTROL.members else 1
        last = Signal(len(busy[file]), name=f"{cause}_{file}")
        m.d.sync += last.eq(last & ~written[file] | writes(slot, file, kind))
        waits += [(cause, named & (busy[file] & last).bit_select(number, 1)) for f, number, named in registers if f == file]
    return waits

  @staticmethod
  def _late(slot: str, control: Value, file: str) -> Value:
    """Whether the operation leaves a result outstanding in `file`; of latency 1 it does not."""
    view = data.View(CONTROL, control)
    return view[f"write_{file}"] & (view.is_SMUL | view.is_SDIV) if slot == "S" else view[f"write_{file}"]

  def _buckets(self, m: Module, op: wiring.PureInterface, waits: list[tuple[str, Value]]) -> list[Signal]:
    """Per bucket the cycles until its last result; steps chain without waiting."""
    control = data.View(CONTROL, op.control)
    cycles = {c: timing.latency(self.config, c) for c in (*timing.STEPS, "PPUSH")}
    left = [Signal(range(max(cycles.values())), name=f"bucket{i}") for i in range(Config.PSUMS)]
    busy = Signal(Config.PSUMS, name="bucket_busy")
    bits = (Config.PSUMS - 1).bit_length()
    target, source = field(op.word, enc.D)[:bits], field(op.word, enc.A)[:bits]
    m.d.comb += busy.eq(Cat(count != 0 for count in left))
    waits += [("bucket", op.valid & control.pop & busy.bit_select(source, 1)),
              ("bucket", op.valid & control.push & busy.bit_select(target, 1)), ("bucket", op.valid & control.clear_all & busy.any())]
    starts = self.issue & op.valid & (control.step | control.is_PPUSH)  # a clear is not outstanding
    latency = _or([Mux(control[f"is_{c}"], n - 1, 0) for c, n in cycles.items()])
    for i, count in enumerate(left):
      with m.If(starts & (target == i)):
        m.d.sync += count.eq(latency)
      with m.Elif(busy[i]):
        m.d.sync += count.eq(count - 1)
    return left

  def _ports(self, m: Module, ops: dict[str, wiring.PureInterface], waits: list[tuple[str, Value]]) -> list[Signal]:
    """Write ports shared by several latencies (bit k: a result falls due in k cycles), and units that take an operation only every
    so many cycles. Returns what is zero when all of them are free."""
    occupied: list[Signal] = []
    for slot, classes in timing.PORTS.items():
      op, control = ops[slot], data.View(CONTROL, ops[slot].control)
      cycles = {c: timing.latency(self.config, c) for c in classes}
      due = Signal(max(cycles.values()), name=f"due_{slot}")
      taken = [control[f"is_{c}"] & due[latency] for c, latency in cycles.items() if latency < len(due)]
      waits += [(f"port_{slot}", op.valid & wait) for wait in taken]
      new = _or([Mux(control[f"is_{c}"], 1 << (latency - 1), 0) for c, latency in cycles.items()])
      m.d.sync += due.eq(due[1:] | Mux(self.issue & op.valid, new, 0))
      occupied.append(due)

    for unit, kinds in timing.UNITS.items():
      intervals = {c: timing.interval(self.config, c) for c in kinds}
      if max(intervals.values()) == 1:
        continue
      slot = next(o.slot for o in OPS.values() if o.timing in kinds)
      op, control = ops[slot], data.View(CONTROL, ops[slot].control)
      wanted = _or([control[f"is_{c}"] for c in kinds])
      left = Signal(range(max(intervals.values())), name=f"{unit}_left")
      waits.append((f"unit_{unit}", op.valid & wanted & (left != 0)))
      with m.If(self.issue & op.valid & wanted):
        m.d.sync += left.eq(_or([Mux(control[f"is_{c}"], n - 1, 0) for c, n in intervals.items()]))
      with m.Elif(left != 0):
        m.d.sync += left.eq(left - 1)
      occupied.append(left)
    return occupied


def _or(values: list[Value]) -> Value:
  total = values[0]
  for value in values[1:]:
    total = total | value
  return total
