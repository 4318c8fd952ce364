"""Random matrix products on the simulator, and a sample of them on both engines at once: same results, memory and cycles."""
from __future__ import annotations

import re

import pytest

from tests.backend.products import check


@pytest.mark.parametrize("first", range(1000, 1120, 20))
def test_random_products(first):
  for seed in range(first, first + 20):
    check(seed)


def test_random_products_on_both_engines(both):
  out = both("tests.backend.products", "0", "40")
  launches, cycles, steps, fallbacks = map(int, re.findall(r"\d+", out.strip().splitlines()[-1]))
  assert launches >= 40 and cycles > 10_000 and steps > 100 and fallbacks == 0
