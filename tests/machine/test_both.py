"""Both engines in step: the same as one of them, and an error as soon as they differ in anything."""
from __future__ import annotations

import numpy as np
import pytest

from tinytpu.asm import assemble
from tinytpu.config import preset
from tinytpu.machine import open_engine
from tinytpu.machine.both import BothEngine, EngineMismatch

CONFIG = preset("4x4")
DATA = 0x10000
DOUBLE = assemble(".kernel double\n.arg 0 buf 0\nhld.w v1, [s32 + s0]\nvadd v1, v1, v1\nhst.w v1, [s32 + s0]\nsadd s1, s1, 1\nhalt", CONFIG)


@pytest.fixture(scope="module")
def engine():
  opened = open_engine(CONFIG, "both")
  assert isinstance(opened, BothEngine)
  yield opened
  opened.close()


@pytest.fixture
def ready(engine):
  code = DOUBLE.code_bytes()
  engine.hbm[:len(code)] = np.frombuffer(code, np.uint8)
  engine.hbm[DATA:DATA + 64].view(np.uint32)[:] = np.arange(16)
  engine.hbm_used = 2 * DATA
  return engine


def test_a_launch_is_that_of_either_engine(ready):
  result = ready.launch(0, [DATA], invalidate=True)
  assert result.fault is None and result.cycles > 40
  np.testing.assert_array_equal(ready.hbm[DATA:DATA + 64].view(np.uint32), 2 * np.arange(16))
  np.testing.assert_array_equal(ready.engines["rtl"].hbm[:2 * DATA], ready.hbm[:2 * DATA])
  alone = open_engine(CONFIG, "iss")
  alone.hbm[:DATA] = ready.hbm[:DATA]
  assert alone.launch(0, [DATA], invalidate=True) == result


def test_a_register_that_differs_is_named(ready):
  ready.launch(0, [DATA], invalidate=True)
  simulator = ready.engines["iss"]
  simulator._sregs[1] += 5
  with pytest.raises(EngineMismatch, match="program at 0x0:\n  sregs: first at element 1"):
    ready.launch(0, [DATA])
  simulator._sregs[1] -= 5
  ready.launch(0, [DATA])


def test_cycles_that_differ_are_named(ready):
  ready.launch(0, [DATA], invalidate=True)
  ready.engines["iss"]._tags[:] = -1  # only one of them forgets its instruction buffer
  with pytest.raises(EngineMismatch, match=r"cycles: iss \d+, rtl \d+\n  counter refills: iss 1, rtl 0"):
    ready.launch(0, [DATA])
