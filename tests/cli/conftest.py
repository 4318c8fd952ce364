"""A program for the tests of the command line."""
from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shell import ADD


@pytest.fixture
def source(tmp_path: Path) -> Path:
  path = tmp_path / "add.tasm"
  path.write_text(ADD)
  return path
