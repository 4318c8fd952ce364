"""The examples' training runs, to the end: `python -m bench.training [NAME ...]`. About 20 minutes for all on two cores.

Each run prints its progress, draws its curve into docs/training/, and must meet the goal that it states; the numbers go to
bench/history.jsonl.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .history import append

ROOT = Path(__file__).parents[1]
CURVES = ROOT / "docs" / "training"
RUNS = {  # module and options
  "digits_adam": ("digits", "--optimizer", "adam"),
  "digits_sgd": ("digits", "--optimizer", "sgd"),
  "sorting": ("sorting",),
  "gan": ("gan",),
  "mixed_precision": ("mixed_precision",),
  "accumulation": ("accumulation",),
  "resume": ("resume",)}


def measure(name: str) -> dict[str, Any] | None:
  """Run one to the end and append its numbers to the history; returns them, or None if it failed or missed its goal."""
  module, *options = RUNS[name]
  with tempfile.TemporaryDirectory() as folder:
    numbers = Path(folder) / "numbers.json"
    command = [sys.executable, "-m", f"examples.{module}", *options, "--plot", str(CURVES / f"{name}.svg"), "--json", str(numbers)]
    print(f"== {name}: python {' '.join(command[1:3 + len(options)])}", flush=True)
    done = subprocess.run(command, cwd=ROOT, env={"DEV": "TINYTPU", **os.environ}, check=False)
    if done.returncode:
      return None
    found = json.loads(numbers.read_text())
  append("training", {"training": {name: found}})
  return found


def main() -> int:
  """Run those asked for and print a table. 1 if one failed or missed its goal."""
  parser = argparse.ArgumentParser(prog="python -m bench.training", description=(__doc__ or "").split("\n")[0])
  parser.add_argument("names", nargs="*", help=f"of {', '.join(RUNS)} (default: all)")
  names = parser.parse_args().names or list(RUNS)
  if unknown := [name for name in names if name not in RUNS]:
    parser.error(f"no run {unknown[0]!r}; there are: {', '.join(RUNS)}")
  CURVES.mkdir(exist_ok=True)
  found = {name: measure(name) for name in names}
  table = Table(title="Training on the simulator", title_justify="left")
  for column in ("run", "seed", "steps", "loss", "score", "cycles a step", "seconds"):
    table.add_column(column, justify="left" if column == "run" else "right")
  for name, n in found.items():
    if n is None:
      table.add_row(name, "failed, or missed its goal")
      continue
    score = f"{n['score']:.2%}" if "score" in n else ""
    table.add_row(name, str(n["seed"]), str(n["steps"]), f"{n['loss']:.4f}", score, f"{n['cycles_a_step']:,}", f"{n['seconds']:.0f}")
  Console().print(table)
  return int(None in found.values())


if __name__ == "__main__":
  sys.exit(main())
