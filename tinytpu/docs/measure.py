"""Cycles of small kernels on a machine, for tables and charts: `DEV=TINYTPU::8x8 python -m tinytpu.docs.measure product:64` prints them."""
from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np


def _product(n: int) -> Callable[[], Any]:
  a, b = (_tensor(n, n) for _ in range(2))
  return lambda: a @ b


def _add(n: int) -> Callable[[], Any]:
  x, y = (_tensor(n) for _ in range(2))
  return lambda: x + y


def _softmax(n: int) -> Callable[[], Any]:
  x = _tensor(n, n)
  return lambda: x.softmax()


def _layers(n: int) -> Callable[[], Any]:
  x, weights = _tensor(n, n), [_tensor(n, n) for _ in range(3)]

  def run() -> Any:
    y = x
    for weight in weights:
      y = (y @ weight).relu().contiguous()
    return y
  return run


def _convolution(n: int) -> Callable[[], Any]:
  x, weight = _tensor(1, 8, n, n), _tensor(8, 8, 3, 3)
  return lambda: x.conv2d(weight, padding=1)


def _tensor(*shape: int) -> Any:
  from tinygrad import Tensor
  return Tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32)).realize()


KERNELS: dict[str, tuple[str, Callable[[int], Callable[[], Any]]]] = {
  "add": ("two vectors of {n} floats added", _add),
  "product": ("a product of two matrices of {n} x {n}", _product),
  "softmax": ("a softmax of {n} rows of {n}", _softmax),
  "layers": ("three layers of {n} x {n} with ReLU, for {n} samples", _layers),
  "convolution": ("a convolution, 3 x 3, 8 to 8 channels of {n} x {n}", _convolution),
}
"""What is measured: what it is, and a function that makes the input and gives what computes a tensor from it."""


def what(name: str) -> str:
  """The words for `KERNEL:SIZE`."""
  kernel, n = name.split(":")
  return KERNELS[kernel][0].format(n=n)


class Cycles(NamedTuple):
  """Of a kernel. first: its input lies in device memory, and so does its code. again: it ran just before. lines: of
  HBM that it moved then."""
  first: int
  again: int
  lines: int


@cache
def cycles(machine: str, *names: str) -> dict[str, Cycles]:
  """Cycles of `KERNEL:SIZE`s on a machine, in a process of its own.

  Raises:
    RuntimeError: it failed; has what the process wrote to standard error.
  """
  from .pages import environment
  done = subprocess.run([sys.executable, "-m", __name__, *names], env=environment() | {"DEV": f"TINYTPU::{machine}"}, capture_output=True,
                        text=True, check=False)
  if done.returncode:
    raise RuntimeError(done.stderr)
  return {name: Cycles(*took) for name, took in json.loads(done.stdout).items()}


def main(names: Sequence[str]) -> None:
  """Measure on tinygrad's default device, and print JSON: by name the fields of `Cycles`."""
  from ..backend.runtime.stats import stats
  found = {}
  for name in names:
    kernel, n = name.split(":")
    run, took = KERNELS[kernel][1](int(n)), []
    for _ in range(2):
      stats.reset()
      run().realize()
      took.append(stats.cycles)
    found[name] = [*took, stats.counters["hbm_lines"] + stats.counters["dma_lines"]]
  print(json.dumps(found))


if __name__ == "__main__":
  main(sys.argv[1:])
