"""Elementwise kernels: any shape and dtype, bit for bit with numpy where the bits are defined."""
from __future__ import annotations

import operator

import numpy as np
import pytest
from tinygrad import Tensor, dtypes

SHAPES = [(1,), (3,), (15,), (16,), (17,), (45,), (1000,), (7, 11), (45, 65), (3, 3, 3), (2, 1, 5, 4)]
BINARY = {
  "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "and": operator.and_, "or": operator.or_,
  "xor": operator.xor, "lt": operator.lt, "eq": operator.eq, "ne": operator.ne,
  "max": lambda x, y: x.maximum(y) if isinstance(x, Tensor) else np.maximum(x, y)}
INTS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32]


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape, floats):
  a, b = floats(*shape), floats(*shape)
  np.testing.assert_array_equal((Tensor(a) * Tensor(b) + 1).numpy(), a * b + np.float32(1))


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "and", "or", "xor", "max", "lt", "eq", "ne"])
def test_integers(dtype, op, rng):
  info = np.iinfo(dtype)
  a, b = (rng.integers(info.min, info.max, 100, dtype=dtype, endpoint=True) for _ in range(2))
  b[::5] = a[::5]
  got, want = BINARY[op](Tensor(a), Tensor(b)).numpy(), BINARY[op](a, b)
  assert got.dtype == want.dtype
  np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", INTS)
def test_shifts(dtype, rng):
  info = np.iinfo(dtype)
  a = rng.integers(info.min, info.max, 64, dtype=dtype, endpoint=True)
  for by in (1, 3, info.bits - 1):
    np.testing.assert_array_equal((Tensor(a) << by).numpy(), a << dtype(by))
    np.testing.assert_array_equal((Tensor(a) >> by).numpy(), a >> dtype(by))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32])
def test_division(dtype, rng):
  info = np.iinfo(dtype)
  a = rng.integers(info.min, info.max, 200, dtype=dtype, endpoint=True)
  b = rng.integers(max(info.min, -9), 10, 200).astype(dtype)
  b[b == 0] = 3
  if info.min < 0:
    b[b == -1] = 2  # the one overflow
  np.testing.assert_array_equal((Tensor(a) // Tensor(b)).numpy(), a // b)
  np.testing.assert_array_equal((Tensor(a) % Tensor(b)).numpy(), a % b)
  np.testing.assert_array_equal((Tensor(a) // 7).numpy(), a // dtype(7))
  truncated = np.trunc(a.astype(np.float64) / b).astype(dtype)
  np.testing.assert_array_equal(Tensor(a).div(Tensor(b), rounding_mode="trunc").numpy(), truncated)


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 1.17549435e-38, 3.4028235e38, -3.4028235e38,
                    0.1, 16777217], np.float32)


@pytest.mark.parametrize("dtype, by", [(np.int8, 255), (np.int8, 200), (np.int16, 2**16 - 3), (np.int32, 2**32 - 7), (np.int64, 2**63 + 5)])
def test_truncating_division_by_what_wraps(dtype, by):
  """A divisor beyond its dtype stands for what it wraps to."""
  a = np.array([0, 1, 5, 6, 100, 127, -1, -5, -127], dtype)
  d = np.array(by, np.uint64).astype(dtype)
  want = np.trunc(a.astype(np.float64) / d.astype(np.float64)).astype(dtype)
  np.testing.assert_array_equal(Tensor(a).realize().div(by, rounding_mode="trunc").numpy(), want)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "lt", "eq", "ne"])
def test_float_specials(name):
  a, b = (x.ravel().copy() for x in np.meshgrid(SPECIAL, SPECIAL))
  with np.errstate(all="ignore"):
    np.testing.assert_array_equal(BINARY[name](Tensor(a), Tensor(b)).numpy(), BINARY[name](a, b))


def test_unary_floats(floats):
  a = np.concatenate([np.abs(floats(100)) * 10, SPECIAL])
  with np.errstate(all="ignore"):
    np.testing.assert_array_equal(Tensor(a).sqrt().numpy(), np.sqrt(a))
    np.testing.assert_array_equal(Tensor(a).reciprocal().numpy(), np.float32(1) / a)
    np.testing.assert_array_equal(Tensor(a).trunc().numpy(), np.trunc(a))
    np.testing.assert_array_equal((-Tensor(a)).numpy(), -a)


@pytest.mark.parametrize("fn", ["exp", "exp2", "log", "log2", "sin", "cos", "tanh", "sigmoid"])
def test_transcendentals(fn, floats):
  a = floats(200) * 4
  a = np.abs(a) + np.float32(1e-3) if fn.startswith("log") else a
  x = a.astype(np.float64)
  want = 1 / (1 + np.exp(-x)) if fn == "sigmoid" else getattr(np, fn)(x)
  np.testing.assert_allclose(getattr(Tensor(a), fn)().numpy(), want, rtol=2e-6, atol=1e-6)


def test_pow(floats):
  a, b = np.abs(floats(60)) + np.float32(0.1), floats(60)
  np.testing.assert_allclose((Tensor(a) ** Tensor(b)).numpy(), a.astype(np.float64) ** b, rtol=1e-5)
  np.testing.assert_allclose((Tensor(b) ** 3).numpy(), b.astype(np.float64) ** 3, rtol=1e-6)


def test_where(floats):
  a, b = floats(7, 9), floats(7, 9)
  np.testing.assert_array_equal((Tensor(a) > 0).where(Tensor(a), Tensor(b)).numpy(), np.where(a > 0, a, b))
  np.testing.assert_array_equal((Tensor(a) > 0).where(1.0, -2.0).numpy(), np.where(a > 0, np.float32(1), np.float32(-2)))
  np.testing.assert_array_equal((Tensor(a) > 0).where(5, Tensor(b)).numpy(), np.where(a > 0, np.float32(5), b))


def test_half_rounds_after_every_operation(floats):
  a, b = (floats(300).astype(np.float16) for _ in range(2))
  got = Tensor(a) * Tensor(b)
  assert got.dtype == dtypes.half
  np.testing.assert_array_equal(got.numpy(), a * b)
  np.testing.assert_array_equal((Tensor(a) * Tensor(b) + Tensor(a)).numpy(), a * b + a)


def _bfloat16(x: np.ndarray) -> np.ndarray:
  word = x.astype(np.float32).view(np.uint32)
  return ((word + 0x7FFF + (word >> 16 & 1)) & 0xFFFF0000).view(np.float32)


def test_bfloat16(floats):
  a, b = _bfloat16(floats(100)), _bfloat16(floats(100))
  got = (Tensor(a).cast(dtypes.bfloat16) * Tensor(b).cast(dtypes.bfloat16)).cast(dtypes.float32).numpy()
  np.testing.assert_array_equal(got, _bfloat16(a * b))


CASTABLE = [np.bool_, *INTS, np.float16, np.float32]


@pytest.mark.parametrize("target", CASTABLE)
@pytest.mark.parametrize("source", CASTABLE)
def test_casts(source, target, rng):
  if source in (np.float16, np.float32):
    a = (rng.standard_normal(64) * 40).astype(source)
    a = np.abs(a) if np.issubdtype(target, np.unsignedinteger) else a
  elif source is np.bool_:
    a = rng.integers(0, 2, 64).astype(bool)
  else:
    info = np.iinfo(source)
    a = rng.integers(info.min, info.max, 64, dtype=source, endpoint=True)
  with np.errstate(over="ignore"):
    want = a.astype(target)
  np.testing.assert_array_equal(Tensor(a).cast(Tensor(np.zeros(1, target)).dtype).numpy(), want)


@pytest.mark.parametrize("source, target", [(np.float32, np.int32), (np.int32, np.float32), (np.uint32, np.int32), (np.float16, np.uint16),
                                            (np.int16, np.float16), (np.uint8, np.int8), (np.int8, np.uint8)])
def test_bitcasts(source, target, rng):
  bits = rng.integers(0, 1 << 8 * np.dtype(source).itemsize, 64, dtype=np.uint64).astype(f"u{np.dtype(source).itemsize}")
  a = bits.view(source)
  if np.issubdtype(source, np.floating):
    a = a[np.isfinite(a)]
  want = a.view(target)
  if np.issubdtype(target, np.floating):
    a, want = a[~np.isnan(want)], want[~np.isnan(want)]
  got = Tensor(a).bitcast(Tensor(np.zeros(1, target)).dtype).numpy()
  np.testing.assert_array_equal(got.view(f"u{got.itemsize}"), want.view(f"u{want.itemsize}"))


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_long_integers(dtype, rng):
  a, b = (rng.integers(0, 1 << 62, 40).astype(dtype) for _ in range(2))
  np.testing.assert_array_equal((Tensor(a) + Tensor(b)).numpy(), a + b)
  np.testing.assert_array_equal((Tensor(a) * Tensor(b)).numpy(), a * b)
  np.testing.assert_array_equal((Tensor(a) < Tensor(b)).numpy(), a < b)
  np.testing.assert_array_equal((Tensor(a) >> 33).numpy(), a >> dtype(33))


@pytest.mark.parametrize("count", [20, 24, 60])
def test_many_operands(count, floats):
  arrays = [floats(40) for _ in range(count)]  # more loads than the optimiser aims for; sixty buffers are too many for one kernel
  total = Tensor(arrays[0])
  for a in arrays[1:]:
    total = total + Tensor(a)
  want = np.add.accumulate(np.stack(arrays).astype(np.float64))[-1]
  np.testing.assert_allclose(total.numpy(), want, rtol=1e-5, atol=1e-5)


def test_reflected_padding(floats):
  a = floats(1, 1, 5, 5, 5)
  want = np.pad(a, ((0, 0), (0, 0), (1, 2), (3, 4), (1, 2)), mode="reflect")
  np.testing.assert_array_equal(Tensor(a).pad((1, 2, 3, 4, 1, 2), mode="reflect").numpy(), want)


@pytest.mark.parametrize("by", [-7, -2, -1, 3])
def test_int64_division_by_a_constant(by):
  a = np.array([5, -5, 7, 0, 2**40 + 3, -(2**40) - 3], np.int64)
  x = Tensor(a)
  np.testing.assert_array_equal((x // by).numpy(), a // by)
  np.testing.assert_array_equal((x % by).numpy(), a % by)


@pytest.mark.parametrize("by", [-1, -2, -3, -(2**63)])
def test_int64_division_at_the_ends(by):
  a = np.array([-(2**63), -(2**63) + 1, -5, -1, 0, 1, 5, 2**63 - 1], np.int64)
  x = Tensor(a)
  wrapped = [(int(n) // by + 2**63) % 2**64 - 2**63 for n in a]
  assert (x // by).tolist() == wrapped
  assert (x % by).tolist() == [int(n) % by for n in a]


def test_floats_beyond_32_bits_to_64_bit_integers():
  a = np.array([3e9, -3e9, 1e12, 2.0**32, -1, -0.5, 0, 2.7, -7.9, -(2.0**62), 5e9], np.float32)
  np.testing.assert_array_equal(Tensor(a).cast(dtypes.int64).numpy(), a.astype(np.int64))
  np.testing.assert_array_equal(Tensor(abs(a)).cast(dtypes.uint64).numpy(), abs(a).astype(np.uint64))


@pytest.mark.parametrize("bits", [1, 7, 4096, 65536, 0x80000001])
def test_subnormal_constants(bits):
  """Their bits are small integers, which the assembler does not take for floats."""
  constant = np.array(bits, np.uint32).view(np.float32)
  a = np.array([0, 1e-44, -1e-44, 1.5], np.float32)
  np.testing.assert_array_equal((Tensor(a) + constant.item()).numpy(), a + constant)
  np.testing.assert_array_equal((Tensor(a) < constant.item()).numpy(), a < constant)
