"""The event counters of a launch."""
from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..isa.counters import COUNTERS
from .select import tree

__all__ = ["COUNTER_BITS", "Counters"]

COUNTER_BITS = 64


class Counters(wiring.Component):
  """One counter of 64 bits per entry of `isa.counters.COUNTERS`.

  Members:
    clear: In(1). add_<name>: In(2), events in this cycle. select: In(4), index in COUNTERS; value: Out(64).
  """

  def __init__(self) -> None:
    self.select_bits = (len(COUNTERS) - 1).bit_length()
    super().__init__({"clear": In(1), "select": In(self.select_bits), "value": Out(COUNTER_BITS)}
                     | {f"add_{name}": In(2) for name in COUNTERS})

  def elaborate(self, platform) -> Module:
    m = Module()
    counts = []
    for name in COUNTERS:
      count, add = Signal(COUNTER_BITS, name=name), getattr(self, f"add_{name}")
      counts.append(count)
      with m.If(self.clear):
        m.d.sync += count.eq(0)
      with m.Elif(add != 0):
        m.d.sync += count.eq(count + add)
    m.d.comb += self.value.eq(tree([*counts, *[counts[0]] * ((1 << self.select_bits) - len(counts))], self.select))
    return m
