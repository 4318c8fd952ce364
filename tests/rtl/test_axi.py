"""The chip behind AXI buses: programs do the same as on the simulator, whatever memory and host do within the protocol."""
from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tinytpu.config import ConfigError, preset
from tinytpu.fuzz import compare, execute, exercise, generate
from tinytpu.isa.faults import Fault
from tinytpu.isa.instruction import Label, ins, pack
from tinytpu.isa.table import OPS
from tinytpu.machine import Engine, open_engine
from tinytpu.machine.guard import Guarded
from tinytpu.machine.rtl import RtlEngine
from tinytpu.rtl.axi import AxiChip
from tinytpu.rtl.axi_lite import AxiCsr, BusError, Response
from tinytpu.rtl.axi_memory import check_data_bits
from tinytpu.rtl.chip import WAIVERS
from tinytpu.rtl.csr import Csr, Status
from tinytpu.rtl.verilate import build_library, lint, to_verilog

CONFIG = preset("4x4", vmem_bytes=1 << 16, hbm_latency=12)  # little to read back; memory that is often late
DATA_BITS, BASE = 128, 0x3_4000_0000
LINE = CONFIG.line_bytes
NO_LINE = (1 << 64) - 1
MEMORIES = {"prompt": (0, 0), "late": (0, 60), "slow": (190, 0), "both": (128, 30)}
"""Of 256: how often a channel is not ready; most cycles until an answer."""


class AxiEngine(RtlEngine):
  """`RtlEngine` on the chip with AXI buses."""

  def __init__(self, path: Path):
    Guarded.__init__(self)
    self.config, self._waveform, self._lib = CONFIG, None, ctypes.CDLL(str(path))
    pointer, u32, u64, integer = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int
    for name, result, arguments in (
        ("chip_new", pointer, (pointer, u64)), ("chip_free", None, (pointer,)), ("chip_write", None, (pointer, u32, u32)),
        ("chip_read", u32, (pointer, u32)), ("chip_run", integer, (pointer, u64)), ("chip_window", None, (pointer, u32, u32, u32, pointer)),
        ("axi_write", integer, (pointer, u32, u32, integer)), ("axi_memory", None, (pointer, u32, integer, integer, u64)),
        ("chip_reset", None, (pointer,)), ("axi_now", u64, (pointer,)), ("axi_violation", ctypes.c_char_p, (pointer,))):
      function = getattr(self._lib, name)
      function.restype, function.argtypes = result, arguments
    self._hbm = np.zeros(CONFIG.hbm_bytes, np.uint8)
    self._chip = self._lib.chip_new(self._hbm.ctypes.data, CONFIG.hbm_bytes)

  def memory(self, kind: str, seed: int = 1, bad: int = NO_LINE) -> None:
    """Answer as `kind` of MEMORIES from now on, with an error for line `bad`."""
    self._lib.axi_memory(self._chip, seed, *MEMORIES[kind], bad)

  def read(self, address: int) -> int: return self._lib.chip_read(self._chip, address)
  def write(self, address: int, value: int, strobes: int = 15) -> int: return self._lib.axi_write(self._chip, address, value, strobes)
  def run(self, cycles: int) -> bool: return bool(self._lib.chip_run(self._chip, cycles))
  def reset(self) -> None: self._lib.chip_reset(self._chip)

  @property
  def now(self) -> int: return self._lib.axi_now(self._chip)

  @property
  def violation(self) -> str: return self._lib.axi_violation(self._chip).decode()


@pytest.fixture(scope="module")
def verilog() -> str:
  return to_verilog(AxiChip(CONFIG, DATA_BITS), "tinytpu_axi")


@pytest.fixture(scope="module")
def engine(verilog) -> Iterator[AxiEngine]:
  constants = {"DATA_BYTES": DATA_BITS // 8, "BEATS": 8 * LINE // DATA_BITS, "LINE_BYTES": LINE, "MEMORY_BASE": f"{BASE}ull",
               "STATUS": int(Csr.STATUS), "FETCHING": int(Status.FETCHING), "WINDOW_DATA": int(Csr.WINDOW_DATA)}
  harness = "".join(f"#define {name} {value}\n" for name, value in constants.items())
  harness += Path(__file__).with_name("axi_harness.cpp").read_text()
  engine = AxiEngine(build_library(verilog, "tinytpu_axi", harness, opt=("-O1",)))
  yield engine
  engine.close()


@pytest.fixture(scope="module")
def simulator() -> Engine:
  return open_engine(CONFIG, "iss")


@pytest.fixture(autouse=True)
def protocol(request) -> Iterator[None]:
  """Every test that has used the buses has kept their rules."""
  yield
  if "engine" in request.fixturenames:
    assert request.getfixturevalue("engine").violation == ""


@pytest.mark.parametrize("kind", MEMORIES)
@pytest.mark.parametrize("seed", [11, 12])
def test_random_programs(engine, simulator, kind, seed):
  """Memory, registers, faults, counters and cycles."""
  case = generate(seed, CONFIG)
  engine.memory(kind, seed)
  assert not compare([execute(case, e) for e in (simulator, engine)]), case.text()


@pytest.mark.parametrize("name", [name for name, op in OPS.items() if name.startswith(("hld", "hst", "dma"))])
def test_operations_of_memory(engine, simulator, name):
  case = exercise(name, CONFIG)
  engine.memory("both", 3)
  assert not compare([execute(case, e) for e in (simulator, engine)]), case.text()


def test_requests_in_order(engine, simulator):
  """Stores and loads of the same lines by all ports, each waiting for the one before only as the contract says."""
  loop = [ins("loop", a=34, target="end"), ins("vmov", d=4, imm=0)]
  body = [[ins("hld", d=1, a=32)], [ins("vadd", d=1, a=1, imm=3)], [ins("hst", d=1, a=32)], [ins("hld", d=2, a=32)],
          [ins("hst", d=2, a=32, off=CONFIG.width)], [ins("fence")],
          [ins("dmai", c=0, a=32, d=35, x=36)], [ins("dwaiti", imm=0)], [ins("dmao", c=0, a=33, d=35, x=36)], [ins("dwaito", imm=0)],
          [ins("hld", d=3, a=33, off=CONFIG.width)], [ins("vadd", d=4, a=4, bkind=0, b=3)], [ins("hst", d=4, a=33, off=2 * CONFIG.width)],
          [ins("fence")], [ins("lend")]]
  words = pack([loop, *body, Label("end"), [ins("halt")]])
  data = np.arange(2 * CONFIG.width, dtype=np.uint32)
  images, cycles = [], []
  for kind in (None, *MEMORIES):
    e = engine if kind else simulator
    if kind:
      engine.memory(kind, 5)
    e.hbm[:1 << 14] = 0
    e.hbm[:words.nbytes], e.hbm[4096:4096 + data.nbytes] = words.view(np.uint8), data.view(np.uint8)
    result = e.launch(0, [4096, 8192, 9, 2 * LINE, 1], invalidate=True)
    assert result.fault is None
    cycles.append(result.cycles)
    images.append(e.hbm[:1 << 14].copy())
  assert len(set(cycles)) == 1
  assert all((image == images[0]).all() for image in images)
  expected = data[:CONFIG.width] + 3 * 9
  assert images[0][4096:4096 + LINE].view(np.uint32).tolist() == expected.tolist()
  # v4 sums what the pass before left beyond the first line.
  assert images[0][8192 + 2 * LINE:8192 + 3 * LINE].view(np.uint32).tolist() == (9 * data[:CONFIG.width] + 3 * 45).tolist()


def test_prompt_memory_costs_nothing(engine):
  """Loads one after the other with answers in time: as many cycles of the bus as of the core, but for the start."""
  n = 200
  words = pack([[ins("loop", a=33, target="end")], [ins("hld", d=1, a=32), ins("sadd", d=32, a=32, imm=LINE)],
                [ins("hld", d=2, a=32), ins("sadd", d=32, a=32, imm=LINE), ins("lend")], Label("end"), [ins("halt")]])
  engine.hbm[:words.nbytes] = words.view(np.uint8)
  engine.memory("prompt")
  launches = []
  for invalidate in (True, False):
    engine.launch(0, [1 << 20, 0], invalidate=invalidate)
    for register, value in ((Csr.SREG + 4 * 32, 1 << 20), (Csr.SREG + 4 * 33, n), (Csr.GO, 1)):
      engine.write(register, value)
    start = engine.now
    assert engine.run(1 << 20)
    launches.append(engine.now - start)
  cycles = engine.read(Csr.CYCLES_LO)
  beats = 8 * LINE // DATA_BITS
  assert engine.read(Csr.COUNTER + 8 * 10) == 2 * n  # lines of direct access
  # The bus moves a line in `beats` cycles; the core, which could ask for one every other cycle, waits for that and for nothing else.
  assert 2 * n * beats - 10 <= launches[1] <= max(cycles, 2 * n * beats) + 80, (launches, cycles)


@pytest.mark.parametrize("seed", range(5))
def test_results_are_in_memory_when_the_launch_has_ended(engine, seed):
  words = pack([[ins("vlid", d=1)], [ins("hst", d=1, a=32)], [ins("hst", d=1, a=33), ins("halt")]])
  engine.hbm[:words.nbytes], engine.hbm[4096:8192 + LINE] = words.view(np.uint8), 0
  engine.memory("late", seed)
  engine.launch(0, [1 << 20, 1 << 21], invalidate=True)
  for register, value in ((Csr.SREG + 4 * 32, 4096), (Csr.SREG + 4 * 33, 8192), (Csr.GO, 1)):
    engine.write(register, value)
  while engine.read(Csr.STATUS) & Status.RUNNING:
    pass
  for at in (4096, 8192):
    assert engine.hbm[at:at + LINE].view(np.uint32).tolist() == list(range(CONFIG.width))
  engine.hbm[8192:8192 + LINE] = 0
  engine.write(Csr.GO, 1)
  assert engine.run(1000)  # the pin says the same
  assert engine.hbm[8192:8192 + LINE].view(np.uint32).tolist() == list(range(CONFIG.width))


def test_errors_of_memory(engine):
  words = pack([[ins("hld", d=1, a=32)], [ins("hst", d=1, a=33)], [ins("halt")]])
  engine.hbm[:words.nbytes] = words.view(np.uint8)
  for bad, expected in ((4096, BusError.READ), (8192, BusError.WRITE)):
    engine.memory("both", 7, bad // LINE)
    assert engine.launch(0, [4096, 8192], invalidate=True).fault is None
    assert engine.read(AxiCsr.ERROR) == expected
    engine.memory("both", 7)
    engine.launch(0, [4096, 8192])
    assert engine.read(AxiCsr.ERROR) == expected                         # until it is cleared
    assert engine.write(AxiCsr.ERROR, 3 - expected) == Response.OKAY and engine.read(AxiCsr.ERROR) == expected
    engine.write(AxiCsr.ERROR, expected)
    assert engine.read(AxiCsr.ERROR) == 0


def test_strobes(engine):
  engine.memory("both", 9)
  assert engine.write(Csr.ENTRY, 0x12345678) == Response.OKAY
  assert engine.write(Csr.ENTRY, 1, 0b0001) == engine.write(Csr.ENTRY, 1, 0b1110) == Response.SLVERR
  assert engine.write(Csr.ENTRY, 1, 0) == Response.OKAY
  assert engine.read(Csr.ENTRY) == 0x12345678


def test_jump_beyond_memory(engine, simulator):
  """Reads as zeros, which are illegal, without an access to the bus beyond memory."""
  words = pack([[ins("jmp", imm=0xFFFFFFF0)]])
  engine.memory("both", 2)
  results = []
  for e in (simulator, engine):
    e.hbm[:words.nbytes] = words.view(np.uint8)
    results.append(e.launch(0, invalidate=True))
  assert results[0] == results[1] and results[0].fault.cause == Fault.ILLEGAL


@pytest.mark.parametrize("after", [3, 40, 55, 70, 90])
def test_reset_while_running(engine, simulator, after):
  """Whatever was under way leaves nothing behind, in the core or in the adapter."""
  stream = pack([[ins("dmai", c=0, a=32, d=34, x=35)], Label("x"), [ins("hld", d=1, a=32), ins("jmp", target="x")]])
  engine.memory("late", after)
  engine.hbm[:stream.nbytes] = stream.view(np.uint8)
  for register, value in ((Csr.INVALIDATE, 1), (Csr.PROGRAM, 0), (Csr.ENTRY, 0), (Csr.LIMIT_LO, 0), (Csr.LIMIT_HI, 0),
                          *((Csr.SREG + 4 * (32 + i), v) for i, v in enumerate((4096, 0, 64, 200))), (Csr.GO, 1)):
    engine.write(register, value)
  assert not engine.run(after)
  engine.reset()
  assert engine.read(Csr.STATUS) == 0
  case = generate(21, CONFIG)
  assert not compare([execute(case, e) for e in (simulator, engine)]), case.text()


def test_watchdog(engine, simulator):
  case = replace(exercise("hst", CONFIG), limit=40)
  engine.memory("slow", 4)
  assert not compare([execute(case, e) for e in (simulator, engine)])


def test_width_of_the_bus():
  assert check_data_bits(CONFIG, None) == 512 and check_data_bits(preset("4x4"), 32) == 32
  for bits in (0, 48, 16, 1024):
    with pytest.raises(ConfigError, match=f"{bits} bits cannot be: preset 4x4 takes powers of two from 32 to 512"):
      check_data_bits(CONFIG, bits)


def test_lint(verilog):
  assert lint(verilog, "tinytpu_axi", WAIVERS) == []
