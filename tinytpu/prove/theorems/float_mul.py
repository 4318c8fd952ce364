"""The float32 multiplier is IEEE 754's multiplication."""
from __future__ import annotations

from bitwuzla import Kind, Term

from tinytpu.rtl.float_mul import FMul32

from ..circuit import Circuit
from ..floats import F32
from ..mutants import Mutant
from ..proof import Equation, Theorem


def _product(c: Circuit) -> Term:
  a, b = (F32.of(c.terms, c.input(n, 0)) for n in "ab")
  return F32.word_is(c.terms, c.output("o", FMul32.CUTS), F32.round(c.terms, Kind.FP_MUL, a, b))


EXPONENTS = ["-" + "0" * (8 - bits) + ("1" + "-" * (bits - 1) if bits else "") + "-" * 23 for bits in range(9)]
"""All words, by the highest one of their exponent; first those that have none, zeros and subnormal numbers."""


def _half_words(c: Circuit) -> Term:
  """Both operands are numbers that float16 has: eleven bits of significand, exponents from 2^-24 to 2^15, or special."""
  t, words = c.terms, [c.input(n, 0) for n in "ab"]
  exponents = [t.slice(word, 23, 8) for word in words]
  return t.all([t.all([t.eq(t.slice(word, 0, 13), 0), t.any([
    t.all([t(Kind.BV_UGE, e, t.const(103, 8)), t(Kind.BV_ULE, e, t.const(142, 8))]), t.eq(e, 255), t.eq(t.slice(word, 0, 31), 0)])])
    for word, e in zip(words, exponents, strict=True)])


def _special(c: Circuit) -> Term:
  """One operand is zero, infinite or a NaN."""
  t = c.terms
  return t.any([t.any([t.eq(t.slice(c.input(n, 0), 23, 8), 255), t.eq(t.slice(c.input(n, 0), 0, 31), 0)]) for n in "ab"])


def _scale(c: Circuit) -> Term:
  """The fraction of b is at most its highest bit."""
  return c.terms.eq(c.terms.slice(c.input("b", 0), 0, 22), 0)


def _subnormal(c: Circuit) -> Term:
  return c.terms.all([F32.has(c.terms, Kind.FP_IS_SUBNORMAL, c.output("o", FMul32.CUTS)),
                      *(F32.has(c.terms, Kind.FP_IS_NORMAL, c.input(n, 0)) for n in "ab")])


def _invalid(c: Circuit) -> Term:
  return c.terms.all([F32.has(c.terms, Kind.FP_IS_INF, c.input("a", 0)), F32.has(c.terms, Kind.FP_IS_ZERO, c.input("b", 0))])


def _odd(c: Circuit) -> Term:
  """Both significands have a one in the last bit that float16 has."""
  return c.terms.all([c.terms.eq(c.terms.slice(c.input(n, 0), 13, 1), 1) for n in "ab"])


def _odd_subnormal(c: Circuit) -> Term:
  return c.terms.all([_odd(c), _subnormal(c)])


_COVERS = {"a subnormal product of normal numbers with many bits": _odd_subnormal, "infinity times zero": _invalid}
_SOURCE = "IEEE 754-2019, 5.4.1"
_ROUNDING = Mutant("float_mul", "& ((fine[:32] != 0) | fine[33])", "& 1")
_STICKY = Mutant("float_mul", "product[:22] != 0", "product[1:22] != 0")

THEOREMS = [
  Theorem("float_mul.product", "The multiplier's result, two cycles after its operands, is their product rounded to nearest even; NaN is "
          "0x7FC00000.", _SOURCE,
          Equation(FMul32, _product, _COVERS, cases=tuple({"a": a, "b": b} for a in EXPONENTS for b in EXPONENTS)), (_ROUNDING, _STICKY)),
  Theorem("float_mul.special", "The same, if one operand is zero, infinite or a NaN.", _SOURCE,
          Equation(FMul32, _product, {"infinity times zero": _invalid}, _special),
          (Mutant("float_mul", "(infinite & zero)", "(infinite & zero & ~a[31])"),), quick=True),
  Theorem("float_mul.f16", "The same of any two numbers that float16 has.", _SOURCE,
          Equation(FMul32, _product, {"all bits of both in use": _odd}, _half_words),
          (Mutant("float_mul", "(right2 | two)", "right2"),), quick=True),
  Theorem("float_mul.scale", "The same of any number and one whose significand is 1 or 1.5: all exponents, all of rounding.", _SOURCE,
          Equation(FMul32, _product, {"a subnormal product of normal numbers": _subnormal}, _scale),
          (_ROUNDING, Mutant("float_mul", "exponent1 >= BIAS + 255", "exponent1 >= BIAS + 300")), quick=True),
]
