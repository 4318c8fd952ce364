"""Many random programs, one after another."""
from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ..config import Config
from ..machine import Engine, open_engine
from .case import Case, Difference, compare, execute
from .generate import generate
from .program import Tree
from .shrink import shrink


def run_fuzz(n: int, seed: int, config: Config, engines: Sequence[str] = ("iss", "rtl"), *,
             tell: Callable[[str], None] = print, opened: Sequence[Engine] | None = None) -> int:
  """Run the random programs `seed` to `seed + n - 1` and compare the engines; with one engine only, compare it with itself
  on a second run (nothing may depend on what ran before). The first program that differs is cut down and told.

  Args:
    engines: one or two kinds, as for `machine.open_engine`. tell: takes lines of text.
    opened: engines to use instead of opening new ones.

  Returns:
    Number of programs that failed: 0 or 1, as it stops there.

  Raises:
    ValueError: neither one nor two engines.
  """
  if len(engines) not in (1, 2):
    raise ValueError(f"one or two engines can be compared, not {len(engines)}")
  machines = list(opened) if opened is not None else [open_engine(config, kind, tell) for kind in engines]
  pair = machines if len(machines) == 2 else machines * 2
  cycles = operations = faults = 0
  tell(f"fuzz: {n} programs from seed {seed} for {config.name} on {' and '.join(engines)}")
  told = time.monotonic()
  for number in range(seed, seed + n):
    if time.monotonic() > told + 10:
      told = time.monotonic()
      tell(f"fuzz: {number - seed} of {n} programs, all agree")
    case = generate(number, config)
    outcomes = [execute(case, machine) for machine in pair]
    if found := compare(outcomes):
      tell(report(case, found, pair))
      return 1
    for result, _ in outcomes[0][1:]:
      cycles += result.cycles
      operations += sum(count for name, count in result.counters.items() if name.startswith("slot_"))
      faults += result.fault is not None
  tell(f"fuzz: all agree ({2 * n} launches, {cycles} cycles, {operations} operations, {faults} faults)")
  return 0


def report(case: Case, found: Sequence[Difference], pair: Sequence[Engine]) -> str:
  """What differs, and the smallest program that shows it, as assembly text."""
  kinds = {difference.what.split("[")[0] for difference in found}

  def fails(tree: Tree) -> bool:
    differences = compare([execute(case, machine, tree) for machine in pair])
    return any(difference.what.split("[")[0] in kinds for difference in differences)

  tree = shrink(case.tree, fails)
  differences = compare([execute(case, machine, tree) for machine in pair])
  smallest = Case(case.config, case.seed, tree, case.limit)
  lines = [f"seed {case.seed}: engines differ", *(f"  {d}" for d in found), "smallest program that differs:", smallest.text(),
           *(f"  {d}" for d in differences)]
  return "\n".join(lines)
