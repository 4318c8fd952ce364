"""The matrix unit's formats: 16-bit floats bit for bit in the documented order of sums, int8 exactly, whatever the shape and layout."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tinygrad import Tensor, dtypes
from tinygrad.dtype import DType
from tinygrad.helpers import Context

from tinytpu.backend.runtime.stats import stats

HALVES = [dtypes.float16, dtypes.bfloat16]


def halves(rng: np.random.Generator, dtype: DType, *shape: int) -> tuple[Tensor, np.ndarray]:
  """A realized tensor of a 16-bit dtype and its values as float32."""
  x = rng.standard_normal(shape).astype(np.float32)
  words = x.view(np.uint32)
  exact = x.astype(np.float16).astype(np.float32) if dtype == dtypes.float16 else (words & np.uint32(0xFFFF0000)).view(np.float32)
  return Tensor(exact).cast(dtype).realize(), exact


def int8(rng: np.random.Generator, *shape: int) -> tuple[Tensor, np.ndarray]:
  x = rng.integers(-128, 128, shape, dtype=np.int8)
  return Tensor(x).realize(), x.astype(np.int32)


def ordered(a: np.ndarray, b: np.ndarray) -> np.ndarray:
  """The product of float32 matrices in the documented order: groups of four along K, each (p0 + p1) + (p2 + p3)."""
  k = -(-a.shape[1] // 4) * 4
  a, b = np.pad(a, ((0, 0), (0, k - a.shape[1]))), np.pad(b, ((0, k - b.shape[0]), (0, 0)))
  total = np.zeros((a.shape[0], b.shape[1]), np.float32)
  for g in range(0, k, 4):
    p = [a[:, g + i, None] * b[None, g + i] for i in range(4)]
    total = total + ((p[0] + p[1]) + (p[2] + p[3]))
  return total


def on_mxu(compute: Callable[[], Tensor]) -> np.ndarray:
  """The result of a kernel that must use the matrix unit."""
  stats.reset()
  result = compute().realize()
  assert stats.counters["mxu_steps"] > 0
  return result.float().numpy() if result.dtype in HALVES else result.numpy()


# -- 16-bit floats ------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("m, k, n", [(4, 8, 4), (16, 16, 16), (5, 7, 9), (2, 33, 3), (33, 17, 30), (64, 64, 64), (3, 100, 70),
                                     (1, 16, 20), (1, 75, 40), (30, 33, 1)])
def test_halves_in_the_documented_order(m, k, n, dtype, rng):
  (x, a), (y, b) = halves(rng, dtype, m, k), halves(rng, dtype, k, n)
  want = ordered(a, b)
  got = on_mxu(lambda: x.matmul(y, dtype="float32"))
  np.testing.assert_array_equal(got, want)
  np.testing.assert_allclose(got, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-5)
  cut = on_mxu(lambda: x @ y)  # the same sum, rounded once
  np.testing.assert_allclose(cut, want, rtol=2 ** -8 if dtype == dtypes.bfloat16 else 2 ** -11, atol=1e-7)
  if dtype == dtypes.float16:
    np.testing.assert_array_equal(cut, want.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_halves_as_parts_of_kernels(dtype, rng):
  (x, a), (y, b), (z, bias) = halves(rng, dtype, 10, 24), halves(rng, dtype, 24, 12), halves(rng, dtype, 12)
  got = on_mxu(lambda: (x.relu().matmul(y, dtype="float32") + z.float()).relu())
  np.testing.assert_array_equal(got, np.maximum(ordered(np.maximum(a, 0), b) + bias, 0))
  (p, c), (q, d) = halves(rng, dtype, 3, 9, 8), halves(rng, dtype, 3, 8, 10)
  np.testing.assert_array_equal(on_mxu(lambda: p.matmul(q, dtype="float32")), np.stack([ordered(c[i], d[i]) for i in range(3)]))
  np.testing.assert_array_equal(on_mxu(lambda: x.T.matmul(x, dtype="float32")), ordered(a.T, a))


def test_products_of_float16_are_exact(rng):
  """Beyond float16's range and below its last place: no product is rounded before it is added."""
  a, b = np.full((4, 8), 300, np.float16), np.full((8, 4), 300, np.float16)
  assert (on_mxu(lambda: Tensor(a).matmul(Tensor(b), dtype="float32")) == 8 * 90000).all()


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_convolution_and_gradients_of_halves(dtype, rng):
  (x, a), (w, b) = halves(rng, dtype, 2, 3, 9, 8), halves(rng, dtype, 5, 3, 3, 3)
  want = np.zeros((2, 5, 7, 6))
  for i in range(7):
    for j in range(6):
      want[:, :, i, j] = np.einsum("bchw,ochw->bo", a[:, :, i:i + 3, j:j + 3].astype(np.float64), b)
  got = on_mxu(lambda: x.conv2d(w, dtype="float32"))
  np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
  (p, c), (q, d) = halves(rng, dtype, 6, 9), halves(rng, dtype, 9, 5)
  p.matmul(q, dtype="float32").sum().backward()
  assert p.grad is not None and q.grad is not None
  np.testing.assert_allclose(p.grad.float().numpy(), np.broadcast_to(d.sum(1), (6, 9)), rtol=2e-2, atol=2e-2)
  np.testing.assert_allclose(q.grad.float().numpy(), np.broadcast_to(c.sum(0)[:, None], (9, 5)), rtol=2e-2, atol=2e-2)


# -- int8 ---------------------------------------------------------------------------------------------
def product(x: Tensor, y: Tensor) -> Tensor:
  """The exact product of int8 matrices, as ONNX's MatMulInteger writes it."""
  return x.cast(dtypes.int32) @ y.cast(dtypes.int32)


BYTE_SIZES = [(4, 16, 4), (16, 16, 16), (5, 7, 9), (64, 64, 64), (33, 17, 65), (3, 100, 3), (12, 20, 16), (8, 36, 32), (2, 6, 2),
              (1, 16, 16), (1, 64, 40), (1, 37, 9), (20, 48, 1)]


@pytest.mark.parametrize("m, k, n", BYTE_SIZES)
@pytest.mark.parametrize("layout", ["AB", "AT", "BT", "ATBT"])
def test_bytes_of_any_size_and_layout(m, k, n, layout, rng):
  (x, a), (y, b) = int8(rng, *((k, m) if "AT" in layout else (m, k))), int8(rng, *((n, k) if "BT" in layout else (k, n)))
  p, q = (x.T, a.T) if "AT" in layout else (x, a), (y.T, b.T) if "BT" in layout else (y, b)
  np.testing.assert_array_equal(on_mxu(lambda: product(p[0], q[0])), p[1] @ q[1])


def test_random_bytes(rng):
  for _ in range(25):
    m, k, n = (int(s) for s in rng.integers(1, 40, 3))
    (x, a), (y, b) = int8(rng, m, k), int8(rng, k, n)
    np.testing.assert_array_equal(product(x, y).numpy(), a @ b, err_msg=f"{m} x {k} x {n}")


@pytest.mark.parametrize("noopt", [0, 1])
def test_bytes_that_do_not_start_at_words(noopt, rng):
  """Views of a buffer at odd addresses: the program must not load words there."""
  x, a = int8(rng, 16 * 16 + 8)
  for start in range(5):
    y = x[start:start + 256].contiguous().realize().reshape(16, 16)
    assert y.uop.base.buffer.offset == start  # a view, not a copy
    b = a[start:start + 256].reshape(16, 16)
    with Context(NOOPT=noopt):
      np.testing.assert_array_equal(product(y, y).numpy(), b @ b)
      np.testing.assert_array_equal(product(y, y.T).numpy(), b @ b.T)


def test_bytes_as_parts_of_kernels(rng):
  (x, a), (y, b), (z, c) = int8(rng, 12, 32), int8(rng, 32, 20), int8(rng, 20)
  got = on_mxu(lambda: (product(x.relu(), y) + z.cast(dtypes.int32)).relu())
  np.testing.assert_array_equal(got, np.maximum(np.maximum(a, 0) @ b + c, 0))
  np.testing.assert_allclose(on_mxu(lambda: product(x, y).float() * 0.5), (a @ b) * 0.5)
  (p, d), (q, e) = int8(rng, 3, 8, 16), int8(rng, 3, 16, 16)
  np.testing.assert_array_equal(on_mxu(lambda: product(p, q)), d @ e)
  np.testing.assert_array_equal(on_mxu(lambda: product(x, x.T)), a @ a.T)
  np.testing.assert_array_equal(product(x, x.T).sum().numpy(), (a @ a.T).sum())


def test_convolution_of_bytes(rng):
  (x, a), (w, b) = int8(rng, 2, 8, 10, 9), int8(rng, 6, 8, 3, 3)
  padded = np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1)))
  want = np.zeros((2, 6, 10, 9), np.int32)
  for i in range(10):
    for j in range(9):
      want[:, :, i, j] = np.einsum("bchw,ochw->bo", padded[:, :, i:i + 3, j:j + 3], b)
  got = on_mxu(lambda: x.cast(dtypes.int32).conv2d(w.cast(dtypes.int32), padding=1))
  np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("m, k, n", [(1, 40, 12), (4, 16, 4), (5, 7, 9), (16, 64, 16)])
def test_products_that_wrap_do_so_at_any_size(m, k, n, rng):
  """int8 times int8 without a cast is int8 in tinygrad, so it must not take the matrix unit, where it would not wrap."""
  (x, a), (y, b) = int8(rng, m, k), int8(rng, k, n)
  want = (a[:, :, None] * b[None]).astype(np.int8).astype(np.int32).sum(1)
  np.testing.assert_array_equal(x.matmul(y, dtype=dtypes.int32).numpy(), want)


@pytest.mark.parametrize("k", [7, 12, 16, 19])
def test_bytes_that_are_not_zero_beyond_k(k, rng):
  (x, a), (y, b) = int8(rng, k, k), int8(rng, k, k)
  one = Tensor.eye(k).cast(dtypes.int8)
  np.testing.assert_array_equal(product(one + 1, y).numpy(), (np.eye(k, dtype=np.int32) + 1) @ b)
  np.testing.assert_array_equal(product((x == y).cast(dtypes.int8) + 3, one + 2).numpy(),
                                ((a == b).astype(np.int32) + 3) @ (np.eye(k, dtype=np.int32) + 2))
  np.testing.assert_array_equal(product((x + 1), (y + 1)).numpy(), (a + 1).astype(np.int8).astype(np.int32) @ (b + 1).astype(np.int8))
  ones = Tensor.ones(k, 1, dtype=dtypes.int8)
  got = product(x.cat(ones, dim=1), y.cat(ones.T))
  np.testing.assert_array_equal(got.numpy(), np.hstack([a, np.ones((k, 1), np.int32)]) @ np.vstack([b, np.ones((1, k), np.int32)]))


def test_unsigned_and_mixed_bytes(rng):
  x = rng.integers(0, 256, (9, 20), dtype=np.uint8)
  y, b = int8(rng, 20, 8)
  np.testing.assert_array_equal(product(Tensor(x), y).numpy(), x.astype(np.int32) @ b)
  np.testing.assert_array_equal(product(Tensor(x), Tensor(x).T).numpy(), x.astype(np.int32) @ x.T.astype(np.int32))


EVEN = np.arange(6) % 2 == 0


@pytest.mark.parametrize("stored", [False, True], ids=["read as words at once", "stored"])
@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("move, expected", [
  (lambda t: t.flip(0), lambda a: a[::-1]), (lambda t: t.pad((1, 2)), lambda a: np.pad(a, (1, 2))), (lambda t: t[2:5], lambda a: a[2:5]),
  (lambda t: t.pad((2, 1), value=-1.0), lambda a: np.pad(a, (2, 1), constant_values=0xBC00 if a[0] < 0x7F00 else 0xBF80)),
  (lambda t: t.cat(t.flip(0)), lambda a: np.concatenate([a, a[::-1]])), (lambda t: t.repeat(3), lambda a: np.tile(a, 3)),
  (lambda t: t.reshape(2, 3).T, lambda a: a.reshape(2, 3).T),
  (lambda t: (Tensor.arange(6) % 2 == 0).where(t, t.flip(0)), lambda a: np.where(EVEN, a, a[::-1]))],
  ids=["flip", "pad", "slice", "pad with a value", "cat", "repeat", "transpose", "where"])
def test_not_a_number_keeps_its_bits_where_it_is_moved(dtype, move, expected, stored):
  nan, infinite = (0x7E00, 0x7C00) if dtype == dtypes.float16 else (0x7FC0, 0x7F80)
  words = np.array([nan, nan | 5, infinite | 1, 0x8000 | nan | 3, 0x3C00, infinite], np.uint16)
  moved = move(Tensor(words).realize().bitcast(dtype).realize())
  moved = moved.contiguous().realize() if stored else moved
  assert np.array_equal(moved.bitcast(dtypes.uint16).numpy(), expected(words))


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=str)
def test_what_an_accumulator_holds_is_no_copy(dtype, rng):
  a = rng.integers(-8, 9, (3, 9, 14, 9)).astype(np.float32)
  assert np.array_equal(Tensor(a).cast(dtype).realize().max(2).cast(dtypes.float32).numpy(), a.max(2))
