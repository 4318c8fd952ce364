"""The eleven kernels of an earlier 4x4 machine, as tinygrad programs on int32 data: cycles side by side.

Warm: each program runs twice and the second launch counts, so its code is in the instruction buffer. Operands lie in device
memory (the earlier machine's lay in its scratchpad). Elements: outputs or inputs of a map or sum, M*K*N of a product.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table


class Kernel(NamedTuple):
  """name; shapes of its int32 operands; the tinygrad program; numpy's; elements; cycles on the earlier machine."""
  name: str
  shapes: tuple[tuple[int, ...], ...]
  program: Callable
  reference: Callable
  elements: int
  earlier: int


def _gemm(m: int, k: int, n: int, earlier: int) -> Kernel:
  return Kernel(f"gemm_{m}x{k}x{n}", ((m, k), (k, n)), lambda a, b: a @ b, lambda a, b: a @ b, m * k * n, earlier)


SUITE = (
  Kernel("add_16", ((16,), (16,)), lambda a, b: a + b, lambda a, b: a + b, 16, 33),
  Kernel("add_256", ((256,), (256,)), lambda a, b: a + b, lambda a, b: a + b, 256, 423),
  Kernel("relu_64", ((64,),), lambda a: a.relu(), lambda a: np.maximum(a, 0), 64, 83),
  Kernel("reshape_64", ((8, 8),), lambda a: a.reshape(4, 16).clone(), lambda a: a.reshape(4, 16), 64, 63),
  Kernel("sum_16_scalar", ((16,),), lambda a: a.sum(), lambda a: a.sum(), 16, 26),
  Kernel("sum_256_scalar", ((256,),), lambda a: a.sum(), lambda a: a.sum(), 256, 281),
  Kernel("rowsum_8x8", ((8, 8),), lambda a: a.sum(axis=1), lambda a: a.sum(axis=1), 64, 79),
  Kernel("colsum_8x8", ((8, 8),), lambda a: a.sum(axis=0), lambda a: a.sum(axis=0), 64, 79),
  _gemm(1, 4, 4, 37), _gemm(4, 4, 4, 121), _gemm(4, 8, 4, 227))


def cycles(kernel: Kernel) -> int:
  """Cycles of the kernel's second run on the default device, with operands and result in VMEM, as on the earlier machine.

  Raises:
    RuntimeError: the device's answer is not numpy's, or nothing ran on it.
  """
  from tinygrad import Tensor

  from tinytpu.backend.runtime.stats import SPILL, stats
  rng = np.random.default_rng(0)
  arrays = [rng.integers(-100, 100, shape, dtype=np.int32) for shape in kernel.shapes]
  operands = [Tensor(a).realize() for a in arrays]
  for _ in range(2):
    stats.reset()
    result = kernel.program(*operands).numpy()
  if not np.array_equal(result, kernel.reference(*arrays)):
    raise RuntimeError(f"{kernel.name}: the device's answer differs from numpy's")
  if not stats.launches:
    raise RuntimeError(f"{kernel.name}: nothing ran on the device")
  return sum(run.cycles for run in stats.runs if run.kernel != SPILL)


def run(console: Console) -> dict[str, object]:
  """Measure, print a table, return the numbers."""
  table = Table(title="Eleven kernels, int32, warm, in VMEM", title_justify="left")
  for column in ("kernel", "elements", "cycles", "earlier machine", "elements/cycle", "speed-up"):
    table.add_column(column, justify="left" if column == "kernel" else "right")
  measured = {kernel.name: cycles(kernel) for kernel in SUITE}
  for k in SUITE:
    c = measured[k.name]
    table.add_row(k.name, f"{k.elements:,}", f"{c:,}", f"{k.earlier:,}", f"{k.elements / c:.2f}", f"{k.earlier / c:.2f}x")

  def mean(of: dict[str, int]) -> float:
    return math.exp(sum(math.log(k.elements / of[k.name]) for k in SUITE) / len(SUITE))
  ours, earlier = mean(measured), mean({k.name: k.earlier for k in SUITE})
  table.add_section()
  table.add_row("geometric mean", "", "", f"{earlier:.3f}", f"{ours:.3f}", f"{ours / earlier:.2f}x")
  console.print(table)
  return {"cycles": measured, "geomean_elements_per_cycle": round(ours, 4)}
