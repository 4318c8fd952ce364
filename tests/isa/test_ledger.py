"""docs/ledger.md names operations that exist, and leaves none out."""
from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

from tinytpu.isa.table import OPS

PAGE = Path(__file__).parents[2] / "docs" / "ledger.md"


def patterns() -> list[str]:
  """The code spans of the tables' second column."""
  rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("|")]
  return [p for row in rows for p in re.findall(r"`([^`]+)`", row[2])]


def test_names_exist():
  names = patterns()
  assert len(names) > 100
  assert not [p for p in names if not any(fnmatch(op, p) for op in OPS)]


def test_every_operation_serves_a_row():
  names = patterns()
  assert not [op for op in OPS if not any(fnmatch(op, p) for p in names)]
