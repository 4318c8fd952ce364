"""Kernels kept between processes: the next process compiles none, and what does not fit, or is not wanted, is compiled anew."""
from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

PROGRAM = """
import json, tinytpu.boot
from tinygrad import Tensor
from tinytpu.backend import kept
from tinytpu.backend.runtime.stats import stats
names = []
load = kept.load
kept.load = lambda name: names.append(name) or load(name)
x = Tensor([1.0, 2.0, 3.0]).realize()
y = (x * FACTOR + 1).realize()
z = (y.sum() * FACTOR).item()
print(json.dumps([y.tolist(), z, stats.cycles, stats.compiled, stats.loaded, names]))
"""


@pytest.fixture
def run(script) -> Callable[..., list]:
  """What the program tells in a process of its own: values, cycles, kernels compiled, kernels loaded, names. No other test run has its
  kernels."""
  text = PROGRAM.replace("FACTOR", f"{1 + secrets.randbits(20) / 2**20}")
  return lambda **environment: json.loads(script(text, **{"TINYTPU_KERNELS": "1", "CACHELEVEL": "2"} | environment).splitlines()[-1])


def test_the_second_process_compiles_nothing(run) -> None:
  first, second = run(), run()
  assert first[3:5] == [2, 0] and second[3:5] == [0, 2]
  assert first[:3] == second[:3] and first[5] == second[5]
  assert run(DEV="TINYTPU::8x8")[3:5] == [2, 0]  # another machine
  for setting in ({"NOOPT": "1"}, {"TUPLE_ORDER": "0"}, {"DMC": "1"}):
    assert run(**setting)[3:5] == [2, 0], setting
  for environment in ({"TINYTPU_KERNELS": "0"}, {"CACHELEVEL": "0"}, {"DEBUG": "4"}, {"TINYTPU_ORIGINS": "1"}):
    assert run(**environment)[3:5] == [2, 0], environment
  assert run()[3:5] == [0, 2]


def test_what_is_damaged_is_made_again(run) -> None:
  from tinytpu import cache
  first = run()
  files = [cache.root() / name for name in first[5]]
  data = [file.read_bytes() for file in files]
  files[0].write_bytes(data[0][:-50] + bytes(50))
  files[1].write_bytes(data[0])  # another kernel's
  again = run()
  assert again[3:5] == [2, 0] and again[:3] == first[:3]
  assert run()[3:5] == [0, 2]


def test_a_compiler_that_has_changed_finds_nothing_of_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
  """And one that is changed while it runs keeps nothing: its kernels are not those of the sources on disk."""
  from tinygrad.engine import realize

  from tinytpu.backend import kept
  monkeypatch.setattr(kept, "_PACKAGE", tmp_path)
  now, found = realize.lower_and_compile.began, []
  for text in ("a", "b", "longer"):
    (tmp_path / "rules.py").write_text(text)
    assert kept.sources.__wrapped__() == "", "changed since this process began"
    monkeypatch.setattr(realize.lower_and_compile, "began", time.time_ns() + 10**9)
    found.append(kept.sources.__wrapped__())
    monkeypatch.setattr(realize.lower_and_compile, "began", now)
  assert len(set(found)) == 3 and all(found)
  monkeypatch.setenv(kept.NAME, "1")
  for known in ("hash", ""):
    monkeypatch.setattr(kept, "sources", lambda known=known: known)
    assert kept.wanted() == bool(known)


def test_writers_do_not_disturb_each_other(run) -> None:
  """Four processes at once."""
  with ThreadPoolExecutor(4) as pool:
    found = list(pool.map(lambda _: run(), range(4)))
  assert all(one[:3] == found[0][:3] and sum(one[3:5]) == 2 for one in found) and run()[3:5] == [0, 2]


def test_the_oldest_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
  from tinytpu import cache
  from tinytpu.backend import kept
  monkeypatch.setattr(kept, "MOST", 10)
  monkeypatch.setattr(cache, "root", lambda: tmp_path)
  (tmp_path / kept.FOLDER).mkdir()
  for i in range(12):
    path = tmp_path / kept.FOLDER / f"{i}"
    path.write_text("")
    os.utime(path, (i, i))
  kept._make_room.__wrapped__()
  assert {path.name for path in (tmp_path / kept.FOLDER).iterdir()} == {str(i) for i in range(6, 12)}
