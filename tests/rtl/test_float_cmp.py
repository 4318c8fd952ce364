"""FCmp32 against numpy's comparisons and IEEE 754-2019 maximum and minimum."""

from __future__ import annotations

import numpy as np
import pytest

from tinytpu.rtl.float_cmp import FCmp32
from tinytpu.rtl.verilate import UnitSim, lint


@pytest.fixture(scope="module")
def unit() -> UnitSim:
  return UnitSim(FCmp32(), "FCmp32")


def test_comparisons(unit, operands):
  a, b = operands.pairs(100_000)
  x, y = a.view(np.float32), b.view(np.float32)
  got = unit.run({"a": a, "b": b})
  for name, expected in {"lt": x < y, "le": x <= y, "eq": x == y, "ne": x != y}.items():
    operands.check(got[name], expected.astype(np.uint32), a, b)


def test_maximum_and_minimum(unit, operands):
  a, b = operands.pairs(100_000)
  x, y = a.view(np.float32), b.view(np.float32)
  nan = np.isnan(x) | np.isnan(y)
  greatest = np.where(x == y, a & b, np.where(x > y, a, b))  # equal words, or zeros: + wins
  least = np.where(x == y, a | b, np.where(x < y, a, b))
  got = unit.run({"a": a, "b": b})
  operands.check(got["max"], np.where(nan, 0x7FC00000, greatest).astype(np.uint32), a, b)
  operands.check(got["min"], np.where(nan, 0x7FC00000, least).astype(np.uint32), a, b)


def test_choices(unit, operands):
  a, b = operands.pairs(100_000)
  x, y = a.view(np.float32), b.view(np.float32)
  got = unit.run({"a": a, "b": b})
  operands.check(got["smax"], np.where(x > y, a, b), a, b)
  operands.check(got["smin"], np.where(x < y, a, b), a, b)


def test_lint(unit):
  assert lint(unit.verilog, "FCmp32") == []
