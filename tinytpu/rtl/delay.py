"""Long delays, as a ring of memory: what an HBM response is for, while it is on its way."""
from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .float_common import name

__all__ = ["Delay"]


class Delay(wiring.Component):
  """A value delayed by a fixed number of cycles, through a ring of memory; zero until the first has come through.

  Args:
    width: bits. cycles: at least 2.

  Members:
    i: In(width). o: Out(width), `i` of `cycles` cycles ago.
  """

  def __init__(self, width: int, cycles: int) -> None:
    self.width, self.cycles = width, cycles
    super().__init__({"i": In(width), "o": Out(width)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    m.submodules.ring = ring = Memory(shape=self.width, depth=self.cycles, init=[])
    write, read = ring.write_port(), ring.read_port()
    here = Signal(range(self.cycles), reset_less=True)  # runs on in reset: a reset of as many cycles empties the ring
    ahead = name(m, Mux(here == self.cycles - 1, 0, here + 1)[:len(here)], "ahead")
    m.d.sync += here.eq(ahead)
    m.d.comb += [write.addr.eq(here), write.data.eq(self.i), write.en.eq(1), read.addr.eq(ahead), read.en.eq(1), self.o.eq(read.data)]
    return m
