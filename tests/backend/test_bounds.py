"""Loads that only serve another load's address: padded axes make their indices pass a buffer's end."""
from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor, dtypes
from tinygrad.uop.ops import AxisType, Ops, UOp

from tinytpu.backend.lower.bounds import within
from tinytpu.backend.lower.uniformity import Lanes
from tinytpu.config import preset


def test_a_table_looked_up_at_columns_of_a_matrix(rng, floats):
  t, table = rng.integers(0, 128, (13, 32)).astype(np.int32), floats(128)
  assert np.array_equal(Tensor(table).realize()[Tensor(t).realize()[:, 1:3]].numpy(), table[t[:, 1:3]])


def test_cross_entropy_of_a_column(rng, floats):
  y, x = rng.integers(0, 10, (21, 33)).astype(np.int32), floats(21, 10)
  loss = Tensor(x).realize().sparse_categorical_crossentropy(Tensor(y).realize()[:, 0]).item()
  wide = x.astype(np.float64)
  expected = -(wide - np.log(np.exp(wide).sum(1, keepdims=True)))[np.arange(21), y[:, 0]].mean()
  assert loss == pytest.approx(expected, rel=1e-5)


def test_embeddings_summed(rng, floats):
  ids, table = rng.integers(0, 50, (17, 33)).astype(np.int32), floats(50, 8)
  np.testing.assert_allclose(Tensor(table).realize()[Tensor(ids).realize()].sum(1).numpy(), table[ids].sum(1), rtol=1e-4, atol=1e-5)


def test_two_indices(rng, floats):
  source = floats(5, 6, 7)
  i, j = (rng.integers(0, n, 3000).astype(np.int32) for n in (6, 7))
  assert np.array_equal(Tensor(source).realize()[:, Tensor(i).realize(), Tensor(j).realize()].numpy(), source[:, i, j])


# -- what is known of an index --------------------------------------------------------------------------
LANES = Lanes(preset("4x4"), [16])


def lane() -> UOp:
  return UOp(Ops.SPECIAL, dtypes.int32, (UOp.const(16, dtypes.int32),), "lidx0")


def ranged(n: int) -> UOp:
  return UOp.range(n, 0, AxisType.REDUCE, dtype=dtypes.int32)


@pytest.mark.parametrize("index, gate, elements, inside", [
  (lambda: lane(), None, 16, True), (lambda: lane(), None, 15, False),
  (lambda: lane(), lambda: lane() < 15, 15, True),
  (lambda: lane() + ranged(3) * 16, None, 48, True), (lambda: lane() + ranged(3) * 16, None, 47, False),
  (lambda: lane() + ranged(3) * 16, lambda: lane() < 15, 47, True),
  (lambda: ranged(4) * 16, lambda: ranged(4) < 3, 33, True), (lambda: ranged(4) * 16, lambda: ranged(4) < 3, 32, False),
  (lambda: lane() - 1, None, 16, False), (lambda: lane() - 1, lambda: UOp.const(0, dtypes.int32) < lane(), 16, True),
  (lambda: ranged(4) + 5, lambda: (ranged(4) < 3) & (lane() < 3), 8, True),
], ids=lambda x: x if isinstance(x, (int, bool)) else "")
def test_within(index, gate, elements, inside):
  assert within(LANES, index(), gate and gate(), elements) == inside
