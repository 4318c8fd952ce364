"""Cross-lane unit: moves elements between the lanes of a tile, and from a tile to a scalar register."""
from __future__ import annotations

from collections.abc import Callable

from amaranth.hdl import Cat, Const, Module, Signal, Value, ValueLike
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import timing
from ..isa.table import OPS
from .interfaces import cross_issue, scalar_result, tile_bits, vector_result
from .opcodes import is_op, timed
from .select import tree


class CrossUnit(wiring.Component):
  """Cross-lane operations of slot X: xbcr, xbcc, xbce, xtr, xtrb, xtrh, xrot, xperm to a tile, xtos, xany, xall to a scalar.

  One crossbar: every element of the result has an index, computed from the operation, and is that element of `a`.
  The operation is captured in the cycle of `issue.start`, cycle t, if its code is one of these. One operation per
  cycle, no stall.

  Parameters: config, for the shape of a tile.

  Members:
    issue: In(cross_issue). Other codes of slot X are ignored.
    result: Out(vector_result), valid in t + XLU - 1: combinational from the captured operands.
    scalar: Out(scalar_result), valid in t + X2S - 1: one register later.
  """

  def __init__(self, config: Config) -> None:
    if (stated := tuple(timing.latency(config, name) for name in ("XLU", "X2S"))) != (2, 3):
      raise ValueError(f"CrossUnit is built for XLU = 2 and X2S = 3, not {stated[0]} and {stated[1]}")
    self.config = config
    super().__init__({
      "issue": In(cross_issue(config)), "result": Out(vector_result(config)), "scalar": Out(scalar_result())})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    bits = (self.config.width - 1).bit_length()
    issue = self.issue
    to_tile, to_scalar = timed("X", ["XLU"]), timed("X", ["X2S"])
    code, d = Signal(8, reset_less=True), Signal(6, reset_less=True)
    a = Signal(tile_bits(self.config), reset_less=True)
    k = Signal(bits, reset_less=True)
    picks = [Signal(bits, name=f"pick{e}", reset_less=True) for e in range(self.config.width)]
    tile_valid, scalar_valid = Signal(), Signal()

    mine = issue.start & is_op(issue.code, *to_tile, *to_scalar)
    m.d.sync += [
      tile_valid.eq(issue.start & is_op(issue.code, *to_tile)), scalar_valid.eq(issue.start & is_op(issue.code, *to_scalar))]
    with m.If(mine):
      m.d.sync += [code.eq(issue.code), d.eq(issue.d), a.eq(issue.a), k.eq(issue.k)]
      m.d.sync += [pick.eq(issue.b.word_select(e, 32)) for e, pick in enumerate(picks)]

    words: list[Value] = [a.word_select(e, 32) for e in range(self.config.width)]
    indices = self._indices(m, code, k, picks)
    elements = [tree(words, index) for index in indices]
    # Parts of words change places with parts of neighbours: byte n of lane m with byte m of lane n, halfwords likewise.
    octets = [Cat(*(words[e - e % 4 + n].word_select(e % 4, 8) for n in range(4))) for e in range(self.config.width)]
    halves = [Cat(*(words[e - e % 2 + n].word_select(e % 2, 16) for n in range(2))) for e in range(self.config.width)]
    m.d.comb += [self.result.valid.eq(tile_valid), self.result.reg.eq(d)]
    with m.If(tile_valid):
      m.d.comb += self.result.data.eq(Cat(*elements))
      with m.If(is_op(code, "xtrb")):
        m.d.comb += self.result.data.eq(Cat(*octets))
      with m.If(is_op(code, "xtrh")):
        m.d.comb += self.result.data.eq(Cat(*halves))

    m.d.sync += self.scalar.valid.eq(scalar_valid)
    with m.If(scalar_valid):
      flags = Cat(*(word != 0 for word in words))
      with m.Switch(code):
        with m.Case(OPS["xany"].code):
          m.d.sync += self.scalar.data.eq(flags.any())
        with m.Case(OPS["xall"].code):
          m.d.sync += self.scalar.data.eq(flags.all())
        with m.Default():  # xtos
          m.d.sync += self.scalar.data.eq(tree(words, k))
      m.d.sync += self.scalar.reg.eq(d)
    return m

  def _indices(self, m: Module, code: Value, k: Value, picks: list[Signal]) -> list[Signal]:
    """Per element of the result: which element of `a` it is."""
    lanes, width = self.config.lanes, self.config.width
    half = (lanes - 1).bit_length()  # bits of a lane or sublane number; an index is sublane above lane
    rules: dict[str, Callable[[int, int], ValueLike]] = {  # of sublane i, lane j of the result
      "xbcr": lambda i, j: Cat(Const(j, half), k[:half]),
      "xbcc": lambda i, j: Cat(k[:half], Const(i, half)),
      "xbce": lambda i, j: k,
      "xtr": lambda i, j: j * lanes + i,
      "xrot": lambda i, j: k + (i * lanes + j),
      "xperm": lambda i, j: picks[i * lanes + j],
    }
    indices = [Signal.like(k, name=f"index{e}") for e in range(width)]
    with m.Switch(code):
      for name, rule in rules.items():
        with m.Default() if name == "xperm" else m.Case(OPS[name].code):
          m.d.comb += [index.eq(rule(*divmod(e, lanes))) for e, index in enumerate(indices)]
    return indices
