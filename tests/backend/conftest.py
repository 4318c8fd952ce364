"""Everything here runs on the device, by name only; nothing may fall back to the host."""
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tinytpu.boot  # noqa: F401  (what tinytpu_boot.pth does in an installed package)

os.environ.setdefault("TINYTPU_CHECK", "1")  # every access must lie within a buffer that its kernel was given
DEVICE = os.environ.get("TINYTPU_TEST_DEVICE", "TINYTPU")


@pytest.fixture(autouse=True)
def on_device() -> Iterator[None]:
  """Make TINYTPU the default device, and check that the host computed nothing."""
  from tinygrad.helpers import Context

  from tinytpu.backend.runtime import stats
  stats.stats.reset()
  with Context(DEV=DEVICE):
    yield
  assert stats.host_fallbacks == 0


@pytest.fixture
def rng() -> np.random.Generator:
  return np.random.default_rng(7)


@pytest.fixture
def floats(rng: np.random.Generator) -> Callable[..., np.ndarray]:
  """Normal float32 arrays of a shape."""
  return lambda *shape: rng.standard_normal(shape).astype(np.float32)


@pytest.fixture
def script() -> Callable[..., str]:
  """Run a script in a fresh interpreter with DEV=TINYTPU and environment variables; returns what it printed. It must
  import tinytpu.boot, which stands for the .pth file of an installed package."""
  return lambda code, **env: _python(["-c", code], env)


@pytest.fixture
def module() -> Callable[..., str]:
  """Run a module with arguments in a fresh interpreter, with environment variables; returns what it printed."""
  return lambda name, *arguments, **env: _python(["-m", name, *arguments], env)


@pytest.fixture
def both() -> Callable[..., str]:
  """The same with every launch on both engines and compared."""
  return lambda name, *arguments: _python(["-m", name, *arguments], {"DEV": f"BOTH+{DEVICE}"})


def _python(arguments: list[str], env: dict[str, str]) -> str:
  environment = {**os.environ, "DEV": DEVICE, "CACHELEVEL": "0", **env}
  done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=1200)
  assert done.returncode == 0, done.stderr[-3000:]
  return done.stdout
