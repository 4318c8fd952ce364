"""Matrix products run on the matrix unit, whatever their size, and give numpy's answers."""
from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor
from tinygrad.helpers import Context

from tinytpu.backend.runtime.stats import stats


def check(got: Tensor, want: np.ndarray, on_mxu: bool = True) -> None:
  stats.reset()
  got = got.numpy()
  np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
  assert (stats.counters["mxu_steps"] > 0) == on_mxu


SIZES = [(4, 4, 4), (4, 8, 4), (16, 16, 16), (5, 7, 9), (2, 33, 3), (33, 17, 65), (64, 64, 64), (12, 100, 8), (3, 1000, 3)]


@pytest.mark.parametrize("m, k, n", SIZES)
def test_any_size(m, k, n, floats):
  a, b = floats(m, k), floats(k, n)
  check(Tensor(a) @ Tensor(b), a.astype(np.float64) @ b)


def test_order_of_the_sum(rng):
  a, b = (rng.standard_normal(s).astype(np.float32) for s in ((4, 16), (16, 4)))
  want = np.zeros((4, 4), np.float32)
  for k in range(0, 16, 4):  # the documented order: groups of four along K
    p = [a[:, k + i:k + i + 1] * b[k + i:k + i + 1] for i in range(4)]
    want = want + ((p[0] + p[1]) + (p[2] + p[3]))
  np.testing.assert_array_equal((Tensor(a) @ Tensor(b)).numpy(), want)


def test_batched(floats):
  a, b = floats(3, 5, 6), floats(3, 6, 7)
  check(Tensor(a) @ Tensor(b), a.astype(np.float64) @ b)


def test_transposed_operands(floats):
  a, b = floats(10, 6), floats(9, 10)
  check(Tensor(a).T @ Tensor(b).T, a.T.astype(np.float64) @ b.T)
  c = floats(11, 13)
  check(Tensor(c) @ Tensor(c).T, c.astype(np.float64) @ c.T)


def test_epilogue_and_prologue(floats):
  a, b, bias = floats(10, 20), floats(20, 30), floats(30)
  check(((Tensor(a) * 2) @ Tensor(b) + Tensor(bias)).relu(), np.maximum((a * 2.0) @ b + bias, 0))


@pytest.mark.parametrize("k", [16, 19, 40, 100])
@pytest.mark.parametrize("n", [2, 5, 16, 37])
def test_vectors(k, n, floats):
  """A row times a matrix, a matrix times a column, in any layout, with what may be fused around them, on whichever unit."""
  a, w, bias = floats(1, k), floats(k, n), floats(n)
  x, y, z, t = Tensor(a).realize(), Tensor(w).realize(), Tensor(bias).realize(), Tensor(np.ascontiguousarray(w.T)).realize()
  want = a.astype(np.float64) @ w
  for got, expected in ((x @ y, want), (x @ t.T, want), (t @ x.T, want.T), (y.T @ x.reshape(k), want[0]), ((x @ y).sum(), want.sum()),
                        ((x.relu() @ y + z).relu(), np.maximum(np.maximum(a, 0).astype(np.float64) @ w + bias, 0))):
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_short_vectors_stay_on_the_vector_unit(floats):
  a, b = floats(1, 15), floats(15, 12)
  check(Tensor(a) @ Tensor(b), a.astype(np.float64) @ b, on_mxu=False)


def test_random_vectors(rng):
  for _ in range(15):
    batch, k, n = (int(s) for s in rng.integers(1, (4, 70, 50)))
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((batch, 1, k), (batch, k, n)))
    got = (Tensor(a) @ Tensor(b)).numpy()
    np.testing.assert_allclose(got, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4, err_msg=f"{batch} x 1 x {k} x {n}")
    with Context(NOOPT=1):
      np.testing.assert_allclose((Tensor(a) @ Tensor(b)).numpy(), got, rtol=1e-4, atol=1e-4, err_msg=f"{batch} x 1 x {k} x {n}, NOOPT")


@pytest.mark.parametrize("k", [16, 17, 30])
def test_vectors_that_are_not_zero_beyond_k(k, floats):
  a, b = floats(1, k), floats(k, 6)
  np.testing.assert_allclose((Tensor(a).exp() @ Tensor(b).exp()).numpy(), np.exp(a) @ np.exp(b), rtol=1e-4)
  np.testing.assert_allclose(((Tensor(a) + 1) @ Tensor(b)).numpy(), (a + 1) @ b, rtol=1e-4, atol=1e-4)
  got = Tensor(a).pad(((0, 0), (2, 3)), value=2.0) @ Tensor(b).pad(((2, 3), (0, 0)), value=3.0)
  want = np.pad(a, ((0, 0), (2, 3)), constant_values=2) @ np.pad(b, ((2, 3), (0, 0)), constant_values=3)
  np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4)
  got = Tensor(a) @ Tensor(b) + Tensor(a)[:, :6].pad(((0, 0), (0, 2)), value=5.0)[:, 2:]  # the same buffer beside the product
  want = a @ b + np.pad(a[:, :6], ((0, 0), (0, 2)), constant_values=5)[:, 2:]
  np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4)


def test_convolution(floats):
  x, w = floats(2, 3, 9, 8), floats(5, 3, 3, 3)
  want = np.zeros((2, 5, 7, 6))
  for i in range(7):
    for j in range(6):
      want[:, :, i, j] = np.einsum("bchw,ochw->bo", x[:, :, i:i + 3, j:j + 3].astype(np.float64), w)
  np.testing.assert_allclose(Tensor(x).conv2d(Tensor(w)).numpy(), want, rtol=1e-4, atol=1e-4)


def test_backward(floats):
  a, b = floats(6, 9), floats(9, 5)
  x, y = Tensor(a), Tensor(b)
  (x @ y).square().sum().backward()
  g = 2 * (a.astype(np.float64) @ b)
  np.testing.assert_allclose(x.grad.numpy(), g @ b.T, rtol=1e-4, atol=1e-4)
  np.testing.assert_allclose(y.grad.numpy(), a.T @ g, rtol=1e-4, atol=1e-4)


def test_int8_products_are_not_wrapped(rng):
  a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((5, 20), (20, 6)))
  got = (Tensor(a).cast("int32") @ Tensor(b).cast("int32")).numpy()
  np.testing.assert_array_equal(got, a.astype(np.int32) @ b.astype(np.int32))


def test_half_inputs(floats):
  a, b = floats(8, 24).astype(np.float16), floats(24, 8).astype(np.float16)
  got = Tensor(a).matmul(Tensor(b), dtype="float32").numpy()
  np.testing.assert_allclose(got, (a.astype(np.float64) @ b), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("k", [7, 9, 12, 13])
def test_operands_that_are_not_zero_beyond_k(k, floats):
  """Padding K to whole tiles must not add what operands are there: constants, indices, functions with f(0) != 0."""
  a, b = floats(k, k), floats(k, k)
  eye, ramp = np.eye(k, dtype=np.float32) + 1, np.arange(k * k, dtype=np.float32).reshape(k, k) / k
  np.testing.assert_array_equal(((Tensor.eye(k) + 1) @ (Tensor.eye(k) + 1)).numpy(), eye @ eye)
  np.testing.assert_allclose(((Tensor.arange(k * k).reshape(k, k).float() / k) @ Tensor(b)).numpy(), ramp @ b, rtol=1e-4, atol=1e-4)
  np.testing.assert_allclose((Tensor(a).exp() @ Tensor(b).exp()).numpy(), np.exp(a) @ np.exp(b), rtol=1e-4)
  ones = np.ones((k, 1), np.float32)
  got = Tensor(a).cat(Tensor(ones), dim=1) @ Tensor(b).cat(Tensor(ones.T))
  np.testing.assert_allclose(got.numpy(), np.hstack([a, ones]) @ np.vstack([b, ones.T]), rtol=1e-4, atol=1e-4)


def test_relu_and_scale_before_an_odd_product_keep_the_matrix_unit(floats):
  from tinytpu.backend.runtime.stats import stats
  a, b = floats(13, 13), floats(13, 13)
  x, y = Tensor(a).realize(), Tensor(b).realize()
  np.testing.assert_allclose((x.relu() @ (y * 2)).numpy(), np.maximum(a, 0) @ (b * 2), rtol=1e-4, atol=1e-4)
  assert stats.counters["mxu_steps"] > 0


def test_operands_repeated_along_k(floats):
  a, b = floats(4, 2, 1), floats(16, 4)
  got = (Tensor(a).expand(4, 2, 8).reshape(4, 16) @ Tensor(b)).numpy()
  np.testing.assert_allclose(got, np.repeat(a, 8, axis=2).reshape(4, 16) @ b, rtol=1e-4, atol=1e-5)
  c, d = floats(4, 8), floats(8, 4)
  np.testing.assert_allclose((Tensor(c).repeat(1, 3) @ Tensor(d).repeat(3, 1)).numpy(), 3 * (c @ d), rtol=1e-4, atol=1e-5)
