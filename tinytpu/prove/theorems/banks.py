"""The bank schedule of VMEM: who is served in a cycle, for all addresses and all sets of elements that wait."""
from __future__ import annotations

from collections.abc import Callable

from bitwuzla import Kind, Term

from tinytpu.config import Config, preset
from tinytpu.rtl.conflict import BankSchedule, row_bits

from ..circuit import Circuit
from ..mutants import Mutant
from ..proof import Equation, Theorem, Truth


def _schedule(config: Config) -> Truth:
  """A bank is used if an element waits for it; it serves its lowest one, and unless `alone` all others in the same word."""
  banks, low, row = config.vector_lanes, (config.vector_lanes - 1).bit_length() + 2, row_bits(config)

  def claim(c: Circuit) -> Term:
    t, elements = c.terms, range(config.vector_lanes)
    waits = [t.truth(t.slice(c.input("pending", 0), e, 1)) for e in elements]
    bank = [t.slice(c.input(f"addresses__{e}", 0), 2, low - 2) for e in elements]
    word = [t.slice(c.input(f"addresses__{e}", 0), low, row) for e in elements]
    served = [t.truth(t.slice(c.output("served", 0), e, 1)) for e in elements]
    truths = []
    for b in range(banks):
      mine = [t.all([waits[e], t.eq(bank[e], b)]) for e in elements]
      chosen, used = c.output(f"rows__{b}", 0), t.truth(t.slice(c.output("used", 0), b, 1))
      truths.append(t(Kind.EQUAL, used, t.any(mine)))
      before: Term = t.manager.mk_false()
      for e in elements:
        leads = t.all([mine[e], t.isnt(before)])
        same = t.all([mine[e], t.eq(word[e], chosen), t.isnt(t.truth(c.input("alone", 0)))])
        truths += [t.if_(leads, t.eq(word[e], chosen)), t.if_(t.eq(bank[e], b), t(Kind.EQUAL, served[e], t.any([leads, same])))]
        before = t.any([before, mine[e]])
    return t.all(truths)
  return claim


def _unit(config: Config) -> Callable[[], BankSchedule]:
  return lambda: BankSchedule(config)


def _crowd(config: Config) -> Truth:
  """All wait for one bank, the first two for the same word, the last for another."""
  def cover(c: Circuit) -> Term:
    t, last = c.terms, config.vector_lanes - 1
    served = c.output("served", 0)
    return t.all([t.eq(c.input("pending", 0), -1), t.eq(c.output("used", 0), 2), t.eq(t.slice(served, 0, 2), 3),
      t.eq(t.slice(served, last, 1), 0)])
  return cover


THEOREMS = [Theorem(
  f"banks.schedule_{lanes}", f"Each of {lanes} banks serves the lowest element that waits for it, and all others in the same word.",
  "docs/timing.md, VMEM",
  Equation(_unit(config), _schedule(config), {"two of a crowd": _crowd(config)}),
  (Mutant("conflict", "(granted[:row] == rows[e])", "(granted[1:row] == rows[e][1:])"),
   Mutant("conflict", "self.pending[e] & ~(claimed >> slot)[0]", "self.pending[e]")), quick=lanes == 4)
  for lanes, config in ((4, preset("4x4,vector_lanes=4")), (16, preset("4x4")))]
