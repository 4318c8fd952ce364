"""What is proved, a module for each unit; `THEOREMS` has all of it in the order in which docs/prove.md tells it."""
from __future__ import annotations

from ..proof import Theorem
from . import (
  axi,
  banks,
  dma,
  fetch,
  float_add,
  float_cmp,
  float_convert,
  float_mul,
  issue,
  lane,
  line_queue,
  matrix,
  pe,
  scoreboard,
)

THEOREMS: list[Theorem] = [theorem for module in (
  float_add, float_mul, float_cmp, float_convert, lane, pe, matrix, scoreboard, issue, fetch, dma, banks, axi, line_queue)
  for theorem in module.THEOREMS]
"""Every theorem; names are unique."""
