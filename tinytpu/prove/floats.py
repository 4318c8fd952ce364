"""IEEE 754 as the solver knows it (SMT-LIB's theory of floating-point numbers), on words as the machine keeps them."""
from __future__ import annotations

from bitwuzla import Kind, RoundingMode, Term

from .terms import Terms

__all__ = ["BF16", "F16", "F32", "Format"]


class Format:
  """A binary format: bits of exponent and of significand with its hidden one, and the word of the canonical NaN."""

  def __init__(self, exponent: int, significand: int) -> None:
    self.exponent, self.significand = exponent, significand
    self.width = exponent + significand
    self.nan = ((1 << exponent + 1) - 1) << significand - 2
    self.infinity = ((1 << exponent) - 1) << significand - 1

  def of(self, terms: Terms, word: Term) -> Term:
    """The number that a word stands for."""
    return terms(Kind.FP_TO_FP_FROM_BV, word, at=(self.exponent, self.significand))

  def has(self, terms: Terms, kind: Kind, word: Term) -> Term:
    """Truth: the number that a word stands for is of the class `kind`, such as Kind.FP_IS_NAN."""
    return terms(kind, self.of(terms, word))

  def round(self, terms: Terms, kind: Kind, *operands: Term, to: RoundingMode = RoundingMode.RNE) -> Term:
    """An operation's result in this format, by default to nearest, ties to even; conversions too."""
    conversion = kind in (Kind.FP_TO_FP_FROM_FP, Kind.FP_TO_FP_FROM_SBV, Kind.FP_TO_FP_FROM_UBV)
    return terms(kind, terms.manager.mk_rm_value(to), *operands, at=(self.exponent, self.significand) if conversion else ())

  def word_is(self, terms: Terms, word: Term, number: Term) -> Term:
    """Truth: the word is the number's encoding, of a NaN the canonical one. (Only a NaN has several words, only one number is it.)"""
    nan = terms(Kind.FP_IS_NAN, number)
    same = terms(Kind.EQUAL, self.of(terms, word), number)
    return terms(Kind.ITE, nan, terms(Kind.EQUAL, word, terms.const(self.nan, self.width)), same)


F32, F16, BF16 = Format(8, 24), Format(5, 11), Format(8, 8)
