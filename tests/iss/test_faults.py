"""Every fault, with its exact record, what still completes and what does not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.iss.support import CONFIG, DATA, VREG, W
from tinytpu.isa import encoding as enc
from tinytpu.isa.faults import Fault, FaultRecord
from tinytpu.isa.instruction import Label, Raw, encode, ins
from tinytpu.isa.table import BY_CODE, OPS
from tinytpu.isa.timing import DMA_WORDS, latency, refill

VMEM, HBM = CONFIG.vmem_bytes, CONFIG.hbm_bytes
NOP, HALT = [ins("nop")], [ins("halt")]

DIV = latency(CONFIG, "DIV")


def record(iss, groups, args=(), **options) -> FaultRecord | None:
  return iss.warm(groups, args, **options).fault


UNKNOWN = [code for code in range(256) if code not in BY_CODE]
FLEXIBLE = [op.name for op in OPS.values() if {"b", "k"} & set(op.operands)]


@pytest.mark.parametrize(
  "group",
  [
    [Raw(0)],
    [Raw(enc.CODE.put(UNKNOWN[-1]))],
    [ins("nop"), Raw(enc.CODE.put(UNKNOWN[1]))],
    [Raw(encode(ins("sadd", d=1))), Raw(encode(ins("smul", d=2)))],
    [Raw(encode(ins("jmp"))), Raw(encode(ins("trap")))],
    [Raw(encode(ins("vadd", d=1))), Raw(encode(ins("xtr", d=1)))],
    [Raw(encode(ins("vld", d=1))), Raw(encode(ins("hld", d=1)))],
    [Raw(encode(ins("sadd", d=1))), Raw(encode(ins("xtos", d=1)))],
    [Raw(encode(ins("sadd", d=0))), Raw(encode(ins("xany", d=0)))],
    [Raw(encode(ins("vld")) | enc.DTYPE.put(7))],
    [Raw(encode(ins("hst")) | enc.DTYPE.put(15))],
    [Raw(encode(ins("vatom2")) | enc.DTYPE.put(1))],
    [ins("vadd", d=1, a=2), ins("nop"), ins("nop"), Raw(encode(ins("nop"), chain=True))],
  ],
  ids=range(13),
)
def test_illegal_groups(iss, group):
  iss.set_vregs(1, np.full((1, W), 5, np.uint32))
  assert record(iss, [[*NOP, *NOP, *NOP, *NOP], group, HALT]) == FaultRecord(Fault.ILLEGAL, 4, 2, 0)
  assert (iss.state("vregs")[1] == 5).all()
  assert iss.warm([[*NOP, *NOP, *NOP, *NOP], group, HALT]).counters["groups"] == 1


@pytest.mark.parametrize("code", UNKNOWN)
def test_unknown_codes(iss, code):
  assert record(iss, [[Raw(enc.CODE.put(code) | 0xFFFFFFFF << 32)]]) == FaultRecord(Fault.ILLEGAL, 0, 1, 0)


@pytest.mark.parametrize("name", FLEXIBLE)
def test_flexible_operand_kinds(iss, name):
  illegal = [3] if "b" in OPS[name].operands else [0, 3]
  for bkind in range(4):
    word = encode(ins(name, d=1)) & ~enc.BKIND.put(3) | enc.BKIND.put(bkind)
    fault = record(iss, [[Raw(word)], HALT])
    assert fault == (FaultRecord(Fault.ILLEGAL, 0, 1, 0) if bkind in illegal else None)


def test_fields_that_are_not_used_are_ignored(iss):
  words = [
    encode(ins("sadd", d=1)) | enc.C.put(63),
    encode(ins("xtr", d=1)) | enc.MODE.put(31),
    encode(ins("dmai")) | 3 << 62,
    encode(ins("vld", d=1)) | enc.C.put(9),
    encode(ins("nop")) | 0xFFFFFFFFFFFFFE00,
  ]
  assert record(iss, [*([Raw(w)] for w in words), HALT]) is None


def test_illegal_groups_do_not_wait(iss):
  result = iss.warm([[ins("vdiv", d=1, a=2)], [ins("vadd", d=3, a=1), Raw(0)], HALT])
  assert result.fault == FaultRecord(Fault.ILLEGAL, 1, 2, 0)
  assert result.cycles == 1 + DIV  # the quotient is still waited for


def test_trap(iss):
  groups = [NOP, [ins("sadd", d=1, imm=9), ins("trap", imm=0xDEADBEEF)], HALT]
  iss.run([[ins("sadd", d=1, a=0)], HALT])
  assert record(iss, groups) == FaultRecord(Fault.TRAP, 1, 2, 0xDEADBEEF)
  assert iss.state("sregs")[1] == 0


def test_loop_stack(iss):
  nested: list = [[ins("loop", a=32, imm=0)] for _ in range(9)]
  assert record(iss, nested, [1]) == FaultRecord(Fault.LOOP_OVERFLOW, 8, 9, 0)
  assert record(iss, [*nested[:8], *[[ins("lend")]] * 8, HALT], [1]) is None
  assert record(iss, [*nested[:8], [ins("loop", a=0, imm=0)]], [1]) == FaultRecord(Fault.LOOP_OVERFLOW, 8, 9, 0)
  assert record(iss, [[ins("lend")]]) == FaultRecord(Fault.LOOP_UNDERFLOW, 0, 1, 0)
  assert record(iss, [*nested[:3], HALT], [1]) is None  # a launch starts with an empty stack
  assert record(iss, [[ins("lend")]]) == FaultRecord(Fault.LOOP_UNDERFLOW, 0, 1, 0)


@pytest.mark.parametrize(
  "name,field,base,mtype,cause,info",
  [
    ("vld", "d", VMEM - 60, 0, Fault.VMEM_BOUNDS, VMEM),
    ("vst", "d", VMEM, 0, Fault.VMEM_BOUNDS, VMEM),
    ("vld", "d", 6, 0, Fault.VMEM_ALIGN, 6),
    ("vst", "d", VMEM - 15, 1, Fault.VMEM_BOUNDS, VMEM),
    ("vld", "d", 7, 5, Fault.VMEM_ALIGN, 7),
    ("vst", "d", -4, 0, Fault.VMEM_BOUNDS, 0xFFFFFFFC),
    ("vld", "d", VMEM + 2, 0, Fault.VMEM_ALIGN, VMEM + 2),
    ("hld", "d", HBM - 4, 0, Fault.HBM_BOUNDS, HBM),
    ("hst", "d", HBM + 64, 3, Fault.HBM_BOUNDS, HBM + 64),
    ("hst", "d", 3, 6, Fault.HBM_ALIGN, 3),
  ],
)
def test_memory_faults(iss, name, field, base, mtype, cause, info):
  tiles = np.arange(2 * W, dtype=np.uint32).reshape(2, W)
  iss.set_vregs(1, tiles)
  iss.set_vmem(VMEM - 64, tiles[0])
  before = iss.state("vmem"), iss.engine.hbm[HBM - 64 :].copy()
  bad = [ins(name, d=1, a=32, x=0, mtype=mtype), ins("vadd", d=2, a=2, imm=1), ins("sadd", d=1, a=0, imm=7)]
  result = iss.warm([NOP, bad, [ins("sadd", d=1, a=0, imm=8)], HALT], [base])
  assert result.fault == FaultRecord(cause, 1, 3, info)
  assert (iss.state("vregs")[1:3] == [tiles[0], tiles[1] + 2]).all()  # two launches: twice 1
  assert iss.state("sregs")[1] == 7
  assert (iss.state("vmem") == before[0]).all() and (iss.engine.hbm[HBM - 64 :] == before[1]).all()
  assert result.counters["groups"] == 2 and result.counters["vmem_cycles"] == 0 and result.counters["hbm_lines"] == 0
  assert result.cycles == 4


def test_lowest_active_element_faults(iss):
  index = np.arange(W, dtype=np.uint32)
  index[[5, 9, 12]] = [1 << 20, 1 << 28, 1 << 24]
  mask = np.ones(W, np.uint32)
  mask[5] = 0
  iss.set_vregs(1, np.stack([index, mask]))
  assert record(iss, [[ins("vldx", d=3, a=0, r=1)], HALT]) == FaultRecord(Fault.VMEM_BOUNDS, 0, 2, 4 << 20)
  assert record(iss, [[ins("vldx", d=3, a=0, r=1, masked=True, c=2)], HALT]) == FaultRecord(Fault.VMEM_BOUNDS, 0, 2, 4 << 28)
  mask[[9, 12]] = 0
  iss.set_vregs(1, np.stack([index, mask]))
  assert record(iss, [[ins("vldx", d=3, a=0, r=1, masked=True, c=2)], HALT]) is None
  iss.set_vregs(2, np.zeros((1, W), np.uint32))
  assert record(iss, [[ins("vld", d=3, a=0, off=5, masked=True, c=2)], [ins("hst", d=3, a=32, masked=True, c=2)], HALT], [1]) is None


def test_both_memory_operations_fault(iss):
  both = [ins("hst", d=1, a=33), ins("vld", d=2, a=32)]
  assert record(iss, [both, HALT], [VMEM, HBM]) == FaultRecord(Fault.VMEM_BOUNDS, 0, 2, VMEM)
  assert record(iss, [both, HALT], [0, HBM]) == FaultRecord(Fault.HBM_BOUNDS, 0, 2, HBM)


def test_other_memory_operation_of_the_group_completes(iss):
  data = np.arange(W, dtype=np.uint32) + 3
  iss.set_vmem(0, np.zeros(W, np.uint32))
  iss.set_vregs(1, data[None])
  assert record(iss, [[ins("vst", d=1, a=0), ins("vld", d=2, a=32)], HALT], [VMEM]) == FaultRecord(Fault.VMEM_BOUNDS, 0, 2, VMEM)
  assert (iss.state("vmem")[:64].view(np.uint32) == data).all()
  assert record(iss, [[ins("vst", d=1, a=32), ins("vld", d=2, a=0)], HALT], [VMEM]) == FaultRecord(Fault.VMEM_BOUNDS, 0, 2, VMEM)
  assert (iss.state("vregs")[2] == data).all()


TRANSFER = {"c": 32, "c2": 33, "a": 34, "r": 35, "d": 36, "x": 37}


@pytest.mark.parametrize(
  "args,cause,info",
  [
    ([2, 0, DATA, 0, 64, 1], Fault.DMA_ALIGN, 2),
    ([0, 6, DATA, 0, 64, 2], Fault.DMA_ALIGN, 6),
    ([0, 0, DATA + 1, 0, 64, 1], Fault.DMA_ALIGN, DATA + 1),
    ([0, 0, DATA, 3, 64, 0], Fault.DMA_ALIGN, 3),
    ([0, 0, DATA, 0, 62, 1], Fault.DMA_ALIGN, 62),
    ([VMEM - 60, 0, DATA, 0, 64, 1], Fault.DMA_BOUNDS, VMEM - 60),
    ([0, VMEM - 60, DATA, 0, 64, 2], Fault.DMA_BOUNDS, 0),
    ([0, 0, HBM - 60, 0, 64, 1], Fault.DMA_BOUNDS, HBM - 60),
    ([VMEM, 0, HBM, 0, 64, 1], Fault.DMA_BOUNDS, HBM),
    ([0, 0, DATA, 0xFFFFFFFC, 64, 0xFFFFFFFF], Fault.DMA_BOUNDS, DATA),
    ([0, 0, DATA, 0x80000000, 4, 3], Fault.DMA_BOUNDS, DATA),
    ([0, 0, DATA, 0, 4, 0xFFFFFFFF], Fault.DMA_SIZE, DATA),
    ([0, 0, DATA, 0, 4, DMA_WORDS + 1], Fault.DMA_SIZE, DATA),
    ([0, 0, DATA, 0, VMEM, 4 * DMA_WORDS // VMEM + 1], Fault.DMA_SIZE, DATA),
    ([VMEM, 0, DATA, 0, 4, 0xFFFFFFFF], Fault.DMA_BOUNDS, VMEM),
    ([VMEM - 64, 0, HBM - 64, 0, 64, 1], Fault.NONE, 0),
    ([VMEM, 0, HBM, 4, 0, 5], Fault.NONE, 0),
    ([VMEM, 0, HBM, 4, 64, 0], Fault.NONE, 0),
  ],
)
@pytest.mark.parametrize("name", ["dmai", "dmao"])
def test_transfers(iss, name, args, cause, info):
  iss.set_vmem(VMEM - 64, np.arange(16, dtype=np.uint32))
  before = iss.state("vmem"), iss.engine.hbm[HBM - 64 :].copy()
  result = iss.warm([[ins(name, **TRANSFER), ins("sadd", d=1, a=0, imm=3)], HALT], args)
  assert result.fault == (FaultRecord(cause, 0, 2, info) if cause else None)
  if cause:
    assert result.cycles == 3 and result.counters["dma_lines"] == 0
    assert (iss.state("vmem") == before[0]).all() and (iss.engine.hbm[HBM - 64 :] == before[1]).all()


@pytest.mark.parametrize("name", ["dmai", "dmao"])
def test_largest_transfer(iss, name):
  """Planes of rows onto each other: as many words as may be, in as many cycles."""
  rows = {"c": 32, "c2": 33, "zv": 0, "a": 34, "r": 35, "zh": 0, "d": 36, "x": 37, "z": 38}
  args = [0, 0, DATA, 0, 4, 1 << 12, DMA_WORDS >> 12]
  result = iss.warm([[ins(name, **rows)], HALT], args)
  assert result.fault is None and result.counters["dma_lines"] == DMA_WORDS
  assert DMA_WORDS < result.cycles < DMA_WORDS + 100
  args[-1] += 1
  assert record(iss, [[ins(name, **rows)], HALT], args) == FaultRecord(Fault.DMA_SIZE, 0, 2, DATA)


def test_watchdog(iss):
  forever: list = [[ins("sadd", d=1, a=1, imm=1)], [ins("jmp", imm=0)]]
  result = iss.warm(forever, limit=100)
  assert result.fault == FaultRecord(Fault.WATCHDOG, 1, 100, 0) and result.cycles == 101  # word 1 would issue in 2, 4, ... 100
  assert result.counters["groups"] == 99
  assert record(iss, [[ins("vdiv", d=1, a=2)], [ins("vadd", d=3, a=1)], HALT], limit=10) == FaultRecord(Fault.WATCHDOG, 1, 10, 0)
  assert iss.run([HALT], limit=10).fault == FaultRecord(Fault.WATCHDOG, 0, 10, 0)  # while the first block is fetched
  assert iss.run([HALT], limit=1 + refill(CONFIG)).fault == FaultRecord(Fault.WATCHDOG, 0, 1 + refill(CONFIG), 0)
  assert iss.run([HALT], limit=2 + refill(CONFIG)).fault is None
  assert record(iss, [NOP, HALT], limit=3) is None  # halt issued in 2
  assert record(iss, [[ins("vdiv", d=1, a=2)], HALT], limit=3) is None  # what is outstanding may take longer


def test_priority(iss):
  bad = [ins("vld", d=1, a=32)]
  assert record(iss, [bad, HALT], [VMEM], limit=2) == FaultRecord(Fault.VMEM_BOUNDS, 0, 2, VMEM)
  assert record(iss, [NOP, [Raw(0)]], limit=2) == FaultRecord(Fault.WATCHDOG, 1, 2, 0)
  assert record(iss, [bad, [ins("trap")]], [VMEM]) == FaultRecord(Fault.VMEM_BOUNDS, 0, 2, VMEM)
  assert record(iss, [[*bad, ins("halt")]], [VMEM]) == FaultRecord(Fault.VMEM_BOUNDS, 0, 2, VMEM)
  assert record(iss, [[Raw(encode(ins("trap"))), Raw(encode(ins("halt")))]]) == FaultRecord(Fault.ILLEGAL, 0, 1, 0)


def test_jumps_out_of_memory(iss):
  for target in (HBM // 8, 0xFFFFFFFF, 1 << 29):
    result = iss.warm([[ins("jmp", imm=target)]])
    assert result.fault.cause == Fault.ILLEGAL and result.fault.pc == target


def test_group_after_a_faulting_one_is_looked_up(iss):
  """It never issues, but its block is fetched, and counted."""
  words = CONFIG.ibuf_block_bytes // 8
  groups = [*[NOP] * (words - 1), [ins("vld", d=1, a=32)], HALT]
  result = iss.run(groups, [VMEM])
  assert result.fault == FaultRecord(Fault.VMEM_BOUNDS, words - 1, refill(CONFIG) + words + 1, VMEM)
  assert result.counters["refills"] == 2
  assert iss.engine.launch(0, [0]).counters["refills"] == 0


def test_jump_into_a_group(iss):
  """A branch may enter a group behind its first word: what follows is a group of its own."""
  label: list = [[ins("jmp", imm=2)], [ins("trap"), ins("sadd", d=1, a=0, imm=4)], Label("x"), HALT]
  assert record(iss, label) is None
  assert iss.state("sregs")[1] == 4
  assert record(iss, [[ins("vmov", d=1, bkind=VREG, b=2)], HALT], entry=1) is None
