"""The matrix unit as tinygrad `TensorCore`s.

One wave holds S x S work items (S = sublanes = lanes), work item S*m + n owning C[m][n]. K is 2 S: every work item holds
two packed elements of A and of B, element e of work item S*i + j being A[i][S*e + j] and B[S*e + i][j]. So register e of
an operand is one S x S tile, and a WMMA is two matrix steps, over k = 0..S-1 and then k = S..2S-1. (With one element
per work item tinygrad's expander fails on matmuls whose M and N are not upcast.)
"""
from __future__ import annotations

from tinygrad.codegen.opt.tc import TensorCore
from tinygrad.dtype import DType, dtypes

from ..config import Config


def tensor_core(config: Config, dtype_in: DType, dtype_out: DType) -> TensorCore:
  """The tensor core of a config's matrix unit for a pair of dtypes."""
  n = config.sublanes.bit_length() - 1  # bits of a tile's side
  k_low = tuple(f"r{i}" for i in range(n))
  l_n, l_m = tuple(f"l{i}" for i in range(n)), tuple(f"l{i}" for i in range(n, 2 * n))
  step = (f"r{n}",)  # the packed element: the topmost bit of k
  return TensorCore(dims=(config.lanes, config.sublanes, 2 * config.sublanes), threads=config.width, elements_per_thread=(2, 2, 1),
                    dtype_in=dtype_in, dtype_out=dtype_out, opts=("l0",) * n + ("l1",) * n,
                    swizzle=((k_low + l_m, (), l_n + step), (l_n + k_low, (), l_m + step)))


def tensor_cores(config: Config) -> list[TensorCore]:
  """Tensor cores that any matching kernel may use, whoever asks for them."""
  return [tensor_core(config, dtypes.float32, dtypes.float32)]
