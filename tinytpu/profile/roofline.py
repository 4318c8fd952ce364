"""The fewest cycles that a kernel's own operations allow, unit by unit."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..isa import timing
from ..isa.stalls import CAUSES

LIMITS = (*(unit for unit in timing.UNITS if unit != "scalar_divider"), "psum", "vmem", "hbm", "dma_in", "dma_out")
"""Units of `trace.SPAN_UNITS` that limit a kernel: each does one thing at a time, so that it cannot end before any of them has done its
work. `hbm`, `dma_in` and `dma_out` are the ports through which lines go, one a cycle each. Left out is what fetches and what computes
addresses and loops: that is no work, but the price of it."""


def roofline(cycles: int, units: Mapping[str, int], causes: Mapping[str, int]) -> dict[str, Any]:
  """What limits a kernel, how near it comes, and what keeps it away most.

  Args:
    cycles: that its launches took together. units: cycles in which each unit was busy. causes: cycles by cause.

  Returns:
    unit: the busiest of `LIMITS`, "" if none did anything. limit: its cycles, the fewest that these operations can take.
    share: limit / cycles, 0 to 1. cause: the largest cause that is not `issue`, "" if there is none; lost: its cycles.
  """
  unit = max(LIMITS, key=lambda name: units[name])
  cause = max((name for name in CAUSES if name != "issue"), key=lambda name: causes[name])
  limit, lost = units[unit], causes[cause]
  return {"unit": unit if limit else "", "limit": limit, "share": round(limit / cycles, 6) if cycles else 0.0,
          "cause": cause if lost else "", "lost": lost}
