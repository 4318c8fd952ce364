"""The examples run on the device, and nothing may fall back to the host."""
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tinytpu.boot  # noqa: F401  (what tinytpu_boot.pth does in an installed package)


@pytest.fixture(autouse=True)
def on_device() -> Iterator[None]:
  """Make TINYTPU the default device, and check that the host computed nothing."""
  from tinygrad.helpers import Context

  from tinytpu.backend.runtime import stats
  stats.stats.reset()
  with Context(DEV="TINYTPU"):
    yield
  assert stats.host_fallbacks == 0


@pytest.fixture
def example() -> Callable[..., subprocess.CompletedProcess[str]]:
  """Run an example as a user does, on a device, and return what it printed; it must end with exit code `code`."""
  def run(name: str, *arguments: str | Path, dev: str = "TINYTPU", code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"examples.{name}", *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, "DEV": dev}, cwd=Path(__file__).parents[2], capture_output=True, text=True,
                          timeout=600, check=False)
    assert done.returncode == code, done.stdout + done.stderr[-3000:]
    return done
  return run
