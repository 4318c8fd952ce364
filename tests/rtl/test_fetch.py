"""Fetch: cycles of hits and misses, the direct mapping, and the packets it delivers."""
from __future__ import annotations

import numpy as np
import pytest

from tinytpu.config import Config, preset
from tinytpu.isa import timing
from tinytpu.rtl.fetch import Fetch
from tinytpu.rtl.verilate import UnitSim, lint

SMALL = {"ibuf_blocks": 4, "ibuf_block_lines": 4, "hbm_latency": 7}
CONFIGS = {"4x4": preset("4x4", **SMALL),
           "a packet in two lines": preset("4x4", vector_lanes=4, **SMALL), "16x16": preset("16x16", **SMALL)}


@pytest.fixture(params=CONFIGS)
def driver(request: pytest.FixtureRequest) -> Driver:
  return Driver(CONFIGS[request.param])


class Driver:
  """Looks up one group after another, each as soon as the one before is present, with HBM answers worked out beforehand."""

  def __init__(self, config: Config):
    self.config, self.unit, self.tags = config, UnitSim(Fetch(config), "Fetch"), {}
    self.block_words, self.refill = config.ibuf_block_bytes // 8, timing.refill(config)
    self.memory = np.random.default_rng(5).integers(0, 1 << 32, 16 * config.ibuf_block_bytes // 4, dtype=np.uint32)

  def look_up(self, pc: int, base: int, wait: int = 0) -> int:
    """Look up; check the packet and the requests; returns the cycles until present. Then the packet is held for `wait` cycles."""
    config, memory = self.config, self.memory
    address = base + 8 * pc
    block = address // config.ibuf_block_bytes
    miss = self.tags.get(block % config.ibuf_blocks) != block
    self.tags[block % config.ibuf_blocks] = block
    due = 1 + miss * self.refill
    n = due + 1 + wait
    lines, width, line = config.ibuf_block_lines, config.vector_lanes, block * config.ibuf_block_lines
    rdata = np.full((n, width), 0xDEAD, np.uint32)  # whatever is not an answer must not be taken
    for i in range(lines * miss):
      start = (line + i) * width
      rdata[2 + i + config.hbm_latency] = memory[start:start + width] if start < len(memory) else 0
    out = self.unit.run({"lookup": [1] + [0] * (n - 1), "pc": pc, "base": base, "invalidate": 0, "port__rdata": rdata}, n)
    assert out["present"][1:].tolist() == [0] * (due - 1) + [1] * (wait + 1)
    assert np.flatnonzero(out["port__valid"]).tolist() == list(range(2, 2 + lines * miss))
    assert out["port__line"][2:2 + lines * miss].tolist() == list(range(line, line + lines * miss))
    assert not out["port__write"].any()
    assert out["refill"].sum() == miss
    at = address // 32 * 8
    expected = memory[at:at + 8] if at < len(memory) else np.zeros(8, np.uint32)
    for cycle in range(due, n):
      np.testing.assert_array_equal(out["packet"][cycle], expected)
    assert out["idle"][due]
    return due


def test_miss_then_hits_in_the_block(driver):
  assert driver.look_up(0, 0) == 1 + driver.refill
  assert [driver.look_up(pc, 0, wait=pc % 3) for pc in range(1, driver.block_words)] == [1] * (driver.block_words - 1)
  assert driver.look_up(driver.block_words, 0) == 1 + driver.refill


def test_direct_mapping(driver):
  far = driver.config.ibuf_blocks * driver.block_words
  assert [driver.look_up(pc, 0) > 1 for pc in (0, far, far + 3, 0, driver.block_words, 1)] == [True, True, False, True, True, False]


def test_base_counts(driver):
  base = 3 * driver.config.ibuf_block_bytes
  assert [driver.look_up(pc, b) > 1 for pc, b in ((5, base), (5 + 3 * driver.block_words, 0), (5, 0))] == [True, False, True]


def test_invalidate(driver):
  driver.look_up(2, 0)
  out = driver.unit.run({"lookup": 0, "invalidate": [1, 0, 0]})
  assert out["idle"].all() and not out["present"][1:].any()
  driver.tags.clear()
  assert driver.look_up(2, 0) == 1 + driver.refill


def test_jump_far_out_reads_zeros(driver):
  assert driver.look_up(0xFFFFFFFC, 0) == 1 + driver.refill
  assert driver.look_up(0xFFFFFFFF, 0xFFFFFF00) == 1 + driver.refill  # addresses do not wrap
  assert driver.look_up(0xFFFFFFFE, 0xFFFFFF00) == 1


def test_random_walk(driver):
  rng = np.random.default_rng(9)
  for _ in range(300):
    driver.look_up(int(rng.integers(8 * driver.block_words)), int(rng.integers(4)) * driver.config.ibuf_block_bytes, int(rng.integers(3)))


def test_lint(driver):
  assert lint(driver.unit.verilog, "Fetch") == []
