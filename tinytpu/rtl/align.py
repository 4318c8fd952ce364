"""Sub-word elements: from words of memory to registers (loads) and back (stores).

In memory, elements are packed and have a type (isa.encoding.MemType); in a register each is a 32-bit word. Loads collect elements
from the words that one bank access or HBM line delivers; stores merge elements into words with byte enables. `low` below is
the low part of an element's byte address: two bits of byte in the word, then its slot, the word's place in a line: its bank.
"""
from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa.encoding import MemType
from .address import sized
from .float_common import name
from .float_convert import bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16
from .interfaces import tile_bits, vector_result
from .once import place
from .select import part
from .shift import any_of, shifted

__all__ = ["LoadCollect", "Narrow", "StoreMerge", "Widen", "low_bits"]


def low_bits(config: Config) -> int:
  """Bits of `low`: byte in the word, and the word's place in a line."""
  return (config.line_bytes - 1).bit_length()


class Narrow(wiring.Component):
  """A register's word as stored with type `mtype`: converted, and repeated to fill 32 bits, so that it is in place at any offset.

  Members: word: In(32). mtype: In(4), encoding.MemType. o: Out(32).
  """

  def __init__(self) -> None:
    super().__init__({"word": In(32), "mtype": In(4), "o": Out(32)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    word, mtype = self.word, self.mtype
    half = Mux(mtype == MemType.F16, f32_to_f16(m, word, "f16"), Mux(mtype == MemType.BF16, f32_to_bf16(m, word, "bf16"), word[:16]))
    half = name(m, half[:16], "half")
    m.d.comb += self.o.eq(Mux(sized(mtype, 4), word, Mux(sized(mtype, 2), half.replicate(2), word[:8].replicate(4))))
    return m


class Widen(wiring.Component):
  """The element of type `mtype` at offset `byte` of `word`, extended or converted to 32 bits.

  Members: word: In(32). byte: In(2). mtype: In(4), encoding.MemType. o: Out(32).
  """

  def __init__(self) -> None:
    super().__init__({"word": In(32), "byte": In(2), "mtype": In(4), "o": Out(32)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    half = name(m, Mux(self.byte[1], self.word[16:], self.word[:16]), "half")
    octet = name(m, Mux(self.byte[0], half[8:], half[:8]), "octet")
    from_f16, from_bf16 = f16_to_f32(m, half, "f16"), bf16_to_f32(m, half, "bf16")
    with m.Switch(self.mtype):
      for mtype, value in ((MemType.U8, octet), (MemType.I8, octet.as_signed()), (MemType.U16, half), (MemType.I16, half.as_signed()),
                           (MemType.F16, from_f16), (MemType.BF16, from_bf16)):
        with m.Case(mtype):
          m.d.comb += self.o.eq(value)
      with m.Default():
        m.d.comb += self.o.eq(self.word)
    return m


class LoadCollect(wiring.Component):
  """Elements from the words that arrive access by access, assembled into the tile that a load returns.

  An access delivers one word per slot and serves some elements of one beat of one load; a load's accesses come in order, the first
  marked `first`, the last `last`. The result is raised, combinationally, in the cycle of the last. Elements never served are zero.

  Members (P = vector_lanes):
    valid, first, last: In(1); reg: In(6); mtype: In(4); beat: In; served: In(P) and low: In per element of the beat; words: In(32 * P).
    result: Out(vector_result).
  """

  def __init__(self, config: Config) -> None:
    self.config = config
    n = config.vector_lanes
    super().__init__({
      "valid": In(1), "first": In(1), "last": In(1), "reg": In(6), "mtype": In(4), "beat": In(range(config.beats)), "served": In(n),
      "low": In(low_bits(config)).array(n), "words": In(32 * n), "result": Out(vector_result(config))})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    n, beats = self.config.vector_lanes, self.config.beats
    kept = Signal(tile_bits(self.config), reset_less=True)
    before = name(m, part(kept, self.beat, 32 * n) if beats > 1 else kept, "before")  # what the beat has already
    elements = []
    for e in range(n):
      low = self.low[e]
      word = name(m, part(self.words, low[2:], 32), f"word{e}")
      widen = place(m, platform, f"widen{e}", "widen", Widen)
      m.d.comb += [widen.word.eq(word), widen.byte.eq(low[:2]), widen.mtype.eq(self.mtype)]
      elements.append(name(m, Mux(self.served[e], widen.o, Mux(self.first, 0, before.word_select(e, 32))), f"element{e}"))
    now = name(m, Cat(*elements), "now")
    tile = Signal.like(kept)
    for beat in range(beats):
      here = slice(32 * n * beat, 32 * n * (beat + 1))
      m.d.comb += tile[here].eq(Mux(self.beat == beat, now, Mux(self.first, 0, kept[here])))
    with m.If(self.valid):
      m.d.sync += kept.eq(tile)
    m.d.comb += [self.result.valid.eq(self.valid & self.last), self.result.reg.eq(self.reg), self.result.data.eq(tile)]
    return m


class StoreMerge(wiring.Component):
  """Combinational: the served elements of a beat of a store, moved to the slots of their words, with byte enables.

  Where elements meet in a byte, the highest wins: from the highest down, each keeps the bytes that nobody above has taken. What
  is left is disjoint and moves to its slot as a shift (see `shift`), byte lane by byte lane. What is taken is kept for as many
  byte lanes together as fit 64 bits.

  Members (P = vector_lanes):
    mtype: In(4); served: In(P); low: In per element; data: In(32) per element, from `Narrow`.
    words: Out(32), enables: Out(4), per slot.
  """

  def __init__(self, config: Config) -> None:
    self.config = config
    n = config.vector_lanes
    super().__init__({
      "mtype": In(4), "served": In(n), "low": In(low_bits(config)).array(n), "data": In(32).array(n),
      "words": Out(32).array(n), "enables": Out(4).array(n)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    n = self.config.vector_lanes
    two, four = name(m, sized(self.mtype, 2), "two"), name(m, sized(self.mtype, 4), "four")
    group, per = min(4, 64 // n), min(8, n)  # byte lanes of a mask of what is taken; slots of a chunk
    inner = per.bit_length() - 1
    taken: list[Value] = [Const(0, group * n)] * (4 // group)
    lanes: list[list[list[Value]]] = [[[] for _ in range(n // per)] for _ in range(4)]  # [byte of the word][chunk of slots]
    for e in reversed(range(n)):
      slot, byte = self.low[e][2:], self.low[e][:2]
      octet = Cat(*(byte == k for k in range(4)))
      half = Mux(byte[1], Const(0b1100, 4), Const(0b0011, 4))
      wants = name(m, Mux(self.served[e], Mux(four, 0b1111, Mux(two, half, octet)), 0)[:4], f"wants{e}")
      place = Cat(Const(0, group.bit_length() - 1), slot)
      free = Cat(*(~(mask >> place)[:group] for mask in taken))
      wins = name(m, wants & free, f"wins{e}")
      taken = [name(m, (mask | shifted(wants[group * k:group * k + group], slot, group, group * n))[:group * n], f"taken{e}_{k}")
               for k, mask in enumerate(taken)]
      data = name(m, self.data[e] & Cat(*(bit.replicate(8) for bit in wins)), f"data{e}")
      for k, chunks in enumerate(lanes):
        moved = name(m, shifted(data[8 * k:8 * k + 8], slot[:inner], 8, 8 * per), f"moved{e}_{k}")
        for q, terms in enumerate(chunks):
          terms.append(Mux(slot[inner:] == q, moved, 0) if len(chunks) > 1 else moved)
    for q in range(n // per):
      bytes_ = [name(m, any_of(lanes[k][q]), f"chunk{q}_{k}") for k in range(4)]
      m.d.comb += [self.words[per * q + s].eq(Cat(*(b[8 * s:8 * s + 8] for b in bytes_))) for s in range(per)]
    m.d.comb += [enable.eq(Cat(*(mask[group * s:group * s + group] for mask in taken))) for s, enable in enumerate(self.enables)]
    return m
