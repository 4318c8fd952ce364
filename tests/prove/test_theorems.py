"""Theorems on the RTL: the quick ones are shown here, with their covers and mutants; all of them by `make prove`."""
from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tinytpu.prove.mutants import Mutant, mutated
from tinytpu.prove.proof import Equation, Invariant, prove
from tinytpu.prove.theorems import THEOREMS
from tinytpu.rtl.float_cmp import FCmp32
from tinytpu.rtl.verilog import to_verilog

BY_NAME = {theorem.name: theorem for theorem in THEOREMS}
PAGE = Path(__file__).parents[2] / "docs" / "prove.md"


@pytest.mark.parametrize("name", [theorem.name for theorem in THEOREMS if theorem.quick])
def test_theorem(name):
  outcome = prove(BY_NAME[name], limit=300)
  assert outcome.problems == []
  assert outcome.verdict == "proved" and outcome.covers[1] and outcome.killed[1]


def test_names_are_unique():
  assert len(BY_NAME) == len(THEOREMS)


@pytest.mark.parametrize("mutant", dict.fromkeys(mutant for theorem in THEOREMS for mutant in theorem.mutants), ids=lambda m: m.says[:60])
def test_every_mutant_is_of_the_source_as_it_is(mutant):
  with mutated(mutant):
    pass


def test_a_mutant_leaves_nothing_behind():
  before = to_verilog(FCmp32(), "top")
  with mutated(Mutant("float_cmp", "Mux(lt, a, b)", "Mux(lt, b, a)")):
    assert to_verilog(FCmp32(), "top") != before
  assert to_verilog(FCmp32(), "top") == before


def test_a_mutant_that_is_not_there_is_an_error():
  with pytest.raises(ValueError, match="float_cmp has 0 times"), mutated(Mutant("float_cmp", "no such text", "")):
    pass


def test_what_is_wrong_is_refuted_with_an_example():
  """Maximum is not the choice by comparison: they differ in zeros and NaN."""
  theorem = BY_NAME["float_cmp.max"]
  assert isinstance(theorem.how, Equation)
  wrong = replace(theorem.how, claim=lambda c: c.terms.eq(c.output("max", 0), c.output("smax", 0)))
  outcome = prove(replace(theorem, how=wrong), mutants=False)
  assert outcome.verdict == "refuted" and re.search(r"a@0 = 0x\w+, b@0 = 0x\w+", outcome.example)


def test_what_says_nothing_is_a_problem():
  """A claim that assumes what cannot be has no cover and no mutant."""
  theorem = BY_NAME["float_cmp.max"]
  assert isinstance(theorem.how, Equation)
  vacuous = replace(theorem.how, given=lambda c: c.terms.manager.mk_false())
  outcome = prove(replace(theorem, how=vacuous))
  assert outcome.verdict == "proved" and outcome.covers[0] == outcome.killed[0] == 0 and len(outcome.problems) == 2


def test_a_refuted_invariant_shows_its_cycles():
  theorem = BY_NAME["issue.watchdog"]
  assert isinstance(theorem.how, Invariant)
  with mutated(theorem.mutants[1]):
    outcome = prove(theorem, mutants=False)
  assert outcome.verdict == "refuted" and "BROKEN: a group issues in the cycle of the limit or later" in outcome.example


def test_the_page_has_every_theorem():
  names = re.findall(r"^\| `([\w.]+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
  assert names == list(BY_NAME)
