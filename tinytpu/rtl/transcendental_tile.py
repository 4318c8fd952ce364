"""exp2, log2, sin and cos of a tile: a few pipelines for many elements."""
from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .once import place
from .transcendental import Transcendental

__all__ = ["TRANSCENDENTAL_CLOCKS", "TranscendentalTile", "beats", "latency"]

TRANSCENDENTAL_CLOCKS = ("transcendental",)
"""Clock domains of `TranscendentalTile` that may rest while its output `<domain>_enable` is low."""


def beats(width: int, units: int) -> int:
  """Cycles for which `units` pipelines take a tile of `width` elements.

  Raises:
    ValueError: it is not a power of two.
  """
  if units < 1 or width % units or (width // units) & (width // units - 1):
    raise ValueError(f"units must divide the {width} elements of a tile into a power of two of beats, not be {units}")
  return width // units


def latency(width: int, units: int) -> int:
  """Cycles from `start` to `due` of a `TranscendentalTile`.

  Raises:
    ValueError: see `beats`.
  """
  return beats(width, units) + Transcendental.CUTS + 1


class TranscendentalTile(wiring.Component):
  """o[e] = fn(x[e]) for all elements of a tile, `units` at a time.

  A `start` in cycle n captures the tile; from n + 1 on, `beats` = width / units cycles long, the next `units` elements go into
  the pipelines, and the results are collected as they come out. `o` is the result in cycle n + `latency`, latency = beats +
  `Transcendental.CUTS` + 1, and is gone in the next if another operation follows at once. Operations at least `beats` apart.

  The pipelines, operands and results are in domain `transcendental`, which may rest: it is needed at the end of the cycles
  with `transcendental_enable`, a function of `start` and registers. The count is in `sync`.

  Parameters: width, elements of a tile; units, a power of two up to width.

  Raises:
    ValueError: see `beats`.

  Members:
    start: In(1). fn: In(2), an isa.transcendental.TransFn. x: In(32 * width).
    transcendental_enable: Out(1). due: Out(1), in the cycle in which `o` (Out(32 * width)) is a new result.
  """

  def __init__(self, width: int, units: int) -> None:
    self.width, self.units, self.beats = width, units, beats(width, units)
    self.latency = latency(width, units)
    super().__init__({"start": In(1), "fn": In(2), "x": In(32 * width), "transcendental_enable": Out(1), "due": Out(1),
                      "o": Out(32 * width)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    # One bit per cycle of the latency: operations may follow each other before the first is done.
    stages = Signal(self.latency)
    m.d.sync += stages.eq(stages << 1 | self.start)
    m.d.comb += [self.transcendental_enable.eq(self.start | (stages[:-1] != 0)), self.due.eq(stages[-1])]

    fn, bits = Signal(2, reset_less=True), 32 * self.units
    operands, results = Signal(32 * self.width, reset_less=True), Signal(32 * self.width, reset_less=True)
    m.d.transcendental += fn.eq(Mux(self.start, self.fn, fn))
    with m.If(self.start):
      m.d.transcendental += operands.eq(self.x)
    with m.Elif(stages[:self.beats - 1] != 0):
      m.d.transcendental += operands.eq(operands[bits:])
    lanes: list[Any] = []
    for unit in range(self.units):
      lane = place(m, platform, f"pipeline{unit}", "pipeline", Transcendental, domain="transcendental")
      m.d.comb += [lane.fn.eq(fn), lane.x.eq(operands.word_select(unit, 32))]
      lanes.append(lane)
    with m.If(stages[-1 - self.beats:-1] != 0):
      m.d.transcendental += results.eq(Cat(results, *(lane.o for lane in lanes))[bits:])
    m.d.comb += self.o.eq(results)
    return m
