"""The programs of a dozen typical kernels, kept as text in `golden/`: a change of the compiler shows in them, and is read.

`python -m tests.backend.golden` writes them anew. Each file holds the TASM of an expression's kernels, each with the cycles
of its first launch.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tinygrad import Tensor, dtypes

from tinytpu.asm.program import Program

FOLDER = Path(__file__).parent / "golden"


def _f(*shape: int) -> Tensor:
  return Tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32)).realize()


def _i(*shape: int) -> Tensor:
  return Tensor(np.random.default_rng(0).integers(-99, 99, shape).astype(np.int32)).realize()


def _bytes(*shape: int) -> Tensor:
  return _i(*shape).cast(dtypes.int8).realize()


EXPRESSIONS: dict[str, Callable[[], Tensor]] = {
  "add": lambda: _f(256) + _f(256),
  "relu_odd": lambda: _f(7, 11).relu(),
  "sum": lambda: _f(256).sum(),
  "row_max": lambda: _f(8, 24).max(axis=1),
  "softmax": lambda: _f(4, 32).softmax(),
  "matmul": lambda: _f(16, 32) @ _f(32, 16),
  "matmul_epilogue": lambda: (_f(16, 16) @ _f(16, 16) + _f(16)).relu(),
  "matmul_int8": lambda: _bytes(16, 16).cast(dtypes.int32) @ _bytes(16, 16).cast(dtypes.int32),
  "conv": lambda: _f(1, 4, 8, 8).conv2d(_f(4, 4, 3, 3)),
  "embedding": lambda: _f(32, 8)[_i(10).abs() % 32],
  "divide_int": lambda: _i(64) // 7,
  "pad_value": lambda: _f(5, 5).pad(((1, 2), (0, 3)), value=1.0),
  "to_bfloat16": lambda: _f(64).cast(dtypes.bfloat16),
  "random": lambda: Tensor.rand(32)}


def programs(name: str) -> str:
  """TASM and cycles of the kernels of an expression, in order of their launches; inputs are there before."""
  from tinytpu.backend import device
  texts: list[str] = []
  noted = device.launched

  def noting(program: Program, cycles: int, counters: dict[str, int]) -> None:
    texts.append(f"# {cycles} cycles\n{program.source}")
  device.launched = noting
  try:
    Tensor.manual_seed(0)
    expression = EXPRESSIONS[name]()
    texts.clear()
    expression.realize()
  finally:
    device.launched = noted
  return "\n".join(texts)


def main(folder: Path) -> None:
  """Write all of them."""
  folder.mkdir(exist_ok=True)
  for name in EXPRESSIONS:
    (folder / f"{name}.tasm").write_text(programs(name))


if __name__ == "__main__":
  import tinytpu.boot  # noqa: F401
  main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
