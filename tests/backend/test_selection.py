"""Equal values compare equal, whatever they are fused with; the larger and smaller of floats, by choice and by reduction."""
from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor

NAN, INF = np.float32("nan"), np.float32("inf")
SPECIAL = np.array([NAN, -INF, INF, -0.0, 0.0, 1.0, -1.0, 1e-45, -1e-45, 3.4e38], np.float32)


def same(got: np.ndarray, expected: np.ndarray) -> None:
  """Equal to the bit, but for NaNs, of which there is one."""
  assert np.array_equal(np.isnan(got), np.isnan(expected))
  assert np.array_equal(got[~np.isnan(got)].view(np.uint32), expected[~np.isnan(expected)].view(np.uint32))


@pytest.fixture
def pairs() -> tuple[np.ndarray, np.ndarray]:
  a, b = (x.ravel().copy() for x in np.meshgrid(SPECIAL, SPECIAL))
  return a, b


def test_maximum_of_floats(pairs):
  a, b = pairs
  x, y = Tensor(a).realize(), Tensor(b).realize()
  same(x.maximum(y).numpy(), np.where(a < b, b, a))
  same(x.minimum(y).numpy(), np.where(b < a, b, a))
  same((x > y).where(x, y).numpy(), np.where(a > b, a, b))
  same((x < y).where(x, y).numpy(), np.where(a < b, a, b))
  same(x.relu().numpy(), np.where(a > 0, a, np.float32(0)))
  same(x.abs().numpy(), np.where(a < 0, -a, a))


@pytest.mark.parametrize("c", [0.0, 0.5, -2.0])
def test_selections_with_a_constant(c):
  x, k = Tensor(SPECIAL).realize(), np.float32(c)
  same((x > c).where(x, c).numpy(), np.where(SPECIAL > k, SPECIAL, k))
  same((x < c).where(x, c).numpy(), np.where(SPECIAL < k, SPECIAL, k))
  same((x < c).where(c, x).numpy(), np.where(SPECIAL < k, k, SPECIAL))
  same((x >= 0).where(x, c).numpy(), np.where(~(SPECIAL < 0), SPECIAL, k))  # tinygrad's >= is "not less"


@pytest.mark.parametrize("shape", [(2,), (7,), (8,), (3, 40), (2, 1000)], ids=str)
@pytest.mark.parametrize("place", [0, -1])
def test_the_largest_is_not_a_number_if_one_is(shape, place, floats):
  a = floats(*shape)
  a[..., place] = NAN
  for t, expected in ((Tensor(a), a), (Tensor(a) * 2, a)):
    assert np.isnan(t.realize().max(-1).numpy()).all() and np.isnan(t.min(-1).numpy()).all()
    assert np.isnan(t.max().item()) and expected is a
  rest = a[..., 1:] if place == 0 else a[..., :-1]
  assert np.array_equal((Tensor(rest.copy()).realize().max(-1)).numpy(), rest.max(-1))


# -- quotients ------------------------------------------------------------------------------------------
def test_the_largest_probabilities(floats):
  x = np.array([[0.189053386, -0.52274847, -0.413063556, -2.441467285]], np.float32)
  assert Tensor(x).realize().softmax(-1).topk(2)[1].tolist() == [[0, 2]]
  a = floats(40, 9)
  assert np.array_equal(Tensor(a).realize().softmax(-1).argmax(-1).numpy(), a.argmax(-1))


def test_the_largest_of_normalised_rows(floats):
  a = floats(90, 7)
  assert (Tensor(a).realize().layernorm().argmax(-1).numpy() == a.argmax(-1)).all()
  t = Tensor(a).realize()
  assert np.array_equal((t / t.abs().sum(-1, keepdim=True)).argmax(-1).numpy(), a.argmax(-1))


def test_sorting_probabilities(floats):
  a = floats(30, 8)
  values, order = Tensor(a).realize().softmax(-1).sort(-1, descending=True)
  assert np.array_equal(order.numpy(), np.argsort(-a, -1, kind="stable")) and (np.diff(values.numpy(), axis=-1) <= 0).all()


def test_a_quotient_of_equals_is_one():
  x = np.arange(1, 200, dtype=np.float32)
  t, s = Tensor(x).realize(), Tensor(x.copy()).realize()
  assert np.array_equal((t / s).clip(0, 9).floor().numpy(), np.ones(199, np.float32))
  assert np.array_equal((t / s.max()).numpy(), x / x.max()) and np.array_equal(((t + 1) / s.max()).numpy(), (x + 1) / x.max())


def test_a_quotient_is_the_same_in_every_kernel(floats):
  a, b = floats(64), floats(64)
  x, y = Tensor(a).realize(), Tensor(b).realize()
  alone, together = (x / y).realize(), ((x / y) + (x * 2 / y) + (y / 3)).realize()
  same(alone.numpy(), a / b)
  same(together.numpy(), a / b + a * np.float32(2) / b + b * np.float32(1 / 3))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(8, 8), (13, 7), (5, 9), (16, 16), (4, 33)])
def test_the_largest_of_gated_values_keeps_its_nan(shape, dtype):
  """One condition may gate several of them (lanes beyond an axis, rows of a triangle): tinygrad takes the choices out of the steps."""
  for at in np.ndindex(shape):
    if at[0] >= at[1] and sum(at) % 3 == 0:
      a = np.full(shape, 1.5, dtype)
      a[at] = np.nan
      for compute in (lambda t: t.tril().max(), lambda t: t.tril().max(0), lambda t: t.pad((1, 2)).max(1), lambda t: (-t).tril().min()):
        assert np.isnan(compute(Tensor(a).realize()).numpy()).any(), at
