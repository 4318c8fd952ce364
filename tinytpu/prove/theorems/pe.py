"""The matrix unit's element computes what its specification says: in float32 the sums in their order, of bytes the exact sum."""
from __future__ import annotations

from amaranth.lib import wiring
from bitwuzla import Kind, Term

from tinytpu.rtl.float_add import FAdd32
from tinytpu.rtl.float_mul import FMul32
from tinytpu.rtl.pe import ADDEND_CYCLE, GROUP, RESULT_CYCLE, ProcessingElement

from ..circuit import Circuit
from ..floats import F32
from ..mutants import Mutant
from ..proof import Equation, Theorem, Truth


def _groups(c: Circuit, groups: int, of_bytes: bool) -> Term:
  """The element's result of `groups` groups, one after the other, each of which takes the one before's result as its C."""
  for t in range(RESULT_CYCLE + GROUP * groups):
    c.bind("phase", t, t % GROUP)
    c.bind("take", t, t % GROUP == ADDEND_CYCLE % GROUP)
    c.bind("total_int", t, of_bytes)
    c.bind("out_int", t, of_bytes)
  for group in range(1, groups):
    c.bind("addend", ADDEND_CYCLE + GROUP * group, c.output("o", RESULT_CYCLE + GROUP * (group - 1)))
  return c.output("o", RESULT_CYCLE + GROUP * (groups - 1))


def _float_sum(c: Circuit, addend: Term, group: int) -> Term:
  """C + ((p0 + p1) + (p2 + p3)), by the RTL's own adder and multiplier."""
  def add(a: Term, b: Term) -> Term:
    return c.apply(FAdd32(), FAdd32.CUTS, a=a, b=b)
  p = [c.apply(FMul32(), FMul32.CUTS, a=c.input("a", k), b=c.input("b", k)) for k in range(GROUP * group, GROUP * group + GROUP)]
  return add(addend, add(add(p[0], p[1]), add(p[2], p[3])))


def _byte_sum(c: Circuit, addend: Term, group: int) -> Term:
  """C and sixteen products of signed bytes, added in 32 bits. The order does not matter to the sum, but to the solver: it is the RTL's."""
  t = c.terms

  def add(a: Term, b: Term) -> Term:
    return t(Kind.BV_ADD, a, b)

  def product(k: int, byte: int) -> Term:
    a, b = (t(Kind.BV_SIGN_EXTEND, t.slice(c.input(n, k), 8 * byte, 8), at=(8,)) for n in "ab")
    return t(Kind.BV_SIGN_EXTEND, t(Kind.BV_MUL, a, b), at=(16,))

  words = [add(add(product(k, 0), product(k, 1)), add(product(k, 2), product(k, 3))) for k in range(GROUP * group, GROUP * group + GROUP)]
  return add(addend, add(add(add(words[0], words[1]), words[2]), words[3]))


def _sums(groups: int, of_bytes: bool) -> Truth:
  def claim(c: Circuit) -> Term:
    got, wanted = _groups(c, groups, of_bytes), c.input("addend", ADDEND_CYCLE)
    for group in range(groups):
      wanted = (_byte_sum if of_bytes else _float_sum)(c, wanted, group)
    return c.terms.eq(got, wanted)
  return claim


def _inert(of_bytes: bool) -> Truth:
  """With a zero as one operand of each product (float32: of either sign, and the other finite), C comes out as it went in."""
  def claim(c: Circuit) -> Term:
    t, got, addend = c.terms, _groups(c, 1, of_bytes), c.input("addend", ADDEND_CYCLE)
    if of_bytes:
      return t.if_(t.all([t.eq(c.input("a", k), 0) for k in range(GROUP)]), t.eq(got, addend))
    zero = t.all([F32.has(t, Kind.FP_IS_ZERO, c.input("a", k)) for k in range(GROUP)])
    finite = t.all([t.isnt(t.eq(t.slice(c.input("b", k), 23, 8), 255)) for k in range(GROUP)])
    as_it_was = t.any([t.eq(got, addend), t.all([F32.has(t, Kind.FP_IS_ZERO, word) for word in (got, addend)])])
    return t.if_(t.all([zero, finite]), t.if_(F32.has(t, Kind.FP_IS_NAN, addend), t.eq(got, F32.nan), as_it_was))
  return claim


def _result(word: int) -> Truth:
  """A result that takes a sum, not one operand alone: no operand `a` is zero."""
  def cover(c: Circuit) -> Term:
    t = c.terms
    return t.all([t.eq(c.output("o", RESULT_CYCLE), word), *(t.isnt(t.eq(c.input("a", k), 0)) for k in range(GROUP))])
  return cover


def _addend(word: int) -> Truth:
  return lambda c: c.terms.eq(c.input("addend", ADDEND_CYCLE), word)


def _element() -> wiring.Component:
  return ProcessingElement()


_ORDER = "docs/architecture.md, order of the sum; tinytpu/rtl/pe.py"

THEOREMS = [
  Theorem("pe.float", "A group gives C + ((p0 + p1) + (p2 + p3)), every sum and product rounded by the adder and the multiplier that are "
          "proved by themselves.", _ORDER,
          Equation(_element, _sums(1, False), {"the sum is -0": _addend(1 << 31)}),
          (Mutant("pe", "adder.a.eq(pair01), adder.b.eq(pair23)", "adder.a.eq(pair01), adder.b.eq(adder.o)"),
           Mutant("pe", "adder.a.eq(before2), adder.b.eq(before)", "adder.a.eq(before), adder.b.eq(product)")), quick=True),
  Theorem("pe.float_chain", "Two groups that follow each other on one C give what one after the other gives: steps add up to a longer one, "
          "bit by bit.", _ORDER,
          Equation(_element, _sums(2, False), {"C is 1": _addend(0x3F800000)}),
          (Mutant("pe", "with m.If(self.phase == 2):", "with m.If(self.phase == 3):"),)),
  Theorem("pe.bytes", "A group of bytes adds the exact sum of its sixteen products to C, modulo 2^32.", _ORDER,
          Equation(_element, _sums(1, True), {"a sum of -1": _result(0xFFFFFFFF)}),
          (Mutant("pe", "sums[1].eq(sums[0])", "sums[1].eq(running)"),
           Mutant("pe", "dot, running = Signal(18,", "dot, running = Signal(17,")), quick=True),
  Theorem("pe.float_zero", "Zeros as one operand, with finite others, leave C as it is: bit by bit, but that -0 may become +0 and a NaN "
          "becomes 0x7FC00000.", _ORDER,
          Equation(_element, _inert(False), {"C is a NaN": _addend(0x7F800001), "C is subnormal": _addend(1)}),
          (Mutant("float_add", "Mux(cancel, 0, big[23:31] | ~big_normal)", "Mux(cancel, 0, big[23:31])"),
           Mutant("float_mul", "finite = Mux(infinite2 |", "finite = Mux(sign2 | infinite2 |"))),
  Theorem("pe.bytes_zero", "A zero operand leaves C as it is.", _ORDER,
          Equation(_element, _inert(True), {"C is -1": _addend(0xFFFFFFFF)}),
            (Mutant("pe", "addend + total, float_sum)", "addend + total + 1, float_sum)"),), quick=True),
]
