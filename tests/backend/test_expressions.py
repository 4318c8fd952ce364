"""Random expressions on the simulator, against numpy, and (300 more) on both engines at once: same results, memory and cycles."""
from __future__ import annotations

import re

import pytest

from tests.backend.expressions import check


@pytest.mark.parametrize("first", range(1000, 1200, 20))
def test_random_expressions(first):
  for seed in range(first, first + 20):
    check(seed)


@pytest.mark.parametrize("first", range(0, 300, 75))
def test_random_expressions_on_both_engines(both, first):
  out = both("tests.backend.expressions", str(first), str(first + 75))
  launches, cycles, fallbacks = map(int, re.findall(r"\d+", out.strip().splitlines()[-1]))
  assert launches > 75 and cycles > 10_000 and fallbacks == 0
