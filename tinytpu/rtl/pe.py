"""Processing element of the matrix unit: one element of C."""
from __future__ import annotations

from amaranth.hdl import DomainRenamer, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .float_add import FAdd32
from .float_mul import FMul32

GROUP = 4
"""Products that are summed before they are added to C, and cycles between two additions to C: as many as the additions of a
group, which share one adder."""
ADDEND_CYCLE = 12
"""Cycle, counted from that of a group's first operands, in which the element takes C."""
RESULT_CYCLE = ADDEND_CYCLE + 1 + FAdd32.CUTS
"""Cycle, counted likewise, in which the new C is there."""


class ProcessingElement(wiring.Component):
  """o = C + ((p0 + p1) + (p2 + p3)) with pk = ak * bk, in float32 or of signed bytes; a group of four k every four cycles.

  A group takes operands k = 0 to 3 in cycles u to u + 3, where `phase` is k. In float32 the multiplier's result for k is in
  `product` in u + 3 + k, and the one adder is shared in time, every sum leaving it `CUTS` = 2 cycles later:

      cycle    phase  adder takes
      u + 4      0    p0 + p1                    -> pair01
      u + 7      3    p2 + p3                    -> pair23
      u + 10     2    pair01 + pair23            -> total
      u + 13     1    addend + total             -> o in u + 15

  For bytes, pk is the exact sum of the products of the four signed bytes of ak and bk; sums are modulo 2^32, with the same timing.
  C is taken at the end of u + 12, four cycles before the next group takes its own: one after the result of the group before.

  The float datapath is in clock domain `matrix_float`, the byte datapath in `matrix_int`; either may rest while no step of its
  format is under way.

  Members:
    phase: In(2). a, b: In(32), operands.
    take: In(1), high in u + 12 of a group; with it addend: In(32), C, and total_int: In(1), whether the group is of bytes.
    out_int: In(1), the same in u + 15.
    o: Out(32), the new C, valid in u + 15.
  """

  def __init__(self) -> None:
    super().__init__({
      "phase": In(2), "a": In(32), "b": In(32), "take": In(1), "addend": In(32), "total_int": In(1), "out_int": In(1), "o": Out(32)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    addend, total = Signal(32, reset_less=True), Signal(32, reset_less=True)
    float_sum, byte_sum = self._float(m, addend, total), self._bytes(m)
    with m.If(self.take):
      m.d.sync += [addend.eq(self.addend), total.eq(Mux(self.total_int, byte_sum, float_sum))]
    m.d.comb += self.o.eq(Mux(self.out_int, addend + total, float_sum))
    return m

  def _float(self, m: Module, addend: Value, total: Value) -> Value:
    """The float32 datapath; what the adder puts out."""
    m.submodules.multiplier = multiplier = DomainRenamer("matrix_float")(FMul32())
    m.submodules.adder = adder = DomainRenamer("matrix_float")(FAdd32())
    product, before, before2, pair01, pair23 = (Signal(32, name=name, reset_less=True)
                                                for name in ("product", "before", "before2", "pair01", "pair23"))
    m.d.comb += [multiplier.a.eq(self.a), multiplier.b.eq(self.b)]
    m.d.matrix_float += [product.eq(multiplier.o), before.eq(product), before2.eq(before)]
    with m.If(self.phase == 1):
      m.d.matrix_float += pair23.eq(adder.o)
    with m.If(self.phase == 2):
      m.d.matrix_float += pair01.eq(adder.o)
    with m.Switch(self.phase):
      with m.Case(0):
        m.d.comb += [adder.a.eq(before), adder.b.eq(product)]
      with m.Case(1):
        m.d.comb += [adder.a.eq(addend), adder.b.eq(total)]
      with m.Case(2):
        m.d.comb += [adder.a.eq(pair01), adder.b.eq(pair23)]
      with m.Default():
        m.d.comb += [adder.a.eq(before2), adder.b.eq(before)]
    return adder.o

  def _bytes(self, m: Module) -> Value:
    """The byte datapath; a group's sum, in its cycle u + 12."""
    dot, running = Signal(18, reset_less=True), Signal(32, reset_less=True)
    sums = [Signal(32, name=f"sum{n}", reset_less=True) for n in range(2)]
    products = [self.a.word_select(n, 8).as_signed() * self.b.word_select(n, 8).as_signed() for n in range(4)]
    m.d.matrix_int += dot.eq((products[0] + products[1]) + (products[2] + products[3]))
    extended = dot.as_signed()
    with m.If(self.phase == 1):  # dot is that of k = 0
      m.d.matrix_int += [running.eq(extended), sums[0].eq(running), sums[1].eq(sums[0])]
    with m.Else():
      m.d.matrix_int += running.eq(running + extended)
    return sums[1]
