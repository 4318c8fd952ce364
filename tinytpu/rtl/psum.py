"""The PSUM bank: where the matrix unit accumulates."""
from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, Signature

from ..config import Config
from .interfaces import tile_bits


def bucket_write(config: Config) -> Signature:
  """A write of one whole bucket at the end of the cycle with `valid`."""
  return Signature({"valid": Out(1), "bucket": Out(4), "data": Out(tile_bits(config))})


class PsumBank(wiring.Component):
  """Config.PSUMS buckets of one tile, with two ports each way.

  A bucket that is cleared is only marked so, which makes clearing all of them as cheap as one: it reads as zero until written.

  Reads are combinational and see the writes of earlier cycles. Two writes of one bucket in one cycle do not happen: the issue
  stage lets nothing push into a bucket whose result is outstanding. A reset clears all buckets.

  Parameters: config, for the shape of a tile.

  Members:
    array, push: In(bucket_write), from the array and from ppush.
    clear: In(PSUMS), buckets that become zero at the end of this cycle; a bucket is not written in the cycle that clears it.
    addend_bucket, pop_bucket: In(4); addend, pop: Out(tile), the contents of those buckets.
  """

  def __init__(self, config: Config) -> None:
    self.config = config
    tile = tile_bits(config)
    super().__init__({
      "array": In(bucket_write(config)), "push": In(bucket_write(config)), "clear": In(config.PSUMS),
      "addend_bucket": In(4), "addend": Out(tile), "pop_bucket": In(4), "pop": Out(tile)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    m.submodules.buckets = memory = Memory(shape=tile_bits(self.config), depth=self.config.PSUMS, init=[])
    live = Signal(self.config.PSUMS)
    written = [Mux(write.valid, 1 << write.bucket, 0) for write in (self.array, self.push)]
    with m.If(self.array.valid | self.push.valid | self.clear.any()):
      m.d.sync += live.eq((live | written[0] | written[1]) & ~self.clear)
    for write in (self.array, self.push):
      port = memory.write_port()
      m.d.comb += [port.en.eq(write.valid), port.addr.eq(write.bucket), port.data.eq(write.data)]
    for bucket, data in ((self.addend_bucket, self.addend), (self.pop_bucket, self.pop)):
      read = memory.read_port(domain="comb")
      m.d.comb += [read.addr.eq(bucket), data.eq(Mux(live.bit_select(bucket, 1), read.data, 0))]
    return m
