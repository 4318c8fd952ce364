"""Divisions and square roots of a tile: one divider per vector lane, beat after beat."""
from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .beats import collect, feed
from .div import DivOp, DivSqrt
from .once import place

__all__ = ["DIVIDE_CLOCKS", "DivideTile"]

DIVIDE_CLOCKS = ("divide",)
"""Clock domains of `DivideTile` that may rest while its output `<domain>_enable` is low."""


class DivideTile(wiring.Component):
  """o[e] = op(a[e], b[e]) for all elements of a tile, `units` at a time.

  A `start` in cycle n gives the first beat to the dividers, each further one follows `PERIOD` cycles after the one before; `o` is
  the result in cycle n + `latency`, latency = beats * `PERIOD`. The next operation starts not before the cycle after that.

  Dividers, operands and results are in domain `divide`, which may rest: it is needed at the end of the cycles with `divide_enable`, a
  function of `start` and registers.

  Parameters: width, elements of a tile; units, a power of two up to width.

  Members:
    start: In(1). op: In(DivOp), with start. a, b: In(32 * width).
    divide_enable: Out(1). due: Out(1), in the cycle in which `o` (Out(32 * width)) is a new result.
  """

  PERIOD = DivSqrt.CYCLES + 1
  """Cycles from beat to beat: the result of one is taken as the next one starts."""

  def __init__(self, width: int, units: int) -> None:
    self.units, self.beats = units, width // units
    self.latency = self.beats * self.PERIOD
    super().__init__({"start": In(1), "op": In(DivOp), "a": In(32 * width), "b": In(32 * width),
                      "divide_enable": Out(1), "due": Out(1), "o": Out(32 * width)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    left, beat = Signal(range(self.PERIOD + 1)), Signal(range(self.beats))  # cycles of the beat, and which
    busy, ends, last = Signal(), Signal(), Signal()
    m.d.comb += [busy.eq(left != 0), ends.eq(left == 1), last.eq(beat == self.beats - 1), self.due.eq(ends & last),
                 self.divide_enable.eq(self.start | busy)]
    op, again = Signal(DivOp, reset_less=True), Signal()
    m.d.comb += again.eq(ends & ~last)
    with m.If(self.start):
      m.d.divide += [left.eq(self.PERIOD), beat.eq(0), op.eq(self.op)]
    with m.Elif(again):
      m.d.divide += [left.eq(self.PERIOD), beat.eq(beat + 1)]
    with m.Elif(busy):
      m.d.divide += left.eq(left - 1)

    a, b = (feed(m, self.start, again, tile, 32 * self.units, label, "divide") for tile, label in ((self.a, "a"), (self.b, "b")))
    dividers: list[Any] = []
    for unit in range(self.units):
      divider = place(m, platform, f"divider{unit}", "divider", DivSqrt, domain="divide")
      m.d.comb += [divider.start.eq(self.start | again), divider.a.eq(a.word_select(unit, 32)), divider.b.eq(b.word_select(unit, 32))]
      with m.If(self.start):
        m.d.comb += divider.op.eq(self.op)
      with m.Else():
        m.d.comb += divider.op.eq(op)
      dividers.append(divider)
    m.d.comb += self.o.eq(collect(m, ends, Cat(*(divider.o for divider in dividers)), self.beats, "results", "divide"))
    return m
