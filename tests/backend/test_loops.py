"""Kernels written by hand: loops whose passes depend on memory or on the work item, and arrays with computed indices."""
from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor, dtypes
from tinygrad.dtype import AddrSpace
from tinygrad.engine import realize
from tinygrad.renderer import Estimates
from tinygrad.uop.ops import AxisType, KernelInfo, UOp

from tinytpu.backend.errors import UnsupportedError

SIZES = (1, 5, 16, 21, 40)
"""Work items in a group: one, part of a wave, a wave, waves and part of one."""


@pytest.fixture(autouse=True)
def no_estimates(monkeypatch):
  """tinygrad's statistics count operations by evaluating loops' passes on the host, which fails when they come from memory."""
  monkeypatch.setattr(realize, "estimate_uop", lambda call: Estimates())


def run(kernel, out: np.ndarray, *inputs: np.ndarray) -> np.ndarray:
  tensors = [Tensor(x).realize() for x in (out, *inputs)]
  return Tensor.custom_kernel(*tensors, fxn=kernel)[0].numpy()


def info(name: str) -> KernelInfo:
  return KernelInfo(name=name, opts_to_apply=())


def accumulator(start, *after: UOp, size: int = 1) -> UOp:
  reg = UOp.placeholder((size,), dtypes.int, 0, addrspace=AddrSpace.REG)
  reg = reg.after(*after)
  for i in range(size):
    reg = reg.after(reg[i].store(start))
  return reg


@pytest.mark.parametrize("size", SIZES)
def test_passes_from_memory(size, rng):
  """out[i] = a[0] + ... + a[n[i] - 1], for each work item another n."""
  def kernel(out: UOp, n: UOp, a: UOp) -> UOp:
    i = UOp.range(size, 0, AxisType.LOCAL)
    acc = accumulator(0, i)
    r = UOp.range(n[i].load(), 1, AxisType.REDUCE)
    acc = acc.after(acc[0].store(acc.after(r)[0].load() + a[r].load()).end(r))
    return out[i].store(acc[0].load()).end(i).sink(arg=info("prefix"))
  n = rng.integers(-2, 30, size).astype(np.int32)
  a = rng.integers(-99, 99, 30).astype(np.int32)
  got = run(kernel, np.full(size, -1, np.int32), n, a)
  np.testing.assert_array_equal(got, [a[:max(0, k)].sum() for k in n])


@pytest.mark.parametrize("size", SIZES)
def test_loads_of_finished_work_items_are_not_made(size, rng):
  """Each row ends where memory does: another pass would leave the buffer, and a store beyond would spoil the next row."""
  rows = rng.integers(0, 7, size).astype(np.int32)
  starts = np.concatenate([[0], np.cumsum(rows)[:-1]]).astype(np.int32)
  data = rng.integers(-99, 99, rows.sum() + 1).astype(np.int32)

  def kernel(out: UOp, n: UOp, start: UOp, a: UOp) -> UOp:
    i = UOp.range(size, 0, AxisType.LOCAL)
    r = UOp.range(n[i].load(), 1, AxisType.LOOP)
    at = start[i].load() + r.cast(dtypes.int)
    return out[at].store(a[at].load() * 2).end(r).end(i).sink(arg=info("rows"))
  got = run(kernel, np.zeros_like(data), rows, starts, data)
  np.testing.assert_array_equal(got[:-1], 2 * data[:-1])
  assert got[-1] == 0


def collatz(n: int) -> int:
  steps = 0
  while n > 1:
    n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
  return steps


@pytest.mark.parametrize("size", SIZES)
def test_until_a_condition_of_the_work_item(size):
  """Steps of the Collatz sequence: a loop without a count, left by each work item at its own time."""
  def kernel(out: UOp, a: UOp) -> UOp:
    i = UOp.range(size, 0, AxisType.LOCAL)
    x = UOp.placeholder((1,), dtypes.int, 0, addrspace=AddrSpace.REG).after(i)
    steps = UOp.placeholder((1,), dtypes.int, 1, addrspace=AddrSpace.REG).after(i)
    x = x.after(x[0].store(a[i].load()))
    steps = steps.after(steps[0].store(0))
    loop = UOp.loop(1)
    now, count = x.after(loop)[0].load(), steps.after(loop)[0].load()
    going = now > 1
    following = going.where((now % 2).eq(0).where(now // 2, now * 3 + 1), now)
    both = UOp.group(x[0].store(following), steps[0].store(count + going.cast(dtypes.int)))
    steps = steps.after(both.end(loop, following > 1))
    return out[i].store(steps[0].load()).end(i).sink(arg=info("collatz"))
  a = np.arange(1, size + 1, dtype=np.int32)
  np.testing.assert_array_equal(run(kernel, np.zeros(size, np.int32), a), [collatz(int(n)) for n in a])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("bins", [3, 8])
def test_arrays_with_computed_indices(size, bins, rng):
  """A histogram of its own row for each work item, counted in an array in registers, as far as the program can tell."""
  columns = 12

  def kernel(out: UOp, a: UOp) -> UOp:
    i = UOp.range(size, 0, AxisType.LOCAL)
    counts = accumulator(0, i, size=bins)
    c = UOp.range(columns, 1, AxisType.REDUCE)
    bin_ = a[i * columns + c].load()
    counts = counts.after(counts[bin_].store(counts.after(c)[bin_].load() + 1).end(c))
    b = UOp.range(bins, 2, AxisType.LOOP)
    return out[i * bins + b].store(counts[b].load()).end(b).end(i).sink(arg=info("histogram"))
  a = rng.integers(0, bins, (size, columns)).astype(np.int32)
  got = run(kernel, np.zeros(size * bins, np.int32), a.reshape(-1))
  np.testing.assert_array_equal(got.reshape(size, bins), [np.bincount(row, minlength=bins) for row in a])


def test_arrays_beyond_vmem_are_refused():
  def kernel(out: UOp, a: UOp) -> UOp:
    i = UOp.range(16, 0, AxisType.LOCAL)
    counts = UOp.placeholder((1 << 13,), dtypes.int, 0, addrspace=AddrSpace.REG)
    counts = counts.after(counts[a[i].load()].store(1))
    return out[i].store(counts[a[i].load()].load()).end(i).sink(arg=info("huge"))
  with pytest.raises(UnsupportedError, match="BUFFER of .*kernel huge: arrays of 8192 elements for each of 16 work items need 524288"):
    run(kernel, np.zeros(16, np.int32), np.arange(16, dtype=np.int32))
