"""Integers that wrap, then are divided: tinygrad's bounds say that they do not, and a division may not rely on that."""
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
