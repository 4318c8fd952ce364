"""Control operations: branches, predicates, the loop stack, waits, and the faults that they raise."""
from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import encoding as enc
from ..isa.faults import Fault
from ..isa.table import OPS
from .decode import field, operation
from .select import tree

__all__ = ["Control"]


class Control(wiring.Component):
  """Slot C: what the group's control operation makes of the program counter.

  Members:
    op: In(operation()), the decoded operation. a, c: In(32), its register values.
    pc: In(32), word index of the group; following: In(32), of the next group in sequence.
    issue: In(1), the group issues: loops are pushed, counted and popped. clear: In(1), a launch: no loop is active.
    distance: In(32): index: Out(32), passes done of the active loop so many levels out, 0 if there is none; depth: Out(4), active loops.
    fence_ok: In(1), no direct HBM access outstanding; quiet: In(1), nothing at all outstanding.
    unfinished_in, unfinished_out: In(3), DMA transfers.
    stall: Out(1), a fence, a barrier or a DMA wait is not met. target: Out(32), word index of the next group to issue.
    halt: Out(1), the operation is halt.
    fault: Out(4), cause of a loop fault or a trap, 0 for none, whatever the operands; info: Out(32), of that fault.
  """

  def __init__(self) -> None:
    super().__init__({
      "op": In(operation()), "a": In(32), "c": In(32), "pc": In(32), "following": In(32), "issue": In(1), "clear": In(1),
      "distance": In(32), "index": Out(32), "depth": Out(Config.LOOP_DEPTH.bit_length()),
      "fence_ok": In(1), "quiet": In(1), "unfinished_in": In(3), "unfinished_out": In(3),
      "stall": Out(1), "target": Out(32), "halt": Out(1), "fault": Out(4), "info": Out(32)})

  def elaborate(self, platform) -> Module:
    m = Module()
    a, c = self.a, self.c
    imm = field(self.op.word, enc.IMM)
    depth = self.depth
    starts = [Signal(32, name=f"loop_start{i}") for i in range(Config.LOOP_DEPTH)]
    counts = [Signal(32, name=f"loop_count{i}") for i in range(Config.LOOP_DEPTH)]
    totals = [Signal(32, name=f"loop_total{i}") for i in range(Config.LOOP_DEPTH)]
    top = (depth - 1)[:(Config.LOOP_DEPTH - 1).bit_length()]
    asked = (top - self.distance)[:len(top)]
    predicates = Signal(Config.PREDICATES)
    number = (Config.PREDICATES - 1).bit_length()
    predicate = Signal()
    start, count = Signal(32), Signal(32)
    m.d.comb += [start.eq(tree(starts, top)), count.eq(tree(counts, top)), self.target.eq(self.following)]
    m.d.comb += [self.index.eq(Mux(self.distance < depth, tree(totals, asked) - tree(counts, asked), 0)),
                 predicate.eq(predicates.bit_select(field(self.op.word, enc.A)[:number], 1))]

    equal, less, less_unsigned = Signal(), Signal(), Signal()
    m.d.comb += [equal.eq(a == c), less.eq(a.as_signed() < c.as_signed()), less_unsigned.eq(a < c)]
    taken = {"jmp": Const(1), "beq": equal, "bne": ~equal, "blt": less, "bge": ~less, "bltu": less_unsigned, "bgeu": ~less_unsigned,
             "bp": predicate, "bnp": ~predicate}
    push, again, pop = Signal(), Signal(), Signal()
    assign, value = Signal(Config.PREDICATES), Signal()

    with m.If(self.op.valid):
      with m.Switch(field(self.op.word, enc.CODE)):
        for name, condition in taken.items():
          with m.Case(OPS[name].code):
            m.d.comb += self.target.eq(Mux(condition, imm, self.following))
        with m.Case(OPS["loop"].code):
          with m.If(depth == Config.LOOP_DEPTH):
            m.d.comb += self.fault.eq(Fault.LOOP_OVERFLOW)
          with m.If(a.as_signed() > 0):
            m.d.comb += push.eq(1)
          with m.Else():
            m.d.comb += self.target.eq(imm)
        with m.Case(OPS["lend"].code):
          with m.If(depth == 0):
            m.d.comb += self.fault.eq(Fault.LOOP_UNDERFLOW)
          with m.If(count == 1):
            m.d.comb += pop.eq(1)
          with m.Else():
            m.d.comb += [again.eq(1), self.target.eq(start)]
        with m.Case(OPS["trap"].code):
          m.d.comb += [self.fault.eq(Fault.TRAP), self.info.eq(imm)]
        with m.Case(OPS["halt"].code):
          m.d.comb += self.halt.eq(1)
        for name, zero in (("pset0", a == 0), ("pset1", a != 0)):
          with m.Case(OPS[name].code):
            m.d.comb += [assign.eq(1 << field(self.op.word, enc.D)[:number]), value.eq(zero)]
        with m.Case(OPS["fence"].code):
          m.d.comb += self.stall.eq(~self.fence_ok)
        with m.Case(OPS["barrier"].code):
          m.d.comb += self.stall.eq(~self.quiet)
        with m.Case(OPS["dwaiti"].code):
          m.d.comb += self.stall.eq(self.unfinished_in > imm)
        with m.Case(OPS["dwaito"].code):
          m.d.comb += self.stall.eq(self.unfinished_out > imm)

    with m.If(self.clear):
      m.d.sync += [depth.eq(0), predicates.eq(0)]
    with m.Elif(self.issue):
      m.d.sync += [depth.eq(depth + push - pop), predicates.eq(Mux(value, predicates | assign, predicates & ~assign))]
      for i in range(Config.LOOP_DEPTH):
        with m.If(push & (depth == i)):
          m.d.sync += [starts[i].eq(self.following), totals[i].eq(a), counts[i].eq(a)]
        with m.If(again & (top == i)):
          m.d.sync += counts[i].eq(counts[i] - 1)
    return m
