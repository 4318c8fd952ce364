"""The float32 adder is IEEE 754's addition, for all pairs of words."""
from __future__ import annotations

from bitwuzla import Kind, Term

from tinytpu.rtl.float_add import FAdd32

from ..circuit import Circuit
from ..floats import F32
from ..mutants import Mutant
from ..proof import Equation, Theorem, Truth


def _sum(c: Circuit) -> Term:
  a, b = (F32.of(c.terms, c.input(n, 0)) for n in "ab")
  return F32.word_is(c.terms, c.output("o", FAdd32.CUTS), F32.round(c.terms, Kind.FP_ADD, a, b))


def _case(ordered: bool, alike: bool) -> Truth:
  """Whether |a| >= |b|, and the signs are equal: each alone takes the solver far less time than all at once."""
  def truth(c: Circuit) -> Term:
    t, a, b = c.terms, c.input("a", 0), c.input("b", 0)
    order = t(Kind.BV_UGE if ordered else Kind.BV_ULT, t.slice(a, 0, 31), t.slice(b, 0, 31))
    sign = t.eq(t.slice(a, 31, 1), t.slice(b, 31, 1))
    return t.all([order, sign if alike else t.isnt(sign)])
  return truth


def _subnormal(c: Circuit) -> Term:
  return c.terms.all([F32.has(c.terms, Kind.FP_IS_SUBNORMAL, c.output("o", FAdd32.CUTS)),
                      *(F32.has(c.terms, Kind.FP_IS_NORMAL, c.input(n, 0)) for n in "ab")])


def _invalid(c: Circuit) -> Term:
  return c.terms.all([c.terms.eq(c.output("o", FAdd32.CUTS), F32.nan), *(F32.has(c.terms, Kind.FP_IS_INF, c.input(n, 0)) for n in "ab")])


THEOREMS = [Theorem(
  "float_add.sum", "The adder's result, two cycles after its operands, is their sum rounded to nearest even; NaN is 0x7FC00000.",
  "IEEE 754-2019, 5.4.1",
  Equation(FAdd32, _sum, {"a subnormal sum of normal numbers": _subnormal, "a NaN of infinities": _invalid},
           cases=tuple(_case(ordered, alike) for alike in (True, False) for ordered in (True, False))),
  (Mutant("float_add", "& ((normal[:3] != 0) | normal[4])", "& 1"),  # ties away from zero
   Mutant("float_add", "aligned[:29] != 0", "aligned[:28] != 0"),  # what is shifted out does not count
   Mutant("float_add", "(big[:23] != 0) |", "(big[:22] != 0) |")))]  # one NaN is an infinity
