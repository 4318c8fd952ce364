"""Comparisons, maximum and minimum of float32 are IEEE 754's, for all pairs of words."""
from __future__ import annotations

from bitwuzla import Kind, Term

from tinytpu.rtl.float_cmp import FCmp32

from ..circuit import Circuit
from ..floats import F32
from ..mutants import Mutant
from ..proof import Equation, Theorem


def _compared(c: Circuit) -> Term:
  t = c.terms
  a, b = (F32.of(t, c.input(n, 0)) for n in "ab")
  wanted = {"lt": t(Kind.FP_LT, a, b), "le": t(Kind.FP_LEQ, a, b), "eq": t(Kind.FP_EQUAL, a, b), "ne": t.isnt(t(Kind.FP_EQUAL, a, b))}
  return t.all([t(Kind.EQUAL, t.truth(c.output(name, 0)), truth) for name, truth in wanted.items()])


def _extreme(name: str, zero: str) -> Term:
  """IEEE 754-2019 9.6: a NaN if there is one, and -0 is below +0; `zero` is the operation that so takes one of two zeros."""
  def claim(c: Circuit) -> Term:
    t, x, y = c.terms, c.input("a", 0), c.input("b", 0)
    a, b, o = F32.of(t, x), F32.of(t, y), c.output(name, 0)
    nan = t.any([t(Kind.FP_IS_NAN, a), t(Kind.FP_IS_NAN, b)])
    zeros = t.all([t(Kind.FP_IS_ZERO, a), t(Kind.FP_IS_ZERO, b)])
    of_zeros = t.eq(o, t(Kind.BV_AND if zero == "+0" else Kind.BV_OR, x, y))
    plain = t(Kind.EQUAL, F32.of(t, o), t(Kind.FP_MAX if name == "max" else Kind.FP_MIN, a, b))
    return t.if_(nan, t.eq(o, F32.nan), t.if_(zeros, of_zeros, plain))
  return claim


def _chosen(c: Circuit) -> Term:
  """By comparison alone, as C's `a > b ? a : b` and `a < b ? a : b`."""
  t, x, y = c.terms, c.input("a", 0), c.input("b", 0)
  a, b = F32.of(t, x), F32.of(t, y)
  return t.all([t.eq(c.output("smax", 0), t.if_(t(Kind.FP_GT, a, b), x, y)), t.eq(c.output("smin", 0), t.if_(t(Kind.FP_LT, a, b), x, y))])


def _zeros(c: Circuit) -> Term:
  return c.terms.all([c.terms.eq(c.input("a", 0), 0), c.terms.eq(c.input("b", 0), 1 << 31)])


def _nan(c: Circuit) -> Term:
  return F32.has(c.terms, Kind.FP_IS_NAN, c.input("a", 0))


_COVERS = {"zeros of both signs": _zeros, "a NaN": _nan}

THEOREMS = [
  Theorem("float_cmp.order", "lt, le, eq and ne are the four quiet comparisons: -0 equals +0, and NaN is unordered.", "IEEE 754-2019, 5.11",
          Equation(FCmp32, _compared, _COVERS),
          (Mutant("float_cmp", "below & ~unordered & ~both_zero", "below & ~unordered"),
           Mutant("float_cmp", "(same | both_zero) & ~unordered", "same | both_zero")), quick=True),
  *(Theorem(f"float_cmp.{name}", f"{name} is IEEE's {long}: a NaN gives 0x7FC00000, and of two zeros the {sign} one wins.",
            "IEEE 754-2019, 9.6",
            Equation(FCmp32, _extreme(name, sign), _COVERS), (Mutant("float_cmp", f"{name}=Mux(unordered, NAN32, Mux(below, {mux}))",
                                                                   f"{name}=Mux(unordered, NAN32, Mux(lt, {mux}))"),), quick=True)
    for name, long, sign, mux in (("max", "maximum", "+0", "b, a"), ("min", "minimum", "-0", "a, b"))),
  Theorem("float_cmp.choice", "smax is a > b ? a : b and smin is a < b ? a : b, bit by bit.", "isa/semantics.py, fsmax and fsmin",
          Equation(FCmp32, _chosen, _COVERS), (Mutant("float_cmp", "Mux(lt | eq | unordered, b, a)", "Mux(lt | eq, b, a)"),), quick=True),
]
