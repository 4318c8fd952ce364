"""`tinytpu demo`: run the workers, compare with numpy and between engines, and show it."""
from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..config import Config
from ..config import preset as by_name
from ..isa import timing
from . import digits
from .worker import Inference, decode

TOLERANCE = 1e-5
"""Largest logit difference to numpy's float64 answer that passes, relative to the largest logit."""


class DemoError(RuntimeError):
  """The demo could not run, or its results are not what they must be; the message says what."""


def main(kinds: tuple[str, ...] = ("iss",), preset: str = "4x4", count: int = digits.HELD_OUT, console: Console | None = None) -> None:
  """Classify `count` held-out digits on each of the engines `kinds` ("iss", "rtl"), print the report, check it.

  Raises:
    DemoError: a worker failed, a class differs from numpy's, logits are off, or the engines disagree.
  """
  console = console or Console()
  if not 1 <= count <= digits.HELD_OUT:
    raise DemoError(f"there are {digits.HELD_OUT} held-out digits: count must be 1 to {digits.HELD_OUT}, not {count}")
  _, held_out = digits.load()
  expected = digits.reference_logits(held_out.images[:count], digits.weights())
  config = by_name(preset)
  runs = _run(kinds, config, count, console)
  first = next(iter(runs.values()))
  _show_digits(console, held_out.images[:count], held_out.labels[:count], np.argmax(first.logits, axis=1))
  problems = []
  for kind, run in runs.items():
    problems += _report(console, config, kind, run, expected, held_out.labels[:count])
  if len(runs) > 1:
    problems += _compare(console, runs)
  if problems:
    raise DemoError("; ".join(problems))


# -- running ------------------------------------------------------------------------------------------
def _run(kinds: tuple[str, ...], config: Config, count: int, console: Console) -> dict[str, Inference]:
  if "rtl" in kinds:
    _build_rtl(config, console)
  prefix = {"iss": "TINYTPU", "rtl": "RTL+TINYTPU"}
  started = time.perf_counter()
  command = [sys.executable, "-m", f"{__package__}.worker", str(count)]
  workers = {kind: subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                    env={**os.environ, "DEV": f"{prefix[kind]}::{config.name}"}) for kind in kinds}
  runs = {}
  with console.status("") as status:
    for kind, worker in workers.items():
      while True:
        elapsed = time.perf_counter() - started
        status.update(f"{count} digits on {' and '.join(kinds)}: {elapsed:.0f} s (the first run compiles the simulator)")
        try:
          out, err = worker.communicate(timeout=0.5)
          break
        except subprocess.TimeoutExpired:
          continue
      if worker.returncode:
        raise DemoError(f"the worker on {kind} failed:\n{err.strip()}")
      runs[kind] = decode(out.splitlines()[-1])
  return runs


def _build_rtl(config: Config, console: Console) -> None:
  from ..machine import open_engine
  with console.status("building the RTL simulation") as status:
    open_engine(config, "rtl", progress=lambda line: status.update(Text(f"building the RTL simulation: {line}"))).close()


# -- checking and showing -----------------------------------------------------------------------------
def _report(console: Console, config: Config, kind: str, run: Inference, expected: np.ndarray, labels: np.ndarray) -> list[str]:
  logits = np.array(run.logits)
  predicted = logits.argmax(axis=1)
  difference = float(np.abs(logits - expected).max() / np.abs(expected).max())
  differing = int((predicted != expected.argmax(axis=1)).sum())
  steps, vector = run.total("mxu_steps"), run.total("slot_V")
  title = f"TinyTPU {config.name}, {'simulator (ISS)' if kind == 'iss' else 'Verilated hardware (RTL)'}"
  table = Table(title=title, show_header=False, title_justify="left")
  table.add_column(style="bold")
  table.add_column()
  right, numpys = np.mean(predicted == labels), np.mean(expected.argmax(axis=1) == labels)
  rows = {
    "accuracy": f"{right:.2%} of {len(labels)} held-out digits (numpy: {numpys:.2%})",
    "agreement with numpy": f"{len(labels) - differing} of {len(labels)} classes equal; largest relative logit difference {difference:.1e}",
    "cycles": f"{run.cycles:,} ({run.cycles / config.clock_hz * 1e6:,.0f} µs at {config.clock_hz / 1e9:g} GHz), "
              f"{run.cycles / len(labels):,.0f} a digit",
    "matrix unit": f"{steps * timing.interval(config, 'MM') / run.cycles:.1%} busy, {steps:,} matrix steps",
    "vector unit": f"{vector / run.cycles:.1%} busy, {vector:,} operations",
    "kernels": ", ".join(f"{k.name} ({k.cycles:,} cycles)" for k in run.kernels),
    "host fallbacks": str(run.fallbacks),
    "wall clock": f"{run.seconds:.1f} s with compilation, after {run.start_seconds:.1f} s of engine start",
  }
  for name, value in rows.items():
    table.add_row(name, Text(value))
  console.print(table)
  return [text for wrong, text in (
    (differing, f"{kind}: {differing} classes differ from numpy's"),
    (difference > TOLERANCE, f"{kind}: logits differ by {difference:.1e}, more than {TOLERANCE:.0e}"),
    (run.fallbacks, f"{kind}: {run.fallbacks} kernels were computed by the host"),
    (not steps, f"{kind}: the matrix products did not run on the matrix unit")) if wrong]


def _compare(console: Console, runs: dict[str, Inference]) -> list[str]:
  (one, a), (other, b) = runs.items()
  problems = []
  for what, left, right in (
      ("memory and registers", a.memory, b.memory),
      ("cycles of every kernel", [k.cycles for k in a.kernels], [k.cycles for k in b.kernels]),
      ("event counters", [k.counters for k in a.kernels], [k.counters for k in b.kernels])):
    same = left == right
    console.print(f"[bold]{one} and {other}[/]: {what} {'[green]identical[/]' if same else '[red]differ[/]'}")
    if not same:
      problems.append(f"{one} and {other} differ in {what}")
  return problems


def _show_digits(console: Console, images: np.ndarray, labels: np.ndarray, predicted: np.ndarray) -> None:
  """A row of digits as blocks, two pixels a character cell, each with its class below; a wrong one is shown first, in red."""
  shown = max(1, min(len(labels), (console.width + 2) // 10))
  order = np.argsort(predicted == labels, kind="stable")[:1].tolist()
  order += [i for i in range(len(labels)) if i not in order][:shown - len(order)]
  lines = [Text() for _ in range(5)]
  for i in order:
    grey = (images[i].reshape(8, 8) * 255).astype(int)
    for row in range(4):
      for upper, lower in zip(grey[2 * row], grey[2 * row + 1], strict=True):
        lines[row].append("▀" if console.color_system else " .:*#"[(upper + lower) * 4 // 510],
                          f"rgb({upper},{upper},{upper}) on rgb({lower},{lower},{lower})")
      lines[row].append("  ")
    right = predicted[i] == labels[i]
    lines[4].append(f"{predicted[i]}" if right else f"{predicted[i]}, is {labels[i]}", "bold green" if right else "bold red")
    lines[4].append(" " * (10 - len(f"{predicted[i]}" if right else f"{predicted[i]}, is {labels[i]}")))
  console.print(Text("\n").join(lines))
