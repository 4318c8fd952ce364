"""`python -m bench.prove [--jobs N] [--limit SECONDS] [--quick] [NAME ...]`: show the theorems of tinytpu/prove on the RTL.

NAME picks those whose names begin so. Prints a line for each as it ends and the table at the end; fails if one does not hold, runs out of
time, does not reach a cover, or lets a mutant live. All of them together write the table of docs/prove.md and a line of
bench/history.jsonl.
"""
from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from rich.console import Console

try:
  from tinytpu.prove.proof import Outcome, Theorem, prove
  from tinytpu.prove.theorems import THEOREMS
except ImportError as e:
  sys.exit(f"proofs take a solver: pip install 'tinytpu[prove]' ({e})")

from . import history

PAGE = Path(__file__).parents[1] / "docs" / "prove.md"
BEGIN, END = "<!-- made by `make prove` -->", "<!-- end -->"
SOLVER = "Bitwuzla"


def _prove(name: str, limit: float) -> Outcome:
  """In a process of its own: a mutant changes the RTL's functions."""
  return prove(next(theorem for theorem in THEOREMS if theorem.name == name), limit)


def row(theorem: Theorem, outcome: Outcome) -> list[str]:
  """A line of the table."""
  return [f"`{theorem.name}`", theorem.says, theorem.source, theorem.method, outcome.verdict, f"{outcome.seconds['proof']:.1f}",
          f"{outcome.covers[0]} of {outcome.covers[1]}", f"{outcome.killed[0]} of {outcome.killed[1]}"]


HEADER = ["theorem", "property", "stated in", "shown for", f"by {SOLVER}", "CPU s", "covers reached", "mutants refuted"]


def table(outcomes: dict[str, Outcome]) -> str:
  """All theorems with an outcome, as Markdown."""
  lines = [HEADER, ["---"] * len(HEADER), *(row(theorem, outcomes[theorem.name]) for theorem in THEOREMS if theorem.name in outcomes)]
  return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def run(theorems: list[Theorem], jobs: int, limit: float, console: Console) -> dict[str, Outcome]:
  """Outcomes by name; as many theorems at once as `jobs`."""
  outcomes: dict[str, Outcome] = {}
  with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
    waiting = {pool.submit(_prove, theorem.name, limit): theorem for theorem in theorems}
    for future in as_completed(waiting):
      theorem = waiting[future]
      outcome = outcomes[theorem.name] = future.result()
      seconds = ", ".join(f"{what} {n:.1f} s" for what, n in outcome.seconds.items())
      console.print(f"[{len(outcomes)}/{len(theorems)}] {theorem.name}: {outcome.verdict}; {seconds}", highlight=False, markup=False)
      for problem in outcome.problems:
        console.print(f"  {problem}", style="red", highlight=False, markup=False)
  return outcomes


def main() -> None:
  """The command."""
  parser = argparse.ArgumentParser(prog="python -m bench.prove", description=(__doc__ or "").split("\n\n")[1])
  parser.add_argument("names", nargs="*", metavar="NAME", help="beginnings of theorems' names (default: all)")
  parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="theorems at once (default: %(default)s)")
  parser.add_argument("--limit", type=float, default=900, help="seconds for each question to the solver (default: %(default)s)")
  parser.add_argument("--quick", action="store_true", help="only those of `make test`")
  arguments = parser.parse_args()
  console = Console()
  picked = tuple(arguments.names) or ("",)
  theorems = [theorem for theorem in THEOREMS if theorem.name.startswith(picked) and (theorem.quick or not arguments.quick)]
  if not theorems:
    sys.exit(f"no theorem's name begins so; there are: {', '.join(t.name for t in THEOREMS)}")
  start = time.monotonic()
  outcomes = run(theorems, arguments.jobs, arguments.limit, console)
  console.print(table(outcomes), highlight=False, markup=False, soft_wrap=True)
  failed = [name for name, outcome in outcomes.items() if outcome.problems]
  if len(theorems) == len(THEOREMS) and not failed:
    page = PAGE.read_text("utf-8")
    PAGE.write_text(re.sub(f"{BEGIN}.*?{END}", lambda _: f"{BEGIN}\n{table(outcomes)}{END}", page, flags=re.DOTALL), "utf-8")
    history.append("prove", {"theorems": len(outcomes), "mutants": sum(o.killed[1] for o in outcomes.values()),
                             "cpu_seconds": round(sum(sum(o.seconds.values()) for o in outcomes.values())),
                             "seconds": {name: round(o.seconds["proof"], 1) for name, o in outcomes.items()}})
  console.print(f"{len(outcomes) - len(failed)} of {len(outcomes)} theorems hold, {time.monotonic() - start:.0f} s", highlight=False)
  if failed:
    sys.exit(f"not so: {', '.join(failed)}")


if __name__ == "__main__":
  main()
