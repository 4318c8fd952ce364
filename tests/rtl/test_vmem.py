"""VMEM unit against a model of memory and timing: random groups of loads and stores, DMA traffic beside them."""
from __future__ import annotations

import numpy as np
import pytest

from tests.rtl.memory_reference import Operation, Stimulus, random_operation
from tests.rtl.resting import Resting
from tinytpu.config import Config, preset
from tinytpu.isa import timing
from tinytpu.isa.encoding import MemType
from tinytpu.isa.faults import Fault
from tinytpu.isa.table import OPS
from tinytpu.rtl.verilate import UnitSim, lint
from tinytpu.rtl.vmem import VMEM_CLOCKS, VmemUnit

CONFIG = preset("4x4", vmem_bytes=8192)
WIDTH = CONFIG.width
CONFIGS = {"4x4": CONFIG, "2 beats": preset("4x4", vmem_bytes=8192, vector_lanes=8),
           "4 beats": preset("4x4", vmem_bytes=8192, vector_lanes=4), "16x16": preset("16x16", vmem_bytes=1 << 16)}
CAUSES = {"ALIGN": Fault.VMEM_ALIGN, "BOUNDS": Fault.VMEM_BOUNDS}


@pytest.fixture(scope="module")
def sim() -> UnitSim:
  return UnitSim(Resting(VmemUnit(CONFIG), VMEM_CLOCKS), "vmem_unit")


@pytest.fixture(scope="module", params=CONFIGS)
def machine(request: pytest.FixtureRequest) -> tuple[UnitSim, Config]:
  config = CONFIGS[request.param]
  return UnitSim(Resting(VmemUnit(config), VMEM_CLOCKS), "vmem_unit"), config


class Bench:
  """Inputs and expected outputs, cycle by cycle. Memory starts as written by DMA in the first cycles."""

  def __init__(self, rng: np.random.Generator, cycles: int, config: Config = CONFIG) -> None:
    self.rng, self.cycles, self.config = rng, cycles, config
    self.line = config.vector_lanes
    self.load, self.store = (Stimulus(rng, config, port, cycles) for port in ("load", "store"))
    self.dma = {f"{p}__{k}": np.zeros((cycles, self.line) if k == "data" else cycles, np.uint64 if k == "mask" else np.uint32)
                for p in ("dma_in", "dma_out") for k in ("valid", "write", "word", "mask", "data")}
    self.memory = rng.integers(0, 256, config.vmem_bytes, dtype=np.uint8)
    self.expect = {k: np.zeros(cycles, np.uint32) for k in
                   ("ready", "idle", "busy_cycle", "result__valid", "result__reg", "load_fault__valid", "load_fault__cause",
                    "load_fault__info", "store_fault__valid", "store_fault__cause", "store_fault__info")}
    self.expect["ready"][:] = self.expect["idle"][:] = 1
    self.results: dict[int, np.ndarray] = {}
    self.reads: dict[int, tuple[np.ndarray, int]] = {}
    self.now = 0
    for word in range(0, config.vmem_words, self.line):
      self.dma_write(self.now, word, (1 << self.line) - 1, self.memory.view("<u4")[word:word + self.line])
      self.now += 1

  def dma_write(self, cycle: int, word: int, mask: int, data: np.ndarray) -> None:
    for key, value in {"valid": 1, "write": 1, "word": word % (1 << 32), "mask": mask, "data": data}.items():
      self.dma[f"dma_in__{key}"][cycle] = value
    words = self.memory.view("<u4")
    for k in range(self.line):
      if mask >> k & 1:
        words[word + k] = data[k]

  def dma_read(self, cycle: int, word: int, mask: int) -> None:
    for key, value in {"valid": 1, "word": word % (1 << 32), "mask": mask}.items():
      self.dma[f"dma_out__{key}"][cycle] = value
    words = self.memory.view("<u4")
    self.reads[cycle + 1] = np.array([words[word + k] if mask >> k & 1 else 0 for k in range(self.line)], np.uint32), mask

  def group(self, load: Operation | None, store: Operation | None) -> None:
    """Issue in the present cycle, and move on to the first in which the unit is free again (idle, after a fault)."""
    t, n = self.now, {"load": 0, "store": 0}
    faulted = False
    for slot, op in (("load", load), ("store", store)):
      if op is None:
        continue
      getattr(self, slot).put(t, op.ports())
      if fault := op.fault(self.config, self.config.vmem_bytes):
        faulted = True
        for key, value in (("valid", 1), ("cause", CAUSES[fault[0]]), ("info", fault[1])):
          self.expect[f"{slot}_fault__{key}"][t + 1] = value
      else:
        n[slot] = op.bank_cycles(self.config)
    if n["load"]:
      done = t + timing.LOAD + n["load"] - 1
      self.expect["result__valid"][done], self.expect["result__reg"][done] = 1, load.d
      self.results[done] = load.load(self.config, self.memory)
      self.expect["busy_cycle"][t + 1:t + 1 + n["load"]] += 1
    if n["store"]:
      store.store(self.config, self.memory)
      first = t + (n["load"] + 1 if store.atomic else max(1, n["load"]))
      self.expect["busy_cycle"][first:first + n["store"]] += 1
    free = t + max(1, n["load"] + n["store"] - (1 if all(n.values()) and not store.atomic else 0))
    self.expect["ready"][t + 1:free] = 0
    if load or store:
      self.expect["idle"][t + 1:free + 1] = 0
    self.now = free + 1 if faulted else free

  def read_back(self) -> None:
    for word in range(0, self.config.vmem_words, self.line):
      self.dma_read(self.now, word, (1 << self.line) - 1)
      self.now += 1

  def run(self, sim: UnitSim) -> None:
    sim.reset()
    got = sim.run({**self.load.inputs(), **self.store.inputs(), **self.dma}, self.cycles)
    for key, want in self.expect.items():
      valid = {"result__reg": "result__valid"}.get(key, key.replace("cause", "valid").replace("info", "valid"))
      where = np.ones(self.cycles, bool) if valid == key else self.expect[valid] == 1
      wrong = np.flatnonzero((got[key] != want) & where)
      assert not len(wrong), f"{key} in cycle {wrong[0]}: {got[key][wrong[0]]}, expected {want[wrong[0]]}"
    for cycle, tile in self.results.items():
      np.testing.assert_array_equal(got["result__data"][cycle], tile, f"load result in cycle {cycle}")
    for cycle, (tile, mask) in self.reads.items():
      keep = [k for k in range(self.line) if mask >> k & 1]
      np.testing.assert_array_equal(got["dma_out__rdata"][cycle][keep], tile[keep], f"DMA read in cycle {cycle}")


@pytest.mark.parametrize("seed, dma", [(0, True), (1, True), (2, False), (3, False)])
def test_random_groups(machine: tuple[UnitSim, Config], seed: int, dma: bool) -> None:
  """Loads and stores of all forms, types, masks and conflicts, whole memory compared; with DMA, that has the upper half of memory."""
  print(f"seed {seed}")
  sim, config = machine
  rng, line, words = np.random.default_rng(seed), config.vector_lanes, config.vmem_words
  bench = Bench(rng, 2 * words // line + (11_700 if config.width == 16 else 4000), config)
  half = config.vmem_bytes // 2
  size = half if dma else config.vmem_bytes
  foreign = [op.code for op in OPS.values() if op.slot == "T" and not op.name.startswith(("vst", "vatom"))]
  begin = bench.now
  counts = {"load": 0, "store": 0, "atomic": 0, "fault": 0, "conflict": 0}
  while bench.now < bench.cycles - words // line - 6 * config.width - 4:
    load = random_operation(rng, config, "vld", size) if rng.random() < 0.6 else None
    store = random_operation(rng, config, "vatom" if rng.random() < 0.4 else "vst", size) if rng.random() < 0.5 else None
    upper = [op for op in (load, store) if op and not op.fault(config, config.vmem_bytes) and op.fault(config, size)]
    if upper:
      continue  # would race with DMA
    t = bench.now
    bench.group(load, store)
    if store is None and rng.random() < 0.3:  # another unit's
      bench.store.put(t, {"code": rng.choice(foreign)})
    for op in (load, store):
      if op:
        counts["load" if op is load else "store"] += 1
        counts["atomic"] += op.atomic
        counts["fault"] += op.fault(config, size) is not None
        counts["conflict"] += op.bank_cycles(config) > config.beats
  last = bench.now
  for cycle in range(begin, last if dma else begin):
    start, mask = int(rng.integers(half // 4, words - line + 1)), int(rng.integers(0, (1 << line) - 1, dtype=np.uint64, endpoint=True))
    if rng.random() < 0.4:
      bench.dma_read(cycle, start, mask)
    start, mask = int(rng.integers(half // 4, words)), int(rng.integers(0, (1 << line) - 1, dtype=np.uint64, endpoint=True))
    if rng.random() < 0.4:
      mask &= (1 << min(line, words - start)) - 1
      bench.dma_write(cycle, start, mask, rng.integers(0, 1 << 32, line, dtype=np.uint32))
  bench.now = last + 3 * config.width  # the last group has finished
  bench.read_back()
  print(counts)
  assert min(counts.values()) > (50 if config.width == 16 else 3)
  bench.run(sim)


def test_dma_words_before_the_first_and_beyond_the_last(sim: UnitSim) -> None:
  """A line's words outside the transfer are masked off, and may lie outside memory on either side."""
  rng = np.random.default_rng(0)
  bench = Bench(rng, 1000)
  for word, mask in ((-3, 0xFFF8), (CONFIG.vmem_words - 5, 0x001F)):
    bench.dma_write(bench.now, word, mask, rng.integers(0, 1 << 32, WIDTH, dtype=np.uint32))
    bench.dma_read(bench.now + 1, word, mask)
    bench.now += 2
  bench.read_back()
  bench.run(sim)


def strided(name: str, r: int, c2: int, mtype: MemType = MemType.W, **fields) -> Operation:
  tile = np.arange(WIDTH, dtype=np.uint32)
  return Operation(name, mtype, 0, 0, 0, r, c2, 1, tile, tile * np.uint32(0x01010101), np.ones(WIDTH, bool), **fields)


@pytest.mark.parametrize("r, c2, cycles",
                         [(16, 1, 4), (20, 1, 1), (64, 1, 4), (0, 0, 1), (4, 1, 1), (4, 16, 4), (64, 16, 16), (1, 4, 1)])
def test_cycles_of_strides(sim: UnitSim, r: int, c2: int, cycles: int) -> None:
  """The documented cases, counted by hand: a tile at a pitch of 16 words takes 4 cycles, at 20 one, sixteen words of one bank 16."""
  bench = Bench(np.random.default_rng(1), 700)
  load, store = strided("vld2", r, c2), strided("vst2", r, c2)
  assert load.bank_cycles(CONFIG) == cycles
  bench.group(load, None)
  bench.group(None, store)
  bench.group(load, store)
  bench.group(load, None)
  bench.now += 40
  bench.read_back()
  bench.run(sim)


def test_back_to_back(sim: UnitSim) -> None:
  """A load and a store every cycle: each load sees the store of the group before, none its own group's."""
  rng = np.random.default_rng(2)
  bench = Bench(rng, 1000)
  begin = bench.now
  for _ in range(300):
    bench.group(strided("vld", 0, 0), strided("vst", 0, 0))
    bench.store.put(bench.now - 1, {"data": (fresh := rng.integers(0, 1 << 32, WIDTH, dtype=np.uint32))})
    bench.memory.view("<u4")[:WIDTH] = fresh
  assert bench.now == begin + 300
  bench.now += 2
  bench.read_back()
  bench.run(sim)


@pytest.mark.parametrize("index, cycles", [
  ([0] * 16, 17), ([*range(16)], 2), ([0, 16] * 8, 17), ([0, 1] * 8, 9), ([*range(8), *range(8)], 3), ([16 * e for e in range(16)], 17)])
def test_atomic_adds(sim: UnitSim, index: list[int], cycles: int) -> None:
  """Every element counts, however they meet; cycles by hand: elements of the fullest bank, and one more."""
  bench = Bench(np.random.default_rng(3), 800)
  add = strided("vatomx", 0, 0)
  add.index[:], add.data[:] = index, np.arange(1, WIDTH + 1, dtype=np.uint32) * np.uint32(0x11111111)
  assert add.bank_cycles(CONFIG) == cycles
  before = bench.memory.view("<u4").copy()
  loads = [strided(name, 16, 1) for name in ("vld", "vld2")]
  for load in (None, *loads):
    bench.group(load, add)
  bench.group(loads[0], strided("vst", 0, 0))
  bench.group(None, add)
  bench.group(loads[1], None)
  after = bench.memory.view("<u4")
  stored, sums = strided("vst", 0, 0).data, np.zeros(len(after), np.uint32)
  np.add.at(sums, index, add.data)
  expected = before + 3 * sums
  expected[:WIDTH] = stored
  np.testing.assert_array_equal(after, expected + sums)  # the model against numpy
  bench.now += 40
  bench.read_back()
  bench.run(sim)


def test_lint(machine: tuple[UnitSim, Config]) -> None:
  assert lint(machine[0].verilog, "vmem_unit") == []
