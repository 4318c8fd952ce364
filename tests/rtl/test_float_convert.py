"""FConvert32 and the 16-bit conversions against numpy; the 16-bit formats exhaustively."""

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tinytpu.rtl.float_convert import ConvertOp, FConvert32, bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16
from tinytpu.rtl.verilate import UnitSim, lint


class Narrow(wiring.Component):
  """The four combinational conversions side by side."""

  word: In(32)
  half: In(16)
  to_f16: Out(16)
  to_bf16: Out(16)
  from_f16: Out(32)
  from_bf16: Out(32)

  def elaborate(self, platform) -> Module:
    m = Module()
    m.d.comb += [
      self.to_f16.eq(f32_to_f16(m, self.word)),
      self.to_bf16.eq(f32_to_bf16(m, self.word)),
      self.from_f16.eq(f16_to_f32(m, self.half)),
      self.from_bf16.eq(bf16_to_f32(m, self.half)),
    ]
    return m


@pytest.fixture(scope="module")
def unit() -> UnitSim:
  return UnitSim(FConvert32(), "FConvert32")


@pytest.fixture(scope="module")
def narrow() -> UnitSim:
  return UnitSim(Narrow(), "Narrow")


def saturated(words: np.ndarray, low: int, high: int) -> np.ndarray:
  """Truncated toward zero and clipped; NaN to 0."""
  values = words.view(np.float32).astype(np.float64)
  return np.clip(np.trunc(np.nan_to_num(values, nan=0.0)), low, high).astype(np.int64).astype(np.uint32)


REFERENCE = {
  ConvertOp.I2F: lambda a: a.view(np.int32).astype(np.float32).view(np.uint32),
  ConvertOp.U2F: lambda a: a.astype(np.float32).view(np.uint32),
  ConvertOp.F2I: lambda a: saturated(a, -(2**31), 2**31 - 1),
  ConvertOp.F2U: lambda a: saturated(a, 0, 2**32 - 1),
  ConvertOp.TRUNC: lambda a: np.where(
    np.isnan(a.view(np.float32)), np.uint32(0x7FC00000), np.trunc(a.view(np.float32)).view(np.uint32)
  ),
}


@pytest.mark.parametrize("op", ConvertOp)
def test_each(unit, operands, op):
  integers, _ = operands.integer_pairs(100_000)
  ties = integers << operands.rng.integers(0, 24, len(integers), np.uint32)
  a = np.concatenate([operands.words(300_000), integers, ties])
  got = unit.pipe({"op": op.value, "a": a}, FConvert32.CUTS)["o"]
  operands.check(got, REFERENCE[op](a), a)


def test_mixed(unit, operands):
  """Neighbouring operations do not disturb each other."""
  a = operands.words(200_000)
  op = operands.rng.integers(0, len(ConvertOp), len(a))
  got = unit.pipe({"op": op, "a": a}, FConvert32.CUTS)["o"]
  operands.check(got, np.choose(op, [REFERENCE[o](a) for o in ConvertOp]).astype(np.uint32), a, op)


def test_widen_every_float16(narrow, operands):
  half = np.arange(1 << 16, dtype=np.uint16)
  got = narrow.run({"half": half})
  operands.check(got["from_f16"], operands.bits(half.view(np.float16).astype(np.float32)), half)
  operands.check(got["from_bf16"], operands.bits((half.astype(np.uint32) << 16).view(np.float32)), half)


def test_narrow_back(narrow, operands):
  """Every 16-bit float survives the way to float32 and back, NaNs made canonical."""
  half = np.arange(1 << 16, dtype=np.uint32)
  wide = narrow.run({"half": half})
  f16 = narrow.run({"word": wide["from_f16"]})["to_f16"]
  operands.check(f16, np.where((half & 0x7FFF) > 0x7C00, 0x7E00, half).astype(np.uint32), half)
  bf16 = narrow.run({"word": wide["from_bf16"]})["to_bf16"]
  operands.check(bf16, np.where((half & 0x7FFF) > 0x7F80, 0x7FC0, half).astype(np.uint32), half)


def around_boundaries(operands) -> np.ndarray:
  """Every float16 and bfloat16, the middles between neighbours, and the words next to all of these."""
  half = np.arange(1 << 16, dtype=np.uint16)
  f16 = half.view(np.float16).astype(np.float32)
  exact = np.concatenate([f16.view(np.uint32), half.astype(np.uint32) << 16])
  middles = np.concatenate([exact, exact + 0x1000, exact + 0x8000, ((f16[:-1] + f16[1:]) / 2).view(np.uint32)])
  return np.concatenate([middles, middles + 1, middles - 1, operands.words(200_000)]).astype(np.uint32)


def test_narrow_to_float16(narrow, operands):
  a = around_boundaries(operands)
  expected = a.view(np.float32).astype(np.float16).view(np.uint16).astype(np.uint32)
  expected[np.isnan(a.view(np.float32))] = 0x7E00
  operands.check(narrow.run({"word": a})["to_f16"], expected, a)


def test_narrow_to_bfloat16(narrow, operands):
  """The nearer neighbour, the even one of two; infinity counts as the next power of two."""
  a = around_boundaries(operands)
  below = a & np.uint32(0x7FFF0000)

  def with_infinity(words: np.ndarray) -> np.ndarray:
    return np.where(words == 0x7F800000, 2.0**128, words.view(np.float32).astype(np.float64))

  magnitude, low, high = (with_infinity(x) for x in (a & np.uint32(0x7FFFFFFF), below, below + np.uint32(0x10000)))
  up = (high - magnitude < magnitude - low) | ((high - magnitude == magnitude - low) & (below >> 16 & 1 == 1))
  expected = (a >> 31 << 15) + (below >> 16) + up.astype(np.uint32)
  expected[np.isnan(a.view(np.float32))] = 0x7FC0
  operands.check(narrow.run({"word": a})["to_bf16"], expected.astype(np.uint32), a)


def test_lint(unit, narrow):
  assert lint(unit.verilog, "FConvert32") == []
  assert lint(narrow.verilog, "Narrow") == []
