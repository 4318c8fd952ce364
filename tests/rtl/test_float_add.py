"""FAdd32 against numpy, bit for bit, one pair per cycle."""

from __future__ import annotations

import numpy as np

from tinytpu.rtl.float_add import FAdd32
from tinytpu.rtl.verilate import UnitSim, lint


def test_sums(operands):
  a, b = operands.pairs(250_000)
  got = UnitSim(FAdd32(), "FAdd32").pipe({"a": a, "b": b}, FAdd32.CUTS)["o"]
  operands.check(got, operands.bits(a.view(np.float32) + b.view(np.float32)), a, b)


def test_differences_that_round(operands):
  """Exponents up to 26 apart with long fractions and opposite signs: guard, round and sticky all matter."""
  n = 250_000
  a = operands.with_exponent(operands.raw(n), operands.rng.integers(1, 60, n))
  b = operands.with_exponent(operands.raw(n), (a >> 23 & 0xFF) + operands.rng.integers(0, 27, n))
  b = b & 0x7FFFFFFF | ~a & 0x80000000
  got = UnitSim(FAdd32(), "FAdd32").pipe({"a": a, "b": b}, FAdd32.CUTS)["o"]
  operands.check(got, operands.bits(a.view(np.float32) + b.view(np.float32)), a, b)


def test_lint():
  assert lint(UnitSim(FAdd32(), "FAdd32").verilog, "FAdd32") == []
