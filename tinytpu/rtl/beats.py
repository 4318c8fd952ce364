"""Tiles that go through hardware for fewer elements in beats: beat b is elements b * n to b * n + n - 1, n being those of the hardware."""
from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value

__all__ = ["collect", "feed"]


def feed(m: Module, start: Value, step: Value, tile: Value, width: int, label: str, domain: str = "sync") -> Value:
  """Beats of `width` bits of `tile`: the first in the cycle with `start`, which keeps the others, each next one after a `step`.

  Args:
    step: 1 bit, without `start`: the beat is taken at the end of this cycle.
    label: prefix of the names of signals. domain: of the register, which is needed in cycles with `start` or `step`.
  """
  if len(tile) == width:
    return tile
  rest = Signal(len(tile) - width, name=f"{label}_rest", reset_less=True)
  with m.If(start):
    m.d[domain] += rest.eq(tile[width:])
  with m.Elif(step):
    m.d[domain] += rest.eq(rest[width:])
  beat = Signal(width, name=f"{label}_beat")
  m.d.comb += beat.eq(Mux(start, tile[:width], rest[:width]))
  return beat


def collect(m: Module, valid: Value, beat: Value, beats: int, label: str, domain: str = "sync") -> Value:
  """The tile of which `beat` is the last one, in the cycle with `valid` of the last of `beats`; those before had `valid` too.

  Args:
    label: prefix of the names of signals. domain: of the register, which is needed in cycles with `valid`.
  """
  if beats == 1:
    return beat
  kept = Signal(len(beat) * (beats - 1), name=f"{label}_kept", reset_less=True)
  with m.If(valid):
    m.d[domain] += kept.eq(Cat(kept, beat)[len(beat):])
  return Cat(kept, beat)
