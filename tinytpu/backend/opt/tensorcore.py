"""The matrix unit as tinygrad `TensorCore`s.

One wave holds S x S work items (S = sublanes = lanes), work item S*m + n owning C[m][n]. Every work item holds E packed elements
of A and of B along K = E * S, laid out as the matrix step of the format wants them:

- floats, E = 2: element e of work item S*i + j is A[i][S*e + j] and B[S*e + i][j]. So register e of an operand is one S x S tile,
  and a WMMA is two matrix steps, over k = 0..S-1 and then k = S..2S-1. (With one element per work item tinygrad's expander fails on
  matmuls whose M and N are not upcast.)
- int8, E = 4: element e is A[i][4*j + e] and B[4*i + e][j]. The elements of a work item are the bytes of one word, and a WMMA is one step.
"""
from __future__ import annotations

from tinygrad.codegen.opt.tc import TensorCore
from tinygrad.dtype import DType, dtypes

from ...config import Config
from ..types import BYTES, MATRIX_FLOATS


def tensor_core(config: Config, dtype_in: DType, dtype_out: DType) -> TensorCore:
  """The tensor core of a config's matrix unit for a pair of dtypes."""
  n = config.sublanes.bit_length() - 1  # bits of a tile's side
  elements, packed = (2, False) if dtype_in in MATRIX_FLOATS else (BYTES, True)
  e = elements.bit_length() - 1
  # Bits of k, from the lowest on: which of them number the tile's column of A (row of B), and which the packed element.
  column, element = (range(e, e + n), range(e)) if packed else (range(n), range(n, n + e))
  k_tile, k_element = tuple(f"r{i}" for i in column), tuple(f"r{i}" for i in element)
  l_n, l_m = tuple(f"l{i}" for i in range(n)), tuple(f"l{i}" for i in range(n, 2 * n))
  return TensorCore(dims=(config.lanes, config.sublanes, elements * config.sublanes), threads=config.width,
                    elements_per_thread=(elements, elements, 1), dtype_in=dtype_in, dtype_out=dtype_out, opts=("l0",) * n + ("l1",) * n,
                    swizzle=((k_tile + l_m, (), l_n + k_element), (l_n + k_tile, (), l_m + k_element)))


def tensor_cores(config: Config) -> list[TensorCore]:
  """Tensor cores that any matching kernel may use, whoever asks for them: those that take the same products as the kernel without them,
  or better ones (products of 16-bit floats are not rounded)."""
  return [tensor_core(config, dtype, dtypes.float32) for dtype in MATRIX_FLOATS]


def byte_core(config: Config) -> TensorCore:
  """The tensor core for int8. tinygrad would use it for products that are meant to wrap, so it is lent to kernels one by one."""
  return tensor_core(config, dtypes.int8, dtypes.int32)


def steps(tc: TensorCore) -> int:
  """Matrix steps of a WMMA."""
  return 2 if tc.dtype_in in MATRIX_FLOATS else 1
