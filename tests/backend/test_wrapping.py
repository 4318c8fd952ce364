"""Integers beyond what tinygrad's bounds allow for: what wraps and is then divided, and shifts by more bits than a word has."""
from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor, dtypes

DIVISORS = (3, 7, 10, 641, 1000)
SHORT, BYTE = np.array([65535, 200, 50000, 3, 46341, 0], np.uint16), np.array([127, 126, 3, 100, 255, 1], np.uint8)


def truncated(x: np.ndarray, d: int) -> np.ndarray:
  return ((x - np.fmod(x, x.dtype.type(d))) // x.dtype.type(d)).astype(x.dtype)


@pytest.mark.parametrize("d", DIVISORS)
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("compute", [
  lambda x, y: x * x, lambda x, y: x * x * x * x, lambda x, y: y - x, lambda x, y: (y - x) * x, lambda x, y: x * x + y * y * y * y * y],
  ids=["x x", "x^4", "y - x", "(y - x) x", "x x + y^5"])
def test_division_of_what_wrapped(compute, dtype, d):
  """Without the wrap every one of these is of one sign, or below 2^32. (`//` of signed integers is left out: where it rounds otherwise
  than towards zero, tinygrad decides by its own bounds, on every device.)"""
  with np.errstate(over="ignore"):
    n = compute(SHORT.astype(dtype), BYTE.astype(dtype))
    expected = truncated(n, d), np.fmod(n, n.dtype.type(d))
  to = getattr(dtypes, dtype)
  for ours, theirs in zip((lambda t: t.div(d, rounding_mode="trunc"), lambda t: t.fmod(d)), expected, strict=True):
    x, y = Tensor(SHORT).realize().cast(to), Tensor(BYTE).realize().cast(to)
    np.testing.assert_array_equal(ours(compute(x, y)).numpy(), theirs)


def test_a_divisor_that_wrapped():
  x, y = np.full(6, 1 << 60, np.uint64) + SHORT, BYTE.astype(np.uint64) - np.uint64(128)
  with np.errstate(over="ignore"):
    expected = x // y
  got = Tensor(x).realize().div(Tensor(BYTE).realize().cast(dtypes.uint64) - 128, rounding_mode="trunc")
  np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize("d", [2, 4096])
def test_a_short_quotient_of_a_long_one(d):
  """By a power of two it is a shift, of a low word that may be negative."""
  data = np.array([1, 6, 50, 99, 101, 65535, 200], np.uint16)
  x, wide = Tensor(data).realize().cast(dtypes.int64), data.astype(np.int64)
  got = ((x - 100) * x).div(127, rounding_mode="trunc").div(d, rounding_mode="trunc")
  np.testing.assert_array_equal(got.numpy(), truncated(truncated((wide - 100) * wide, 127), d))


@pytest.mark.parametrize("count", [1, 30, 31, 32, 33, 40, 62, 63])
@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_long_shifts_of_short_numbers(dtype, count):
  """tinygrad makes them shifts of 32 bits, by however many."""
  data, to = np.array([1, 62335, 3, 65535, 0, 40000], np.uint16), getattr(dtypes, dtype)
  x, wide = Tensor(data).realize().cast(to), data.astype(dtype)
  n = np.dtype(dtype).type(count)
  np.testing.assert_array_equal((x >> count).numpy(), wide >> n)
  np.testing.assert_array_equal((x << count).numpy(), wide << n)
  np.testing.assert_array_equal(((x - 300) >> count).numpy(), (wide - np.dtype(dtype).type(300)) >> n)
  counts = Tensor(np.full(6, count, np.uint8)).realize().cast(to)
  np.testing.assert_array_equal((x >> counts).numpy(), wide >> n)
  np.testing.assert_array_equal((x << counts).numpy(), wide << n)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int16", "uint8"])
def test_shifts_beyond_the_width(dtype):
  """As numpy has them: all bits go, or the sign stays; with counts of constants, work items and scalars."""
  data = np.array([5, -7, 100, -100, 1, -1] * 7).astype(dtype)
  counts = np.array([0, 1, 7, 8, 15, 16, 31, 32, 33, 40, 63, 64, 100, 127]).astype(dtype)
  x, n = np.repeat(data, 14), np.tile(counts, 42)
  got = [Tensor(x).realize() << Tensor(n).realize(), Tensor(x).realize() >> Tensor(n).realize()]
  np.testing.assert_array_equal(got[0].numpy(), x << n)
  np.testing.assert_array_equal(got[1].numpy(), x >> n)
  for count in (31, 32, 40):
    np.testing.assert_array_equal((Tensor(data).realize() >> count).numpy(), data >> np.dtype(dtype).type(count))
    one = Tensor(np.array([count]).astype(dtype)).realize()
    np.testing.assert_array_equal((Tensor(data).realize() << one).numpy(), data << np.dtype(dtype).type(count))
