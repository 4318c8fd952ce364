"""The queue of lines behind the AXI manager: first in, first out, nothing lost."""
from __future__ import annotations

from amaranth.asserts import AnyConst
from amaranth.hdl import Assert, Assume, Cover, Signal
from bitwuzla import Term

from tinytpu.rtl.axi_memory import LineQueue

from ..circuit import Circuit
from ..mutants import Mutant
from ..proof import Invariant, Theorem
from ..spec import Spec

DEPTH = 5
"""No power of two, as in the machine."""


def order() -> Spec:
  """Follows the line that enters as number `number` (modulo 32, more than the queue holds), any one."""
  unit = LineQueue(8, DEPTH)
  s = Spec(unit)
  head, tail, count = (s.signals[n] for n in ("head", "$like", "count"))
  entered, left = Signal(5), Signal(5)  # lines so far
  number, content, inside, place = Signal(5, name="number"), Signal(8, name="content"), Signal(name="inside"), Signal.like(head,
    name="place")
  s.shown += [entered, left, count, unit.o, unit.there]
  s.m.d.comb += [number.eq(AnyConst(5)), inside.eq((number - left)[:5] < (entered - left)[:5])]
  s.m.d.sync += [entered.eq(entered + unit.enter), left.eq(left + unit.leave)]
  with s.m.If(unit.enter & (entered == number)):
    s.m.d.sync += [content.eq(unit.i), place.eq(tail)]
  s.m.d.comb += [
    Assume(~unit.leave | unit.there), Assume(~unit.enter | (count < DEPTH) | unit.leave),
    Assert(((entered - left)[:5] == count) & (count <= DEPTH), "lines are lost or counted twice"),
    Assert(unit.there == (count != 0), "a line is there and none is, or the other way round"),
    Assert((tail - head)[:len(head)] == count[:len(head)], "the pointers disagree with the count"),
    Assert(~inside | ((place - head)[:len(head)] == (number - left)[:len(head)]), "the line is elsewhere than its number says"),
    Assert(~(inside & (number == left) & unit.there) | (unit.o == content), "the head is not the line that entered first"),
    Cover(inside & (number == left) & (number == DEPTH + 2) & (count == DEPTH), "a full queue that has gone round, and its head")]

  def stored(c: Circuit, t: int) -> Term:
    return c.terms.if_(c.terms.truth(c.signal(inside, t)), c.terms.eq(c.word("lines", c.signal(place, t), t), c.signal(content, t)))
  s.claims.append(("assert", "the line is not where it was put", stored))
  return s


THEOREMS = [Theorem(
  "line_queue.order", f"Lines leave the queue of lines in the order in which they entered, as they were, and none is lost (depth {DEPTH}).",
  "tinytpu/rtl/axi_memory.py, LineQueue", Invariant(order, 1, reach=16),
  (Mutant("axi_memory", "count.eq(count + self.enter - self.leave)", "count.eq(count + self.enter - (self.leave & ~self.enter))"),
   Mutant("axi_memory", "transparent_for=(write,)", "transparent_for=()"),
   Mutant("axi_memory", "(head + self.leave)[:len(head)]", "head")), quick=True)]
