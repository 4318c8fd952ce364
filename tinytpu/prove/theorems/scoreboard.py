"""The scoreboard keeps its promises: ports, units, registers and buckets, for any groups that the decoder makes of any packets.

Each theorem follows one operation, any one, from its issue to its result, and knows from the ISA table alone what that means.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Mux, Signal, Value

from tinytpu.config import Config, preset
from tinytpu.isa import encoding as enc
from tinytpu.isa import table, timing
from tinytpu.rtl.decode import Decode, field
from tinytpu.rtl.scoreboard import Scoreboard

from ..mutants import Mutant
from ..proof import Invariant, Theorem
from ..spec import Spec

CONFIG = preset("4x4,vector_lanes=4")
"""Four beats a tile, so that every unit is busy for more than a cycle."""


class Board(Spec):
  """A scoreboard that is asked about what a decoder makes of any packet, and told of issues as the issue stage does."""

  def __init__(self) -> None:
    self.board = Scoreboard(CONFIG, vector_releases=6, scalar_releases=2)
    super().__init__(self.board)
    self.decode = decode = Decode()
    self.m.submodules.decode = decode
    self.ports |= {"packet": (decode.packet, None), "offset": (decode.offset, None)}
    for slot in table.SLOTS:
      op, sink = getattr(decode.group, slot), getattr(self.board.group, slot)
      self.m.d.comb += [sink.valid.eq(op.valid), sink.word.eq(op.word), sink.control.eq(op.control)]
    self.issue = self.board.issue
    self.m.d.comb += Assume(~self.issue | ~(self.board.stall | decode.group.illegal))

  def has(self, slot: str, ops: Iterable[table.Op]) -> Value:
    """The group has one of these operations in `slot`."""
    codes = [op.code for op in ops if op.slot == slot]
    op = getattr(self.decode.group, slot)
    return op.valid & field(op.word, enc.CODE).matches(*codes) if codes else Const(0)

  def of(self, slot: str, classes: Iterable[str], cycles: Callable[[Config, str], int]) -> tuple[Value, Value]:
    """The group has an operation of these latency classes in `slot`; its `cycles`, a function of timing."""
    kinds = [(self.has(slot, [op for op in table.OPS.values() if op.timing == c]), cycles(CONFIG, c)) for c in classes]
    length: Value = Const(0, 10)
    for here, n in kinds:
      length = Mux(here, n, length)
    return Const(0) | sum((here for here, _ in kinds), Const(0)) != 0, length

  def follow(self, starts: Value, cycles: Value) -> Signal:
    """Cycles left of an operation that is followed: any that `starts`, while none is followed; 0 if none is."""
    left, this = Signal(10, name="left"), AnySeq(1)
    self.shown.append(left)
    with self.m.If((left == 0) & starts & this):
      self.m.d.sync += left.eq(cycles - 1)
    with self.m.Elif(left != 0):
      self.m.d.sync += left.eq(left - 1)
    return left


def ports(slot: str) -> Callable[[], Spec]:
  """No operation that issues has its result in the same cycle, on the same port, as the one that is followed."""
  def spec() -> Spec:
    s = Board()
    here, latency = s.of(slot, timing.PORTS[slot], timing.latency)
    left = s.follow(s.issue & here, latency)
    due = s.signals[f"due_{slot}"]
    s.m.d.comb += [
      Assert(~((left != 0) & s.issue & here & (latency == left)), "two results are due on one port in one cycle"),
      Assert((left == 0) | (due >> left)[0], "the result that is due has not reserved its cycle"),
      Assert((left == 0) | ~s.board.rest, "at rest although a result is due"),
      Cover((left != 0) & s.board.stall & here & (latency == left), "a group waits for the port")]
    return s
  return spec


def units(unit: str) -> Callable[[], Spec]:
  """No operation of a unit issues before the one that is followed lets it go."""
  def spec() -> Spec:
    s = Board()
    slot = next(op.slot for op in table.OPS.values() if op.timing in timing.UNITS[unit])
    here, interval = s.of(slot, timing.UNITS[unit], timing.interval)
    left = s.follow(s.issue & here, interval)
    s.m.d.comb += [
      Assert(~((left != 0) & s.issue & here), "the unit takes an operation too early"),
      Assert(s.signals[f"{unit}_left"] >= left, "the unit is counted free too early"),
      Assert((left == 0) | ~s.board.rest, "at rest although a unit is busy"),
      Cover((left != 0) & here & s.board.stall, "a group waits for the unit")]
    return s
  return spec


def registers(file: str) -> Callable[[], Spec]:
  """A register whose result is outstanding holds up all groups that name it, and the end of the program."""
  def spec() -> Spec:
    s, number, outstanding = Board(), AnyConst(6), Signal()
    s.shown.append(outstanding)
    writers: list[Value] = []
    named: list[Value] = []
    for slot in table.SLOTS:
      word, ops = getattr(s.decode.group, slot).word, [op for op in table.OPS.values() if op.slot == slot]
      late = [op for op in ops if op.timing not in ("", "SCALAR") and any(a.file == file for a in table.writes(op))]
      writers.append(s.has(slot, late) & (field(word, enc.D) == number))
      for name, f in enc.FIELDS.items():
        here = field(word, f) == number
        for bkind in range(3):
          for masked in (False, True):
            touching = [op for op in ops if any(a == (file, name) for a in (*table.reads(op, bkind, masked), *table.writes(op)))]
            if touching:
              named.append(s.has(slot, touching) & here & (field(word, enc.BKIND) == bkind) & (field(word, enc.MASKED) == masked))
    writes, names = Signal(name="writes"), Signal(name="names")
    s.m.d.comb += [writes.eq(Cat(writers).any()), names.eq(Cat(named).any())]
    prefix, count = ("vector", 6) if file == "v" else ("scalar", 2)
    releases = [getattr(s.board, f"{prefix}_release{i}") for i in range(count)]
    released = sum((r.valid & (r.reg == number) for r in releases), Const(0)) != 0
    with s.m.If(s.issue & writes):
      s.m.d.sync += outstanding.eq(1)
    with s.m.Elif(released):
      s.m.d.sync += outstanding.eq(0)
    if file == "s":
      s.m.d.comb += Assume(number != 0)  # s0 is never outstanding
    s.m.d.comb += [
      Assume(~released | outstanding),  # a result was asked for
      Assert(~(outstanding & names & s.issue), "a group issues although a register that it names is outstanding"),
      Assert(~outstanding | s.signals[f"busy_{file}"].bit_select(number, 1), "an outstanding register is forgotten"),
      Assert(~outstanding | ~s.board.quiet, "quiet although a register is outstanding"),
      Cover(outstanding & names & s.board.stall & released, "a group waits for a register in the cycle of its release"),
      Cover(~outstanding & names & s.issue, "a group that names it issues")]
    return s
  return spec


def buckets() -> Spec:
  """A bucket is busy until the last of its steps is through, whatever steps of either format chain on it."""
  s, number = Board(), AnyConst(4)
  word = s.decode.group.X.word
  classes = (*timing.STEPS, "PPUSH")
  here, latency = s.of("X", classes, timing.latency)
  target = field(word, enc.D)[:4]
  left = s.follow(s.issue & here & (target == number), latency)
  moves = [op for op in table.OPS.values() if op.timing in ("PPOP", "PPUSH", "PCLR")]
  touching: Value = Const(0)
  for name, f in (("d", enc.D), ("a", enc.A)):
    ops = [op for op in moves if any(a.file == "p" and a.field == name for a in (*table.reads(op), *table.writes(op)))]
    touching = touching | s.has("X", ops) & (field(word, f)[:4] == number)
  touching = touching | s.has("X", [table.OPS["pclra"]])
  counted: Value = Const(0)
  for i in range(Config.PSUMS):
    counted = Mux(number == i, s.signals[f"bucket{i}"], counted)
  array = s.signals["array_left"]
  longest, shortest = (timing.latency(CONFIG, c) for c in ("MM16", "MM"))
  s.m.d.comb += [
    Assert(counted >= left, "a bucket is counted free too early"),
    Assert(~((left != 0) & touching & s.issue), "a bucket is read, written or cleared before its last step is through"),
    Assert((left == 0) | ~s.board.quiet, "quiet although a bucket is outstanding"),
    # Between steps: the time that a step keeps the array is what a shorter one behind it is the sooner through.
    Assert((left <= shortest - 1) | (left - (shortest - 1) <= array), "a short step may follow a long one too early"),
    Assert(left < longest, "longer than the longest"),
    Cover((left == 1) & touching & s.board.stall, "a group waits for the bucket"),
    Cover((left != 0) & s.issue & here & (target == number), "steps chain on the bucket")]
  return s


_SOURCE = "docs/timing.md, Issue"

THEOREMS = [
  *(Theorem(f"scoreboard.port_{slot}", f"No two results are due on slot {slot}'s write port in the same cycle.", f"{_SOURCE}, 4",
            Invariant(ports(slot), 1, reach=40),
            (Mutant("scoreboard", "due[latency] for c", "due[latency - 1] for c"),
             Mutant("scoreboard", "1 << (latency - 1), 0) for c", "1 << max(latency - 2, 0), 0) for c")), quick=slot == "X")
    for slot in timing.PORTS),
  *(Theorem(f"scoreboard.unit_{unit}", f"The unit {unit} takes no operation before its interval is over.", f"{_SOURCE}, 3",
            Invariant(units(unit), 1, reach=4),
            (Mutant("scoreboard", "n - 1, 0) for c, n in intervals", "n - 2 if n > 1 else 0, 0) for c, n in intervals"),
             Mutant("scoreboard", "op.valid & wanted & (left != 0)", "op.valid & wanted & (left > 1)")), quick=unit == "array")
    for unit, classes in timing.UNITS.items()),
  Theorem("scoreboard.vectors", "No group issues while a vector register that it reads or writes is outstanding, and nothing outstanding "
          "is forgotten: "
          "quiet means that no vector result is to come.", f"{_SOURCE}, 1; Halt", Invariant(registers("v"), 1, reach=4),
          (Mutant("scoreboard", "busy[file] & ~down | up", "busy[file] & ~down ^ up & ~(up << 1)"),
           Mutant("scoreboard", "~(busy[\"v\"].any() |", "~(busy[\"v\"][1:].any() |"),
           Mutant("decode", "control.memory & field(word, enc.MASKED)", "control.memory & ~field(word, enc.MASKED)"))),
  Theorem("scoreboard.scalars", "The same for scalar registers but s0, and results of latency 1, which are there at once.",
          f"{_SOURCE}, 1; Halt",
          Invariant(registers("s"), 1, reach=4),
          (Mutant("scoreboard", "(view.is_SMUL | view.is_SDIV)", "view.is_SMUL"),
           Mutant("scoreboard", "keep[1:Config.SREGS]", "keep[1:Config.SREGS - 1]"))),
  Theorem("scoreboard.buckets", "No bucket is popped, pushed or cleared before all its steps are through, whatever formats chain on it; "
          "quiet means none is under way.",
          f"{_SOURCE}, 2; Matrix unit", Invariant(buckets, 1, reach=30),
          (Mutant("scoreboard", "control.pop & busy.bit_select(source, 1)", "control.pop & busy.bit_select(target, 1)"),
           Mutant("scoreboard", "| Cat(buckets).any())", ")"),
           Mutant("scoreboard", "n - 1, 0) for c, n in cycles.items()", "n - 2, 0) for c, n in cycles.items()")), quick=True),
]
