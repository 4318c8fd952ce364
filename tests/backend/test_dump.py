"""TINYTPU_DUMP."""
from __future__ import annotations

import json

import numpy as np
import pytest
from tinygrad import Tensor, dtypes

STAGES = ["0-uops.txt", "1-lowered.txt", "2-pipelined.txt", "3-staged.txt", "4-allocated.txt", "5-groups.txt", "6-encoded.txt",
          "cycles.jsonl"]


def test_stages_and_cycles(tmp_path, monkeypatch):
  from tinytpu.backend.runtime.stats import stats
  monkeypatch.setenv("TINYTPU_DUMP", str(tmp_path))
  a = np.arange(7 * 19, dtype=np.float32).reshape(7, 19)  # a shape that no other test compiles
  assert np.array_equal((Tensor(a) * 2 + 3).numpy(), a * 2 + 3)
  (place,) = tmp_path.iterdir()
  assert sorted(p.name for p in place.iterdir()) == STAGES
  assert place.name.startswith(stats.runs[0].kernel + "-")
  assert "vfmul" in (place / "1-lowered.txt").read_text() and "v%" not in (place / "4-allocated.txt").read_text()
  assert json.loads((place / "cycles.jsonl").read_text())["cycles"] == stats.runs[0].cycles


def test_refused_kernel(tmp_path, monkeypatch):
  from tinytpu.backend.errors import UnsupportedError
  monkeypatch.setenv("TINYTPU_DUMP", str(tmp_path))
  with pytest.raises(UnsupportedError, match="double"):
    (Tensor([1, 2], dtype=dtypes.float64) + 1).realize()
  (place,) = tmp_path.iterdir()
  assert place.name.endswith("-refused")
  assert "double" in (place / "error.txt").read_text() and (place / "0-uops.txt").stat().st_size


def test_off_writes_nothing(tmp_path, monkeypatch):
  monkeypatch.delenv("TINYTPU_DUMP", raising=False)
  monkeypatch.chdir(tmp_path)
  assert (Tensor([1, 2, 3, 4, 5]) + 41).tolist() == [42, 43, 44, 45, 46]
  assert not list(tmp_path.iterdir())
