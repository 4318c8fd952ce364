"""Reductions over any axis, and what is built of them."""
from __future__ import annotations

import itertools

import numpy as np
import pytest
from tinygrad import Context, Tensor, dtypes

from tinytpu.backend.errors import UnsupportedError

SHAPES = [(5,), (16,), (1000,), (7, 11), (45, 65), (64, 64), (3, 4, 5)]
AXES = [(shape, axis) for shape in SHAPES for axis in [None, *range(len(shape))]]


@pytest.mark.parametrize("shape, axis", AXES)
def test_sum_and_max(shape, axis, floats):
  a = floats(*shape)
  np.testing.assert_allclose(Tensor(a).sum(axis).numpy(), a.astype(np.float64).sum(axis), rtol=1e-5, atol=1e-4)
  np.testing.assert_array_equal(Tensor(a).max(axis).numpy(), a.max(axis))


@pytest.mark.parametrize("shape", [(60,), (3, 60), (2, 2, 2, 5), (4, 13), (1, 9, 9)], ids=str)
def test_of_all_elements(shape, rng):
  """Loops with none around them."""
  a = rng.integers(0, 1000, shape).astype(np.int32)
  t = Tensor(a).realize()
  assert t.sum().item() == a.sum() and t.max().item() == a.max() and t.unsqueeze(0).expand(2, *shape).sum().item() == 2 * a.sum()
  assert t.max(-1).max().item() == t.max(0).sum().max().item() - a.max(0).sum() + a.max()


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_largest_of_64_bit_integers(dtype, rng):
  a = rng.integers(0, 1 << 62, (4, 9)).astype(dtype) * np.array(2, dtype)
  t = Tensor(a).realize()
  for axis in (0, 1, None):
    assert np.array_equal(t.max(axis).numpy(), a.max(axis)) and np.array_equal(t.min(axis).numpy(), a.min(axis))
    assert np.array_equal(t.argmax(axis).numpy(), a.argmax(axis)) and np.array_equal(t.argmin(axis).numpy(), a.argmin(axis))


def test_several_axes(floats):
  a = floats(3, 4, 5, 6)
  for axes in itertools.combinations(range(4), 2):
    np.testing.assert_allclose(Tensor(a).sum(axes).numpy(), a.astype(np.float64).sum(axes), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("terms", range(2, 8))
def test_short_sums_of_floats_go_in_order(terms, floats):
  shapes = [((terms,), 0), ((1, terms), 1), ((4, terms), 1), ((terms, 4), 0), ((16, terms), 1), ((terms, 16), 0), ((9, terms), 1),
            ((100, terms), 1), ((terms, 100), 0), ((3, terms, 5), 1), ((7, 3, terms), 2), ((64, terms, 64), 1)]
  for shape, axis in shapes:
    a = floats(*shape) * np.float32(10) ** floats(*shape).round()
    x, columns = Tensor(a).realize(), np.moveaxis(a, axis, 0)
    total, product = columns[0], columns[0]
    for column in columns[1:]:
      total, product = total + column, product * column
    np.testing.assert_array_equal(x.sum(axis).numpy(), total, f"sum of {shape} along {axis}")
    np.testing.assert_array_equal(x.prod(axis).numpy(), product, f"product of {shape} along {axis}")
    np.testing.assert_array_equal((x.sum(axis) - x.max()).numpy(), total - a.max(), f"{shape} along {axis}, beside a long reduction")
    np.testing.assert_array_equal(x.sum(axis).numpy(), a.sum(axis), f"numpy's sum of {shape} along {axis}")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32])
def test_integer_sums(dtype, rng):
  info = np.iinfo(dtype)
  a = rng.integers(max(info.min, -1000), min(info.max, 1000), (9, 33)).astype(dtype)
  np.testing.assert_array_equal(Tensor(a).sum(1).numpy(), a.sum(1, dtype=np.int64))
  np.testing.assert_array_equal(Tensor(a).max(0).numpy(), a.max(0))
  np.testing.assert_array_equal(Tensor(a).min().numpy(), a.min())


def test_prod_any_all_argmax(rng, floats):
  a = floats(6, 7)
  np.testing.assert_allclose(Tensor(a).prod(1).numpy(), a.astype(np.float64).prod(1), rtol=1e-5)
  b = rng.integers(0, 2, (5, 3)).astype(bool)
  np.testing.assert_array_equal(Tensor(b).any(1).numpy(), b.any(1))
  np.testing.assert_array_equal(Tensor(b).all(1).numpy(), b.all(1))
  np.testing.assert_array_equal(Tensor(a).argmax(1).numpy(), a.argmax(1))


def test_mean_var(floats):
  a = floats(12, 34)
  np.testing.assert_allclose(Tensor(a).mean(0).numpy(), a.astype(np.float64).mean(0), rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(Tensor(a).var(1).numpy(), a.astype(np.float64).var(1, ddof=1), rtol=1e-5)


@pytest.mark.parametrize("shape", [(7, 11), (4, 64), (45, 65)])
def test_softmax(shape, floats):
  a = floats(*shape)
  e = np.exp(a.astype(np.float64) - a.max(-1, keepdims=True))
  np.testing.assert_allclose(Tensor(a).softmax().numpy(), e / e.sum(-1, keepdims=True), rtol=1e-5, atol=1e-7)
  np.testing.assert_allclose(Tensor(a).log_softmax().numpy(), np.log(e / e.sum(-1, keepdims=True)), rtol=1e-5, atol=1e-5)


def test_cumulative(floats):
  a = floats(20, 6)
  np.testing.assert_allclose(Tensor(a).cumsum(0).numpy(), a.astype(np.float64).cumsum(0), rtol=1e-5, atol=1e-5)
  np.testing.assert_allclose(Tensor(a).cumsum(1).numpy(), a.astype(np.float64).cumsum(1), rtol=1e-5, atol=1e-5)
  long = floats(700)
  np.testing.assert_allclose(Tensor(long).cumsum().numpy(), long.astype(np.float64).cumsum(), rtol=1e-4, atol=1e-4)


def test_sum_of_halfs(floats):
  a = floats(50, 8).astype(np.float16)
  got = Tensor(a).sum(0)
  assert got.dtype == dtypes.half
  np.testing.assert_allclose(got.numpy(), a.astype(np.float32).sum(0), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("count", [3, 100])
def test_largest_of_what_wraps_is_right_or_refused(count, rng):
  """tinygrad takes -x of an unsigned x never to be above 0, and drops what a loop finds (its CPU device gives 0)."""
  a = rng.integers(1, 200, count).astype(np.uint8)
  for noopt in (0, 1):
    with Context(NOOPT=noopt):
      try:
        assert (-Tensor(a)).max().item() == (-a).max()
      except UnsupportedError as error:
        assert "never to wrap" in str(error)
