"""VMEM's banks and HBM's lines: where the elements of an access lie, and the cycles that it took."""
from __future__ import annotations

from collections import Counter

import numpy as np

from ..config import PRESETS
from ..isa import timing
from ..isa.table import is_memory
from ..trace import describe
from ..trace.spans import group_at
from .page import Page, table
from .run import Traced, traced
from .svg import BLUE, GREEN, INK, ORANGE, PANEL, RED, SOFT, VIOLET, Canvas

_ROWS = (BLUE, GREEN, ORANGE, VIOLET)
"""Colours of the rows of a tile."""


def memories(page: Page) -> str:
  """`memories`: a table of what the memories of each preset hold, move and take."""
  def row(name: str, of: list[object]) -> tuple[object, ...]: return (name, *of)
  machines = list(PRESETS.values())
  return table(("", *(c.name for c in machines)), [
    row("VMEM: bytes", [f"{c.vmem_bytes:,}" for c in machines]),
    row("VMEM: banks of 32-bit words", [c.vector_lanes for c in machines]),
    row("VMEM: bytes a cycle, each way", [c.line_bytes for c in machines]),
    row("VMEM: latency of a load without conflicts", [timing.LOAD + c.beats for c in machines]),
    row("HBM: bytes", [f"{c.hbm_bytes:,}" for c in machines]),
    row("HBM: bytes of a line, one a cycle and port", [c.line_bytes for c in machines]),
    row("HBM: latency of a load of one tile", [timing.HBM_ISSUE + c.beats + c.hbm_latency for c in machines])])


def accesses(page: Page, name: str) -> str:
  """`accesses FILE`: a table of the memory operations of a program, and what each took."""
  run = traced(page.files[name])
  rows = []
  for event in map(describe, run.launch.events):
    if event["vmem"] or event["lines"]:
      cycles = event["vmem"] or event["lines"]
      base = timing.LOAD if event["vmem"] else timing.HBM_ISSUE + run.config.hbm_latency
      ready = event["end"] - event["cycle"] if event["end"] else base + cycles
      rows.append((f"`{run.text(event['pc'])}`", event["vmem"] or "–", event["lines"] or "–", ready))
  return table(("operation", "VMEM cycles", "HBM lines", "cycles until its result is there"), rows)


def _elements(run: Traced, pc: int) -> np.ndarray | None:
  """Word addresses of the elements of a 2-D VMEM access of a group, (sublanes, lanes); registers as they are at the end."""
  for op in group_at(np.array(run.program.words, np.uint64), pc):
    if is_memory(op.op) and op.op.name == "vld2":
      sregs = run.sregs.astype(int)
      rows, columns = np.indices((run.config.sublanes, run.config.lanes))
      return sregs[op.a] // 4 + sregs[op.x] + op.off + rows * sregs[op.r] + columns * sregs[op.c2]
  return None


def banks(page: Page, name: str) -> str:
  """`banks FILE`: a picture of the banks that each 2-D load of a program addresses, with its cycles."""
  run = traced(page.files[name])
  found = [(run.text(event["pc"]), words, event["vmem"]) for event in map(describe, run.launch.events)
           if (words := _elements(run, event["pc"])) is not None]
  side, left = 40, 250
  canvas = Canvas(left + run.config.vector_lanes * side + 30, 80 + 148 * len(found))
  canvas.text(24, 28, f"{run.config.vector_lanes} banks: which of them hold the elements of a tile", 17, bold=True)
  for n, (text, words, cycles) in enumerate(found):
    top = 76 + 148 * n
    depth = Counter(int(w) % run.config.vector_lanes for w in np.unique(words))
    assert max(depth.values()) == cycles, "the picture is not what was measured"
    canvas.text(24, top + 10, text, 14, mono=True)
    canvas.text(24, top + 34, f"rows {int(words[1, 0] - words[0, 0])} words apart,", 14, SOFT)
    canvas.text(24, top + 54, f"columns {int(words[0, 1] - words[0, 0])}", 14, SOFT)
    canvas.text(24, top + 86, f"{cycles} cycle{'s' * (cycles > 1)}", 20, RED if cycles > 1 else GREEN, bold=True)
    height = Counter[int]()
    for bank in range(run.config.vector_lanes):
      canvas.box(left + bank * side + 2, top - 8, side - 4, 100, PANEL)
      canvas.text(left + bank * side + side / 2, top + 104, str(bank), 12, SOFT, "middle")
    for (i, j), word in np.ndenumerate(words):
      bank = int(word) % run.config.vector_lanes
      y = top + 68 - 24 * height[bank]
      canvas.label(left + bank * side + 4, y, side - 8, 21, f"{i},{j}", _ROWS[i % 4], "#ffffff", 12)
      height[bank] += 1
  canvas.legend(left, 54, [(colour, f"row {i} of the tile") for i, colour in enumerate(_ROWS)])
  canvas.text(canvas.width - 30, canvas.height - 14, "a bank serves one word in a cycle: the highest pile is the time", 13, INK, "end")
  return page.show(f"{name.split('.')[0]}-banks.svg", canvas.svg(), "Bank conflicts: the banks that the elements of each load lie in")
