"""The engine API, on the simulator; what holds for every engine is in tests/cosim."""

from __future__ import annotations

import importlib
import subprocess
import sys

import numpy as np
import pytest

from tests.iss.support import CONFIG, DATA, Machine, W
from tinytpu.config import preset
from tinytpu.isa.faults import Fault
from tinytpu.isa.instruction import Label, ins, pack
from tinytpu.iss import build
from tinytpu.machine import DEFAULT_LIMIT, LaunchError, open_engine

HALT = [ins("halt")]


@pytest.fixture
def fresh() -> Machine:
  return Machine()


def test_reset_state_is_zero(fresh):
  state = fresh.engine.state()
  assert {name: (array.shape, array.dtype) for name, array in state.items()} == {
    "sregs": ((64,), np.uint32),
    "vregs": ((64, W), np.uint32),
    "psums": ((16, W), np.uint32),
    "vmem": ((CONFIG.vmem_bytes,), np.uint8),
  }
  assert not any(array.any() for array in state.values())
  assert fresh.engine.hbm.shape == (CONFIG.hbm_bytes,) and fresh.engine.hbm.dtype == np.uint8
  assert fresh.engine.config is CONFIG


def test_state_is_a_copy(fresh):
  fresh.engine.state()["sregs"][5] = 1
  assert fresh.engine.state()["sregs"][5] == 0


def test_arguments(fresh):
  fresh.run([HALT], [1, -1, 2**32 - 1, -(2**31)])
  assert list(fresh.state("sregs")[32:37]) == [1, 0xFFFFFFFF, 0xFFFFFFFF, 0x80000000, 0]
  fresh.run([HALT], list(range(32)))
  assert list(fresh.state("sregs")[32:]) == list(range(32))


@pytest.mark.parametrize(
  "options,message",
  [
    ({"program_address": 8}, "program address must be a multiple of an instruction buffer block .1024 bytes."),
    ({"program_address": CONFIG.hbm_bytes}, "program address"),
    ({"program_address": -1024}, "program address"),
    ({"program_address": 0, "args": [0] * 33}, "at most 32 arguments"),
    ({"program_address": 0, "args": [0, 1 << 32]}, "argument 1 must fit 32 bits"),
    ({"program_address": 0, "args": [-(1 << 31) - 1]}, "argument 0"),
    ({"program_address": 0, "entry": -1}, "entry"),
    ({"program_address": 0, "limit": 0}, "limit must be 1 to"),
    ({"program_address": 0, "limit": DEFAULT_LIMIT + 1}, "limit"),
  ],
)
def test_refused_launches(fresh, options, message):
  with pytest.raises(LaunchError, match=message):
    fresh.engine.launch(**options)


def test_unknown_engine():
  with pytest.raises(ValueError, match="unknown engine 'fpga'; engines: iss, rtl"):
    open_engine(CONFIG, "fpga")


def test_state_survives_launches(fresh):
  fresh.put(DATA, np.arange(W, dtype=np.uint32))
  fresh.run([[ins("hld", d=1, a=32)], [ins("ppush", d=3, a=1), ins("vst", d=1, a=0)], [ins("sadd", d=9, a=0, imm=5)], HALT], [DATA])
  fresh.run([[ins("nop")], HALT])
  state = fresh.engine.state()
  assert (state["vregs"][1] == np.arange(W)).all() and (state["psums"][3] == np.arange(W)).all()
  assert (state["vmem"][: 4 * W].view(np.uint32) == np.arange(W)).all() and state["sregs"][9] == 5


def test_stale_code_runs_until_invalidated(fresh):
  """The buffer keeps what it fetched: memory that changes under it is not noticed."""
  fresh.run([[ins("sadd", d=1, a=0, imm=1)], HALT])
  words = pack([[ins("sadd", d=1, a=0, imm=2)], HALT])
  fresh.engine.hbm[: words.nbytes] = words.view(np.uint8)
  assert fresh.engine.launch(0).counters["refills"] == 0
  assert fresh.state("sregs")[1] == 1
  assert fresh.engine.launch(0, invalidate=True).counters["refills"] == 1
  assert fresh.state("sregs")[1] == 2


def test_programs_at_other_addresses(fresh):
  for k, address in enumerate((1024, 64 * 1024, CONFIG.hbm_bytes - 1024)):
    words = pack([[ins("jmp", target="on")], [ins("trap")], Label("on"), [ins("sadd", d=1, a=0, imm=k)], HALT])
    fresh.engine.hbm[address : address + words.nbytes] = words.view(np.uint8)
    assert fresh.engine.launch(address).fault is None
    assert fresh.state("sregs")[1] == k
    assert fresh.engine.launch(address, entry=1).fault.cause == Fault.TRAP


def test_code_written_by_a_program(fresh):
  """What a program stores into its own text takes effect when the block is fetched again."""
  target = 128
  trap = pack([[ins("trap", imm=5)]]).view(np.uint32)
  tile = np.zeros(W, np.uint32)
  tile[:2] = trap
  fresh.put(DATA, tile)
  groups: list = [[ins("hld", d=1, a=32)], [ins("hst", d=1, a=33)], [ins("fence")], [ins("jmp", imm=target)]]
  result = fresh.run(groups, [DATA, target * 8])
  assert (result.fault.cause, result.fault.pc, result.fault.info) == (Fault.TRAP, target, 5)


def test_default_limit_and_counters_of_each_launch(fresh):
  first = fresh.run([[ins("vadd", d=1)], HALT])
  second = fresh.engine.launch(0)
  assert (first.counters["refills"], second.counters["refills"]) == (1, 0)
  assert second.counters["slot_V"] == 1 and second.cycles < first.cycles


def test_long_runs_are_sliced(fresh, monkeypatch):
  """A run looks up for signals now and then; that changes nothing."""
  groups: list = [
    [ins("vfadd", d=1, a=1, imm=0x3F800000)],
    [ins("loop", a=32, target="e")],
    [ins("vadd", d=2, a=2, imm=1), ins("dmai", x=33, d=34)],
    [ins("vfmul", d=3, a=3, imm=0), ins("mmf", d=1, a=3, b=2), ins("lend")],
    Label("e"),
    [ins("dwaiti")],
    [ins("halt")],
  ]
  whole = fresh.warm(groups, [50, 3, 64])
  # By name: the package's engine modules are loaded lazily.
  monkeypatch.setattr(importlib.import_module("tinytpu.machine.iss"), "SLICE", 7)
  assert fresh.warm(groups, [50, 3, 64]) == whole


def test_progress_is_told_only_when_it_takes_long():
  lines: list[str] = []
  open_engine(CONFIG, progress=lines.append).close()
  assert build.is_cached() and lines == []


def test_cache_depends_on_every_source(monkeypatch, tmp_path):
  script = """import sys, tinytpu.iss.core, tinytpu.iss.build
print(*(m.__file__ for n, m in sys.modules.items() if n.startswith(("tinytpu.isa.", "tinytpu.iss.", "tinytpu.config"))))"""
  used = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
  assert {path for path in used if not path.endswith("isa/__init__.py")} <= {str(source) for source in build._SOURCES}
  before = build.folder()
  for source in build._SOURCES:
    changed = tmp_path / source.name
    changed.write_bytes(source.read_bytes() + b"# changed")
    monkeypatch.setattr(build, "_SOURCES", tuple(changed if s == source else s for s in build._SOURCES))
    assert build.folder() != before
    monkeypatch.undo()
  assert build.folder() == before


@pytest.mark.parametrize("side", [8, 16])
def test_larger_tiles(side):
  """The simulator is one for all presets: registers, cross-lane moves, matrix steps with their order of sums, memory."""
  config = preset(f"{side}x{side}", hbm_bytes=CONFIG.hbm_bytes)
  m = Machine(config)
  width = side * side
  rng = np.random.default_rng(side)
  a, b, c = rng.normal(0, 1, (3, width)).astype(np.float32)
  m.put(DATA, np.stack([a, b, c]))
  load = [[ins("hld", d=1 + i, a=32, off=i * width)] for i in range(3)]
  work = [
    [ins("ppush", d=1, a=3)],
    [ins("mmf", d=1, a=1, b=2)],
    [ins("ppop", d=4, a=1)],
    [ins("xtr", d=5, a=1)],
    [ins("vfmul", d=6, a=1, b=2, bkind=0)],
    [ins("vst", d=6, a=0)],
    [ins("vld2", d=7, a=0, r=33, c2=34)],
    [ins("xrot", d=8, a=1, imm=3)],
    [ins("mmiz", d=2, a=1, b=2)],
    [ins("xbcr", d=9, a=1, imm=side + 1)],
  ]
  result = m.run([*load, *work, HALT], [DATA, 1, side])
  assert result.fault is None
  v, psums = m.state("vregs").view(np.float32), m.state("psums")
  x, y = a.reshape(side, side), b.reshape(side, side)
  p = [x[:, k, None] * y[None, k] for k in range(side)]
  total = c.reshape(side, side)
  for g in range(0, side, 4):
    total = total + ((p[g] + p[g + 1]) + (p[g + 2] + p[g + 3]))
  assert (v[4] == total.reshape(-1)).all()
  assert (v[5] == x.T.reshape(-1)).all() and (v[6] == a * b).all() and (v[7] == (a * b).reshape(side, side).T.reshape(-1)).all()
  assert (v[8] == np.roll(a, -3)).all() and (v[9] == np.tile(x[1], side)).all()
  bytes_a = a.view(np.int8).reshape(side, 4 * side).astype(np.int64)
  bytes_b = b.view(np.int8).reshape(side, side, 4).transpose(0, 2, 1).reshape(4 * side, side).astype(np.int64)
  assert (psums[2] == ((bytes_a @ bytes_b).reshape(-1) & 0xFFFFFFFF)).all()
  m.engine.close()


def test_simulator_needs_no_hardware_tools():
  """Opening the simulator loads nothing of the RTL."""
  script = "import sys; from tinytpu import config, machine; machine.open_engine(config.preset('4x4')); print('amaranth' in sys.modules)"
  assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "False\n"
