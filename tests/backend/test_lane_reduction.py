"""Reductions across lanes: every shape of the lanes, what does not divide evenly, the identities, and what the optimiser chooses."""
from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor, codegen, dtypes
from tinygrad.helpers import Context
from tinygrad.uop.ops import Ops

from tinytpu.backend.opt import lane_reduction
from tinytpu.backend.runtime.stats import stats

LANES = [(16, False), (4, False), (4, True), (2, False), (8, False), (8, True), (32, False), (64, False)]


@pytest.fixture
def spread(monkeypatch):
  """Compute something with its reductions spread over so many lanes, whatever the optimiser would choose; columns: outputs lie in the
  row of the tile, the lanes of a reduction in a column."""
  def run(lanes: int, columns: bool, compute) -> np.ndarray:
    planned = []

    def plan(k, config):
      axes = tuple(u.src[1] for u in k.ast.toposort() if u.op is Ops.REDUCE)
      planned.append(axes)
      return lane_reduction.Spread(lanes, columns, axes, 0) if axes else None
    monkeypatch.setattr(lane_reduction, "choose_lanes", plan)
    codegen.to_program_cache.clear()
    with Context(PARALLEL=0):
      result = compute().numpy()
    codegen.to_program_cache.clear()
    assert any(planned)
    return result
  return run


@pytest.mark.parametrize("lanes, columns", LANES)
@pytest.mark.parametrize("shape", [(1, 3), (5, 17), (3, 257), (12, 64)], ids=str)
def test_shapes_of_lanes(lanes, columns, shape, floats, rng, spread):
  a, n = floats(*shape), rng.integers(-(1 << 31), 1 << 31, shape).astype(np.int32)
  x, y = Tensor(a).realize(), Tensor(n).realize()
  np.testing.assert_allclose(spread(lanes, columns, lambda: x.sum(1)), a.astype(np.float64).sum(1), rtol=1e-5, atol=1e-5)
  np.testing.assert_array_equal(spread(lanes, columns, lambda: x.max(1)), a.max(1))
  np.testing.assert_array_equal(spread(lanes, columns, lambda: y.sum(1)), n.sum(1, dtype=np.int32))
  np.testing.assert_array_equal(spread(lanes, columns, lambda: y.min()), n.min())


@pytest.mark.parametrize("lanes, columns", LANES)
def test_two_axes_and_a_reduction_that_needs_another(lanes, columns, floats, spread):
  a = floats(3, 4, 7, 5)
  x = Tensor(a).realize()
  np.testing.assert_allclose(spread(lanes, columns, lambda: x.sum((0, 2))), a.astype(np.float64).sum((0, 2)), rtol=1e-5, atol=1e-5)
  b = floats(203)
  y = Tensor(b).realize()
  assert spread(lanes, columns, lambda: y.argmax()) == b.argmax()
  e = np.exp((b - b.max()).astype(np.float64))
  np.testing.assert_allclose(spread(lanes, columns, lambda: y.softmax().min()), (e / e.sum()).min(), rtol=1e-5)
  np.testing.assert_allclose(spread(lanes, columns, lambda: y.var()), b.astype(np.float64).var(ddof=1), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.bool_])
def test_every_integer(dtype, rng):
  print("seed 7")
  for n in (1, 2, 5, 16, 40, 100):
    a = rng.integers(0, 2, (2, n)).astype(dtype) if dtype is np.bool_ else rng.integers(
      np.iinfo(dtype).min, np.iinfo(dtype).max, (2, n), dtype, endpoint=True)
    for axis in (None, 0, 1):
      np.testing.assert_array_equal(Tensor(a).max(axis).numpy(), a.max(axis))
      np.testing.assert_array_equal(Tensor(a).min(axis).numpy(), a.min(axis))
      wide = np.uint32 if dtype in (np.uint8, np.uint16, np.uint32) else np.int32
      np.testing.assert_array_equal(Tensor(a).sum(axis).numpy(), a.sum(axis, dtype=wide))
      np.testing.assert_array_equal(Tensor(a).any(axis).numpy(), a.any(axis))
      np.testing.assert_array_equal(Tensor(a).all(axis).numpy(), a.all(axis))
    if dtype in (np.int32, np.uint32):
      np.testing.assert_array_equal(Tensor(a).prod(1).numpy(), a.prod(1, dtype=dtype))


@pytest.mark.parametrize("dtype", ["half", "bfloat16"])
def test_largest_of_sixteen_bit_floats(dtype, floats):
  a = Tensor(floats(3, 100)).cast(dtype).realize()
  np.testing.assert_array_equal(a.max(1).float().numpy(), a.float().numpy().max(1))
  np.testing.assert_array_equal(a.min().float().numpy(), a.float().numpy().min())


def test_random_shapes_and_special_values(rng):
  print("seed 7")
  for _ in range(40):
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 5, 7, 16, 17, 33, 70], rng.integers(1, 4)))
    a = (rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 6, shape)).astype(np.float32)
    a[rng.random(shape) < 0.02 * rng.integers(0, 2)] = rng.choice([np.inf, -np.inf, np.nan, 0.0, -0.0])
    axis = tuple(i for i in range(len(shape)) if rng.integers(2)) or None
    with np.errstate(invalid="ignore"):
      exact, scale = a.astype(np.float64).sum(axis), np.abs(a.astype(np.float64)).sum(axis)
      got = Tensor(a).sum(axis).numpy()
      finite = np.isfinite(exact)
      assert np.all(np.abs(got - exact)[finite] <= 1e-5 * scale[finite]) and np.array_equal(got[~finite], exact[~finite], equal_nan=True)
      np.testing.assert_array_equal(Tensor(a).max(axis).numpy(), a.max(axis))


@pytest.mark.parametrize("compute, most", [
  (lambda: Tensor.ones(4096).contiguous().sum(), 900), (lambda: Tensor.ones(64, 64).contiguous().max(1), 1400),
  (lambda: Tensor.ones(200).contiguous().argmax(), 1200)], ids=["sum", "rows", "argmax"])
def test_chosen_by_the_optimiser(compute, most):
  stats.reset()
  compute().realize()
  run = stats.runs[-1]
  assert run.counters["slot_X"] > 0 and run.cycles < most


@pytest.mark.parametrize("rows", [33, 520, 600, 1000])
def test_reductions_within_one_whose_rest_is_done_apart(rows, rng):
  """The loops within are needed in the loop over a lane's elements and behind it: 600 rows are 16 lanes of 37, and 8."""
  a = rng.integers(-3, 3, (rows, 2, 2)).astype(np.float32)
  x = Tensor(a).realize()
  assert (x.argmax(2) == 0).all(1).cast(dtypes.int32).sum().item() == (a.argmax(2) == 0).all(1).sum()
  assert (x.argmax(2).sum(1) > 0).cast(dtypes.int32).sum().item() == (a.argmax(2).sum(1) > 0).sum()
