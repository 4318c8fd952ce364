"""Two reports beside each other: kernels by name, the largest loss first."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..isa.stalls import CAUSES


@dataclass(frozen=True)
class Change:
  """A kernel in two reports. before, after: cycles, 0 where it did not run. causes: cycles more or less by cause, the largest change first;
  those that are the same are left out."""
  name: str
  kind: str
  before: int
  after: int
  causes: dict[str, int]

  @property
  def lost(self) -> int:
    """Cycles more than before; less if negative."""
    return self.after - self.before


def compare(before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
  """What changed from one report to another, every kernel of either, the largest loss first. Reports as `report.load` gives them.

  Raises:
    ValueError: they are of different machines.
  """
  for field in ("preset", "clock_hz"):
    a, b = before["machine"][field], after["machine"][field]
    if a != b:
      raise ValueError(f"the reports are of different machines: {field} {a} and {b}")
  old, new = ({(kernel["kind"], kernel["name"]): kernel for kernel in report["kernels"]} for report in (before, after))
  nothing = {"cycles": 0, "causes": dict.fromkeys(CAUSES, 0)}
  changes = []
  for kind, name in {**old, **new}:
    a, b = old.get((kind, name), nothing), new.get((kind, name), nothing)
    causes = {cause: b["causes"][cause] - a["causes"][cause] for cause in CAUSES if a["causes"][cause] != b["causes"][cause]}
    changes.append(Change(name, kind, a["cycles"], b["cycles"], dict(sorted(causes.items(), key=lambda item: -abs(item[1])))))
  return sorted(changes, key=lambda change: -change.lost)


def slower(before: dict[str, Any], after: dict[str, Any]) -> float:
  """By how much the second run is slower, as a share of the first one's cycles; negative if it is faster."""
  return after["run"]["cycles"] / before["run"]["cycles"] - 1
