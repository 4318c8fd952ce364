"""Movement, gathers, symbolic shapes, the JIT, randomness, and what happens to data without a device."""
from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Context, Tensor, TinyJit, Variable, dtypes, nn

from tinytpu.backend.runtime.stats import stats


@pytest.mark.parametrize("order", [(0, 2, 1), (2, 1, 0), (1, 2, 0)])
def test_permute(order, floats):
  a = floats(5, 17, 9)
  np.testing.assert_array_equal(Tensor(a).permute(order).contiguous().numpy(), a.transpose(order))


def test_movement(floats):
  a = floats(9, 7)
  t = Tensor(a)
  np.testing.assert_array_equal(t.flip((0, 1)).contiguous().numpy(), a[::-1, ::-1])
  np.testing.assert_array_equal(t.pad(((1, 2), (0, 3)), value=4.0).numpy(), np.pad(a, ((1, 2), (0, 3)), constant_values=4))
  np.testing.assert_array_equal(t[2:8:2, ::3].contiguous().numpy(), a[2:8:2, ::3])
  np.testing.assert_array_equal(t[3].expand(4, 7).contiguous().numpy(), np.broadcast_to(a[3], (4, 7)))
  np.testing.assert_array_equal(t.repeat(2, 3).numpy(), np.tile(a, (2, 3)))
  np.testing.assert_array_equal(Tensor.cat(t, t * 2, dim=1).numpy(), np.concatenate([a, a * 2], 1))
  np.testing.assert_array_equal(Tensor.stack(t, t + 1, dim=0).numpy(), np.stack([a, a + 1]))
  np.testing.assert_array_equal(t.roll(2, 0).numpy(), np.roll(a, 2, 0))


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.int32, np.bool_])
def test_movement_of_narrow_types(dtype, rng):
  a = (rng.standard_normal((6, 35)) * 9).astype(dtype)
  np.testing.assert_array_equal(Tensor(a).T.contiguous().numpy(), a.T)
  np.testing.assert_array_equal(Tensor(a).pad(((0, 1), (2, 0))).numpy(), np.pad(a, ((0, 1), (2, 0))))


def test_gather(rng, floats):
  a, i, j = floats(45, 6), rng.integers(0, 45, 20).astype(np.int32), rng.integers(0, 6, 20).astype(np.int32)
  np.testing.assert_array_equal(Tensor(a)[Tensor(i)].numpy(), a[i])
  np.testing.assert_array_equal(Tensor(a)[Tensor(i), Tensor(j)].numpy(), a[i, j])
  k = rng.integers(0, 6, (45, 3)).astype(np.int32)
  np.testing.assert_array_equal(Tensor(a).gather(1, Tensor(k)).numpy(), np.take_along_axis(a, k, 1))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("noopt", [0, 1])
def test_gather_of_a_reversed_gather(noopt, dtype, rng, floats):
  a, i, j = floats(6, 5), rng.integers(0, 6, 4).astype(dtype), rng.integers(0, 4, 3).astype(dtype)
  with Context(NOOPT=noopt):
    np.testing.assert_array_equal(Tensor(a)[Tensor(i)].flip(0)[Tensor(j)].numpy(), a[i][::-1][j])


def test_scatter(floats):
  a, i = floats(4, 5), np.array([[0, 2, 1, 3, 0], [1, 1, 0, 0, 2]], np.int32)
  want = a.copy()
  np.put_along_axis(want, i, np.float32(9), 0)
  np.testing.assert_array_equal(Tensor(a).scatter(0, Tensor(i), 9.0).numpy(), want)


def test_setitem(floats):
  a = floats(8, 8)
  t = Tensor(a).contiguous().realize()
  t[2:5, 3] = 7.0
  a[2:5, 3] = 7
  np.testing.assert_array_equal(t.numpy(), a)


def test_sort_topk(rng):
  a = rng.permutation(37).astype(np.float32)
  values, indices = Tensor(a).sort()
  np.testing.assert_array_equal(values.numpy(), np.sort(a))
  np.testing.assert_array_equal(indices.numpy(), np.argsort(a))


def test_arange_eye_full():
  np.testing.assert_array_equal(Tensor.arange(3, 90, 4).numpy(), np.arange(3, 90, 4))
  np.testing.assert_array_equal(Tensor.eye(9).numpy(), np.eye(9))
  np.testing.assert_array_equal(Tensor.full((5, 6), 2.5).contiguous().numpy(), np.full((5, 6), 2.5))
  np.testing.assert_array_equal(Tensor.ones(6, 6).tril().numpy(), np.tril(np.ones((6, 6))))


def test_zero_size():
  assert (Tensor.empty(0, 4) + 1).numpy().shape == (0, 4)
  assert Tensor.empty(0, 4).sum(0).numpy().tolist() == [0, 0, 0, 0]


def test_symbolic(floats):
  a = floats(10, 12)
  for n in (1, 4, 10):
    v = Variable("n", 1, 10).bind(n)
    np.testing.assert_allclose((Tensor(a)[:v] * 2).sum().numpy(), (a[:n] * 2.0).sum(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose((Tensor(a)[:v] * 2).sum(0).numpy(), (a[:n] * 2.0).sum(0), rtol=1e-5, atol=1e-5)
    rows = Tensor(a).contiguous().realize()
    np.testing.assert_allclose((rows[v - 1] + 1).numpy(), a[n - 1] + np.float32(1))


def test_jit(floats):
  @TinyJit
  def step(x: Tensor) -> Tensor:
    return (x @ x.T + 1).relu().realize()
  for _ in range(5):
    a = floats(6, 10)
    np.testing.assert_allclose(step(Tensor(a).realize()).numpy(), np.maximum(a.astype(np.float64) @ a.T + 1, 0), rtol=1e-4, atol=1e-4)


def test_random_is_the_same_everywhere():
  Tensor.manual_seed(42)
  got = Tensor.rand(100).numpy()
  assert got.min() >= 0 and got.max() < 1 and len(np.unique(got)) == 100
  Tensor.manual_seed(42)
  np.testing.assert_array_equal(Tensor.rand(100).numpy(), got)
  ints = Tensor.randint(1000, low=-3, high=4).numpy()
  assert set(ints.tolist()) == set(range(-3, 4))
  assert abs(Tensor.randn(2000).numpy().mean()) < 0.1


def test_values_without_a_device_are_read_on_the_device():
  assert Tensor(3.0).item() == 3.0
  assert (Tensor(2) + Tensor(3)).item() == 5
  assert Tensor([1, 2, 3]).tolist() == [1, 2, 3]


def test_two_devices(floats):
  a = floats(8, 6)
  t = Tensor(a).shard(("TINYTPU:0", "TINYTPU:1"), axis=0)
  np.testing.assert_array_equal((t * 2 + 1).numpy(), a * np.float32(2) + 1)
  np.testing.assert_allclose(t.sum(0).numpy(), a.sum(0), rtol=1e-5, atol=1e-5)


def test_training_step(floats):
  x, y = Tensor(floats(16, 8)), Tensor(np.arange(16, dtype=np.int32) % 4)
  with Context(TRAINING=1):
    l1, l2 = nn.Linear(8, 16), nn.Linear(16, 4)
    opt = nn.optim.Adam([l1.weight, l1.bias, l2.weight, l2.bias], lr=0.02)
    losses = []
    for _ in range(6):
      opt.zero_grad()
      loss = l2(l1(x).relu()).sparse_categorical_crossentropy(y)
      loss.backward()
      opt.step()
      losses.append(loss.item())
  assert losses[-1] < losses[0]
  assert stats.counters["mxu_steps"] > 0


def test_dtype_of_indices():
  assert Tensor.arange(4).dtype == dtypes.int32


def test_partial_waves_leave_neighbours_alone(floats):
  a = floats(4, 2, 7)  # seven or fourteen work items in a wave of sixteen: the idle lanes must not store
  np.testing.assert_array_equal(Tensor(a).permute(1, 0, 2).contiguous().numpy(), a.transpose(1, 0, 2))
  for n in range(2, 16):
    b = floats(3, n)
    np.testing.assert_array_equal(Tensor(b).T.contiguous().numpy(), b.T)
    np.testing.assert_array_equal((Tensor(b)[:, Tensor(np.arange(n - 1, -1, -1, dtype=np.int32))] + 1).numpy(), b[:, ::-1] + np.float32(1))


@pytest.mark.parametrize("rows", [3, 4, 13, 64])
def test_what_pads_a_computed_value_is_written(rows, floats):
  """The padding of the result is stored too, whatever was in memory before."""
  a, b = floats(rows, 3), floats(rows, 3)
  x, y = Tensor(a).realize(), Tensor(b).realize()
  junk = Tensor.full((rows * 16,), 77.0).contiguous().realize()
  del junk
  got = (x.cumsum(1) + y).clip(-9, 3).pad(((0, 0), (0, 2)), value=1).numpy()
  np.testing.assert_allclose(got, np.pad(np.clip(np.cumsum(a, 1) + b, -9, 3), ((0, 0), (0, 2)), constant_values=1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("columns", [15, 18, 31, 47, 97, 299])
def test_gated_loads_on_odd_sizes(columns, floats):
  """A pad with a value, and a cat: what is chosen in place of a load, also in the wave that is not full."""
  a, b = floats(5, columns), floats(5, 2)
  x, y = Tensor(a).realize(), Tensor(b).realize()
  junk = Tensor.full((5 * 16 * columns,), 77.0).contiguous().realize()
  del junk
  np.testing.assert_array_equal(x[:, ::-1].pad(((0, 1), (2, 1)), value=3).numpy(),
                                np.pad(a[:, ::-1], ((0, 1), (2, 1)), constant_values=3))
  np.testing.assert_array_equal((x.cat(y, x, dim=1) + 1).numpy(), np.concatenate([a, b, a], 1) + np.float32(1))
  np.testing.assert_allclose(x.pad(((1, 0), (0, 3)), value=2).sum(0).numpy(),
                             np.pad(a.astype(np.float64), ((1, 0), (0, 3)), constant_values=2).sum(0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.float16, np.bool_])
@pytest.mark.parametrize("value", [0.5, -3.0, 1e9, float("inf"), 0.1, 255])
def test_padding_after_a_conversion(dtype, value):
  """What pads a converted tensor is no value of the dtype before the conversion."""
  a = (np.arange(23) % 5).astype(dtype)
  got = Tensor(a).realize().cast(dtypes.float32).pad(((2, 3),), value=value).numpy()
  want = np.pad(a.astype(np.float32), (2, 3), constant_values=np.float32(value))
  np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.uint32])
@pytest.mark.parametrize("value", [-1, -128, 300])
def test_padding_with_what_wraps(dtype, value):
  """A number beyond its dtype stands for what it wraps to, also where floats are loaded that could hold it."""
  a = (np.arange(23) % 5).astype(np.float32)
  got = Tensor(a).realize().cast(Tensor(np.zeros(1, dtype)).dtype).pad(((2, 3),), value=value).numpy()
  np.testing.assert_array_equal(got, np.pad(a.astype(dtype), (2, 3), constant_values=np.array(value).astype(dtype)))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.float16, np.bool_])
@pytest.mark.parametrize("n", [37, 221])
def test_choices_between_converted_and_computed(dtype, n):
  a, b = (np.arange(n) % 5).astype(dtype), np.linspace(-2, 2, n + 5, dtype=np.float32)
  inside = (np.arange(n + 5) >= 2) & (np.arange(n + 5) < n + 2)
  x = Tensor(a).realize().cast(dtypes.float32)
  got = Tensor(inside).realize().where(x.pad(((2, 3),)), Tensor(b).realize()).numpy()
  np.testing.assert_array_equal(got, np.where(inside, np.pad(a.astype(np.float32), (2, 3)), b))
  i = Tensor.arange(n + 5)
  np.testing.assert_array_equal(((i >= 2) & (i < n + 2)).where(x.pad(((2, 3),)), Tensor(b).realize()).numpy(), got)
  assert x.max().item() == a.max() and x.min().item() == a.min() and x.sum().item() == a.sum(dtype=np.float64)
