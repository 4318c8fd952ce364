"""The larger presets run the tests of test_tiles.py, each in a process of its own: a process has one machine."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("preset", ["8x8", "16x16"])
def test_kernels(preset):
  tests = Path(__file__).with_name("test_tiles.py")
  done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)], cwd=Path(__file__).parents[2],
                        env={**os.environ, "TINYTPU_TEST_DEVICE": f"TINYTPU::{preset}"}, capture_output=True, text=True, timeout=900)
  assert done.returncode == 0, done.stdout[-5000:]
  assert not re.search("skipped|deselected|xfail", done.stdout)
