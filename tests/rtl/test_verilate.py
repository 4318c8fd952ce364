"""Native builds: in any folder, and again when what is kept of them is damaged."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tests.damage import damage
from tinytpu import cache
from tinytpu.rtl import verilate
from tinytpu.rtl.verilate import RtlBuildError, UnitSim, open_library

ROOT = Path(__file__).parents[2]


class Increment(wiring.Component):
  """o = x + 1."""

  def __init__(self) -> None:
    super().__init__({"x": In(8), "o": Out(8)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    m.d.comb += self.o.eq(self.x + 1)
    return m


def check() -> UnitSim:
  sim = UnitSim(Increment(), "Increment")
  np.testing.assert_array_equal(sim.run({"x": np.arange(256)})["o"], (np.arange(256) + 1) % 256)
  return sim


def test_any_folder_and_real_rebuilds(tmp_path, monkeypatch):
  """Letters beyond ASCII, spaces and signs that shells, make and JSON know in the names of the cache and the temporary folder."""
  odd = tmp_path / """ä ñ \N{GREEK SMALL LETTER LAMDA} '"#$(x)%\\303;&"""
  monkeypatch.setenv("TINYTPU_CACHE", str(odd))
  monkeypatch.setattr(cache, "_scratch", {})
  monkeypatch.setattr("tempfile.tempdir", str(odd))
  odd.mkdir()
  check()
  built = sorted(path for path in odd.rglob("*") if path.is_file())
  assert [path.suffix for path in built].count(".so") == 1 and [path.suffix for path in built].count(".o") >= 1
  for number, path in enumerate(built):
    damage(path, ("truncated", "noise", "folder", "emptied")[number % 4])
  check()
  assert sorted(path for path in odd.rglob("*") if path.is_file()) == built and all(cache.contents(path) is not None for path in built)




def test_damage_between_finding_and_loading(tmp_path):
  path = tmp_path / "unit.so"
  path.write_bytes(b"\x7fELF")
  with pytest.raises(RtlBuildError, match="was damaged while it was opened"):
    open_library(path)


def test_a_library_that_the_system_refuses(tmp_path, monkeypatch):
  monkeypatch.setenv("TINYTPU_CACHE", str(tmp_path))
  with pytest.raises(RtlBuildError, match="no-program.so cannot be loaded: .*TMPDIR"):
    open_library(cache.keep("rtl/no-program.so", b"sealed, but no library"))


def test_damage_does_not_reach_a_library_in_use():
  """The file is cut down in place under a running simulation, then another is opened in the same process."""
  script = """
import os, shutil, tempfile
from pathlib import Path
from tests.rtl.test_verilate import *
place = Path(tempfile.mkdtemp())
(place / "rtl").mkdir()
for path in (cache.root() / "rtl").glob("Increment-*.so"):
  shutil.copy(path, place / "rtl")
os.environ["TINYTPU_CACHE"] = str(place)
first = check()
built = cache.root() / "rtl"
for path in built.glob("Increment-*.so"):
  os.truncate(path, 100)
first.run({"x": np.arange(256)})
check()
shutil.rmtree(place)
print("right")"""
  check()
  result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT)
  assert (result.returncode, result.stdout) == (0, "right\n"), result.stderr


def test_no_room_to_build(monkeypatch):
  def full(folder: Path, *_: object, **__: object) -> Path:
    raise OSError(28, "No space left on device")
  monkeypatch.setattr(verilate, "compile_library", full)
  with pytest.raises(RtlBuildError, match="no place to build the simulation: .*No space left.*TMPDIR"):
    verilate.build_library("module empty; endmodule\n", "empty", "")
