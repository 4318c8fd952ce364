"""Cross-lane unit: moves elements between the lanes of a tile, and from a tile to a scalar register."""
from __future__ import annotations

from collections.abc import Callable

from amaranth.hdl import Cat, Const, Module, Signal, Value, ValueLike
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import timing
from ..isa.table import OPS
from .beats import collect
from .float_common import name
from .interfaces import cross_issue, scalar_result, tile_bits, vector_result
from .opcodes import is_op, timed
from .select import part, tree


class CrossUnit(wiring.Component):
  """Cross-lane operations of slot X: xbcr, xbcc, xbce, xtr, xtrb, xtrh, xrot, xperm to a tile, xtos, xany, xall to a scalar.

  One crossbar from all elements to `vector_lanes`, beat after beat: every element of the result has an index, computed from
  the operation, and is that element of `a`. The operation is captured in the cycle of `issue.start`, cycle t, if its code is one
  of these; beat b passes the crossbar in t + 1 + b. An operation per `beats` cycles, no stall.

  Parameters: config, for the shape of a tile and the lanes.

  Members:
    issue: In(cross_issue). Other codes of slot X are ignored.
    result: Out(vector_result), valid in t + XLU - 1: the last beat's cycle.
    scalar: Out(scalar_result), valid in t + X2S - 1: one register later.
  """

  def __init__(self, config: Config) -> None:
    built = 1 + config.beats, 2 + config.beats
    if (stated := tuple(timing.latency(config, kind) for kind in ("XLU", "X2S"))) != built:
      raise ValueError(f"CrossUnit is built for XLU = {built[0]} and X2S = {built[1]}, not {stated[0]} and {stated[1]}")
    self.config = config
    super().__init__({
      "issue": In(cross_issue(config)), "result": Out(vector_result(config)), "scalar": Out(scalar_result())})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    config, issue = self.config, self.issue
    width, lanes = config.width, config.vector_lanes
    bits = (width - 1).bit_length()
    to_tile, to_scalar = timed("X", ["XLU"]), timed("X", ["X2S"])
    code, d = Signal(8, reset_less=True), Signal(6, reset_less=True)
    a = Signal(tile_bits(config), reset_less=True)
    k = Signal(bits, reset_less=True)
    picks = Signal(bits * width, reset_less=True)
    tile_valid, scalar_valid = Signal(), Signal()
    beat, last = Signal(range(config.beats)), Signal()

    mine = issue.start & is_op(issue.code, *to_tile, *to_scalar)
    m.d.comb += last.eq(beat == config.beats - 1)
    with m.If(mine):
      m.d.sync += [code.eq(issue.code), d.eq(issue.d), a.eq(issue.a), k.eq(issue.k), beat.eq(0)]
      m.d.sync += [picks.eq(Cat(*(issue.b.word_select(e, 32)[:bits] for e in range(width)))),
                   tile_valid.eq(is_op(issue.code, *to_tile)), scalar_valid.eq(is_op(issue.code, *to_scalar))]
    with m.Elif(last):
      m.d.sync += [tile_valid.eq(0), scalar_valid.eq(0)]
    with m.Else():
      m.d.sync += beat.eq(beat + 1)

    crossed = [name(m, part(a, index, 32), f"crossed{j}") for j, index in enumerate(self._indices(m, code, k, picks, beat))]
    own = name(m, part(a, beat, 32 * lanes) if config.beats > 1 else a, "own")  # the beat's elements themselves
    words: list[Value] = [own.word_select(j, 32) for j in range(lanes)]
    # Parts of words change places with parts of neighbours: byte n of lane m with byte m of lane n, halfwords likewise.
    octets = [Cat(*(words[j - j % 4 + n].word_select(j % 4, 8) for n in range(4))) for j in range(lanes)]
    halves = [Cat(*(words[j - j % 2 + n].word_select(j % 2, 16) for n in range(2))) for j in range(lanes)]
    elements = Signal(32 * lanes)
    with m.If(tile_valid):
      m.d.comb += elements.eq(Cat(*crossed))
      with m.If(is_op(code, "xtrb")):
        m.d.comb += elements.eq(Cat(*octets))
      with m.If(is_op(code, "xtrh")):
        m.d.comb += elements.eq(Cat(*halves))
    tile = collect(m, tile_valid, elements, config.beats, "tile")
    m.d.comb += [self.result.valid.eq(tile_valid & last), self.result.reg.eq(d), self.result.data.eq(tile)]

    some, every = Signal(), Signal()  # of the beats before
    m.d.sync += self.scalar.valid.eq(scalar_valid & last)
    with m.If(scalar_valid):
      flags = Cat(*(word != 0 for word in words))
      any_flag = name(m, flags.any() | (some & (beat != 0)), "any_flag")
      all_flags = name(m, flags.all() & (every | (beat == 0)), "all_flags")
      m.d.sync += [some.eq(any_flag), every.eq(all_flags)]
      with m.Switch(code):
        with m.Case(OPS["xany"].code):
          m.d.sync += self.scalar.data.eq(any_flag)
        with m.Case(OPS["xall"].code):
          m.d.sync += self.scalar.data.eq(all_flags)
        with m.Default():  # xtos
          m.d.sync += self.scalar.data.eq(part(a, k, 32))
      m.d.sync += self.scalar.reg.eq(d)
    return m

  def _indices(self, m: Module, code: Value, k: Value, picks: Value, beat: Value) -> list[Signal]:
    """Per element of the beat: which element of `a` it is."""
    config = self.config
    half = (config.lanes - 1).bit_length()  # bits of a lane or sublane number; an index is sublane above lane
    bits = len(k)
    rules: dict[str, Callable[[Value, Value], ValueLike]] = {  # of element e of the result, and of b
      "xbcr": lambda e, pick: Cat(e[:half], k[:half]),
      "xbcc": lambda e, pick: Cat(k[:half], e[half:]),
      "xbce": lambda e, pick: k,
      "xtr": lambda e, pick: Cat(e[half:], e[:half]),
      "xrot": lambda e, pick: k + e,
      "xperm": lambda e, pick: pick,
    }
    size = bits * config.vector_lanes
    later = [picks[size * b:size * b + size] for b in range(config.beats)]
    elements = [Cat(Const(j, bits - len(beat)), beat) for j in range(config.vector_lanes)]
    chosen = name(m, tree(later, beat), "chosen")
    indices = [Signal.like(k, name=f"index{j}") for j in range(config.vector_lanes)]
    with m.Switch(code):
      for rule_name, rule in rules.items():
        with m.Default() if rule_name == "xperm" else m.Case(OPS[rule_name].code):
          for j, (e, index) in enumerate(zip(elements, indices, strict=True)):
            m.d.comb += index.eq(rule(e, chosen[bits * j:bits * j + bits]))
    return indices
