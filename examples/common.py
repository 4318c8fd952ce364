"""What the examples share: options, the report of a run, its curve, and an end in one sentence for what cannot be used."""
from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tinygrad import Tensor

from tinytpu.backend.runtime.stats import stats

WARM = 2
"""Steps before the measured ones: TinyJit runs the first as it is and captures the second, so that both compile."""


class InputError(Exception):
  """Something that was given cannot be used; the message says what and why, in one sentence."""


def options(text: str | None, steps: int, rate: float, batch: int = 64) -> argparse.ArgumentParser:
  """The options that all training scripts have. text: what the script does; steps, rate, batch: defaults; a rate of 0 stands for the
  optimizer's usual one."""
  parser = argparse.ArgumentParser(description=(text or "").split("\n")[0])
  parser.add_argument("--steps", type=_steps, default=steps, help="of the optimizer (default: %(default)s)")
  parser.add_argument("--rate", type=_positive, default=rate, help=f"learning rate at the start (default: {rate or 'as is usual'})")
  parser.add_argument("--batch", type=count, default=batch, help="examples of a step (default: %(default)s)")
  reporting(parser)
  parser.add_argument("--plot", type=target, metavar="FILE.svg", help="draw the curve into this file")
  return parser


def reporting(parser: argparse.ArgumentParser) -> None:
  """Add the options of scripts that print and keep numbers."""
  parser.add_argument("--seed", type=_seed, default=1, help="of all random numbers (default: %(default)s)")
  parser.add_argument("--json", type=target, metavar="FILE", help="write the numbers to this file")


def count(text: str) -> int:
  """A number from 1 on, for argparse."""
  if (number := int(text)) < 1:
    raise argparse.ArgumentTypeError(f"{number}: must be at least 1")
  return number


def target(text: str) -> Path:
  """A file to write, for argparse: its folder is looked for at once, and not after training."""
  if not (path := Path(text)).parent.is_dir() or path.is_dir():
    raise argparse.ArgumentTypeError(f"{text}: is a folder" if path.is_dir() else f"{text}: there is no folder {path.parent}")
  return path


def _seed(text: str) -> int:
  if not 0 <= (number := int(text)) < 2**32:
    raise argparse.ArgumentTypeError(f"{number}: must be from 0 to 2^32 - 1")
  return number


def _steps(text: str) -> int:
  if (number := int(text)) <= WARM:
    raise argparse.ArgumentTypeError(f"{number} steps: at least {WARM + 1} are needed, since {WARM} compile")
  return number


def _positive(text: str) -> float:
  if not 0 < (number := float(text)) < float("inf"):
    raise argparse.ArgumentTypeError(f"{text}: must be above 0")
  return number


def run(main: Callable[[], int | None]) -> None:
  """Run a script's main and end with its exit code: 2 and one sentence if an input cannot be used."""
  try:
    sys.exit(main())
  except (InputError, OSError, MemoryError) as error:
    print(f"{Path(sys.argv[0]).stem}: {error}", file=sys.stderr)
    sys.exit(2)


class Report:
  """Collects and prints what a training run does: for each step its loss and simulated cycles, now and then a score.

  Attributes:
    losses: of each step. cycles: of each step on TINYTPU, the reading of its loss included; 0 on other devices. scores: (steps done,
    score) of each evaluation.
  """

  def __init__(self, arguments: argparse.Namespace, score: str = "", every: int = 50):
    self.arguments, self.score, self.every = arguments, score, every
    if arguments.plot:
      from .curve import need_matplotlib
      need_matplotlib()
    self.losses: list[float] = []
    self.cycles: list[int] = []
    self.scores: list[tuple[int, float]] = []
    self._begun, self._seen = time.perf_counter(), stats.cycles
    print(f"seed {arguments.seed}, {arguments.steps} steps on {Tensor.empty(1).device}", flush=True)

  def step(self, loss: float) -> None:
    """Note the step that has just been made."""
    self.losses.append(loss)
    self.cycles.append(stats.cycles - self._seen)
    if len(self.losses) % self.every == 0:
      print(f"step {len(self.losses):5}  loss {self.losses[-1]:.4f}  cycles {self.cycles[-1]:,}", flush=True)
    self.skip()

  def skip(self) -> None:
    """Leave what was done since the last step out of the next step's cycles."""
    self._seen = stats.cycles

  def evaluated(self, score: float) -> None:
    """Note a score. What it took is no part of the next step's cycles."""
    self.scores.append((len(self.losses), score))
    print(f"step {len(self.losses):5}  {self.score} {score:.2%}", flush=True)
    self.skip()

  def finish(self, goal: float | None = None, lines: Mapping[str, Sequence[float]] | None = None, **more: Any) -> int:
    """Print the sums, write the files asked for.

    Args:
      goal: least score at the end. lines: losses to draw instead of `losses`, by name. more: numbers of the script's own.

    Returns:
      exit code: 1 if the goal is missed.
    """
    measured = self.cycles[WARM:]
    results = {"seed": self.arguments.seed, "steps": len(self.losses), "loss": round(self.losses[-1], 5),
               "cycles_a_step": int(statistics.median(measured)), "least_cycles": min(measured), "most_cycles": max(measured),
               "seconds": round(time.perf_counter() - self._begun, 1), **more}
    print(f"loss {results['loss']}, {results['seconds']} s")
    if results["cycles_a_step"]:
      print(f"cycles a step: {results['cycles_a_step']:,} ({min(measured):,} to {max(measured):,}) after {WARM} that compile")
    if self.scores:
      results["score"] = round(self.scores[-1][1], 4)
      print(f"{self.score}: {self.scores[-1][1]:.2%}" + (f", goal {goal:.0%}" if goal else ""))
    if self.arguments.json:
      self.arguments.json.write_text(json.dumps(results) + "\n")
    if self.arguments.plot:
      from .curve import draw
      draw(self.arguments.plot, lines or {"loss": self.losses}, (self.score, self.scores) if self.scores else None)
    return int(goal is not None and self.scores[-1][1] < goal)
