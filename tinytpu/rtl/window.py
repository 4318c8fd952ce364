"""The host's window: fetches one tile of machine state while no program runs."""
from __future__ import annotations

from enum import IntEnum

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .interfaces import tile_bits, vector_result, vmem_dma_port

__all__ = ["Space", "Window"]


class Space(IntEnum):
  """What the window looks at: vector registers, PSUM buckets, or VMEM in tiles of `Config.width` words."""
  VREG = 0
  PSUM = 1
  VMEM = 2


class Window(wiring.Component):
  """Fetches tile `index` of `space` into the register `tile`.

  Members:
    request: In(1), with space: In(Space), index: In(28): only while no program runs and not `busy`.
    vreg: In(tile), the vector register that `index_out` (Out(28)) names, in the same cycle.
    pop: Out(1): issue a ppop of bucket `index_out`; its result arrives on `popped`: In(vector_result).
    vmem: Out(vmem_dma_port), reads only; `reading`: Out(1), it is in use.
    busy: Out(1), a request is under way. tile: Out(tile), the last one fetched.
  """

  def __init__(self, config: Config):
    self.config = config
    tile = tile_bits(config)
    super().__init__({
      "request": In(1), "space": In(Space), "index": In(28), "vreg": In(tile), "index_out": Out(28), "pop": Out(1),
      "popped": In(vector_result(config)), "vmem": Out(vmem_dma_port(config)), "reading": Out(1), "busy": Out(1), "tile": Out(tile)})

  def elaborate(self, platform) -> Module:
    m = Module()
    config, space = self.config, Signal(Space)
    beat = Signal(range(config.beats))  # VMEM is read in lines: back at 0 after the last
    with m.FSM() as fsm:
      with m.State("idle"):
        with m.If(self.request):
          m.d.sync += [space.eq(self.space), self.index_out.eq(self.index)]
          m.next = "ask"
      with m.State("ask"):
        m.d.comb += [self.pop.eq(space == Space.PSUM), self.reading.eq(space == Space.VMEM)]
        m.next = "answer"
        with m.If(space == Space.VREG):
          m.d.sync += self.tile.eq(self.vreg)
          m.next = "idle"
      with m.State("answer"):
        with m.If(space == Space.VMEM):
          m.d.sync += [self.tile.eq(Cat(self.tile, self.vmem.rdata)[len(self.vmem.rdata):]), beat.eq(beat + 1)]
          m.next = "ask"
          with m.If(beat == config.beats - 1):
            m.next = "idle"
        with m.Elif(self.popped.valid):
          m.d.sync += self.tile.eq(self.popped.data)
          m.next = "idle"
      m.d.comb += self.busy.eq(~fsm.ongoing("idle"))
    m.d.comb += [
      self.vmem.valid.eq(self.reading), self.vmem.word.eq(self.index_out * config.width + beat * config.vector_lanes),
      self.vmem.mask.eq((1 << config.vector_lanes) - 1)]
    return m
