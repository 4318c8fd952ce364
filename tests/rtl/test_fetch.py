"""Fetch: cycles of hits and misses, the direct mapping, and the packets it delivers."""
from __future__ import annotations

import numpy as np
import pytest

from tinytpu.config import preset
from tinytpu.isa import timing
from tinytpu.rtl.fetch import Fetch
from tinytpu.rtl.verilate import UnitSim, lint

CONFIG = preset("4x4", ibuf_blocks=4, ibuf_block_lines=4, hbm_latency=7)
BLOCK_WORDS = CONFIG.ibuf_block_bytes // 8
MEMORY = np.random.default_rng(5).integers(0, 1 << 32, 16 * CONFIG.ibuf_block_bytes // 4, dtype=np.uint32)
REFILL = timing.refill(CONFIG)


@pytest.fixture
def unit() -> UnitSim:
  return UnitSim(Fetch(CONFIG), "Fetch")


class Driver:
  """Looks up one group after another, each as soon as the one before is present, with HBM answers worked out beforehand."""

  def __init__(self, unit: UnitSim):
    self.unit, self.tags = unit, {}

  def look_up(self, pc: int, base: int, wait: int = 0) -> int:
    """Look up; check the packet and the requests; returns the cycles until present. Then the packet is held for `wait` cycles."""
    address = base + 8 * pc
    block = address // CONFIG.ibuf_block_bytes
    miss = self.tags.get(block % CONFIG.ibuf_blocks) != block
    self.tags[block % CONFIG.ibuf_blocks] = block
    due = 1 + miss * REFILL
    n = due + 1 + wait
    lines, width, line = CONFIG.ibuf_block_lines, CONFIG.width, block * CONFIG.ibuf_block_lines
    rdata = np.full((n, width), 0xDEAD, np.uint32)  # whatever is not an answer must not be taken
    for i in range(lines * miss):
      start = (line + i) * width
      rdata[2 + i + CONFIG.hbm_latency] = MEMORY[start:start + width] if start < len(MEMORY) else 0
    out = self.unit.run({"lookup": [1] + [0] * (n - 1), "pc": pc, "base": base, "invalidate": 0, "port__rdata": rdata}, n)
    assert out["present"][1:].tolist() == [0] * (due - 1) + [1] * (wait + 1)
    assert np.flatnonzero(out["port__valid"]).tolist() == list(range(2, 2 + lines * miss))
    assert out["port__line"][2:2 + lines * miss].tolist() == list(range(line, line + lines * miss))
    assert not out["port__write"].any()
    assert out["refill"].sum() == miss
    at = address // 32 * 8
    expected = MEMORY[at:at + 8] if at < len(MEMORY) else np.zeros(8, np.uint32)
    for cycle in range(due, n):
      np.testing.assert_array_equal(out["packet"][cycle], expected)
    assert out["idle"][due]
    return due


def test_miss_then_hits_in_the_block(unit):
  driver = Driver(unit)
  assert driver.look_up(0, 0) == 1 + REFILL
  assert [driver.look_up(pc, 0, wait=pc % 3) for pc in range(1, BLOCK_WORDS)] == [1] * (BLOCK_WORDS - 1)
  assert driver.look_up(BLOCK_WORDS, 0) == 1 + REFILL


def test_direct_mapping(unit):
  driver = Driver(unit)
  far = CONFIG.ibuf_blocks * BLOCK_WORDS
  assert [driver.look_up(pc, 0) > 1 for pc in (0, far, far + 3, 0, BLOCK_WORDS, 1)] == [True, True, False, True, True, False]


def test_base_counts(unit):
  driver = Driver(unit)
  base = 3 * CONFIG.ibuf_block_bytes
  assert [driver.look_up(pc, b) > 1 for pc, b in ((5, base), (5 + 3 * BLOCK_WORDS, 0), (5, 0))] == [True, False, True]


def test_invalidate(unit):
  driver = Driver(unit)
  driver.look_up(2, 0)
  out = unit.run({"lookup": 0, "invalidate": [1, 0, 0]})
  assert out["idle"].all() and not out["present"][1:].any()
  driver.tags.clear()
  assert driver.look_up(2, 0) == 1 + REFILL


def test_jump_far_out_reads_zeros(unit):
  driver = Driver(unit)
  assert driver.look_up(0xFFFFFFFC, 0) == 1 + REFILL
  assert driver.look_up(0xFFFFFFFF, 0xFFFFFF00) == 1 + REFILL  # addresses do not wrap
  assert driver.look_up(0xFFFFFFFE, 0xFFFFFF00) == 1


def test_random_walk(unit):
  rng, driver = np.random.default_rng(9), Driver(unit)
  for _ in range(300):
    driver.look_up(int(rng.integers(8 * BLOCK_WORDS)), int(rng.integers(4)) * CONFIG.ibuf_block_bytes, int(rng.integers(3)))


def test_lint(unit):
  assert lint(unit.verilog, "Fetch") == []
