from __future__ import annotations

from collections.abc import Iterator

import pytest

from tinytpu.config import Config, preset
from tinytpu.machine import Engine, open_engine

CONFIG = preset("4x4")
LARGEST = "16x16"
CONFIGS = ("4x4", "8x8", LARGEST, "4x4,vector_lanes=4")
"""Machines on which the engines are compared: the presets, and a small one whose tiles take beats."""


@pytest.fixture(scope="session", params=CONFIGS)
def engines(request) -> Iterator[tuple[Engine, Engine]]:
  """The simulator and the Verilated RTL of a machine; `config` belongs to them."""
  pair = open_engine(preset(request.param), "iss"), open_engine(preset(request.param), "rtl")
  yield pair
  for engine in pair:
    engine.close()


@pytest.fixture
def config(engines) -> Config:
  return engines[0].config
