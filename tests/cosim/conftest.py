from __future__ import annotations

import pytest

from tinytpu.config import preset
from tinytpu.machine import Engine, open_engine

CONFIG = preset("4x4")


@pytest.fixture(scope="session")
def engines() -> tuple[Engine, Engine]:
  """The simulator and the Verilated RTL of the default preset."""
  return open_engine(CONFIG, "iss"), open_engine(CONFIG, "rtl")
