"""DMA engines against a model of transfers and timing, alone and between a real VMEM and a small HBM."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tests.rtl.memory_reference import MODULUS, Stimulus
from tinytpu.config import Config, preset
from tinytpu.isa.faults import Fault
from tinytpu.isa.table import OPS
from tinytpu.isa.timing import DMA_QUEUE, DMA_WORDS
from tinytpu.rtl.delay import Delay
from tinytpu.rtl.dma import DmaEngine
from tinytpu.rtl.interfaces import memory_issue, vmem_dma_port
from tinytpu.rtl.verilate import UnitSim, lint
from tinytpu.rtl.vmem import VmemUnit

CONFIG = preset("4x4", vmem_bytes=8192, hbm_bytes=1 << 15, hbm_latency=20)
WIDTH, LINE = CONFIG.width, CONFIG.line_bytes


@dataclass
class Transfer:
  """Operands in bytes, as docs/timing.md names them."""
  hbm: int
  hbm_pitch: int
  vmem: int
  vmem_pitch: int
  nbytes: int
  rows: int
  planes: int = 1
  hbm_plane: int = 0
  vmem_plane: int = 0

  def ports(self, code: int) -> dict[str, int]:
    return {"code": code, "base": self.hbm, "r": self.hbm_pitch, "vbase": self.vmem, "c2": self.vmem_pitch, "nbytes": self.nbytes,
            "x": self.rows, "planes": self.planes, "hplane": self.hbm_plane, "vplane": self.vmem_plane}

  def fault(self, config: Config) -> tuple[Fault, int] | None:
    for value in (self.hbm, self.hbm_pitch, self.hbm_plane, self.vmem, self.vmem_pitch, self.vmem_plane, self.nbytes):
      if value % 4:
        return Fault.DMA_ALIGN, value
    if self.planes and self.rows and self.nbytes:
      for base, pitch, plane, size in ((self.hbm, self.hbm_pitch, self.hbm_plane, config.hbm_bytes),
                                       (self.vmem, self.vmem_pitch, self.vmem_plane, config.vmem_bytes)):
        if base + (self.planes - 1) * plane + (self.rows - 1) * pitch + self.nbytes > size:
          return Fault.DMA_BOUNDS, base
      if self.planes * self.rows * self.nbytes // 4 > DMA_WORDS:
        return Fault.DMA_SIZE, self.hbm
    return None

  def beats(self, config: Config) -> Iterator[tuple[int, int, list[int]]]:
    """(line, VMEM byte address that its first word corresponds to, its words that move), in order."""
    size = config.line_bytes
    for plane, row in product(range(self.planes), range(self.rows if self.nbytes else 0)):
      hbm = self.hbm + plane * self.hbm_plane + row * self.hbm_pitch
      vmem = self.vmem + plane * self.vmem_plane + row * self.vmem_pitch
      for line in range(hbm // size, (hbm + self.nbytes - 1) // size + 1):
        slots = [k for k in range(size // 4) if hbm <= line * size + 4 * k < hbm + self.nbytes]
        yield line, vmem + line * size - hbm, slots


def random_transfer(rng: np.random.Generator, config: Config) -> Transfer:
  nbytes = 4 * int(rng.choice([0, 1, 3, WIDTH - 1, WIDTH, WIDTH + 1, 3 * WIDTH, int(rng.integers(1, 6 * WIDTH))]))
  rows = int(rng.choice([0, 1, 1, 2, 4, 7]))
  pitches = [nbytes, nbytes + 4, nbytes + LINE, 4, 0, 4 * int(rng.integers(0, 64))]
  hbm, vmem = 4 * int(rng.integers(0, config.hbm_bytes // 8)), 4 * int(rng.integers(0, config.vmem_words // 2))
  out = Transfer(hbm, int(rng.choice(pitches)), vmem, int(rng.choice(pitches)), nbytes, rows)
  if rng.random() < 0.5:
    out.planes = int(rng.choice([0, 1, 2, 3, 5]))
    out.hbm_plane, out.vmem_plane = (int(rng.choice([*pitches, rows * pitch])) for pitch in (out.hbm_pitch, out.vmem_pitch))
  if rng.random() < 0.15:
    field = str(rng.choice(["hbm", "hbm_pitch", "hbm_plane", "vmem", "vmem_pitch", "vmem_plane", "nbytes"]))
    wrong = int(rng.choice([1, 2, 3, MODULUS - 4, 1 << 31, config.hbm_bytes, config.vmem_bytes]))
    setattr(out, field, (getattr(out, field) + wrong) % MODULUS)
  return out


class Bench:
  """Inputs and expected outputs of one engine, cycle by cycle; what it reads is random, and checked where it writes."""

  def __init__(self, inbound: bool, rng: np.random.Generator, cycles: int) -> None:
    self.inbound, self.cycles, self.rng = inbound, cycles, rng
    self.issue = Stimulus(rng, CONFIG, "issue", cycles)
    self.code = OPS["dmai" if inbound else "dmao"].code
    self.read = rng.integers(0, MODULUS, (cycles, WIDTH), dtype=np.uint32)
    self.lines: dict[int, tuple[int, int, list[int]]] = {}
    self.unfinished = np.zeros(cycles, int)
    self.faults: dict[int, tuple[Fault, int]] = {}
    self.end = 0

  def put(self, t: int, transfer: Transfer) -> None:
    self.issue.put(t, transfer.ports(self.code))
    if fault := transfer.fault(CONFIG):
      self.faults[t + 1] = fault
      self.unfinished[t + 1] += 1
      return
    start = max(t + 2, self.end)
    beats = list(transfer.beats(CONFIG))
    self.lines |= {start + k: beat for k, beat in enumerate(beats)}
    self.end = start + max(1, len(beats))
    self.unfinished[t + 1:self.end + (CONFIG.hbm_latency + 1 if self.inbound else 2)] += 1

  def run(self, sim: UnitSim) -> None:
    sim.reset()
    got = sim.run({**self.issue.inputs(), "port__rdata" if self.inbound else "vmem__rdata": self.read}, self.cycles)
    np.testing.assert_array_equal(got["unfinished"], self.unfinished)
    np.testing.assert_array_equal(got["ready"], self.unfinished < DMA_QUEUE)
    np.testing.assert_array_equal(np.flatnonzero(got["fault__valid"]), sorted(self.faults))
    for cycle, (cause, info) in self.faults.items():
      assert (got["fault__cause"][cycle], got["fault__info"][cycle]) == (cause, info)
    delay = (0, CONFIG.hbm_latency) if self.inbound else (1, 0)  # of the HBM port and of the VMEM port
    expect = {"port__valid": [u + delay[0] for u in self.lines], "line": [u + delay[0] for u in self.lines],
              "vmem__valid": [u + delay[1] for u in self.lines]}
    for key, cycles in expect.items():
      np.testing.assert_array_equal(np.flatnonzero(got[key]), cycles, key)
    for cycle, (line, vmem, slots) in self.lines.items():
      h, v = cycle + delay[0], cycle + delay[1]
      assert (got["port__write"][h], got["port__line"][h]) == (not self.inbound, line)
      assert got["vmem__write"][v] == self.inbound and got["vmem__mask"][v] == sum(1 << k for k in slots)
      assert (int(got["vmem__word"][v]) - vmem // 4) % CONFIG.vmem_words == 0
      if self.inbound:
        np.testing.assert_array_equal(got["vmem__data"][v], self.read[v])
      else:
        np.testing.assert_array_equal(got["port__data"][h], self.read[h])
        bits = np.unpackbits(np.atleast_1d(got["port__bytemask"][h]).astype("<u8").view(np.uint8), bitorder="little")
        np.testing.assert_array_equal(np.flatnonzero(bits), [4 * k + i for k in slots for i in range(4)])


@pytest.fixture(scope="module", params=[True, False], ids=["inbound", "outbound"])
def engine(request: pytest.FixtureRequest) -> tuple[UnitSim, bool]:
  return UnitSim(DmaEngine(CONFIG, request.param), "dma_in" if request.param else "dma_out"), request.param


@pytest.mark.parametrize("seed", range(3))
def test_random_transfers(engine: tuple[UnitSim, bool], seed: int) -> None:
  """Rows of every length and alignment, pitches that overlap, empty transfers and faults; the queue from empty to full."""
  print(f"seed {seed}")
  sim, inbound = engine
  rng = np.random.default_rng(seed)
  bench = Bench(inbound, rng, 12000)
  t, full, counts = 0, 0, {"good": 0, "planes": 0, "DMA_ALIGN": 0, "DMA_BOUNDS": 0, "empty": 0, "gapless": 0}
  while t < bench.cycles - 600:
    if bench.unfinished[t] >= DMA_QUEUE or rng.random() < 0.2:
      full += bench.unfinished[t] >= DMA_QUEUE
      if rng.random() < 0.3:  # another unit's operation
        bench.issue.put(t, {"code": OPS[str(rng.choice(["vst", "hst2", "dmao" if inbound else "dmai"]))].code})
      t += 1
      continue
    transfer = random_transfer(rng, CONFIG)
    fault = transfer.fault(CONFIG)
    counts[fault[0].name if fault else "good"] += 1
    counts["planes"] += not fault and min(transfer.planes, transfer.rows) > 1 and transfer.nbytes > 0
    counts["empty"] += not (transfer.planes and transfer.rows and transfer.nbytes)
    counts["gapless"] += bench.end > t + 2
    bench.put(t, transfer)
    t += 2 if fault else 1
    if rng.random() < 0.2:
      t += int(rng.integers(0, 80))
  print(counts, full)
  assert full > 500 and min(counts.values()) > 5
  bench.run(sim)


@pytest.mark.parametrize("transfer, info", [
  (Transfer(0, 1 << 31, 0, 0, 4, 3), 0), (Transfer(8, 4, 64, 1 << 31, 4, 3), 64), (Transfer(4, 4, 0, 0, 4, MODULUS - 1), 4),
  (Transfer(0, 0, 0, 0, MODULUS - 4, 1), 0), (Transfer(4, MODULUS - 4, 0, 0, 4, MODULUS - 1), 4),
  (Transfer(0, 0, CONFIG.vmem_bytes, 0, 4, 1), CONFIG.vmem_bytes),
  (Transfer(0, 0, 0, 0, 4, 1, 3, 1 << 31, 0), 0), (Transfer(8, 4, 64, 0, 4, 1, 3, 0, 1 << 31), 64),
  (Transfer(4, MODULUS - 4, 0, 0, 4, MODULUS - 1, MODULUS - 1, MODULUS - 4, 0), 4),
  (Transfer(4, 1 << 31, 0, 0, 4, 1 << 31, 1 << 31, 1 << 31, 0), 4), (Transfer(4, 64, 12, 64, 64, 64, 3, 8192, 2048), 12)])
def test_bounds_do_not_wrap(engine: tuple[UnitSim, bool], transfer: Transfer, info: int) -> None:
  assert transfer.fault(CONFIG) == (Fault.DMA_BOUNDS, info)
  bench = Bench(engine[1], np.random.default_rng(0), 20)
  bench.put(0, transfer)
  bench.run(engine[0])


@pytest.mark.parametrize(("nbytes", "rows", "planes"), [
  (4, MODULUS - 1, 1), (4, 1, MODULUS - 1), (4, DMA_WORDS, 1), (4, DMA_WORDS + 1, 1), (64, DMA_WORDS >> 8, 16), (64, DMA_WORDS >> 8, 17),
  (CONFIG.vmem_bytes, 4 * DMA_WORDS // CONFIG.vmem_bytes, 1), (CONFIG.vmem_bytes, 4 * DMA_WORDS // CONFIG.vmem_bytes + 1, 1),
  (4, 1 << 16, 1 << 16), (4, 1 << 25, 1 << 25), (8, 1 << 31, 1 << 31), (0, MODULUS - 1, MODULUS - 1)])
def test_most_words(engine: tuple[UnitSim, bool], nbytes: int, rows: int, planes: int) -> None:
  """A limit on planes * rows * words, however large the factors. What is accepted is not awaited."""
  sim, inbound = engine
  transfer = Transfer(128, 0, 0, 0, nbytes, rows, planes)
  sim.reset()
  inputs = transfer.ports(OPS["dmai" if inbound else "dmao"].code) | {"start": np.array([1, 0])}
  out = sim.run({f"issue__{name}": value for name, value in inputs.items()})
  sim.reset()
  sim.run({"issue__start": 0}, CONFIG.hbm_latency + 1)  # what is on its way
  assert bool(out["fault__valid"][1]) == (nbytes * rows * planes // 4 > DMA_WORDS)
  assert transfer.fault(CONFIG) == ((out["fault__cause"][1], out["fault__info"][1]) if out["fault__valid"][1] else None)


def test_first_misaligned_operand_is_recorded(engine: tuple[UnitSim, bool]) -> None:
  """All pairs: HBM address, pitches of rows and planes before those of VMEM before length, alignment before bounds."""
  bench = Bench(engine[1], np.random.default_rng(0), 100)
  fields = ("hbm", "hbm_pitch", "hbm_plane", "vmem", "vmem_pitch", "vmem_plane", "nbytes")
  for t, (first, second) in enumerate(combinations(fields, 2)):
    transfer = Transfer(0, 64, CONFIG.vmem_bytes, 64, 64, 2)
    setattr(transfer, first, 4 * t + 1)
    setattr(transfer, second, 4 * t + 2)
    assert transfer.fault(CONFIG) == (Fault.DMA_ALIGN, 4 * t + 1)
    bench.put(3 * t, transfer)
  bench.run(engine[0])


def test_memory_may_be_filled_to_the_last_byte(engine: tuple[UnitSim, bool]) -> None:
  bench = Bench(engine[1], np.random.default_rng(0), 1000)
  bench.put(0, Transfer(CONFIG.hbm_bytes - CONFIG.vmem_bytes, 64, 0, 64, 64, CONFIG.vmem_bytes // 64))
  bench.put(3, Transfer(CONFIG.hbm_bytes - 4, 0, CONFIG.vmem_bytes - 4, 0, 4, 1))
  bench.put(4, Transfer(CONFIG.hbm_bytes - 2048, 64, CONFIG.vmem_bytes - 2048, 64, 64, 4, 8, 256, 256))
  bench.put(5, Transfer(CONFIG.hbm_bytes - CONFIG.vmem_bytes, 0, 0, 0, CONFIG.vmem_bytes, 1))
  bench.run(engine[0])


def test_lint(engine: tuple[UnitSim, bool]) -> None:
  assert lint(engine[0].verilog, "dma_in" if engine[1] else "dma_out") == []


class Loop(wiring.Component):
  """Both engines between VMEM and an HBM of Amaranth memory; `host` reads HBM lines: the answer is in `line` a cycle later."""

  def __init__(self, config: Config) -> None:
    self.config = config
    super().__init__({"inward": In(memory_issue(config)), "outward": In(memory_issue(config)), "fill": In(vmem_dma_port(config)),
                      "filling": In(1), "host": In(32), "line": Out(8 * config.line_bytes)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    config = self.config
    m.submodules.vmem = vmem = VmemUnit(config)
    m.submodules.hbm = hbm = Memory(shape=8 * config.line_bytes, depth=config.hbm_bytes // config.line_bytes, init=[])
    read, write, host = hbm.read_port(), hbm.write_port(granularity=8), hbm.read_port()
    m.submodules.inward = inward = DmaEngine(config, True)
    m.submodules.outward = outward = DmaEngine(config, False)
    m.submodules.delay = delay = Delay(8 * config.line_bytes, config.hbm_latency - 1)
    wiring.connect(m, wiring.flipped(self.inward), inward.issue)
    wiring.connect(m, wiring.flipped(self.outward), outward.issue)
    wiring.connect(m, outward.vmem, vmem.dma_out)
    with m.If(self.filling):
      m.d.comb += [getattr(vmem.dma_in, k).eq(getattr(self.fill, k)) for k in ("valid", "write", "word", "mask", "data")]
    with m.Else():
      m.d.comb += [getattr(vmem.dma_in, k).eq(getattr(inward.vmem, k)) for k in ("valid", "write", "word", "mask", "data")]
    m.d.comb += [
      read.addr.eq(inward.port.line), delay.i.eq(read.data), inward.port.rdata.eq(delay.o),
      write.addr.eq(outward.port.line), write.data.eq(outward.port.data),
      write.en.eq(outward.port.bytemask & outward.port.valid.replicate(config.line_bytes)),
      host.addr.eq(self.host), self.line.eq(host.data)]
    return m


@pytest.mark.parametrize("config", [CONFIG, replace(CONFIG, vector_lanes=4)], ids=["4x4", "4 beats"])
def test_round_trips(config: Config) -> None:
  """Out and in again, at all kinds of pitches, through the real VMEM ports: HBM ends as numpy has it."""
  seed = 7
  print(f"seed {seed}")
  rng = np.random.default_rng(seed)
  sim = UnitSim(Loop(config), "dma_loop")
  cycles, line_words = 60000, config.vector_lanes
  vmem, hbm = np.zeros(config.vmem_words, np.uint32), np.zeros(config.hbm_bytes // 4, np.uint32)
  stimuli = {True: Stimulus(rng, config, "inward", cycles), False: Stimulus(rng, config, "outward", cycles)}
  fill = {f"fill__{k}": np.zeros((cycles, line_words) if k == "data" else cycles, np.uint32)
          for k in ("valid", "write", "word", "mask", "data")}
  filling = np.zeros(cycles, np.uint32)
  t = 0
  vmem[:] = rng.integers(0, MODULUS, len(vmem), dtype=np.uint32)
  for word in range(0, len(vmem), line_words):
    for key, value in {"valid": 1, "write": 1, "word": word, "mask": (1 << line_words) - 1, "data": vmem[word:word + line_words]}.items():
      fill[f"fill__{key}"][t] = value
    filling[t] = 1
    t += 1
  moved = 0
  while t < cycles - 3000:
    inbound, transfer = bool(rng.random() < 0.5), random_transfer(rng, config)
    if transfer.fault(config):
      continue
    stimuli[inbound].put(t, transfer.ports(OPS["dmai" if inbound else "dmao"].code))
    beats = list(transfer.beats(config))
    for line, at, slots in beats:
      for k in slots:
        h, v = line * line_words + k, at // 4 + k
        if inbound:
          vmem[v] = hbm[h]
        else:
          hbm[h] = vmem[v]
        moved += 1
    t += 2 + max(1, len(beats)) + config.hbm_latency + 1  # no races
  sweep = Transfer(0, 0, 0, 0, config.vmem_bytes, 1)  # what VMEM holds shows in HBM
  stimuli[False].put(t, sweep.ports(OPS["dmao"].code))
  hbm[:len(vmem)] = vmem
  t += len(vmem) // line_words + 4
  host = np.zeros(cycles, np.uint32)
  host[t:t + len(hbm) // line_words] = np.arange(len(hbm) // line_words)
  got = sim.run({**stimuli[True].inputs(), **stimuli[False].inputs(), **fill, "filling": filling, "host": host}, cycles)
  assert moved > 20000
  np.testing.assert_array_equal(got["line"][t + 1:t + 1 + len(hbm) // line_words].reshape(-1), hbm)
