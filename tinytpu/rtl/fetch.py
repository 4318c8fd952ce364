"""Instruction fetch: the direct-mapped instruction buffer and its refill from HBM."""
from __future__ import annotations

from math import log2

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa.encoding import PACKET_WORDS, WORD_BYTES
from .interfaces import hbm_port
from .select import tree

__all__ = ["PACKET_BITS", "Fetch"]

PACKET_BITS = 8 * WORD_BYTES * PACKET_WORDS


class Fetch(wiring.Component):
  """Looks up the packet of a group; on a miss fetches its whole block and looks up again by itself.

  A look-up (`lookup`) in cycle t of a block in the buffer makes `present` in t + 1, else `timing.refill` cycles later;
  `present` and `packet` then hold until the next look-up. A refill that has begun always completes, also when its
  program ends meanwhile; nothing may be looked up or invalidated until `idle`.

  Members:
    lookup: In(1). pc: In(32), word index in the program; base: In(32), byte address of the program, a multiple of a block.
    invalidate: In(1), forget all blocks.
    present: Out(1); packet: Out(256), the four words around the group.
    refill: Out(1), one pulse per block fetched. idle: Out(1), no refill under way.
    port: Out(hbm_port), reads only.
  """

  def __init__(self, config: Config):
    self.config = config
    super().__init__({
      "lookup": In(1), "pc": In(32), "base": In(32), "invalidate": In(1),
      "present": Out(1), "packet": Out(PACKET_BITS), "refill": Out(1), "idle": Out(1), "port": Out(hbm_port(config))})

  def elaborate(self, platform) -> Module:
    m = Module()
    config = self.config
    lines, latency = config.ibuf_block_lines, config.hbm_latency
    word_bits, line_bits, packet_lsb = (int(log2(n)) for n in (WORD_BYTES, config.line_bytes, PACKET_BITS // 8))
    row_lsb = max(line_bits, packet_lsb)  # a row of the buffer is a line, or as many lines as make a packet
    row_lines = 1 << (row_lsb - line_bits)
    offset_bits, index_bits = int(log2(lines)), int(log2(config.ibuf_blocks))

    # Addresses do not wrap: a jump far out reads the zeros beyond memory, which are illegal operations.
    address = Signal(max(len(self.base), len(self.pc) + word_bits) + 1)
    m.d.comb += address.eq(self.base + (self.pc << word_bits))
    held = Signal.like(address)
    current = Mux(self.lookup, address, held)
    tag_lsb = line_bits + offset_bits + index_bits
    index = held[line_bits + offset_bits:tag_lsb]

    m.submodules.tags = tags = memory.Memory(shape=len(address) - tag_lsb, depth=config.ibuf_blocks, init=[])
    m.submodules.data = data = memory.Memory(shape=8 << row_lsb, depth=config.ibuf_blocks * lines // row_lines, init=[])
    tag_read, tag_write = tags.read_port(), tags.write_port()
    data_read, data_write = data.read_port(), data.write_port(granularity=8 * config.line_bytes)
    valid = Signal(config.ibuf_blocks)

    again = Signal()     # the refill has ended: look up once more
    looking = Signal()
    busy = Signal()
    count = Signal(range(lines + latency))
    hit = Signal()
    miss = Signal()
    m.d.comb += [
      tag_read.en.eq(self.lookup | again), tag_read.addr.eq(current[line_bits + offset_bits:]),
      data_read.en.eq(self.lookup | again), data_read.addr.eq(current[row_lsb:]),
      hit.eq((tag_read.data == held[tag_lsb:]) & valid.bit_select(index, 1)),
      miss.eq(looking & ~hit),
      self.present.eq(looking & hit),
      self.refill.eq(miss),
      self.idle.eq(~(busy | again | miss)),
    ]
    m.d.sync += again.eq(0)
    with m.If(self.lookup):
      m.d.sync += held.eq(address)
    with m.If(self.lookup | again):
      m.d.sync += looking.eq(1)
    with m.Elif(miss):
      m.d.sync += [looking.eq(0), busy.eq(1), count.eq(0), valid.eq(valid | (1 << index))]
    with m.If(self.invalidate):
      m.d.sync += [valid.eq(0), looking.eq(0)]
    m.d.comb += [tag_write.en.eq(miss), tag_write.addr.eq(index), tag_write.data.eq(held[tag_lsb:])]

    arriving = (count - latency)[:offset_bits]
    m.d.comb += [
      self.port.valid.eq(busy & (count < lines)),
      self.port.line.eq(Cat(count[:offset_bits], held[line_bits + offset_bits:])),
      data_write.en.eq(Mux(busy & (count >= latency), 1 << arriving[:row_lsb - line_bits], 0)),
      data_write.addr.eq(Cat(arriving, index)[row_lsb - line_bits:]),
      data_write.data.eq(self.port.rdata.replicate(row_lines)),
    ]
    with m.If(busy):
      m.d.sync += count.eq(count + 1)
      with m.If(count == lines + latency - 1):
        m.d.sync += [busy.eq(0), again.eq(1)]

    packets = [data_read.data[i:i + PACKET_BITS] for i in range(0, 8 << row_lsb, PACKET_BITS)]
    m.d.comb += self.packet.eq(tree(packets, held[packet_lsb:row_lsb]))
    return m
