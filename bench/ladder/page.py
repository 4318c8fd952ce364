"""The table of the ladder: from records, and in docs/models.md from the history's last run of all of it."""
from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..plot import load
from .climb import Record
from .rungs import RUNGS

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
BEGIN, END = "<!-- the table of `make models` -->\n", "<!-- its end -->\n"
COLUMNS = ("model", "package", "it says", "error", "budget", "cycles", "launches", "matrix", "runs", "compile", "simulate", "engine")
TEXT = ("model", "package", "it says", "engine")
"""Columns that are no numbers."""


def cells(record: Record) -> tuple[str, ...]:
  """What the columns have of a record."""
  rung = RUNGS[record.name]
  return (rung.title, rung.source, record.answer + ("" if record.right else " (wrong)"), f"{record.error:.0e}", f"{record.budget:.0e}",
          f"{record.cycles:,}", str(record.launches), f"{record.matrix:.0%}", str(record.runs), f"{record.compilation:.1f} s",
          f"{record.simulation:.1f} s", record.engine)


def numbers(record: Record) -> dict[str, Any]:
  """A record as the history has it: all but the name, floats rounded."""
  return {key: float(f"{value:.3g}") if isinstance(value, float) else value for key, value in asdict(record).items() if key != "name"}


def markdown() -> str:
  """The table of the history's last run of all rungs."""
  rows = [row for row in load() if row["kind"] == "models"]
  records = [Record(name=name, **fields) for name, fields in rows[-1]["models"].items()] if rows else []
  lines = [COLUMNS, tuple("---" if column in TEXT else "--:" for column in COLUMNS), *map(cells, records)]
  return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def updated(text: str) -> str:
  """The page's text with the table as it should be."""
  return re.sub(f"(?<={re.escape(BEGIN)}).*?(?={re.escape(END)})", lambda _: markdown(), text, flags=re.S)


def update() -> None:
  """Put the table into the page."""
  PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
