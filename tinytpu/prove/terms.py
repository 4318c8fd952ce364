"""Terms of the solver Bitwuzla, as short to write as hardware."""
from __future__ import annotations

from collections.abc import Sequence

from bitwuzla import Kind, Term, TermManager

__all__ = ["Terms"]


class Terms:
  """Makes terms; conditions are bit vectors of one bit, as in hardware, and truths where the solver asks for them."""

  def __init__(self) -> None:
    self.manager = TermManager()
    self.yes, self.no = self.const(1, 1), self.const(0, 1)

  def const(self, value: int, width: int) -> Term:
    """`value` modulo 2^width."""
    return self.manager.mk_bv_value(self.manager.mk_bv_sort(width), value & (1 << width) - 1)

  def free(self, name: str, width: int) -> Term:
    """An unknown bit vector."""
    return self.manager.mk_const(self.manager.mk_bv_sort(width), name)

  def __call__(self, kind: Kind, *terms: Term, at: Sequence[int] = ()) -> Term:
    return self.manager.mk_term(kind, list(terms), list(at))

  def bit(self, truth: Term) -> Term:
    """1 bit of a truth."""
    return self(Kind.ITE, truth, self.yes, self.no)

  def truth(self, bit: Term) -> Term:
    """The truth of one bit."""
    return self(Kind.EQUAL, bit, self.yes)

  def mux(self, bit: Term, a: Term, b: Term) -> Term:
    """`a` if the bit is set, else `b`."""
    return a if a is b else self(Kind.ITE, self.truth(bit), a, b)

  def all(self, truths: Sequence[Term]) -> Term:
    """Conjunction of any number of truths."""
    return self.manager.mk_true() if not truths else truths[0] if len(truths) == 1 else self(Kind.AND, *truths)

  def any(self, truths: Sequence[Term]) -> Term:
    """Disjunction of any number of truths."""
    return self.manager.mk_false() if not truths else truths[0] if len(truths) == 1 else self(Kind.OR, *truths)

  def eq(self, a: Term, b: Term | int) -> Term:
    """Truth: equal."""
    return self(Kind.EQUAL, a, self.const(b, a.sort().bv_size()) if isinstance(b, int) else b)

  def isnt(self, truth: Term) -> Term:
    """The opposite."""
    return self(Kind.NOT, truth)

  def if_(self, condition: Term, then: Term, otherwise: Term | None = None) -> Term:
    """`then` if the truth `condition` holds, else `otherwise`; without that, true."""
    return self(Kind.IMPLIES, condition, then) if otherwise is None else self(Kind.ITE, condition, then, otherwise)

  def slice(self, term: Term, low: int, width: int) -> Term:
    """`width` bits of a term from bit `low` on."""
    whole = term.sort().bv_size()
    return term if width == whole else self(Kind.BV_EXTRACT, term, at=(low + width - 1, low))

  def concat(self, parts: Sequence[Term]) -> Term:
    """The parts, the lowest first."""
    return parts[0] if len(parts) == 1 else self(Kind.BV_CONCAT, *reversed(parts))

  def extend(self, term: Term, width: int) -> Term:
    """The term with zeros on top, `width` bits in all."""
    more = width - term.sort().bv_size()
    return term if more <= 0 else self(Kind.BV_ZERO_EXTEND, term, at=(more,))
