"""Verilog as text: the same in every process, whatever order its sets of names have."""
from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest

from tinytpu.config import preset
from tinytpu.rtl.chip import Chip
from tinytpu.rtl.verilog import to_verilog

TILE = "from tinytpu.rtl.transcendental_tile import TranscendentalTile; component = TranscendentalTile(4, 2)"
UNIT = "from tinytpu.rtl.mxu import MatrixUnit; from tinytpu.config import preset; component = MatrixUnit(preset('4x4'))"
CHIP = "from tinytpu.rtl.chip import Chip; from tinytpu.config import preset; component = Chip(preset('4x4'))"


def digest(make: str, seed: str) -> str:
  """Hash of the Verilog that a process with this hash seed generates."""
  script = f"""import hashlib
from tinytpu.rtl.verilog import to_verilog
{make}
print(hashlib.sha256(to_verilog(component, "top").encode()).hexdigest())"""
  environment = {**os.environ, "PYTHONHASHSEED": seed}
  return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment).stdout.strip()


@pytest.mark.parametrize("make", [TILE, UNIT], ids=["tile", "matrix unit"])
def test_unit_is_the_same_for_every_hash_seed(make):
  assert len({digest(make, seed) for seed in ("0", "1", "2", "random")}) == 1


def test_chip_is_the_same_in_another_process():
  here = hashlib.sha256(to_verilog(Chip(preset("4x4")), "top").encode()).hexdigest()
  assert {digest(CHIP, seed) for seed in ("0", "1")} == {here}
