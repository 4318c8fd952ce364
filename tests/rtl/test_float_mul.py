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


def test_lint():
    assert lint(UnitSim(FMul32(), "FMul32").verilog, "FMul32") == []
