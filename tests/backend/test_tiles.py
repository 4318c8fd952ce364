"""Kernels against numpy whose sizes lie around those of tiles and waves, whatever preset the device is (TINYTPU_TEST_DEVICE)."""
from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Device, Tensor, dtypes

from tinytpu.backend.runtime import stats


def steps() -> int:
  return stats.stats.counters["mxu_steps"]


@pytest.mark.parametrize("n", [1, 7, 64, 100, 257, 1000])
def test_elementwise(floats, n):
  a, b = floats(n), floats(n)
  np.testing.assert_array_equal((Tensor(a) * Tensor(b) + 1).numpy(), a * b + np.float32(1))
  i = a.view(np.int32)
  np.testing.assert_array_equal(((Tensor(i) ^ 77) >> 3).numpy(), (i ^ 77) >> 3)


@pytest.mark.parametrize("m,k,n", [(16, 16, 16), (32, 64, 48), (45, 65, 33), (17, 10, 100)])
def test_matrix_products(floats, m, k, n):
  a, b = floats(m, k), floats(k, n)
  before = steps()
  np.testing.assert_allclose((Tensor(a) @ Tensor(b)).numpy(), a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)
  assert steps() > before
  h, g = a.astype(np.float16), b.astype(np.float16)
  product = Tensor(h).matmul(Tensor(g), dtype=dtypes.float32).numpy()
  np.testing.assert_allclose(product, h.astype(np.float64) @ g.astype(np.float64), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("m,k,n", [(1, 1, 1), (1, 64, 10), (5, 3, 2)])
def test_small_matrix_products(floats, m, k, n):
  a, b = floats(m, k), floats(k, n)
  np.testing.assert_allclose((Tensor(a) @ Tensor(b)).numpy(), a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("m,k,n", [(64, 64, 64), (33, 40, 20)])
def test_products_of_bytes(rng, m, k, n):
  a, b = rng.integers(-128, 128, (m, k)).astype(np.int8), rng.integers(-128, 128, (k, n)).astype(np.int8)
  before = steps()
  product = Tensor(a).cast(dtypes.int32) @ Tensor(b).cast(dtypes.int32)
  np.testing.assert_array_equal(product.numpy(), a.astype(np.int32) @ b.astype(np.int32))
  assert steps() > before


def test_tiles_of_the_matrix_unit(floats):
  """A product of tiles takes as many steps as there are triples of tiles."""
  side = Device[Device.DEFAULT].config.sublanes
  a, b = floats(2 * side, 4 * side), floats(4 * side, 2 * side)
  before = steps()
  (Tensor(a) @ Tensor(b)).numpy()
  assert steps() - before == 2 * 4 * 2


@pytest.mark.parametrize("shape", [(3, 5), (10, 100), (40, 64)])
def test_softmax_and_reductions(floats, shape):
  a = floats(*shape)
  e = np.exp(a.astype(np.float64) - a.max(-1, keepdims=True))
  np.testing.assert_allclose(Tensor(a).softmax().numpy(), e / e.sum(-1, keepdims=True), rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(Tensor(a).sum().item(), a.astype(np.float64).sum(), rtol=1e-4, atol=1e-4)
  np.testing.assert_array_equal(Tensor(a).max(0).numpy(), a.max(0))
  np.testing.assert_array_equal(Tensor(a).argmax(-1).numpy(), a.argmax(-1))


def test_convolution(floats):
  x, w = floats(2, 3, 9, 9), floats(5, 3, 3, 3)
  expected = np.einsum("bchwij,ocij->bohw", np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), (2, 3)), w)
  np.testing.assert_allclose(Tensor(x).conv2d(Tensor(w)).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_reductions_beside_many_axes():
  """More output axes fill the lanes than there are local ids."""
  a, b = (np.random.default_rng(n).standard_normal((2, 2, 2, 24)).astype(np.float32) for n in (1, 2))
  got = (Tensor(a).realize().permute(2, 1, 0, 3) + Tensor(b).realize()).sum(3).numpy()
  np.testing.assert_allclose(got, (a.transpose(2, 1, 0, 3).astype(np.float64) + b).sum(3), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_reductions_of_64_bits(dtype):
  """Their values take several registers each."""
  limits = np.iinfo(dtype)
  a = np.random.default_rng(5).integers(limits.min, limits.max, (24, 70), dtype, endpoint=True)
  d = np.random.default_rng(6).integers(1, 1 << 40, 70).astype(dtype)
  t = Tensor(a).realize()
  for axis in (0, 1):
    np.testing.assert_array_equal(t.sum(axis).numpy(), a.sum(axis, dtype=dtype))
    np.testing.assert_array_equal(t.prod(axis).numpy(), a.prod(axis, dtype=dtype))
    np.testing.assert_array_equal(t.max(axis).numpy(), a.max(axis))
    np.testing.assert_array_equal((t % Tensor(d)).sum(axis).numpy(), (a % d).sum(axis, dtype=dtype))
