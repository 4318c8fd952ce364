"""Theorems and how they are shown: for all inputs, or by induction over time; covers and mutants show that they say something."""
from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from amaranth.lib import wiring
from bitwuzla import Bitwuzla, Kind, Option, Options, Result, Term

from .circuit import Circuit, deep
from .mutants import Mutant, mutated
from .spec import Spec
from .terms import Terms

__all__ = ["Equation", "Invariant", "Outcome", "Theorem", "Truth", "prove"]

Truth = Callable[[Circuit], Term]
"""Something that holds of a circuit or does not."""


@dataclass(frozen=True)
class Equation:
  """What comes out of a pipeline, for all inputs and from any state before.

  Attributes:
    unit: makes the component.
    claim: a truth about inputs and outputs of the component's circuit.
    covers: truths that some input satisfies, by what they are.
    given: what is assumed of inputs; covers satisfy it, too.
    cases: if not empty, truths or patterns of inputs in cycle 0, of which every input satisfies one: the claim is shown for each alone.
      A pattern is made of 0, 1 and - as Amaranth's are; the solver then sees constants, which may spare it nearly all of its work.
  """
  unit: Callable[[], wiring.Component]
  claim: Truth
  covers: Mapping[str, Truth]
  given: Truth | None = None
  cases: tuple[Truth | Mapping[str, str], ...] = ()


@dataclass(frozen=True)
class Invariant:
  """The assertions of a `Spec`, in every cycle after reset.

  Attributes:
    spec: makes it.
    depth: cycles after reset for which they are shown; with `induction`, of which the step is made.
    induction: assertions that held for `depth` cycles hold in the next, whatever the state was: so they always hold.
    reach: cycles after reset within which every cover shall be reached.
    reset: cycles of reset.
  """
  spec: Callable[[], Spec]
  depth: int
  induction: bool = True
  reach: int = 10
  reset: int = 1


@dataclass(frozen=True)
class Theorem:
  """A property of the RTL.

  Attributes:
    name: unit and property, `scoreboard.ports`.
    says: the property, a sentence. source: where it is stated.
    how: what is shown.
    mutants: faults in the RTL's source of which each refutes it.
    quick: short enough for `make test`.
  """
  name: str
  says: str
  source: str
  how: Equation | Invariant
  mutants: tuple[Mutant, ...] = ()
  quick: bool = False

  @property
  def method(self) -> str:
    """In words."""
    if isinstance(self.how, Equation):
      return ("all such inputs" if self.how.given else "all inputs") + (f", in {len(self.how.cases)} cases" if self.how.cases else "")
    return f"induction, depth {self.how.depth}" if self.how.induction else f"bounded, {self.how.depth} cycles"


@dataclass
class Outcome:
  """What came of a theorem.

  Attributes:
    verdict: "proved", "refuted" or "timeout". example: of a refutation, what the signals are.
    covers: reached ones of all. killed: mutants refuted of all. seconds: of CPU, of proof, covers and mutants.
    problems: what keeps it from counting: a refutation, a cover not reached, a mutant that lives.
  """
  verdict: str = ""
  example: str = ""
  covers: tuple[int, int] = (0, 0)
  killed: tuple[int, int] = (0, 0)
  seconds: dict[str, float] = field(default_factory=dict)
  problems: list[str] = field(default_factory=list)


class _Solver:
  """Satisfiability of truths; a time limit in seconds for each question."""

  def __init__(self, terms: Terms, limit: float) -> None:
    self.terms, self.options = terms, Options()
    self.options.set(Option.PRODUCE_MODELS, True)
    self.options.set(Option.TIME_LIMIT_PER, max(1, int(limit * 1000)))

  def ask(self, *truths: Term) -> bool | None:
    """Whether all can hold at once; None if the time was not enough. A solver for each question: what it is told before the first one, and
    piece by piece, it simplifies far better."""
    self._bitwuzla = Bitwuzla(self.terms.manager, self.options)
    pieces = list(truths)
    while pieces:
      if (piece := pieces.pop()).kind() == Kind.AND:
        pieces += piece.children()
      else:
        self._bitwuzla.assert_formula(piece)
    return {Result.SAT: True, Result.UNSAT: False}.get(self._bitwuzla.check_sat())

  def value(self, term: Term) -> int:
    """Of a bit vector, after a question that was answered by yes."""
    return int(self._bitwuzla.get_value(term).value(10))


@deep()
def prove(theorem: Theorem, limit: float = 900, mutants: bool = True) -> Outcome:
  """Show a theorem, reach its covers and refute its mutants; `limit` in seconds for each question to the solver."""
  outcome = Outcome()

  def show() -> tuple[str, str]:
    return _equation(theorem.how, limit) if isinstance(theorem.how, Equation) else _invariant(theorem.how, limit)

  def timed(what: str, act: Callable[[], None]) -> None:
    start = time.process_time()
    act()
    outcome.seconds[what] = time.process_time() - start

  def proof() -> None:
    outcome.verdict, outcome.example = show()
    if outcome.verdict != "proved":
      outcome.problems.append(f"{outcome.verdict} {outcome.example}".strip())

  def covers() -> None:
    missed, total = _covers(theorem.how, limit)
    outcome.covers = total - len(missed), total
    if missed or not total:
      outcome.problems.append(f"not reached: {', '.join(missed) or 'it has no cover'}")

  def kills() -> None:
    lives = []
    for mutant in theorem.mutants:
      with mutated(mutant):
        if show()[0] != "refuted":
          lives.append(mutant.says)
    outcome.killed = len(theorem.mutants) - len(lives), len(theorem.mutants)
    if lives or not theorem.mutants:
      outcome.problems.append(f"not refuted: {', '.join(lives) or 'it has no mutant'}")

  timed("proof", proof)
  timed("covers", covers)
  if mutants:
    timed("mutants", kills)
  return outcome


def _equation(how: Equation, limit: float) -> tuple[str, str]:
  for case in how.cases or ({},):
    circuit = Circuit(how.unit(), Terms())
    terms = circuit.terms
    truths = [case(circuit)] if callable(case) else []
    if not callable(case):  # before anything asks for these inputs
      for name, pattern in case.items():
        circuit.bind(name, 0, _patterned(terms, name, pattern))
    truths += [how.given(circuit)] if how.given else []
    solver = _Solver(terms, limit)
    if (answer := solver.ask(*truths, terms.isnt(how.claim(circuit)))) is None:
      return "timeout", f"in case {how.cases.index(case) + 1}" if how.cases else ""
    if answer:
      return "refuted", ", ".join(f"{name} = {solver.value(term):#x}" for name, term in circuit.named().items())
  if how.cases:
    circuit = Circuit(how.unit(), Terms())
    covered = [case(circuit) if callable(case) else _matches(circuit, case) for case in how.cases]
    if _Solver(circuit.terms, limit).ask(circuit.terms.isnt(circuit.terms.any(covered))) is not False:
      return "refuted", "there are inputs in none of the cases"
  return "proved", ""


def _patterned(terms: Terms, name: str, pattern: str) -> Term:
  """A bit vector whose bits are those of the pattern, and unknown where it has -."""
  parts = [terms.free(f"{name}.{i}", len(run)) if run[0] == "-" else terms.const(-int(run[0]), len(run))
           for i, run in enumerate(re.findall(r"0+|1+|-+", pattern))]
  return terms.concat(parts[::-1])


def _matches(circuit: Circuit, case: Mapping[str, str]) -> Term:
  """Truth: the inputs are as the patterns say."""
  terms = circuit.terms
  return terms.all([terms.eq(terms.slice(circuit.input(name, 0), bit, 1), int(c))
                    for name, pattern in case.items() for bit, c in enumerate(reversed(pattern)) if c != "-"])


class _Run:
  """A `Spec` over cycles, and what is assumed, asserted and covered in each."""

  def __init__(self, how: Invariant, reset: int) -> None:
    self.terms = Terms()
    self.spec = how.spec()
    self.circuit, self.first = Circuit(self.spec, self.terms, reset), reset

  def claims(self, kind: str, t: int) -> list[tuple[str, Term]]:
    return self.circuit.claims(kind, self.first + t)

  def holds(self, kind: str, t: int) -> Term:
    return self.terms.all([truth for _, truth in self.claims(kind, t)])

  def example(self, solver: _Solver, cycles: int) -> str:
    """A line for each cycle: assertions that fail, then signals of the specification and inputs, where they are not zero."""
    lines = []
    for t in range(cycles):
      broken = [says or "an assertion" for says, truth in self.claims("assert", t) if not solver.value(self.terms.bit(truth))]
      values = {name: solver.value(self.circuit.input(name, self.first + t)) for name in self.circuit.inputs()}
      values |= {signal.name: solver.value(self.circuit.signal(signal, self.first + t)) for signal in self.spec.shown}
      lines.append("; ".join([f"cycle {t}", *(f"BROKEN: {says}" for says in broken), *(f"{n}={v:#x}" for n, v in values.items() if v)]))
    return "\n".join(lines)


def _invariant(how: Invariant, limit: float) -> tuple[str, str]:
  run = _Run(how, how.reset)
  terms = run.terms
  assumed, broken = [], []
  for t in range(how.depth):
    assumed.append(run.holds("assume", t))
    broken.append(terms.all([*assumed, terms(Kind.NOT, run.holds("assert", t))]))
  solver = _Solver(terms, limit)
  if (answer := solver.ask(terms.any(broken))) is not False:
    return ("refuted", run.example(solver, how.depth)) if answer else ("timeout", "")
  if not how.induction:
    return "proved", ""
  run = _Run(how, 0)
  terms = run.terms
  truths = [run.holds("assume", t) for t in range(how.depth + 1)] + [run.holds("assert", t) for t in range(how.depth)]
  solver = _Solver(terms, limit)
  if (answer := solver.ask(*truths, terms(Kind.NOT, run.holds("assert", how.depth)))) is not False:
    return ("refuted", "by a step from a state that may not be reachable\n" + run.example(solver, how.depth + 1)) if answer else ("timeout",
      "")
  return "proved", ""


def _covers(how: Equation | Invariant, limit: float) -> tuple[list[str], int]:
  """Covers that are not reached, and how many there are."""
  if isinstance(how, Equation):
    circuit = Circuit(how.unit(), Terms())
    how.claim(circuit)  # which may bind inputs
    solver, missed = _Solver(circuit.terms, limit), []
    for says, cover in how.covers.items():
      if not solver.ask(cover(circuit), *([how.given(circuit)] if how.given else [])):
        missed.append(says)
    return missed, len(how.covers)
  run = _Run(how, how.reset)
  solver, assumed = _Solver(run.terms, limit), []
  waiting = [says for says, _ in run.claims("cover", 0)]
  total = len(waiting)
  for t in range(how.reach):
    assumed.append(run.holds("assume", t))
    for says, truth in run.claims("cover", t):
      if says in waiting and solver.ask(*assumed, truth):
        waiting.remove(says)
  return waiting, total
