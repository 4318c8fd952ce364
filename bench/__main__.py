"""`python -m bench [suite|gemm|speed ...]`: run benchmarks (default: all), print them, append them to bench/history.jsonl."""
from __future__ import annotations

import os
import sys
from collections.abc import Callable

from rich.console import Console

from tinytpu.config import preset

from . import history


def main(names: list[str]) -> None:
  """Run the benchmarks called `names`."""
  os.environ.setdefault("DEV", "TINYTPU")  # before tinygrad is imported
  console = Console()
  from . import gemm, speed, suite
  benchmarks: dict[str, Callable[[], dict[str, object]]] = {
    "suite": lambda: suite.run(console), "gemm": lambda: gemm.run(console), "speed": lambda: speed.run(preset("4x4"), console)}
  if unknown := [n for n in names if n not in benchmarks]:
    sys.exit(f"no benchmark {unknown[0]!r}; there are: {', '.join(benchmarks)}")
  for name in names or benchmarks:
    history.append(name, benchmarks[name]())


if __name__ == "__main__":
  main(sys.argv[1:])
