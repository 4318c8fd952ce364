"""Loads that only serve another load's address: padded axes make their indices pass a buffer's end."""
from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor, dtypes
from tinygrad.uop.ops import AxisType, KernelInfo, Ops, ParamArg, UOp

from tinytpu.backend.intervals import Intervals
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


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16], ids=lambda d: d.__name__)
@pytest.mark.parametrize("change", [lambda i: i + 10, lambda i: i * 2, lambda i: i + i], ids=["+ 10", "* 2", "doubled"])
def test_indices_wrap_in_their_own_dtype(dtype, change):
  """Before they are addresses. (Negative ones count from the end of an axis as long as the dtype has values.)"""
  table, i = np.arange(1 << 16, dtype=np.int32), np.array([250, 3, 127, 200], np.int64).astype(dtype)
  expected = table[change(i).astype(np.int64) % (1 << 16)]
  assert np.array_equal(Tensor(table).realize()[change(Tensor(i).realize()).cast(dtypes.int32)].numpy(), expected)
  if dtype is np.uint8:
    short = np.arange(300, dtype=np.int32)
    assert np.array_equal(Tensor(short).realize()[change(Tensor(i).realize())].numpy(), short[change(i)])


@pytest.mark.parametrize("index", [np.int8, np.uint8, np.int16, np.uint16], ids=lambda d: d.__name__)
@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8, np.float16], ids=lambda d: d.__name__)
def test_narrow_indices_of_all_sizes_of_elements(dtype, index, rng):
  """The words of 64-bit elements are at twice the index, which is not to wrap in its dtype."""
  size = min(np.iinfo(index).max + 1, 40000)
  table, i = np.arange(size).astype(dtype), np.append(rng.permutation(size)[:50], size - 1).astype(index)
  assert np.array_equal(Tensor(table).realize()[Tensor(i).realize()].numpy(), table[i])
  target, expected = Tensor(np.zeros(size, dtype)).realize(), np.zeros(size, dtype)
  i = np.unique(i)
  target[Tensor(i).realize()] = Tensor(table[:len(i)]).realize()
  expected[i] = table[:len(i)]
  assert np.array_equal(target.numpy(), expected)


def test_what_is_stored_to_wraps_too():
  def scatter(out: UOp, at: UOp) -> UOp:
    i = UOp.range(4, 0)
    return out.index((at[i] + 10).cast(dtypes.weakint)).store((i + 1).cast(dtypes.int32)).end(i).sink(arg=KernelInfo(name="scatter"))
  at = np.array([250, 1, 2, 3], np.uint8)
  out = Tensor.zeros(300, dtype=dtypes.int32).contiguous().realize()
  got = Tensor.custom_kernel(out, Tensor(at).realize(), fxn=scatter)[0].numpy()
  assert np.flatnonzero(got).tolist() == [4, 11, 12, 13]


def test_slabs_hold_what_a_converted_index_reaches():
  rows = np.arange(400 * 256, dtype=np.int32).reshape(400, 256)
  at = np.arange(256, dtype=np.int32)
  column = (Tensor(at).realize() & 255).cast(dtypes.int8).cast(dtypes.int32) + 128  # 0 to 255, whatever tinygrad takes it to be
  assert np.array_equal(Tensor(rows).realize()[:, column].numpy(), rows[:, (at & 255).astype(np.int8).astype(np.int32) + 128])


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


def loaded(dtype) -> UOp:
  """A value that nothing is known of."""
  return UOp(Ops.PARAM, dtype, (UOp.const(1, dtypes.int32),), ParamArg(0, dtype)).index(UOp.const(0, dtypes.int32)).load()


def other_sign(a: np.ndarray) -> np.ndarray:
  return a.astype(np.int8 if a.dtype == np.uint8 else np.uint8)


NARROW = [
  ("x + 10", lambda x: x + 10, lambda a: a + 10),
  ("x - 100", lambda x: x - 100, lambda a: a - 100),
  ("x * 3", lambda x: x * 3, lambda a: a * 3),
  ("-x", lambda x: -x, lambda a: -a),
  ("(x & 15) * 5", lambda x: (x & 15) * 5, lambda a: (a & 15) * 5),
  ("x >> 3", lambda x: x.alu(Ops.SHR, x.const_like(3)), lambda a: a >> 3),
  ("x << 3", lambda x: x.alu(Ops.SHL, x.const_like(3)), lambda a: a << 3),
  ("x / 7", lambda x: x.alu(Ops.CDIV, x.const_like(7)), lambda a: np.trunc(a.astype(float) / 7).astype(a.dtype)),
  ("x rem 7", lambda x: x.alu(Ops.CMOD, x.const_like(7)), lambda a: np.fmod(a, 7)),
  ("x max 5", lambda x: x.maximum(5), lambda a: np.maximum(a, 5)),
  ("x < 9 ? x : 9", lambda x: (x < 9).where(x, 9), lambda a: np.minimum(a, 9)),
  ("other sign", lambda x: x.cast(dtypes.int8 if x.dtype == dtypes.uint8 else dtypes.uint8), other_sign),
  ("other sign, the same bits", lambda x: x.bitcast(dtypes.int8 if x.dtype == dtypes.uint8 else dtypes.uint8), other_sign),
  ("wider", lambda x: x.cast(dtypes.int32) + 1000, lambda a: a.astype(np.int32) + 1000),
  ("wider after it wraps", lambda x: (x + 10).cast(dtypes.int32) - 10, lambda a: (a + a.dtype.type(10)).astype(np.int32) - 10)]


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8], ids=str)
@pytest.mark.parametrize("build, mean", [(b, m) for _, b, m in NARROW], ids=[name for name, *_ in NARROW])
def test_intervals_hold_all_8_bit_values(dtype, build, mean):
  kind = np.int8 if dtype == dtypes.int8 else np.uint8
  operands = np.arange(256, dtype=np.uint8).view(kind)
  with np.errstate(over="ignore"):
    values = mean(operands)
  low, high = Intervals().of(build(loaded(dtype)))
  assert low <= int(values.min()) and int(values.max()) <= high
