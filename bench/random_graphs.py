"""Random graphs against a reference to the bit: `python -m bench.random_graphs [--n 1000] [--first 0] [--jobs 2] [--seconds S]`.

Seeds `first` to `first + n - 1` are drawn, run on the simulator with every access checked (`TINYTPU_CHECK=1`) and compared, see
`tests/backend/random_graphs`. A wrong one is cut down and printed as a script. How many were right goes to bench/history.jsonl.
"""
from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from multiprocessing import get_context
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from .history import append

CHUNK = 20
"""Seeds that a process does at a time."""
CHUNKS = 40
"""After so many, a new process takes over: what tinygrad caches in memory grows."""


class Result(NamedTuple):
  """Of one seed. kind, why: as `Verdict`. operations: names and dtypes of what was drawn. script: of a wrong one, its smallest program."""
  seed: int
  kind: str
  why: str
  operations: Counter[str]
  script: str = ""


def run(first: int, n: int = CHUNK) -> list[Result]:
  """Draw and compare seeds first to first + n - 1, in this process."""
  import tinytpu.boot  # noqa: F401  (what tinytpu_boot.pth does in an installed package)
  from tests.backend.random_graphs.run import draw, judge, script
  from tests.backend.random_graphs.shrink import smallest
  results = []
  for seed in range(first, first + n):
    graph = draw(seed)
    verdict = judge(graph)
    drawn = Counter(step.op for step in graph.steps) + Counter(f"dtype {step.dtype}" for step in graph.steps)
    drawn["TinyJit"] += bool(graph.calls)
    text = ""
    if verdict.kind == "wrong":
      text = script(smallest(graph, lambda g: judge(g).kind == "wrong"))
    results.append(Result(seed, verdict.kind, verdict.why, drawn, text))
  return results


def _settings() -> None:
  os.environ.update(DEV="TINYTPU", TINYTPU_CHECK="1", PARALLEL="0", CACHELEVEL="0")  # before tinygrad is imported


def main(arguments: argparse.Namespace) -> int:
  """Run, print, append to the history; returns the number of wrong graphs."""
  console = Console()
  kinds: Counter[str] = Counter()
  drawn: Counter[str] = Counter()
  whys: dict[str, list[Result]] = {}
  began = time.monotonic()
  chunks = range(arguments.first, arguments.first + arguments.n, CHUNK)
  with Progress(console=console) as bar, get_context("spawn").Pool(arguments.jobs, _settings, maxtasksperchild=CHUNKS) as pool:
    task = bar.add_task("graphs", total=arguments.n)
    for results in pool.imap_unordered(run, chunks):
      for r in results:
        kinds[r.kind] += 1
        drawn += r.operations
        if r.kind != "right":
          whys.setdefault(r.kind, []).append(r)
        if r.kind == "wrong":
          console.print(f"seed {r.seed}: {escape(r.why)}\n{escape(r.script)}", soft_wrap=True)
      bar.update(task, advance=len(results), description=f"graphs, {kinds['wrong']} wrong")
      if arguments.seconds and time.monotonic() - began > arguments.seconds:
        break
    pool.terminate()
  seconds, n = round(time.monotonic() - began, 1), kinds.total()
  console.print("drawn: " + ", ".join(f"{name} {count}" for name, count in drawn.most_common()), soft_wrap=True)
  for kind, text in (("refused", "refused"), ("tinygrad", "not as numpy has it, but as tinygrad's PYTHON device")):
    for r in whys.get(kind, []):
      console.print(f"{text}: seed {r.seed}: {escape(r.why)}", soft_wrap=True)
  console.print(f"{n} graphs, seeds from {arguments.first} on, {seconds} s: {dict(kinds)}")
  append("random_graphs", {"n": n, "first": arguments.first, **{kind: kinds[kind] for kind in ("wrong", "refused", "tinygrad")},
                           "seconds": seconds, "jobs": arguments.jobs})
  return kinds["wrong"]


if __name__ == "__main__":
  parser = argparse.ArgumentParser(prog="python -m bench.random_graphs", description=__doc__)
  parser.add_argument("--n", type=int, default=1000, help=f"graphs, rounded up to a multiple of {CHUNK}")
  parser.add_argument("--first", type=int, default=0, help="the first seed")
  parser.add_argument("--jobs", type=int, default=2, help="processes")
  parser.add_argument("--seconds", type=float, default=0, help="stop after so many; 0: never")
  sys.exit(1 if main(parser.parse_args()) else 0)
