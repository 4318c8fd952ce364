"""FMul32 against numpy, bit for bit, one pair per cycle."""

from __future__ import annotations

import numpy as np

from tinytpu.rtl.float_mul import FMul32
from tinytpu.rtl.verilate import UnitSim, lint


def test_products(operands):
  a, b = operands.pairs(250_000)
  got = UnitSim(FMul32(), "FMul32").pipe({"a": a, "b": b}, FMul32.CUTS)["o"]
  operands.check(got, operands.bits(a.view(np.float32) * b.view(np.float32)), a, b)


def test_subnormal_products(operands):
  """Products in and just below the subnormal range, from normal and from subnormal operands."""
  n = 250_000
  a = operands.with_exponent(operands.raw(n), operands.rng.integers(0, 130, n))
  b = operands.with_exponent(operands.raw(n), 127 - (a >> 23 & 0xFF).astype(int) + operands.rng.integers(-26, 3, n))
  b[::3] &= np.uint32(0xFFF00000)  # exact ties
  got = UnitSim(FMul32(), "FMul32").pipe({"a": a, "b": b}, FMul32.CUTS)["o"]
  operands.check(got, operands.bits(a.view(np.float32) * b.view(np.float32)), a, b)


def test_next_to_ties(operands):
  """Fractions built so that the exact product ends in a rounding tie, or one unit of its last place beside it."""
  n = 400_000
  x = operands.raw(n).astype(np.uint64) & 0x7FFFFF | 0x800001  # odd, so it has an inverse modulo 2^24
  inverse = x.copy()
  for _ in range(4):
    inverse = inverse * (2 - x * inverse) & 0xFFFFFF
  half = np.uint64(1) << operands.rng.integers(22, 24, n, np.uint64)
  y = (half + operands.rng.integers(-1, 2, n).astype(np.uint64)) * inverse & 0xFFFFFF
  a, b = x[y >> 23 == 1], y[y >> 23 == 1]  # half of them have a leading one
  a, b = (operands.with_exponent(v.astype(np.uint32), np.full(len(v), 127)) for v in (a, b))
  got = UnitSim(FMul32(), "FMul32").pipe({"a": a, "b": b}, FMul32.CUTS)["o"]
  operands.check(got, operands.bits(a.view(np.float32) * b.view(np.float32)), a, b)


def test_lint():
  assert lint(UnitSim(FMul32(), "FMul32").verilog, "FMul32") == []
