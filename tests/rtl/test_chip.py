"""The chip as the host sees it: registers, window, and lint of the whole design."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tinytpu.config import Config, preset
from tinytpu.isa.counters import COUNTERS
from tinytpu.isa.faults import Fault
from tinytpu.isa.instruction import Label, ins, pack
from tinytpu.machine.rtl import RtlEngine
from tinytpu.rtl.chip import WAIVERS, Chip
from tinytpu.rtl.csr import Csr, Status, window_select
from tinytpu.rtl.verilate import lint, to_verilog
from tinytpu.rtl.window import Space

CONFIG = preset("4x4")
PROGRAM = 1 << 16


class Host:
  """The bus, one access per cycle."""

  def __init__(self, engine: RtlEngine):
    self.engine, self.lib, self.chip = engine, engine._lib, engine._chip

  def read(self, address: int) -> int:
    return self.lib.chip_read(self.chip, address)

  def write(self, address: int, value: int) -> None:
    self.lib.chip_write(self.chip, address, value)

  def load(self, groups: list) -> None:
    words = pack(groups)
    self.engine.hbm[PROGRAM:PROGRAM + words.nbytes] = words.view(np.uint8)
    for register, value in ((Csr.INVALIDATE, 1), (Csr.PROGRAM, PROGRAM), (Csr.ENTRY, 0), (Csr.LIMIT_LO, 0), (Csr.LIMIT_HI, 0)):
      self.write(register, value)


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
  engine = RtlEngine(CONFIG)
  yield Host(engine)
  engine.close()


def test_registers_read_back(host):
  for register in (Csr.PROGRAM, Csr.ENTRY, Csr.LIMIT_LO, Csr.LIMIT_HI):
    host.write(register, 0xA5A50000 | register)
  for i in range(Config.SREGS):
    host.write(Csr.SREG + 4 * i, 0x1000 + i)
  for register in (Csr.PROGRAM, Csr.ENTRY, Csr.LIMIT_LO, Csr.LIMIT_HI):
    assert host.read(register) == 0xA5A50000 | register
  assert [host.read(Csr.SREG + 4 * i) for i in range(Config.SREGS)] == [0] + [0x1000 + i for i in range(1, Config.SREGS)]


def test_other_addresses_read_zero(host):
  ends = (0x1C, 0x2C, 0x44, Csr.COUNTER - 4, Csr.COUNTER + 8 * len(COUNTERS), Csr.SREG + 4 * Config.SREGS,
          Csr.WINDOW_DATA + 4 * CONFIG.width, 0x80000000, 0xFFFFFFFC)
  assert [host.read(address) for address in ends] == [0] * len(ends)


def test_status_and_writes_while_running(host):
  """A running program owns the machine: every write is dropped, and scalar registers read as zero."""
  host.load([Label("x"), [ins("sadd", d=1, a=1, imm=1), ins("jmp", target="x")]])
  host.write(Csr.LIMIT_LO, 500)
  host.write(Csr.SREG + 4 * 40, 77)
  host.write(Csr.GO, 1)
  assert host.read(Csr.STATUS) == Status.RUNNING and host.read(Csr.SREG + 4 * 40) == 0
  for register, value in ((Csr.GO, 1), (Csr.ENTRY, 9), (Csr.PROGRAM, 0), (Csr.LIMIT_LO, 0), (Csr.INVALIDATE, 1), (Csr.SREG + 4 * 40, 78)):
    host.write(register, value)
  assert host.lib.chip_run(host.chip, 1000)
  assert host.read(Csr.STATUS) == 0
  assert (host.read(Csr.FAULT_CAUSE), host.read(Csr.FAULT_CYCLE_LO), host.read(Csr.CYCLES_LO)) == (Fault.WATCHDOG, 500, 501)
  assert (host.read(Csr.ENTRY), host.read(Csr.PROGRAM), host.read(Csr.SREG + 4 * 40)) == (0, PROGRAM, 77)


def test_run_stops_at_its_budget(host):
  host.load([Label("x"), [ins("jmp", target="x")]])
  host.write(Csr.LIMIT_LO, 5000)
  host.write(Csr.GO, 1)
  assert not host.lib.chip_run(host.chip, 4000)
  assert host.lib.chip_run(host.chip, 4000)


def test_no_limit(host):
  host.load([[ins("loop", a=32, target="end")], [ins("lend")], Label("end"), [ins("halt")]])
  host.write(Csr.SREG + 4 * 32, 100)
  host.write(Csr.GO, 1)
  assert host.lib.chip_run(host.chip, 1000) and host.read(Csr.FAULT_CAUSE) == 0


def test_window(host):
  """Each space through the words and through the wide port."""
  load = [[ins("vlid", d=63)], [ins("vadd", d=62, a=63, imm=100)], [ins("ppush", d=15, a=62)], [ins("vst", d=63, a=32)], [ins("halt")]]
  host.load(load)
  last = CONFIG.vmem_words // CONFIG.width - 1
  host.write(Csr.SREG + 4 * 32, last * CONFIG.line_bytes)
  host.write(Csr.GO, 1)
  assert host.lib.chip_run(host.chip, 1000)
  lanes = np.arange(CONFIG.width, dtype=np.uint32)
  for space, index, expected in ((Space.VREG, 63, lanes), (Space.VREG, 62, lanes + 100), (Space.PSUM, 15, lanes + 100),
                                 (Space.VMEM, last, lanes)):
    host.write(Csr.WINDOW, window_select(space, index))
    for _ in range(4):
      if not host.read(Csr.STATUS) & Status.FETCHING:
        break
    else:
      pytest.fail("the window does not finish")
    assert [host.read(Csr.WINDOW_DATA + 4 * i) for i in range(CONFIG.width)] == expected.tolist()
    wide = np.zeros(CONFIG.width, np.uint32)
    host.lib.chip_window(host.chip, Csr.WINDOW, window_select(space, index), 1, wide.ctypes.data)
    assert wide.tolist() == expected.tolist()
  assert host.engine.state()["vregs"][15].tolist() == [0] * CONFIG.width  # the window's ppop writes no register


def test_go_while_the_window_fetches(host):
  """The launch begins when the window is done; until then the host sees a program running, and the tile is right."""
  host.load([[ins("vlid", d=63)], [ins("ppush", d=15, a=63)], [ins("sadd", d=9, a=9, imm=1)], [ins("halt")]])
  for count, space in enumerate(Space):
    host.write(Csr.SREG + 4 * 9, 100)
    host.write(Csr.WINDOW, window_select(space, 15 if space == Space.PSUM else 63))
    host.write(Csr.GO, 1)
    for register, value in ((Csr.ENTRY, 9), (Csr.SREG + 4 * 9, 5)):  # dropped, as while running
      host.write(register, value)
    assert host.lib.chip_run(host.chip, 1000)
    assert (host.read(Csr.SREG + 4 * 9), host.read(Csr.ENTRY), host.read(Csr.STATUS), host.read(Csr.FAULT_CAUSE)) == (101, 0, 0, 0)
    if count:
      expected = np.arange(CONFIG.width) if space == Space.PSUM else np.zeros(CONFIG.width)
      assert [host.read(Csr.WINDOW_DATA + 4 * i) for i in range(CONFIG.width)] == expected.tolist()


def test_a_reset_clears_all_buckets(host):
  host.load([[ins("vlid", d=63)], *([ins("ppush", d=i, a=63)] for i in range(Config.PSUMS)), [ins("halt")]])
  host.write(Csr.GO, 1)
  assert host.lib.chip_run(host.chip, 1000)
  assert (host.engine.state()["psums"] == np.arange(CONFIG.width)).all()
  host.lib.chip_reset(host.chip)
  assert not host.engine.state()["psums"].any()


@pytest.mark.parametrize("traced", [False, True])
def test_lint(traced):
  verilog = to_verilog(Chip(CONFIG, traced), "chip")
  assert lint(verilog, "chip", WAIVERS) == []
  assert ("trace__" in verilog) == ("result_hbm_v" in verilog) == traced  # nothing of it in the hardware that is written out
