"""Cycles by the user's lines and Tensor methods: those of each group, shared among the calls that its operations come from."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from ..asm.origins import Call, Origin
from .code import Code
from .collect import Tally


def origins(code: Code, pc: int) -> list[Origin]:
  """The UOps of the group at a word, each once; none if the program does not tell."""
  return code.origins.of(pc, code.size(pc)) if code.origins is not None else []


def by_call(tally: Tally) -> Counter[Call]:
  """Cycles, fractions included, of a kernel's launches by call: a group's go in equal parts to those of its operations that come from
  calls, an operation's in equal parts to its calls. What is left of the kernel's cycles belongs to none: launching, draining, operations
  that the compiler added, and what the trace dropped."""
  found: Counter[Call] = Counter()
  for code, part in tally.codes.values():
    if code.origins is None:
      continue
    starts = [start for start, _ in code.parts] + [len(code.words)]
    cycles = code.cycles[starts[part]:starts[part + 1]]
    for pc in map(int, np.flatnonzero(cycles) + starts[part]):
      calls = [list(dict.fromkeys(call for n in numbers for call in code.origins.uops[n].calls))
               for numbers in code.origins.words[pc:pc + code.size(pc)]]
      calls = [mine for mine in calls if mine]
      for mine in calls:
        for call in mine:
          found[call] += code.cycles[pc] / len(calls) / len(mine)
  return found


def ranked(cycles: Iterable[tuple[str, float]], name: str) -> list[dict[str, object]]:
  """Sums by name as rows of a report, the largest first."""
  sums: Counter[str] = Counter()
  for key, n in cycles:
    sums[key] += n  # type: ignore[assignment]
  return [{name: key, "cycles": round(float(n), 1)} for key, n in sums.most_common()]
