"""The PSUM bank: where the matrix unit accumulates."""
from __future__ import annotations

from amaranth.hdl import Module
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

  Reads are combinational and see the writes of earlier cycles. Two writes of one bucket in one cycle do not happen: the issue
  stage lets nothing push into a bucket whose result is outstanding. Buckets start at zero and survive resets.

  Parameters: config, for the shape of a tile.

  Members:
    array, push: In(bucket_write), from the array and from ppush.
    addend_bucket, pop_bucket: In(4); addend, pop: Out(tile), the contents of those buckets.
  """

  def __init__(self, config: Config) -> None:
    self.config = config
    tile = tile_bits(config)
    super().__init__({
      "array": In(bucket_write(config)), "push": In(bucket_write(config)),
      "addend_bucket": In(4), "addend": Out(tile), "pop_bucket": In(4), "pop": Out(tile)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    m.submodules.buckets = memory = Memory(shape=tile_bits(self.config), depth=self.config.PSUMS, init=[])
    for write in (self.array, self.push):
      port = memory.write_port()
      m.d.comb += [port.en.eq(write.valid), port.addr.eq(write.bucket), port.data.eq(write.data)]
    for bucket, data in ((self.addend_bucket, self.addend), (self.pop_bucket, self.pop)):
      read = memory.read_port(domain="comb")
      m.d.comb += [read.addr.eq(bucket), data.eq(read.data)]
    return m
