"""Reductions of a tile by sublane, by lane, or as a whole: sums, products, maxima, minima and where they are."""
from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, DomainRenamer, Module, Mux, Signal, Value
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import timing
from ..isa.table import OPS
from .float_add import FAdd32
from .float_cmp import compare
from .float_common import is_nan, name
from .float_mul import FMul32
from .interfaces import cross_issue, tile_bits, vector_result
from .once import place
from .opcodes import is_op, timed
from .select import tree

__all__ = ["REDUCE_CLOCKS", "ReduceNode", "ReduceUnit", "check_timing"]

REDUCE_CLOCKS = ("reduce",)
"""Clock domain of `ReduceUnit` that may rest while its output `<domain>_enable` is low."""
FLOAT_CYCLES = FAdd32.CUTS + 1
"""Cycles of a turn in the float adder or multiplier."""


class ReduceOp(enum.Enum, shape=4):
  """What a node does; named as the operations, less x and the letter that says along what."""
  SUM = 0
  PROD = 1
  MAX = 2
  MIN = 3
  FSUM = 4
  FPROD = 5
  FMAX = 6
  FMIN = 7
  MAXU = 8
  MINU = 9
  AMAX = 10
  AMIN = 11
  FAMAX = 12
  FAMIN = 13


def turns(config: Config, level: int) -> int:
  """Turns in which the nodes take level `level` of the tree, 0 being that of most pairs."""
  return max(1, config.beats >> level)


def check_timing(config: Config) -> None:
  """Raises ValueError if isa.timing disagrees with what the unit takes."""
  level = (config.lanes - 1).bit_length()
  slow = FLOAT_CYCLES
  for which, levels, turn in (("XRED", level, 1), ("XREDT", 2 * level, 1), ("XFRED", level, slow), ("XFREDT", 2 * level, slow)):
    cycles = sum(turns(config, n) for n in range(levels)) * turn + 2
    if (stated := timing.latency(config, which)) != cycles:
      raise ValueError(f"the latency {which} is {stated}, but reductions of tiles with {config.lanes} lanes take {cycles} cycles")


class ReduceNode(wiring.Component):
  """One node of the tree: of two elements, the earlier one in a.

  Combinational, but for float sums and products, which take FAdd32.CUTS cycles in clock domain `reduce`.

  Members:
    op: In(ReduceOp). a, b: In(32). a_place, b_place: In(8), where they come from.
    o: Out(32), sum, product, or the winner. place: Out(8), the winner's: of equals the earlier.
  """

  def __init__(self) -> None:
    super().__init__({"op": In(ReduceOp), "a": In(32), "b": In(32), "a_place": In(8), "b_place": In(8), "o": Out(32), "place": Out(8)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    a, b = self.a, self.b
    m.submodules.adder = adder = DomainRenamer("reduce")(FAdd32())
    m.submodules.multiplier = multiplier = DomainRenamer("reduce")(FMul32())
    m.d.comb += [adder.a.eq(a), adder.b.eq(b), multiplier.a.eq(a), multiplier.b.eq(b)]
    order = compare(m, a, b)
    # Of unsigned numbers the highest bit is turned over, which leaves their order to the signed comparison.
    turn = (self.op == ReduceOp.MAXU) | (self.op == ReduceOp.MINU)
    key_a, key_b = (name(m, Cat(x[:31], x[31] ^ turn), f"key_{label}").as_signed() for x, label in ((a, "a"), (b, "b")))
    less, more = name(m, key_a < key_b, "less"), name(m, key_a > key_b, "more")
    a_nan, b_nan = name(m, is_nan(a), "a_nan"), name(m, is_nan(b), "b_nan")
    second = Signal()  # b wins
    with m.Switch(self.op):
      for ops, wins in (((ReduceOp.MAX, ReduceOp.MAXU, ReduceOp.AMAX), less), ((ReduceOp.MIN, ReduceOp.MINU, ReduceOp.AMIN), more),
                       ((ReduceOp.FAMAX,), ~a_nan & (b_nan | order.lt))):
        with m.Case(*ops):
          m.d.comb += second.eq(wins)
      with m.Default():  # FAMIN
        m.d.comb += second.eq(~a_nan & (b_nan | ~order.le))
    with m.Switch(self.op):
      for op, value in ((ReduceOp.SUM, a + b), (ReduceOp.PROD, a * b), (ReduceOp.FSUM, adder.o), (ReduceOp.FPROD, multiplier.o),
                        (ReduceOp.FMAX, order.max), (ReduceOp.FMIN, order.min)):
        with m.Case(op):
          m.d.comb += self.o.eq(value)
      with m.Default():
        m.d.comb += self.o.eq(Mux(second, b, a))
    m.d.comb += self.place.eq(Mux(second, self.b_place, self.a_place))
    return m


class ReduceUnit(wiring.Component):
  """Reductions of slot X, level by level on vector_lanes / 2 nodes.

  In turn k of a level node n takes elements 2 m and 2 m + 1 of the working tile, m = n + k * nodes, and its result becomes
  element m: a balanced binary tree in the order of elements. A level has as many turns as its pairs need, one where they are not more
  than the nodes. After log2(lanes) levels element i is the result of sublane i, after twice as many element 0 is that of the
  tile. Reductions by lane begin with the transposed tile. A turn takes one cycle, in float sums and products `FLOAT_CYCLES`.

  The tile is captured in the cycle of `issue.start`, cycle t; the result is raised in t + L - 1, L being the latency of the table.
  The next reduction may start in t + L - 2, which the issue stage sees to.

  All data registers are in clock domain `reduce`, which may rest at the end of cycles without `reduce_enable`.

  Parameters: config, for the shape of a tile. Raises ValueError if isa.timing does not fit it.

  Members:
    issue: In(cross_issue); the other operations of slot X are ignored.
    result: Out(vector_result). reduce_enable: Out(1), depends on `issue` in the same cycle.
  """

  def __init__(self, config: Config) -> None:
    check_timing(config)
    self.config = config
    super().__init__({"issue": In(cross_issue(config)), "result": Out(vector_result(config)), "reduce_enable": Out(1)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    lanes, width, issue = self.config.lanes, self.config.width, self.issue
    names = timed("X", timing.REDUCTIONS)
    along = {letter: tuple(n for n in names if n.endswith(letter)) for letter in "rct"}
    level = (lanes - 1).bit_length()
    start = Signal()
    m.d.comb += start.eq(issue.start & is_op(issue.code, *names))

    op, by_lane, whole, slow = Signal(ReduceOp), Signal(), Signal(), Signal()
    d, left, beat, advance, last = Signal(6), Signal(range(2 * level + 1)), Signal(range(FLOAT_CYCLES)), Signal(), Signal()
    values, places = ([Signal(n, name=f"{label}{e}", reset_less=True) for e in range(width)] for label, n in (("value", 32), ("place", 8)))
    turn, last_turn = (Signal(range(self.config.beats), name=label) for label in ("turn", "last_turn"))  # the level's: now, the last
    ends = advance & (turn == last_turn)
    m.d.comb += [advance.eq((left != 0) & (~slow | (beat == FLOAT_CYCLES - 1))), last.eq(ends & (left == 1))]
    m.d.comb += self.reduce_enable.eq(start | (left != 0))
    m.d.reduce += beat.eq(Mux(advance, 0, beat + 1))
    nodes: list[Any] = []
    count = self.config.vector_lanes // 2
    for n in range(count):
      node = place(m, platform, f"node_{n}", "node", ReduceNode)
      m.d.comb += node.op.eq(op)
      for port, elements, offset in ((node.a, values, 0), (node.b, values, 1), (node.a_place, places, 0), (node.b_place, places, 1)):
        m.d.comb += port.eq(tree([elements[2 * pair + offset] for pair in range(n, width // 2, count)], turn))
      nodes.append(node)
    with m.If(ends):
      m.d.reduce += [left.eq(left - 1), turn.eq(0), last_turn.eq(last_turn >> 1)]
    with m.Elif(advance):
      m.d.reduce += turn.eq(turn + 1)
    for k in range(self.config.beats):  # later turns read only behind what earlier ones write
      with m.If(advance & (turn == k)):
        m.d.reduce += [values[k * count + n].eq(node.o) for n, node in enumerate(nodes)]
        m.d.reduce += [places[k * count + n].eq(node.place) for n, node in enumerate(nodes)]

    with m.If(start):
      m.d.reduce += [turn.eq(0), last_turn.eq(self.config.beats - 1)]
      m.d.reduce += [d.eq(issue.d), beat.eq(0), left.eq(Mux(is_op(issue.code, *along["t"]), 2 * level, level)),
                     by_lane.eq(is_op(issue.code, *along["c"])), whole.eq(is_op(issue.code, *along["t"])),
                     slow.eq(is_op(issue.code, *timed("X", ("XFRED", "XFREDT"))))]
      with m.Switch(issue.code):
        for operation in ReduceOp:
          with m.Default() if operation is ReduceOp.FAMIN else m.Case(*(OPS[n].code for n in names if n[1:-1] == operation.name.lower())):
            m.d.reduce += op.eq(operation)
      for e in range(width):
        transposed = (e % lanes) * lanes + e // lanes
        m.d.reduce += [
          values[e].eq(Mux(is_op(issue.code, *along["c"]), issue.a.word_select(transposed, 32), issue.a.word_select(e, 32))),
          places[e].eq(Mux(is_op(issue.code, *along["t"]), e, e % lanes))]

    valid, reg, data = Signal(), Signal(6, reset_less=True), Signal(tile_bits(self.config), reset_less=True)
    m.d.sync += valid.eq(last)
    index = name(m, op.as_value() >= ReduceOp.AMAX.value, "index")
    # The last level's results: of its last turn from the nodes, of those before from the working tile.
    before = (turns(self.config, level - 1) - 1) * count
    found = [(values[n], places[n]) for n in range(before)] + [(node.o, node.place) for node in nodes]
    results: list[Value] = [name(m, Mux(index, where, value), f"result{n}") for n, (value, where) in enumerate(found[:lanes])]
    whole_result = name(m, Mux(index, nodes[0].place, nodes[0].o), "whole_result") if before else results[0]
    with m.If(last):
      m.d.reduce += [reg.eq(d), data.eq(Cat(*(
        Mux(whole, whole_result, Mux(by_lane, results[e % lanes], results[e // lanes])) for e in range(width))))]
    m.d.comb += [self.result.valid.eq(valid), self.result.reg.eq(reg), self.result.data.eq(data)]
    return m
