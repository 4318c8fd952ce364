"""Direct HBM access unit against a model of memory and timing; the model also answers the requests that it expects."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.rtl.memory_reference import MODULUS, Operation, Stimulus, random_operation
from tests.rtl.resting import Resting
from tinytpu.config import Config, preset
from tinytpu.isa import timing
from tinytpu.isa.encoding import MemType
from tinytpu.isa.faults import Fault
from tinytpu.isa.table import OPS
from tinytpu.rtl.hbm import HBM_CLOCKS, HbmUnit
from tinytpu.rtl.verilate import UnitSim, lint

CAUSES = {"ALIGN": Fault.HBM_ALIGN, "BOUNDS": Fault.HBM_BOUNDS}
CONFIGS = {
  "default": preset("4x4", hbm_bytes=1 << 16),
  "shortest latency, odd size": preset("4x4", hbm_bytes=3 * (1 << 14) + 64, hbm_latency=4),
  "2 beats": preset("4x4", vector_lanes=8, hbm_bytes=1 << 16),
  "4 beats": preset("4x4", vector_lanes=4, hbm_bytes=1 << 16),
  "16x16": preset("16x16", hbm_bytes=1 << 16)}


@pytest.fixture(scope="module", params=list(CONFIGS))
def bench(request: pytest.FixtureRequest) -> tuple[UnitSim, Config]:
  config = CONFIGS[request.param]
  return UnitSim(Resting(HbmUnit(config), HBM_CLOCKS), "hbm_unit"), config


class Bench:
  """Inputs and expected outputs, cycle by cycle."""

  def __init__(self, config: Config, rng: np.random.Generator, cycles: int) -> None:
    self.config, self.cycles = config, cycles
    self.issue = Stimulus(rng, config, "issue", cycles)
    self.memory = rng.integers(0, 256, config.hbm_bytes, dtype=np.uint8)
    self.answers = rng.integers(0, MODULUS, (cycles, config.vector_lanes), dtype=np.uint32)
    self.expect = {k: np.zeros(cycles, np.uint32) for k in (
      "ready", "stores_done", "line", "port__valid", "port__write", "port__line", "result__valid", "result__reg", "fault__valid",
      "fault__cause", "fault__info")}
    self.expect["ready"][:] = self.expect["stores_done"][:] = 1
    self.results: dict[int, np.ndarray] = {}
    self.writes: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    self.now = 0

  def put(self, op: Operation) -> None:
    """Issue in the present cycle, and move on to the first in which the unit is free again (or two on, after a fault)."""
    t, config, expect = self.now, self.config, self.expect
    storing = op.name.startswith("hst")
    self.issue.put(t, op.ports())
    if storing:
      expect["stores_done"][t + 1] = 0
    if fault := op.fault(config, config.hbm_bytes):
      for key, value in (("valid", 1), ("cause", CAUSES[fault[0]]), ("info", fault[1])):
        expect[f"fault__{key}"][t + 1] = value
      self.now = t + 2
      return
    size, before, u = config.line_bytes, self.memory, t + 2
    for beat in range(config.beats):
      part = replace(op, mask=op.mask & (np.arange(config.width) // config.vector_lanes == beat))
      touched = np.zeros(config.hbm_bytes, np.uint8)
      if storing:
        self.memory = self.memory.copy()
        part.store(config, self.memory)
        words = MemType.U8 if op.mtype.bytes == 1 else MemType.U16 if op.mtype.bytes == 2 else MemType.W
        replace(part, mtype=words, data=np.full(config.width, MODULUS - 1, np.uint32)).store(config, touched)
      for line in part.lines(config):
        expect["port__valid"][u] = expect["line"][u] = 1
        expect["port__write"][u], expect["port__line"][u] = storing, line
        here = slice(line * size, line * size + size)
        if storing:
          self.writes[u] = self.memory[here].copy(), touched[here] != 0
        else:
          self.answers[u + config.hbm_latency] = self.memory[here].view("<u4")
        u += 1
    n = max(1, u - (t + 2))
    if storing:
      expect["stores_done"][t + 1:t + 2 + n] = 0
    else:
      done = t + timing.HBM_ISSUE + n + config.hbm_latency - 1
      expect["result__valid"][done], expect["result__reg"][done] = 1, op.d
      self.results[done] = op.load(config, before)
    expect["ready"][t + 1:t + n] = 0
    self.now = t + n

  def run(self, sim: UnitSim) -> None:
    sim.reset()
    got = sim.run({**self.issue.inputs(), "port__rdata": self.answers}, self.cycles)
    valid_of = {"port__write": "port__valid", "port__line": "port__valid", "result__reg": "result__valid", "fault__cause": "fault__valid",
                "fault__info": "fault__valid"}
    for key, want in self.expect.items():
      where = self.expect[valid_of[key]] == 1 if key in valid_of else np.ones(self.cycles, bool)
      wrong = np.flatnonzero((got[key] != want) & where)
      assert not len(wrong), f"{key} in cycle {wrong[0]}: {got[key][wrong[0]]}, expected {want[wrong[0]]}"
    for cycle, tile in self.results.items():
      np.testing.assert_array_equal(got["result__data"][cycle], tile, f"load result in cycle {cycle}")
    masks = np.ascontiguousarray(got["port__bytemask"]).reshape(self.cycles, -1).view(np.uint8)
    for cycle, (line, touched) in self.writes.items():
      mask = np.unpackbits(masks[cycle], bitorder="little")[:self.config.line_bytes] == 1
      np.testing.assert_array_equal(mask, touched, f"byte mask in cycle {cycle}")
      np.testing.assert_array_equal(got["port__data"][cycle].view(np.uint8)[mask], line[mask], f"line written in cycle {cycle}")


@pytest.mark.parametrize("seed", range(3))
def test_random_operations(bench: tuple[UnitSim, Config], seed: int) -> None:
  """All forms, types, masks and overlaps, back to back and with gaps, between operations of other units."""
  print(f"seed {seed}")
  sim, config = bench
  rng = np.random.default_rng(seed)
  b = Bench(config, rng, 8000)
  foreign = [op.code for op in OPS.values() if op.slot == "T" and not op.name.startswith(("hld", "hst"))]
  counts = {"hld": 0, "hst": 0, "fault": 0, "coalesced": 0, "nothing": 0}
  while b.now < b.cycles - 3 * config.width - config.hbm_latency:
    if rng.random() < 0.3:
      if rng.random() < 0.5:
        b.issue.put(b.now, {"code": rng.choice(foreign)})
      b.now += 1
      continue
    kind = "hld" if rng.random() < 0.55 else "hst"
    op = random_operation(rng, config, kind, int(rng.choice([512, 4096, config.hbm_bytes])))
    counts[kind] += 1
    counts["fault"] += op.fault(config, config.hbm_bytes) is not None
    counts["nothing"] += not op.active()
    counts["coalesced"] += 1 < len(op.lines(config)) < len(op.active())
    b.put(op)
  print(counts)
  assert min(counts.values()) > 15
  b.run(sim)


def test_loads_back_to_back(bench: tuple[UnitSim, Config]) -> None:
  """A load of whole lines in every cycle that it takes, and every result in its cycle: nothing but the issue rate limits the port."""
  sim, config = bench
  rng = np.random.default_rng(5)
  b = Bench(config, rng, 80 * config.beats + 400)
  tile, all_on = np.zeros(config.width, np.uint32), np.ones(config.width, bool)
  for k in range(80):
    b.put(Operation("hld", MemType.W, k * config.tile_bytes % config.hbm_bytes, d=k % 64, index=tile, data=tile, mask=all_on))
  assert b.now == 80 * config.beats
  b.run(sim)


def test_lint(bench: tuple[UnitSim, Config]) -> None:
  assert lint(bench[0].verilog, "hbm_unit") == []
