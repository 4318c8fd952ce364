"""What a pass of a kernel's loops holds: right whatever is chosen, and enough to fill the pipeline."""
from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor, codegen
from tinygrad.helpers import Context
from tinygrad.uop.ops import AxisType

from tinytpu.backend.opt import unroll
from tinytpu.backend.runtime.stats import stats


def test_random_reductions_in_a_lane(rng):
  """Over the first axis, whose neighbours lie far apart, at times in windows that share elements."""
  print("seed 7")
  for _ in range(30):
    rows, columns, window = (int(n) for n in rng.integers((2, 1, 1), (70, 90, 9)))
    n = rng.integers(-(1 << 31), 1 << 31, (rows, columns)).astype(np.int32)
    a = rng.standard_normal((rows, columns)).astype(np.float32)
    x, y = Tensor(n).realize(), Tensor(a).realize()
    np.testing.assert_array_equal(x.sum(0).numpy(), n.sum(0, dtype=np.int32), f"{rows} x {columns}")
    np.testing.assert_array_equal(y.max(0).numpy(), a.max(0), f"{rows} x {columns}")
    exact, scale = a.astype(np.float64).sum(0), np.abs(a.astype(np.float64)).sum(0)
    assert np.all(np.abs(y.sum(0).numpy() - exact) <= 1e-6 * scale), (rows, columns)
    if window <= min(rows, columns):
      views = np.lib.stride_tricks.sliding_window_view(a, (window, window))
      pooled = y.reshape(1, 1, rows, columns).max_pool2d((window, window), stride=1)
      np.testing.assert_array_equal(pooled.numpy()[0, 0], views.max((2, 3)), f"{window} x {window} of {rows} x {columns}")


@pytest.mark.parametrize("outputs, terms", [(16, 4), (1, 16), (1, 40), (1, 240), (8, 2), (2, 3), (8, 40)])
def test_any_amount_gives_the_same(outputs, terms, rng, monkeypatch):
  """Whatever would be chosen: so many outputs and terms of a sum over 240 rows."""
  asked = []

  def choices(k, *_):
    asked.append(k)
    up, along = (k.ranges_of(axis)[0] for axis in (AxisType.GLOBAL, AxisType.REDUCE))
    return [{**({up: outputs} if outputs > 1 else {}), along: terms}]
  monkeypatch.setattr(unroll, "_choices", choices)
  monkeypatch.setattr(unroll, "MAX_LOOPED", 1000)
  monkeypatch.setattr(unroll, "MAX_STRAIGHT_LOADS", 1000)
  n = rng.integers(-(1 << 31), 1 << 31, (240, 256)).astype(np.int32)
  codegen.to_program_cache.clear()
  with Context(PARALLEL=0):
    total = Tensor(n).realize().sum(0).numpy()
  codegen.to_program_cache.clear()
  assert asked
  np.testing.assert_array_equal(total, n.sum(0, dtype=np.int32))


@pytest.mark.parametrize("compute, most", [
  (lambda: Tensor.ones(256).contiguous().cumsum(), 10_000), (lambda: Tensor.ones(64, 1000).contiguous().sum(0), 12_500),
  (lambda: Tensor.ones(1, 8, 28, 28).contiguous().max_pool2d((3, 3), stride=1), 5600),
  (lambda: Tensor.ones(1, 8, 28, 28).contiguous().avg_pool2d((5, 5), stride=1), 8500),
  (lambda: (Tensor.ones(256).contiguous() + Tensor.ones(256).contiguous()), 130)], ids=["cumsum", "columns", "pool", "rows", "add"])
def test_enough_to_fill_the_pipeline(compute, most):
  stats.reset()
  compute().realize()
  assert stats.runs[-1].cycles < most
