"""Many random programs, one after another, on the same engines: what one leaves behind must not hurt the next either."""
from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..config import Config
from ..machine import Engine, open_engine
from ..trace import Launch, Trace
from .case import Case, Difference, Outcome, compare, execute
from .generate import generate
from .program import Tree
from .shrink import shrink

HISTORY = (0, 1, 2, 4, 8, 16, 32)
"""How many earlier programs are run before one that failed, to see it fail again on fresh engines."""


def run_fuzz(n: int, seed: int, config: Config, engines: Sequence[str] = ("iss", "rtl"), *, tell: Callable[[str], None] = print,
             opener: Callable[[str], Engine] | None = None, trace: bool = False) -> int:
  """Run the random programs `seed` to `seed + n - 1` and compare the engines; with one engine only, compare it with itself
  on a second run (nothing may depend on what ran before). The first program that differs is cut down and told.

  Args:
    engines: one or two kinds, as for `machine.open_engine`. tell: takes lines of text.
    opener: opens an engine by its kind; machine.open_engine if not given. trace: compare what they trace, too, event by event.

  Returns:
    Number of programs that failed: 0 or 1, as it stops there.

  Raises:
    ValueError: neither one nor two engines.
  """
  if len(engines) not in (1, 2):
    raise ValueError(f"one or two engines can be compared, not {len(engines)}")

  def fresh() -> list[Engine]:
    return [opener(kind) if opener else open_engine(config, kind, tell, trace=Trace() if trace else None) for kind in engines]

  machines = fresh()
  launches = cycles = operations = faults = 0
  tell(f"fuzz: {n} programs from seed {seed} for {config.name} on {' and '.join(engines)}")
  told = time.monotonic()
  for number in range(seed, seed + n):
    if time.monotonic() > told + 10:
      told = time.monotonic()
      tell(f"fuzz: {number - seed} of {n} programs, all agree")
    case = generate(number, config)
    outcomes, found = _differences(case, _pair(machines))
    if found:
      _close(machines)
      tell(report(case, found, fresh, number - seed))
      return 1
    for result, _ in outcomes[0][1:]:
      launches += case.repeat
      cycles += result.cycles
      operations += sum(count for name, count in result.counters.items() if name.startswith("slot_"))
      faults += result.fault is not None
  _close(machines)
  tell(f"fuzz: all agree ({launches} launches, {cycles} cycles, {operations} operations, {faults} faults)")
  return 0


def report(case: Case, found: Sequence[Difference], fresh: Callable[[], list[Engine]], before: int) -> str:
  """What differs, and the smallest program that shows it on fresh engines, as assembly text; two programs if the first only
  leaves behind what makes the second differ. `before`: programs that ran on the engines before the case."""
  kinds = {difference.what.split("[")[0] for difference in found}
  lines = [f"seed {case.seed}: engines differ", *(f"  {d}" for d in found)]

  def differences(cases: Sequence[Case]) -> list[Difference]:
    """Of the last of `cases`, run in order on fresh engines; empty if none is like those found."""
    machines = fresh()
    differing = [_differences(c, _pair(machines))[1] for c in cases][-1]
    _close(machines)
    return differing if any(d.what.split("[")[0] in kinds for d in differing) else []

  cases: list[Case] = []
  for back in HISTORY:
    cases = [*(generate(number, case.config) for number in range(case.seed - min(back, before), case.seed)), case]
    if differences(cases):
      break
  else:
    return "\n".join([*lines, f"not seen again on fresh engines after the last {HISTORY[-1]} programs; as generated:", case.text()])
  if len(cases) > 2 and differences([cases[0], case]):
    cases = [cases[0], case]

  for i in reversed(range(len(cases))):
    def fails(tree: Tree, i: int = i) -> bool:
      return bool(differences([*cases[:i], replace(cases[i], tree=tree), *cases[i + 1:]]))
    cases[i] = replace(cases[i], tree=shrink(cases[i].tree, fails))
  for c in cases[:-1]:
    lines += [f"only after this program (cut down from seed {c.seed}):", c.text()]
  return "\n".join([*lines, "smallest program that differs:", cases[-1].text(), *(f"  {d}" for d in differences(cases))])


def _differences(case: Case, machines: Sequence[Engine]) -> tuple[list[list[Outcome]], list[Difference]]:
  """Outcomes of a case on two engines, and in what they differ: its end, or else its trace."""
  outcomes: list[list[Outcome]] = []
  traces: list[list[Launch]] = []
  for machine in machines:
    trace: Trace | None = getattr(machine, "trace", None)
    if trace is not None:
      trace.clear()
    outcomes.append(execute(case, machine))
    traces.append(list(trace.launches) if trace is not None else [])
  found = compare(outcomes)
  for i, (a, b) in enumerate(zip(*traces, strict=True)):
    if not found and (difference := a.difference(b)):
      found = [Difference((i + case.repeat - 1) // case.repeat, f"trace[{difference[0]}]", difference[1:])]
  return outcomes, found


def _pair(machines: list[Engine]) -> list[Engine]:
  return machines if len(machines) == 2 else machines * 2


def _close(machines: list[Engine]) -> None:
  for machine in machines:
    machine.close()
