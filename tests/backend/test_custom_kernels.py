"""Kernels that users write in UOps, and programs of tinygrad's that are not as they should be."""
from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor, dtypes
from tinygrad.helpers import Context
from tinygrad.uop.ops import KernelInfo, UOp


def test_a_kernel_that_stores_nothing():
  a = Tensor.ones(4).contiguous().realize()
  assert Tensor.custom_kernel(a, fxn=lambda _: UOp.sink(arg=KernelInfo()))[0].tolist() == [1.0] * 4


def test_an_index_that_is_loaded(floats):
  def pick(out: UOp, x: UOp, index: UOp) -> UOp:
    i = UOp.range(4, 0)
    return out[i].store(x[i, index[i].cast(dtypes.weakint)]).end(i).sink(arg=KernelInfo(name="pick"))
  x, at = floats(4, 5), np.array([1, 4, 0, 2], np.int32)
  got = Tensor.custom_kernel(Tensor.empty(4), Tensor(x).realize(), Tensor(at).realize(), fxn=pick)[0].numpy()
  assert np.array_equal(got, x[np.arange(4), at])


@pytest.mark.parametrize("n", [8, 12])
@pytest.mark.parametrize("heads", [1, 2])
def test_fused_attention(n, heads, floats):
  q, k, v = floats(1, heads, n, n), floats(1, heads, n, n), floats(1, heads, n, n)
  with Context(PCONTIG=2):
    got = Tensor(q).realize().scaled_dot_product_attention(Tensor(k).realize(), Tensor(v).realize()).numpy()
  scores = q.astype(np.float64) @ k.transpose(0, 1, 3, 2) / np.sqrt(n)
  weights = np.exp(scores - scores.max(-1, keepdims=True))
  np.testing.assert_allclose(got, weights / weights.sum(-1, keepdims=True) @ v, atol=2e-6)


def test_a_buffer_larger_than_device_memory():
  with pytest.raises(MemoryError, match=r"takes a buffer of 8,589,934,592 bytes, device memory holds .*raise Config.hbm_bytes"):
    (Tensor.ones(1 << 31).contiguous() + 1).realize()


@pytest.mark.parametrize("name", ["TINYTPU::8x8", "TINYTPU:x"])
def test_names_of_no_device(name):
  with pytest.raises(RuntimeError, match="the machine is chosen for the whole process"):
    Tensor([1.0], device=name).realize()
