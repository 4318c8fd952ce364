"""Random matrix products on the simulator, and a sample of them on both engines at once: same results, memory and cycles."""
from __future__ import annotations

import re

import numpy as np
import pytest
from tinygrad import Tensor

from tests.backend.products import check


@pytest.mark.parametrize("first", range(1000, 1120, 20))
def test_random_products(first):
  for seed in range(first, first + 20):
    check(seed)


def test_random_products_on_both_engines(both):
  out = both("tests.backend.products", "0", "40")
  launches, cycles, steps, fallbacks = map(int, re.findall(r"\d+", out.strip().splitlines()[-1]))
  assert launches >= 40 and cycles > 10_000 and steps > 100 and fallbacks == 0


def test_products_with_tiles_of_padding_alone():
  """Some matrix steps have constant operands only."""
  a, b = np.array([3, 1], np.float32), np.array([2, 5], np.float32)
  x, y = Tensor(a).realize().pad(((0, 62),)).reshape(16, 4), Tensor(b).realize().pad(((1, 253),)).reshape(4, 64)
  np.testing.assert_array_equal((x @ y).numpy(), np.pad(a, (0, 62)).reshape(16, 4) @ np.pad(b, (1, 253)).reshape(4, 64))
  c = np.random.default_rng(0).standard_normal((5, 5)).astype(np.float32)
  d = np.pad(c[:4, :3], ((0, 1), (0, 61)))
  np.testing.assert_allclose((Tensor(c) @ Tensor(c[:4, :3].copy()).pad(((0, 1), (0, 61)))).numpy(), c @ d, rtol=1e-5, atol=1e-5)
