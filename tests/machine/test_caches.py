"""Both engines on caches that are damaged, read-only, or another program's: they compute, whatever they find (`bench.caches` walks through
every case in a process of its own)."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import caches
from tests.damage import DAMAGES, open_folder
from tinytpu import cache
from tinytpu.iss import build
from tinytpu.machine import rtl

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def good() -> Iterator[tuple[Path, dict[str, list[str]]]]:
  """A copy of what both engines load, and the files' names."""
  with open_folder() as folder:
    yield folder, caches.copy(folder)


LOOP = """
import sys
from bench.caches import *
good, bad, kind, *names = sys.argv[1:]
made = stand_in(Path(good))
for name in names:
  for how in DAMAGES:
    made.clear()
    outcome = case(Path(good), Path(bad), kind, name, how)
    print(name, how, outcome, "seen" if made or name.endswith(".name") else "DAMAGE NOT SEEN", sep="; ", flush=True)"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
  return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.parametrize("kind", ["iss", "rtl"])
def test_every_damage_of_every_file(kind, good, tmp_path):
  folder, files = good
  bad = tmp_path / "bad"
  shutil.copytree(folder, bad)
  result = run("-c", LOOP, str(folder), str(bad), kind, *files[kind])
  assert result.returncode == 0, f"after {result.stdout}: {result.stderr}"
  assert result.stdout.splitlines() == [f"{name}; {how}; made again; seen" for name in files[kind] for how in DAMAGES]
  assert result.stderr == ""


@pytest.mark.parametrize("kind", ["iss", "rtl"])
@pytest.mark.parametrize("how", ["read-only", "unreadable"])
def test_a_damaged_cache_that_another_user_may_not_mend(kind, how, good):
  folder, files = good
  packages = set((ROOT / "tinytpu").rglob("*.nb?"))
  with open_folder() as place:
    shutil.copytree(folder, place / "bad")
    result = run("-m", "bench.caches", "--probe", str(folder), str(place / "bad"), kind, files[kind][-1], how)
  assert (result.returncode, result.stdout) == (0, "made again in a temporary folder\n"), result.stderr
  assert len(result.stderr.splitlines()) == 1 and "cannot be written (Permission denied)" in result.stderr
  assert set((ROOT / "tinytpu").rglob("*.nb?")) == packages, "nothing is written beside the sources"


def test_the_index_of_another_configuration(good, tmp_path, monkeypatch):
  """The name of another machine's library under this one's key is not believed."""
  folder, files = good
  shutil.copytree(folder, tmp_path / "cache")
  monkeypatch.setenv("TINYTPU_CACHE", str(tmp_path / "cache"))
  index, mine = files["rtl"]
  library = rtl.library(caches.CONFIG)
  other = cache.keep("rtl/chip-other.so", b"the library of 8x8")
  os.replace(cache.keep("rtl/other.name", other.name.encode()), cache.root() / index)
  monkeypatch.setattr(rtl, "Chip", lambda *_: None)
  monkeypatch.setattr(rtl, "to_verilog", lambda *_: "")
  monkeypatch.setattr(rtl, "build_library", lambda *_, **__: library)
  assert rtl.library(caches.CONFIG) == library and cache.read(index) == library.name.encode() == Path(mine).name.encode()


IS_CACHED = "from tinytpu.iss import build, core; print(build.__file__, build.is_cached())"


def test_sources_decide_what_is_loaded(good, tmp_path):
  """The same sources elsewhere find the compiled simulator; one line changed in the reference functions, and it is not theirs."""
  folder, _ = good
  shutil.copytree(ROOT / "tinytpu", tmp_path / "tinytpu", ignore=shutil.ignore_patterns("__pycache__"))
  semantics = tmp_path / "tinytpu" / "isa" / "semantics.py"

  def found() -> str:
    result = subprocess.run([sys.executable, "-c", IS_CACHED], capture_output=True, text=True, check=True, cwd=tmp_path,
                            env={**os.environ, "PYTHONPATH": str(tmp_path), "TINYTPU_CACHE": str(folder)})
    path, answer = result.stdout.split()
    assert Path(path) == tmp_path / "tinytpu" / "iss" / "build.py"
    return answer

  assert found() == "True"
  semantics.write_text(semantics.read_text() + "\n# changed\n")
  assert found() == "False"


def test_both_engines_are_kept_in_the_folder_of_the_environment(good):
  folder, files = good
  assert all((folder / name).exists() for kind in files for name in files[kind]) and all(files.values())
  assert files["iss"][0].startswith(build.folder()) and files["rtl"][0].endswith(".name")
