"""Mutated containers and texts: refused by name, or the same again. `python -m bench.hostile` tries more."""
from __future__ import annotations

from collections import Counter

import pytest

from bench import hostile
from tinytpu.asm import Program, assemble


def test_hostile_files_are_refused_or_come_back() -> None:
  counts: Counter[str] = Counter()
  failed = list(hostile.failures(400, 0, counts))
  assert not failed, failed[0]
  assert all(counts[what] >= 20 for what in ("containers refused", "containers read", "texts refused", "texts assembled")), counts


def test_a_fault_is_seen_and_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
  """With names unchecked, as they once were, a name with a line break is found, and little is left of its container."""
  monkeypatch.setattr("tinytpu.asm.program.name_fault", lambda name: "")
  data = hostile.containers()[0].replace(b"two\0", b"t#o\0")
  assert hostile.container_fault(hostile.repaired(data)) == "its text assembles to another container"
  assert hostile.smallest("nop\n" * 20 + "halt\x00", lambda text: "" if "\x00" not in text else "zero") == "\x00"


def test_samples_hold_every_section() -> None:
  assert all(any(tag in data for data in hostile.containers()) for tag in (b"BUFS", b"WAYS", b"SRC "))
  assert len(hostile.containers()) >= 10
  assert Program.from_bytes(hostile.containers()[0]) == assemble(hostile.TWO_WAYS, keep_source=False)
