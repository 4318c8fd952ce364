"""`python -m bench [--config PRESET] [suite|gemm|speed ...]`: run benchmarks (default: all), print them, append them to
bench/history.jsonl. Only speed takes another preset than 4x4. `python -m bench plot [--out FILE]` draws that history as one page."""
from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from tinytpu.config import Config, preset

from . import history


def main(names: list[str], config: Config) -> None:
  """Run the benchmarks called `names`; `config` is the machine whose speed is measured."""
  os.environ.setdefault("DEV", "TINYTPU")  # before tinygrad is imported
  console = Console()
  from . import gemm, speed, suite
  benchmarks: dict[str, Callable[[], dict[str, object]]] = {
    "suite": lambda: suite.run(console), "gemm": lambda: gemm.run(console), "speed": lambda: speed.run(config, console)}
  if unknown := [n for n in names if n not in benchmarks]:
    sys.exit(f"no benchmark {unknown[0]!r}; there are: {', '.join(benchmarks)}")
  for name in names or benchmarks:
    history.append(name, benchmarks[name]())


if __name__ == "__main__":
  parser = argparse.ArgumentParser(prog="python -m bench")
  parser.add_argument("--config", default="4x4", help="preset, perhaps with changes: 4x4,vector_lanes=8")
  parser.add_argument("names", nargs="*", help="benchmarks; or plot")
  parser.add_argument("--out", type=Path, default=Path("history.html"), help="file of the plot (default: %(default)s)")
  arguments = parser.parse_args()
  if arguments.names == ["plot"]:
    from . import plot
    try:
      plot.run(arguments.out)
    except ImportError:
      sys.exit("drawing takes plotly: pip install 'tinytpu[bench]'")
    except (OSError, ValueError) as e:
      sys.exit(f"python -m bench plot: {e}")
    print(f"wrote {arguments.out}")
    sys.exit()
  main(arguments.names, preset(arguments.config))
