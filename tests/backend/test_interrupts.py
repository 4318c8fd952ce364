"""Interrupted work loses no data, and threads take turns."""
from __future__ import annotations

import threading

import numpy as np
import pytest
from tinygrad import Tensor

from tests.backend.interrupted import check
from tinytpu.backend.runtime.vmem_cache import Residency

# A buffer is freed when Python deletes it: what is raised there Python reports, and goes on.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def test_interrupts_at_every_step():
  found = check(240, seed=1)
  assert sum(found.values()) > 200 and min(found.values()) > 20


def test_on_the_hardware(module):
  assert "nothing lost" in module("tests.backend.interrupted", "36", DEV="RTL+TINYTPU")


def test_bookkeeping_that_is_not_undone_is_found(monkeypatch):
  monkeypatch.setattr(Residency, "restore", lambda *_: None)
  with pytest.raises(AssertionError, match="lost by an interrupt"):
    check(3000, seed=2, names=["read", "graph"])  # before every line of both


def test_threads_take_turns():
  """Each computes with kernels that are compiled already, on the same device."""
  wrong: list[str] = []
  inputs = [np.arange(64, dtype=np.float32) + n for n in range(3)]
  tensors = [Tensor(a).realize() for a in inputs]
  for t in tensors:
    (t * 3 + 1).realize()

  def work(n: int) -> None:
    for i in range(60):
      if not np.array_equal((tensors[n] * 3 + 1).realize().numpy(), inputs[n] * 3 + 1):
        wrong.append(f"thread {n}, round {i}")
  threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
  for t in threads:
    t.start()
  for t in threads:
    t.join()
  assert not wrong
