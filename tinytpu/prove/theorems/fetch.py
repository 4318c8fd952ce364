"""Fetch: a packet that is present is the one that memory holds, whatever was looked up before."""
from __future__ import annotations

from collections.abc import Callable
from math import log2

from amaranth.asserts import AnyConst
from amaranth.hdl import Assert, Assume, Cat, Cover, Signal
from bitwuzla import Kind, Term

from tinytpu.config import Config, preset
from tinytpu.rtl.fetch import PACKET_BITS, Fetch

from ..circuit import Circuit
from ..mutants import Mutant
from ..proof import Invariant, Theorem
from ..spec import Spec


def packet(config: Config) -> Callable[[], Spec]:
  """Follows one line of memory, any one, of which nothing is known but that it does not change.

  Why it holds: while the line's block is in the buffer and not on its way, the buffer has the line where it belongs. What is on its way
  has been requested and comes in order.
  """
  lines, latency = config.ibuf_block_lines, config.hbm_latency
  offset, index = int(log2(config.ibuf_block_lines)), int(log2(config.ibuf_blocks))
  line_bits, size = int(log2(config.line_bytes)), 8 * config.line_bytes
  row_lines = max(1, PACKET_BITS // size)  # lines in a row of the buffer; one of two packets, or two of a packet

  def spec() -> Spec:
    unit = Fetch(config)
    s = Spec(unit)
    held, valid, looking, busy, again, count = (s.signals[n] for n in ("held", "valid", "looking", "busy", "again", "count"))
    line, content = Signal(len(held) - line_bits, name="line"), Signal(size, name="content")
    row, place, tag = (Signal(width, name=n) for n, width in (
      ("row", len(s.signals["$signature__addr#2"])), ("place", max(index, 1)), ("tag", len(s.signals["$signature__data"]))))
    block, held_line = line[offset:], held[line_bits:]
    s.m.d.comb += [line.eq(AnyConst(len(line))), content.eq(AnyConst(size)), row.eq(line >> int(log2(row_lines))), place.eq(block[:index]),
                   tag.eq(block[index:])]
    s.shown += [held, looking, busy, again, count, unit.present, line]

    # Memory answers after its latency; the line's content is `content`.
    asked = Signal(latency)
    s.m.d.sync += asked.eq(Cat(unit.port.valid & (unit.port.line == line[:32]) & (line[32:] == 0), asked))
    s.m.d.comb += [
      Assume(~asked[-1] | (unit.port.rdata == content)), Assume(line[32:] == 0),
      Assume(unit.idle | ~(unit.lookup | unit.invalidate)), Assume(~(unit.lookup & unit.invalidate))]

    filling, same_block = Signal(), Signal()
    s.m.d.comb += [same_block.eq(held_line[offset:] == block), filling.eq(busy & (held_line[offset:][:index] == block[:index]))]
    s.m.d.comb += [
      Assert(busy + again + looking <= 1, "two things at once"),
      Assert(~busy | (count <= lines + latency - 1), "a refill that does not end"),
      Assert(~(busy | again) | valid.bit_select(held_line[offset:][:index], 1), "a refill of a block that is not in the buffer"),
      *(Assert(asked[j] == (busy & same_block & (count == line[:offset] + j + 1)), "a request that is not the refill's")
        for j in range(latency)),
      Cover(unit.present & (held_line == line) & (content != 0), "the line is fetched and present"),
      Cover(again & ~same_block & valid.bit_select(place, 1), "another block takes the line's place")]

    def half(c: Circuit, row_of_two: Term, t: int) -> Term:
      """Of a row of two lines the one that is the line."""
      low = c.terms.eq(c.terms.slice(c.signal(line, t), 0, 1), 0)
      return c.terms.if_(low, c.terms.slice(row_of_two, 0, size), c.terms.slice(row_of_two, size, size))

    def stored(c: Circuit, t: int) -> Term:
      """The word of the buffer in which the line belongs holds it."""
      word = c.word("data", c.signal(row, t), t)
      return c.terms.eq(half(c, word, t) if row_lines == 2 else word, c.signal(content, t))

    def here(c: Circuit, t: int) -> Term:
      """The line's block is in the buffer."""
      known = c.terms.eq(c.word("tags", c.signal(place, t), t), c.signal(tag, t))
      return c.terms.all([c.terms.truth(c.signal(used, t)), known])

    used, arrived = Signal(name="used"), Signal(name="arrived")
    s.m.d.comb += [used.eq(valid.bit_select(place, 1)), arrived.eq(~filling | (count > latency + line[:offset]))]

    def kept(c: Circuit, t: int) -> Term:
      return c.terms.if_(c.terms.all([here(c, t), c.terms.truth(c.signal(arrived, t))]), stored(c, t))

    def read(c: Circuit, t: int) -> Term:
      """What has been read of the buffer is what it holds."""
      tags, words = c.signal(s.signals["$signature__addr"], t), c.signal(s.signals["$signature__addr#2"], t)
      at = [c.terms.slice(c.signal(held, t), line_bits + offset, tags.sort().bv_size()),
            c.terms.slice(c.signal(held, t), line_bits + int(log2(row_lines)), words.sort().bv_size())]
      got = [c.signal(s.signals[name], t) for name in ("$signature__data", "$signature__data#2")]
      return c.terms.if_(c.terms.truth(c.signal(looking, t)), c.terms.all(
        [c.terms(Kind.EQUAL, c.word(memory, address, t), value) for memory, address, value in zip(("tags", "data"), at, got, strict=True)]))

    def tagged(c: Circuit, t: int) -> Term:
      """The block on its way has its tag."""
      h = c.signal(held, t)
      width = c.signal(tag, t).sort().bv_size()
      known = c.word("tags", c.terms.slice(h, line_bits + offset, len(place)), t)
      return c.terms.if_(c.terms.truth(c.terms(Kind.BV_OR, c.signal(busy, t), c.signal(again, t))),
                         c.terms(Kind.EQUAL, known, c.terms.slice(h, line_bits + offset + index, width)))

    def right(c: Circuit, t: int) -> Term:
      """The promise: the packet's part that is this line."""
      terms, got, word, where = c.terms, c.signal(unit.packet, t), c.signal(content, t), c.signal(held, t)
      present, shared = terms.truth(c.signal(unit.present, t)), row_lines - 1  # bits of a line's number that do not tell packets apart
      numbers = [terms.slice(address, low + shared, len(line) - shared) for address, low in ((where, line_bits), (c.signal(line, t), 0))]
      matches = terms.eq(*numbers)
      if row_lines == 2:
        return terms.if_(terms.all([present, matches]), terms.eq(half(c, got, t), word))
      upper = terms.truth(terms.slice(where, line_bits - 1, 1))
      return terms.if_(terms.all([present, matches]),
                       terms.eq(got, terms.if_(upper, terms.slice(word, PACKET_BITS, PACKET_BITS), terms.slice(word, 0, PACKET_BITS))))

    s.claims += [("assert", "the buffer lost the line", kept), ("assert", "what was read is not what the buffer holds", read),
                 ("assert", "a refill under another tag", tagged), ("assert", "the packet that is present is not memory's", right)]
    return s
  return spec


_MUTANTS = (
  Mutant("fetch", "(tag_read.data == held[tag_lsb:]) & valid", "(tag_read.data[1:] == held[tag_lsb + 1:]) & valid"),
  Mutant("fetch", "arriving = (count - latency)[:offset_bits]", "arriving = (count - latency + 1)[:offset_bits]"),
  Mutant("fetch", "count == lines + latency - 1", "count == lines + latency - 2"))

THEOREMS = [Theorem(
  f"fetch.packet_{name}", f"A packet that is present is memory's, as long as memory does not change ({text}).", "docs/timing.md, Front end",
  Invariant(packet(preset(config)), 1, reach=12), _MUTANTS)
  for name, text, config in (
    ("wide", "lines of two packets", "4x4,hbm_latency=4,ibuf_blocks=2,ibuf_block_lines=2"),
    ("narrow", "packets of two lines", "4x4,hbm_latency=4,ibuf_blocks=2,ibuf_block_lines=4,vector_lanes=4"))]
