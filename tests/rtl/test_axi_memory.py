"""AxiMemory between a core that keeps four ports busy and a memory that takes every liberty of AXI, at all widths of the bus."""
from __future__ import annotations

import numpy as np
import pytest

from tinytpu.config import PRESETS, Config, preset
from tinytpu.rtl.axi_lite import BusError
from tinytpu.rtl.axi_memory import AxiMemory, check_data_bits
from tinytpu.rtl.chip import HBM_PORTS
from tinytpu.rtl.verilate import UnitSim, lint, to_verilog

LATENCY, LINES, BASE = 5, 16, 0xFFFF_0000
"""LINES: those of an instruction buffer block, the smallest memory there is."""
WIDE = Config(name="8x8", sublanes=8, lanes=8, vector_lanes=64, vmem_bytes=1 << 15, hbm_latency=LATENCY, hbm_bytes=LINES * 256)
NARROW = preset("4x4", hbm_latency=LATENCY, hbm_bytes=LINES * 64)


class Memory:
  """Memory with reads and writes that take effect at any time between request and answer, the answers of each kind in order."""

  def __init__(self, config: Config, data_bits: int, seed: int, slowness: float):
    self.rng, self.slowness, self.size, self.step = np.random.default_rng(seed), slowness, config.line_bytes, data_bits // 8
    self.cells = np.zeros(LINES * self.size, np.uint8)
    self.reads: list[tuple[int, np.ndarray | None]] = []    # address; the bytes, if already seen
    self.line: np.ndarray | None = None                     # what is being answered
    self.writes: list[int] = []
    self.data, self.strobes = np.zeros(0, np.uint8), np.zeros(0, bool)
    self.complete: list[tuple[int, np.ndarray, np.ndarray]] = []
    self.inputs: dict[str, object] = dict.fromkeys(("rvalid", "bvalid", "rlast", "rresp", "bresp"), 0)
    self.inputs["rdata"] = np.zeros(self.step, np.uint8)
    self.before: dict[str, tuple] = {}
    self.bursts = self.beat = 0

  def may(self) -> bool: return self.rng.random() >= self.slowness

  def drive(self) -> dict[str, object]:
    """Inputs of the next cycle."""
    for ready in ("arready", "awready", "wready"):
      self.inputs[ready] = int(self.may())
    if not self.inputs["rvalid"] and (self.line is not None or self.reads) and self.may():
      if self.line is None:
        at, seen = self.reads.pop(0)
        self.line = self.cells[at:at + self.size].copy() if seen is None else seen
      self.inputs |= {"rvalid": 1, "rdata": self.line[:self.step], "rlast": int(len(self.line) == self.step)}
    if not self.inputs["bvalid"] and self.complete and self.may():
      at, data, strobes = self.complete.pop(0)
      self.cells[at:at + self.size][strobes] = data[strobes]
      self.inputs["bvalid"] = 1
    return self.inputs

  def take(self, out: dict[str, object]) -> None:
    """What was handed over in this cycle."""
    for channel in ("ar", "aw", "w"):
      payload = tuple(np.asarray(out[name]).tolist() for name in sorted(out) if name.startswith(channel) and name != f"{channel}valid")
      if channel in self.before:
        assert out[f"{channel}valid"] and payload == self.before[channel], f"{channel} changed while it waited"
      self.before.pop(channel, None)
      if out[f"{channel}valid"] and not self.inputs[f"{channel}ready"]:
        self.before[channel] = payload
    for channel, queue in (("ar", self.reads), ("aw", self.writes)):
      if out[f"{channel}valid"] and self.inputs[f"{channel}ready"]:
        self.bursts += 1
        at = int(out[f"{channel}addr"]) - BASE
        assert (int(out[f"{channel}len"]) + 1) << int(out[f"{channel}size"]) == self.size and out[f"{channel}burst"] == 1
        assert 1 << int(out[f"{channel}size"]) == self.step and at % self.size == 0 and 0 <= at < len(self.cells)
        early = self.cells[at:at + self.size].copy() if self.rng.random() < 0.5 else None
        queue.append((at, early) if channel == "ar" else at)  # type: ignore[arg-type]
    if out["wvalid"] and self.inputs["wready"]:
      self.data = np.r_[self.data, out["wdata"]]
      self.strobes = np.r_[self.strobes, out["wstrb"]]
      assert bool(out["wlast"]) == (len(self.data) == self.size)
    if len(self.data) == self.size and self.writes:
      self.complete.append((self.writes.pop(0), self.data, self.strobes))
      self.data, self.strobes = self.data[:0], self.strobes[:0]
    if self.inputs["rvalid"] and out["rready"]:
      assert self.line is not None
      self.line = self.line[self.step:] if len(self.line) > self.step else None
      self.inputs["rvalid"] = 0
    if self.inputs["bvalid"] and out["bready"]:
      self.inputs["bvalid"] = 0


def words(value: np.ndarray) -> np.ndarray | int:
  """Bytes as UnitSim takes and gives them: a number up to 64 bits, else words."""
  return int.from_bytes(value.tobytes(), "little") if len(value) <= 8 else value.view(np.uint32)[None]


def octets(value: np.ndarray, n: int) -> np.ndarray:
  """The other way round: of one cycle's output, n bytes."""
  return np.frombuffer(value[0].tobytes(), np.uint8)[:n]


class Bench:
  """The unit with memory and the clock of the core."""

  def __init__(self, config: Config, data_bits: int, seed: int, slowness: float):
    self.config, self.step = config, data_bits // 8
    self.unit = UnitSim(AxiMemory(config, data_bits), f"AxiMemory_{config.name}_{data_bits}")
    self.memory = Memory(config, data_bits, seed, slowness)

  def cycle(self, requests: dict[str, object], **inputs: int) -> dict[str, np.ndarray]:
    drive = self.memory.drive()
    out = self.unit.run({"base": BASE, **requests, **inputs, **{
      f"axi__{name}": words(value) if isinstance(value, np.ndarray) else value for name, value in drive.items()}}, 1)
    bus = {name.removeprefix("axi__"): value[0] for name, value in out.items() if name.startswith("axi__")}
    bus["wdata"] = octets(out["axi__wdata"], self.step)
    bus["wstrb"] = np.unpackbits(octets(out["axi__wstrb"], -(-self.step // 8)), bitorder="little")[:self.step].astype(bool)
    self.memory.take(bus)
    return out


@pytest.mark.parametrize("slowness", [0.0, 0.6])
@pytest.mark.parametrize(("config", "data_bits"), [(NARROW, 32), (NARROW, 64), (NARROW, 512), (WIDE, 256), (WIDE, 1024)])
def test_as_memory_of_fixed_latency(config, data_bits, slowness):
  """What the core sees in each of its cycles, and what memory is in the end, against memory that answers at once."""
  seed = data_bits + int(10 * slowness)
  rng, bench = np.random.default_rng(seed), Bench(config, data_bits, seed, slowness)
  size, cells = config.line_bytes, np.zeros(LINES * config.line_bytes, np.uint8)
  due: list[dict[str, np.ndarray]] = [{} for _ in range(LATENCY)]
  stalled = 0
  for step in range(300):
    requests: dict[str, object] = {}
    answers: dict[str, np.ndarray] = {}
    writes = []
    for port in HBM_PORTS:
      write = port == "dma_out" or (port == "vector" and rng.random() < 0.5)
      line = int(rng.integers(0, LINES))
      data, mask = rng.integers(0, 256, size, dtype=np.uint8), rng.random(size) < 0.7
      beyond = port == "fetch" and rng.random() < 0.1
      active = rng.random() < (0.1 if step % 100 < 50 else 0.6)
      packed = np.packbits(mask, bitorder="little")
      requests |= {f"{port}__valid": int(active), f"{port}__write": int(write), f"{port}__line": line + (LINES if beyond else 0),
                   f"{port}__data": words(data), f"{port}__bytemask": words(packed)}
      if active and write:
        writes.append((line * size, data, mask))
      elif active:
        answers[port] = np.zeros(size, np.uint8) if beyond else cells[line * size:(line + 1) * size].copy()
    for at, data, mask in writes:
      cells[at:at + size][mask] = data[mask]
    due.append(answers)
    expected = due.pop(0)
    waited = 0
    while not (out := bench.cycle(requests))["tick"][0]:
      waited += 1
      assert waited < 10000, f"the core's cycle {step} does not end"
    stalled += waited
    for port, line in expected.items():
      np.testing.assert_array_equal(octets(out[f"{port}__rdata"], size), line, err_msg=f"{port} in cycle {step}")
  idle = {f"{port}__valid": 0 for port in HBM_PORTS}
  for _ in range(1000):
    out = bench.cycle(idle)
  assert not out["writing"][0] and out["tick"][0] and out["error"][0] == 0
  np.testing.assert_array_equal(bench.memory.cells, cells)
  assert bench.memory.bursts > 100 and stalled > 100


def test_errors_stay_until_cleared():
  bench = Bench(NARROW, 512, 1, 0.0)
  read = {"fetch__valid": 1, "fetch__write": 0, "fetch__line": 1}
  bench.memory.inputs["rresp"] = 2
  bench.cycle(read)
  for _ in range(6):
    out = bench.cycle({"fetch__valid": 0})
  assert out["error"][0] == BusError.READ
  bench.memory.inputs["rresp"], bench.memory.inputs["bresp"] = 0, 3
  bench.cycle({"dma_out__valid": 1, "dma_out__line": 0}, clear=BusError.WRITE)
  for _ in range(6):
    out = bench.cycle({"dma_out__valid": 0}, clear=0)
  assert out["error"][0] == BusError.READ | BusError.WRITE
  bench.cycle({}, clear=BusError.READ)
  assert bench.cycle({}, clear=0)["error"][0] == BusError.WRITE


@pytest.mark.parametrize("name", PRESETS)
def test_presets(name):
  """Of every preset there is Verilog, with a bus of the default width and bursts that take a line."""
  config = PRESETS[name]
  bits = check_data_bits(config, None)
  text = to_verilog(AxiMemory(config, bits), "AxiMemory")
  assert f"[{bits - 1}:0] axi__wdata;" in text and f"axi__arlen = 8'h{8 * config.line_bytes // bits - 1:02x};" in text


def test_lint():
  assert lint(UnitSim(AxiMemory(NARROW, 64), "AxiMemory_4x4_64").verilog, "AxiMemory_4x4_64") == []
