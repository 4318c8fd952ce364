"""Programs of typical kernels are those that were last read and accepted."""
from __future__ import annotations

import difflib

from tests.backend.golden import EXPRESSIONS, FOLDER


def test_programs_are_those_accepted(module, tmp_path):
  module("tests.backend.golden", str(tmp_path))
  assert sorted(p.stem for p in FOLDER.glob("*.tasm")) == sorted(EXPRESSIONS)
  changed = []
  for name in EXPRESSIONS:
    old, new = (folder.joinpath(f"{name}.tasm").read_text().splitlines() for folder in (FOLDER, tmp_path))
    assert any("halt" in line for line in new), f"{name}: no program"
    changed += difflib.unified_diff(old, new, f"golden/{name}.tasm", "now", lineterm="", n=1)
  assert not changed, "\n".join([*changed[:200], "if this is meant: python -m tests.backend.golden writes them anew"])
