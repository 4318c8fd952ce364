"""DivSqrt against numpy, bit for bit, and its timing."""

from __future__ import annotations

import numpy as np
import pytest

from tinytpu.rtl.div import DivOp, DivSqrt
from tinytpu.rtl.verilate import UnitSim, lint

MASK = 0xFFFFFFFF


@pytest.fixture(scope="module")
def unit() -> UnitSim:
  return UnitSim(DivSqrt(), "DivSqrt", opt=("-O2",))


def compute(unit: UnitSim, op: np.ndarray | int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
  """One operation after the other, each starting in the cycle that shows the last one's result."""
  step, n = DivSqrt.CYCLES, len(a)
  start = np.zeros((n, step), np.uint32)
  start[:, 0] = 1

  def spread(values: np.ndarray | int) -> np.ndarray:
    return np.append(np.repeat(np.broadcast_to(values, n), step), 0)

  out = unit.run({"start": np.append(start, 0), "op": spread(op), "a": spread(a), "b": spread(b)})
  return out["o"][step::step]


def integers(a: np.ndarray, b: np.ndarray, signed: bool, floor: bool) -> tuple[np.ndarray, np.ndarray]:
  """Quotient and remainder as words."""
  x, y = (v.astype(np.int32).astype(np.int64) if signed else v.astype(np.int64) for v in (a, b))
  divisor = np.where(y == 0, 1, y)
  quotient = x // divisor if floor else np.sign(x) * np.sign(divisor) * (np.abs(x) // np.abs(divisor))
  remainder = np.where(y == 0, x, x - quotient * divisor)
  return (np.where(y == 0, -1, quotient) & MASK).astype(np.uint32), (remainder & MASK).astype(np.uint32)


INTEGER = {
  DivOp.DIV: lambda a, b: integers(a, b, True, False)[0],
  DivOp.REM: lambda a, b: integers(a, b, True, False)[1],
  DivOp.DIVU: lambda a, b: integers(a, b, False, False)[0],
  DivOp.REMU: lambda a, b: integers(a, b, False, False)[1],
  DivOp.FLDIV: lambda a, b: integers(a, b, True, True)[0],
  DivOp.FLMOD: lambda a, b: integers(a, b, True, True)[1],
}
FLOAT = {
  DivOp.FDIV: lambda a, b: a.view(np.float32) / b.view(np.float32),
  DivOp.FRCP: lambda a, b: np.float32(1) / a.view(np.float32),
  DivOp.FSQRT: lambda a, b: np.sqrt(a.view(np.float32)),
}


@pytest.mark.parametrize("op", INTEGER)
def test_integers(unit, operands, op):
  a, b = operands.integer_pairs(100_000)
  operands.check(compute(unit, op.value, a, b), INTEGER[op](a, b), a, b)


@pytest.mark.parametrize("op", FLOAT)
def test_floats(unit, operands, op):
  a, b = operands.pairs(60_000)
  operands.check(compute(unit, op.value, a, b), operands.bits(FLOAT[op](a, b)), a, b)


def test_near_ties(unit, operands):
  """Quotients and roots built to lie next to a rounding boundary or exactly on a float."""
  n = 60_000
  x, y = (operands.with_exponent(operands.raw(n), operands.rng.integers(64, 190, n)) for _ in range(2))
  product = (x.view(np.float32) * y.view(np.float32)).view(np.uint32) + operands.rng.integers(0, 3, n, np.uint32)
  operands.check(
    compute(unit, DivOp.FDIV.value, product, y), operands.bits(product.view(np.float32) / y.view(np.float32))
  )
  square = np.square(x.view(np.float32)).view(np.uint32) + operands.rng.integers(0, 3, n, np.uint32) - np.uint32(1)
  operands.check(compute(unit, DivOp.FSQRT.value, square, y), operands.bits(np.sqrt(square.view(np.float32))))


def test_subnormal_quotients(unit, operands):
  n = 60_000
  a = operands.with_exponent(operands.raw(n), operands.rng.integers(0, 100, n))
  b = operands.with_exponent(operands.raw(n), (a >> 23 & 0xFF) + operands.rng.integers(124, 153, n))
  operands.check(compute(unit, DivOp.FDIV.value, a, b), operands.bits(a.view(np.float32) / b.view(np.float32)), a, b)


def test_mixed(unit, operands):
  """Nothing is left over from one operation to the next."""
  a, b = (operands.words(30_000) for _ in range(2))
  op = operands.rng.choice([o.value for o in DivOp], len(a))
  expected = np.zeros(len(a), np.uint32)
  for o in DivOp:
    full = INTEGER[o](a, b) if o in INTEGER else operands.bits(FLOAT[o](a, b))
    expected = np.where(op == o.value, full, expected)
  operands.check(compute(unit, op, a, b), expected, op, a, b)


@pytest.mark.parametrize("op", DivOp)
def test_timing(unit, op):
  """Operands matter in the start cycle only; the result appears CYCLES later, and stays."""
  n = DivSqrt.CYCLES + 20
  start, a, b = (np.zeros(n, np.uint32) for _ in range(3))
  start[3], a[3], b[3] = 1, 0x42C80000, 0x40A00000
  a[4:], b[4:] = 0x12345678, 0x9ABCDEF0
  before = unit.run({"start": 0, "op": 0, "a": 0, "b": 0}, 50)["o"][-1]
  out = unit.run({"start": start, "op": op.value, "a": a, "b": b})
  one, other = a[3:4], b[3:4]
  expected = INTEGER[op](one, other)[0] if op in INTEGER else FLOAT[op](one, other).view(np.uint32)[0]
  done = 3 + DivSqrt.CYCLES
  assert (out["o"][:done] == before).all()
  assert (out["o"][done:] == expected).all()
  assert out["busy"].tolist() == [int(3 < cycle < done) for cycle in range(n)]


def test_lint(unit):
  assert lint(unit.verilog, "DivSqrt") == []
