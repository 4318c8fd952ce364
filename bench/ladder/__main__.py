"""`python -m bench.ladder [RUNG ...]`: run models that others have trained, each in a process of its own, and print what they say, their
errors, cycles and times. A run of all of them is appended to bench/history.jsonl, and its table put into docs/models.md."""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.status import Status
from rich.table import Table

from .. import history
from . import page
from .climb import Record
from .rungs import RUNGS

DEVICES = {"iss": "TINYTPU", "both": "BOTH+TINYTPU"}


class Failed(RuntimeError):
  """A rung ended in an error; the message has it."""


def climbed(name: str, engine: str, status: Status) -> Record:
  """Run a rung in a process of its own, so that none meets what another has compiled.

  Raises:
    Failed: it ended in an error.
  """
  started = time.perf_counter()
  process = subprocess.Popen([sys.executable, "-m", "bench.ladder.climb", name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env={**os.environ, "DEV": DEVICES[engine]})
  try:
    while True:
      status.update(f"{RUNGS[name].title} on {engine}: {time.perf_counter() - started:.0f} s")
      try:
        out, err = process.communicate(timeout=0.5)
        break
      except subprocess.TimeoutExpired:
        continue
  finally:
    if process.poll() is None:
      process.kill()
  if process.returncode:
    raise Failed(f"{RUNGS[name].title} on {engine}: {(err.strip().splitlines() or ['it said nothing'])[-1]}")
  return Record(**json.loads(out.splitlines()[-1]))


def show(console: Console, records: Sequence[Record]) -> None:
  """Print the table."""
  table = Table(title="models that others have trained, on 4x4", title_justify="left")
  for column in page.COLUMNS:
    table.add_column(column, justify="left" if column in page.TEXT else "right")
  for record in records:
    table.add_row(*page.cells(record), style="" if record.good else "bold red")
  console.print(table)


def main(arguments: Sequence[str] | None = None) -> int:
  """Run the rungs asked for; 1 if one failed, is outside its budget or wrong, or if the engines differ."""
  parser = argparse.ArgumentParser(prog="python -m bench.ladder", description=__doc__.split("\n")[0])
  parser.add_argument("rungs", nargs="*", metavar="RUNG", help=f"{', '.join(RUNGS)} (default: all)")
  parser.add_argument("--engine", choices=DEVICES, help="simulator, or it and the Verilated hardware, each launch compared "
                      "(default: both for " + ", ".join(name for name, rung in RUNGS.items() if rung.hardware) + ")")
  options = parser.parse_args(arguments)
  if unknown := [name for name in options.rungs if name not in RUNGS]:
    parser.error(f"no rung {unknown[0]!r}; there are: {', '.join(RUNGS)}")
  console = Console(width=None if sys.stdout.isatty() else 150)
  records, failures = list[Record](), list[str]()
  with console.status("") as status:
    for name in options.rungs or RUNGS:
      try:
        records.append(climbed(name, options.engine or ("both" if RUNGS[name].hardware else "iss"), status))
        console.print(f"{RUNGS[name].title}: {records[-1].answer}", highlight=False, markup=False)
      except Failed as error:
        failures.append(str(error))
  show(console, records)
  for line in failures:
    console.print(line, style="bold red", highlight=False, markup=False)
  good = not failures and all(record.good for record in records)
  if good and not options.rungs and not options.engine:
    history.append("models", {"models": {record.name: page.numbers(record) for record in records}})
    page.update()
  return int(not good)


if __name__ == "__main__":
  sys.exit(main())
