"""Generation by the examples' models: `python -m bench.generation`.

Tokens must be those of tinygrad's CPU device (which needs clang), and no program may be made after the first two tokens. Cycles a token
go to bench/history.jsonl.
"""
from __future__ import annotations

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
MODELS = ("gpt2", "llama")


def generate(model: str, device: str) -> dict[str, Any]:
  """Numbers of `python -m examples.generate` on a device."""
  with tempfile.TemporaryDirectory() as folder:
    numbers = Path(folder) / "numbers.json"
    command = [sys.executable, "-m", "examples.generate", "--model", model, "--count", "40", "--json", str(numbers)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "DEV": device}, check=True, stdout=subprocess.DEVNULL)
    return json.loads(numbers.read_text())


def main() -> int:
  """Measure, compare, print, append to the history. 1 if tokens differ or programs were made on the way."""
  table = Table(title="Greedy generation, 40 tokens after 3", title_justify="left")
  for column in ("model", "cycles a token", "programs", "made later", "tokens as on CPU"):
    table.add_column(column, justify="left" if column == "model" else "right")
  found, right = {}, True
  for model in MODELS:
    ours, theirs = generate(model, os.environ.get("DEV", "TINYTPU")), generate(model, "CPU")
    same = sum(a == b for a, b in zip(ours["tokens"], theirs["tokens"], strict=True))
    right &= same == len(ours["tokens"]) and ours["programs_later"] == 0
    numbers = {key: ours[key] for key in ("seed", "cycles_a_token", "programs", "programs_later")}
    table.add_row(model, *(f"{numbers[key]:,}" for key in list(numbers)[1:]), f"{same} of {len(ours['tokens'])}")
    found[model] = numbers
  Console().print(table)
  append("generation", {"generation": found})
  return int(not right)


if __name__ == "__main__":
  sys.exit(main())
