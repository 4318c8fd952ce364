"""Random matrix products: format, sizes, layouts, batches and what is fused around them all by seed, with numpy's answer.
As a module: `python -m tests.backend.products FIRST END` checks a range of seeds on the default device."""
from __future__ import annotations

import sys

import numpy as np
from tinygrad import Tensor, dtypes
from tinygrad.dtype import DType
from tinygrad.helpers import Context

FORMATS: tuple[DType, ...] = (dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.int8)
LONGEST = 40
"""Bound on M, K and N."""


def operand(rng: np.random.Generator, dtype: DType, batch: int, rows: int, columns: int) -> tuple[Tensor, np.ndarray]:
  """A batch of matrices on the device and in float64, lying row by row or column by column; values exact in every format, and so small
  that every order of summing them gives the same float32."""
  values = rng.integers(-128, 128, (batch, rows, columns)) if dtype == dtypes.int8 else rng.integers(-8, 9, (batch, rows, columns))
  turned = rng.random() < 0.4
  x = Tensor(np.ascontiguousarray(values.transpose(0, 2, 1) if turned else values).astype(np.int32)).cast(dtype).realize()
  return x.transpose(1, 2) if turned else x, values.astype(np.float64)


def check(seed: int) -> None:
  """Compute the product of a seed, and compare it with numpy's, exactly.

  Raises:
    AssertionError: they differ; names the seed and the product.
  """
  rng = np.random.default_rng(seed)
  dtype = FORMATS[seed % len(FORMATS)]
  whole = dtype == dtypes.int8
  batch = int(rng.choice([1, 1, 1, 2, 3]))
  m, k, n = (int(s) for s in np.where(rng.random(3) < 0.2, rng.integers(1, 5, 3), rng.integers(1, LONGEST + 1, 3)))
  k = 4 * -(-k // 4) if rng.random() < 0.5 else k
  (x, a), (y, b) = operand(rng, dtype, batch, m, k), operand(rng, dtype, batch, k, n)
  prologue, epilogue = int(rng.integers(4)), int(rng.integers(4))
  if prologue == 1:
    x, a = x.relu(), np.maximum(a, 0)
  elif prologue == 2 and not whole:
    y, b = y * 2 + 1, b * 2 + 1
  elif prologue == 3 and m == n:
    y, b = x.transpose(1, 2), a.transpose(0, 2, 1)
  with Context(NOOPT=int(rng.random() < 0.1)):
    out = x.cast(dtypes.int32) @ y.cast(dtypes.int32) if whole else x.matmul(y, dtype=dtypes.float32)
    want = a @ b
    if epilogue == 1:
      bias = rng.integers(-100, 100, n)
      out, want = (out + Tensor(bias.astype(np.int32)).cast(out.dtype)).relu(), np.maximum(want + bias, 0)
    elif epilogue == 2:
      out, want = (out * 3).transpose(1, 2), (want * 3).transpose(0, 2, 1)
    elif epilogue == 3:
      out, want = out.pad(((0, 0), (1, 0), (0, 2)), value=7), np.pad(want, ((0, 0), (1, 0), (0, 2)), constant_values=7)
    got = out.numpy()
  name = f"seed {seed}: {batch} x {m} x {k} x {n} of {dtype}, prologue {prologue}, epilogue {epilogue}"
  np.testing.assert_array_equal(got.astype(np.float64), want, err_msg=name)


def main(first: int, end: int) -> None:
  """Check seeds, and print launches, cycles, matrix steps and host fallbacks."""
  import tinytpu.boot  # noqa: F401
  from tinytpu.backend.runtime import stats
  for seed in range(first, end):
    check(seed)
  done = stats.stats
  print(f"{done.launches} launches, {done.cycles} cycles, {done.counters['mxu_steps']} steps, {stats.host_fallbacks} on the host")


if __name__ == "__main__":
  main(*map(int, sys.argv[1:]))
