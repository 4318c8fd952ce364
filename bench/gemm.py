"""Square matrix products of every format, as tinygrad programs: cycles, and the share of the matrix unit's peak.

Warm, operands in device memory. Peak: the multiplications of a matrix step in the cycles after which the next may follow; float32 and
16-bit floats S^3 in S cycles, int8 four times as many. So an int8 product at half of its peak is twice as fast as a float32 one at all
of its own.
"""
from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table

SIZES = (64, 256)
FORMATS = ("float32", "bfloat16", "float16", "int8")
PRODUCTS = {"float32": 1, "bfloat16": 1, "float16": 1, "int8": 4}
"""Multiplications of an element of the array in a cycle."""


def measure(name: str, size: int, transposed: bool) -> dict[str, float]:
  """Cycles and utilisation of a product of two size x size matrices, the second lying transposed in memory if `transposed`.

  Raises:
    RuntimeError: the device's answer is not numpy's.
  """
  from tinygrad import Device, Tensor, dtypes

  from tinytpu.backend.runtime.stats import stats
  rng = np.random.default_rng(0)
  dtype = getattr(dtypes, name)
  a, b = (rng.integers(-100, 100, (size, size)) for _ in range(2))  # exact in every format
  x, y = (Tensor(v.astype(np.int32)).cast(dtype).realize() for v in (a, b.T if transposed else b))
  y = y.T if transposed else y
  for _ in range(2):
    stats.reset()
    result = (x.cast(dtypes.int32) @ y.cast(dtypes.int32) if name == "int8" else x.matmul(y, dtype="float32")).realize()
    cycles = stats.cycles
  if not np.allclose(result.numpy(), a @ b, rtol=1e-6):
    raise RuntimeError(f"{name} {size}: the device's answer differs from numpy's")
  side = Device["TINYTPU"].config.lanes  # type: ignore[attr-defined]
  return {"cycles": cycles, "mxu": round(size ** 3 / (PRODUCTS[name] * side * side) / cycles, 4)}


def run(console: Console) -> dict[str, object]:
  """Measure, print a table, return the numbers."""
  table = Table(title="Matrix products, A B and A B^T of row-major operands, warm", title_justify="left")
  for column in ("format", "size", "A B cycles", "of peak", "A B^T cycles", "of peak"):
    table.add_column(column, justify="left" if column == "format" else "right")
  results = {}
  for name in FORMATS:
    for size in SIZES:
      both = measure(name, size, False), measure(name, size, True)
      table.add_row(name, f"{size}^3", *(text for m in both for text in (f"{m['cycles']:,}", f"{m['mxu']:.0%}")))
      results[f"{name}_{size}"], results[f"{name}_{size}_t"] = both
  console.print(table)
  return {"gemm": results}
