"""The whole chip on small programs, with issue cycles and faults worked out by hand from docs/timing.md."""
from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from tinytpu.config import Config, preset
from tinytpu.isa import encoding as enc
from tinytpu.isa import timing
from tinytpu.isa.encoding import BKind
from tinytpu.isa.faults import Fault, FaultRecord
from tinytpu.isa.instruction import Instr, Label, Raw, encode, ins, pack
from tinytpu.machine import RunResult
from tinytpu.machine.rtl import RtlEngine

CONFIG = preset("4x4")
CYCLES = {name: timing.latency(CONFIG, name) for name in timing.CLASSES}
W, LINE = CONFIG.width, CONFIG.line_bytes
PROGRAM, DATA = 1 << 16, 1 << 20
COLD, WARM = 1 + timing.refill(CONFIG), 1   # cycle in which the entry group of a launch is present
HALT = [ins("halt")]
V, S, I = BKind.VREG, BKind.SREG, BKind.IMM


@pytest.fixture(scope="module")
def engine() -> Iterator[RtlEngine]:
  made = RtlEngine(CONFIG)
  yield made
  made.close()


def run(engine: RtlEngine, groups: Sequence, args: Sequence[int] = (), **launch) -> RunResult:
  """Run a program cold."""
  words = pack(groups)
  engine.hbm[PROGRAM:PROGRAM + words.nbytes] = words.view(np.uint8)
  engine.hbm[PROGRAM + words.nbytes:PROGRAM + words.nbytes + 2 * CONFIG.ibuf_block_bytes] = 0
  return engine.launch(PROGRAM, args, **{"invalidate": True} | launch)


def gap(engine: RtlEngine, *groups: list[Instr], prepare: Sequence[list[Instr]] = ()) -> int:
  """Cycles from the first of `groups` to the last, which both have slot S free, after `prepare` and a long pause."""
  mark = [[ins("scyc", d=60), *groups[0]], *groups[1:-1], [ins("scyc", d=61), *groups[-1]]]
  pause = [[ins("sdiv", d=59, a=59, imm=1)], [ins("sadd", d=59, a=59, imm=0)]]
  result = run(engine, [*prepare, *pause, *mark, HALT])
  assert result.fault is None
  sregs = engine.state()["sregs"]
  return int(sregs[61] - sregs[60])


def fault(result: RunResult) -> tuple[Fault, int, int, int]:
  assert isinstance(result.fault, FaultRecord)
  return result.fault.cause, result.fault.pc, result.fault.cycle, result.fault.info


# -- front end ----------------------------------------------------------------------------------------------

def test_halt_alone(engine):
  cold = run(engine, [HALT])
  assert (cold.cycles, cold.fault, cold.counters["refills"], cold.counters["groups"]) == (COLD + 1, None, 1, 1)
  warm = engine.launch(PROGRAM)
  assert (warm.cycles, warm.counters["refills"], warm.counters["slot_C"]) == (WARM + 1, 0, 1)


def test_straight_line(engine):
  """One group per cycle, and a refill for every block."""
  block = CONFIG.ibuf_block_bytes // 8
  n = 2 * block
  result = run(engine, [[ins("nop")]] * n + [HALT])
  assert result.cycles == COLD + n + 2 * timing.refill(CONFIG) + 1
  assert result.counters["refills"] == 3
  assert engine.launch(PROGRAM).cycles == WARM + n + 1


def test_entry(engine):
  words = [[ins("trap", imm=1)]] * 4 + [HALT]
  assert run(engine, words, entry=4).fault is None
  assert fault(run(engine, words, entry=2)) == (Fault.TRAP, 2, COLD, 1)


def test_loops_cost_nothing(engine):
  body = [Label("top"), [ins("sadd", d=2, a=2, imm=3), ins("lend")], Label("end")]
  result = run(engine, [[ins("sadd", d=2, a=0, imm=0)], [ins("loop", a=32, target="end")], *body, HALT], [1000])
  assert result.cycles == COLD + 2 + 1000 + 1
  assert engine.state()["sregs"][2] == 3000


@pytest.mark.parametrize("count", [0, -1, -(1 << 31)])
def test_loop_not_entered(engine, count):
  result = run(engine, [[ins("loop", a=32, target="end")], [ins("trap")], [ins("lend")], Label("end"), HALT], [count])
  assert (result.cycles, result.fault) == (COLD + 2, None)


def test_nested_loops(engine):
  depth = Config.LOOP_DEPTH
  count = [ins("sadd", d=1, a=1, imm=1)]
  groups = [[ins("sadd", d=1, a=0, imm=0)], *([ins("loop", a=32 + i, target="end")] for i in range(depth)), count]
  result = run(engine, [*groups, *[[ins("lend")]] * depth, Label("end"), HALT], [2, 1, 3, 1, 2, 1, 1, 2])
  assert result.fault is None and engine.state()["sregs"][1] == 24


def test_loop_stack_faults(engine):
  depth = Config.LOOP_DEPTH
  loops = [[ins("sdiv", d=1, a=1, imm=3)]] + [[ins("loop", a=32, target="end")]] * depth
  over = run(engine, [*loops, [ins("loop", a=1, target="end")], Label("end"), HALT], [1])
  # The operand is outstanding: the fault does not wait for it, nor does the count matter; the end of the launch does wait.
  assert fault(over) == (Fault.LOOP_OVERFLOW, depth + 1, COLD + depth + 1, 0)
  assert over.cycles == COLD + CYCLES["DIV"]
  assert fault(run(engine, [[ins("nop")], [ins("lend")]])) == (Fault.LOOP_UNDERFLOW, 1, COLD + 1, 0)
  assert run(engine, [*loops, Label("end"), HALT], [1]).fault is None  # loops left open are forgotten
  assert fault(run(engine, [[ins("lend")]]))[0] == Fault.LOOP_UNDERFLOW


@pytest.mark.parametrize(("name", "test"), [
  ("beq", lambda a, c: a == c), ("bne", lambda a, c: a != c), ("blt", lambda a, c: a < c), ("bge", lambda a, c: a >= c),
  ("bltu", lambda a, c: a % (1 << 32) < c % (1 << 32)), ("bgeu", lambda a, c: a % (1 << 32) >= c % (1 << 32))])
def test_branches(engine, name, test):
  values = [0, 1, -1, 5, -(1 << 31), (1 << 31) - 1]
  pairs = [(a, c) for a in values for c in values]
  for a, c in pairs:
    result = run(engine, [[ins(name, a=32, c=33, target="to")], [ins("trap", imm=1)], Label("to"), [ins("trap", imm=2)]], [a, c])
    taken = test(a, c)
    assert fault(result) == (Fault.TRAP, 2 if taken else 1, COLD + 1, 2 if taken else 1), (a, c)


def test_jump_beyond_memory(engine):
  result = run(engine, [[ins("jmp", imm=0xFFFFFFFC)]])
  assert fault(result) == (Fault.ILLEGAL, 0xFFFFFFFC, COLD + 1 + timing.refill(CONFIG), 0)


# -- issue --------------------------------------------------------------------------------------------------

LATENCY = {  # one operation of each latency that writes v1 (or s1), and a group that reads it
  "ALU": (ins("vadd", d=1, a=2, imm=1), ins("vmov", d=3, bkind=V, b=1)),
  "IMUL": (ins("vmul", d=1, a=2, imm=1), ins("vmov", d=3, bkind=V, b=1)),
  "FLOAT": (ins("vfadd", d=1, a=2, imm=1), ins("vsel", d=3, a=2, imm=0, c=1)),
  "DIV": (ins("vdiv", d=1, a=2, imm=1), ins("xtr", d=3, a=1)),
  "TRANS": (ins("vfsin", d=1, a=2), ins("xtr", d=3, a=1)),
  "XLU": (ins("xrot", d=1, a=2, imm=1), ins("xperm", d=3, a=4, b=1)),
  "PPOP": (ins("ppop", d=1, a=2), ins("vadd", d=3, a=1, imm=0)),
  "X2S": (ins("xtos", d=1, a=2, imm=1), ins("vmov", d=3, bkind=S, b=1)),
  "MM": (ins("mmf", d=5, a=1, b=2), ins("ppop", d=3, a=5)),
}


@pytest.mark.parametrize("name", LATENCY)
def test_latency_seen_by_a_reader(engine, name):
  producer, reader = LATENCY[name]
  assert gap(engine, [producer], [reader]) == CYCLES[name]


@pytest.mark.parametrize("name", ["ALU", "IMUL", "FLOAT", "DIV", "TRANS", "XLU", "PPOP"])
def test_latency_seen_by_a_writer(engine, name):
  assert gap(engine, [LATENCY[name][0]], [ins("xtr", d=1, a=9)]) == CYCLES[name]


@pytest.mark.parametrize(("op", "name"), [("sadd", "SCALAR"), ("smul", "SMUL"), ("sdiv", "DIV")])
def test_scalar_latency(engine, op, name):
  run(engine, [[ins(op, d=1, a=2, imm=3)], [ins("sadd", d=1, a=1, imm=0)], [ins("scyc", d=61)], HALT])
  assert engine.state()["sregs"][61] == COLD + CYCLES[name] + 1


def test_shared_write_port(engine):
  """A float result and a product one cycle later fall due together: the product waits one cycle, as do those behind it."""
  v = [ins("vfadd", d=1, a=9, imm=0)], [ins("vmul", d=2, a=9, imm=0)], [ins("vadd", d=3, a=9, imm=0)]
  assert gap(engine, v[0], v[1]) == 2
  assert gap(engine, v[0], [ins("nop")], v[2]) == 3
  assert gap(engine, v[1], v[2]) == 2
  assert gap(engine, v[0], [ins("xtr", d=2, a=9)]) == 1  # another port


def test_dividers(engine):
  divide = [ins("vdiv", d=1, a=9, imm=3)]
  assert gap(engine, divide, [ins("vfdiv", d=2, a=9, imm=3)]) == CYCLES["DIV"]
  assert gap(engine, divide, [ins("vfadd", d=2, a=9, imm=3)]) == 1
  run(engine, [[ins("sdiv", d=1, a=9, imm=3)], [ins("srem", d=2, a=9, imm=3)], [ins("scyc", d=3)], HALT])
  assert engine.state()["sregs"][3] == COLD + CYCLES["DIV"] + 1


def test_transcendental_pipelines(engine):
  operation = [ins("vfexp2", d=1, a=9)]
  assert gap(engine, operation, [ins("vfcos", d=2, a=9)]) == timing.interval(CONFIG, "TRANS")
  assert gap(engine, operation, [ins("vfcos", d=2, a=9)], [ins("vflog2", d=3, a=9)]) == 2 * timing.interval(CONFIG, "TRANS")
  assert gap(engine, operation, [ins("vfadd", d=2, a=9, imm=3)]) == 1
  waiting = [[ins("nop")]] * (CYCLES["TRANS"] - CYCLES["FLOAT"] - 1)
  assert gap(engine, operation, *waiting, [ins("vfadd", d=2, a=9, imm=3)]) == CYCLES["TRANS"] - CYCLES["FLOAT"] + 1


def test_matrix_unit(engine):
  step, other = [ins("mmi", d=5, a=1, b=2)], [ins("mmiz", d=6, a=1, b=2)]
  assert gap(engine, step, step) == timing.interval(CONFIG, "MM")
  assert gap(engine, step, other, step) == 2 * timing.interval(CONFIG, "MM")
  assert gap(engine, step, [ins("ppop", d=1, a=6)]) == 1
  assert gap(engine, step, [ins("ppush", d=5, a=1)]) == CYCLES["MM"]
  assert gap(engine, [ins("ppush", d=5, a=1)], [ins("ppop", d=1, a=5)]) == CYCLES["ALU"]
  assert gap(engine, [ins("ppush", d=5, a=1)], step) == 1
  high = Raw(encode(ins("ppop", d=9, a=5)) | enc.A.put(16))
  assert gap(engine, step, [high]) == CYCLES["MM"]  # the low four bits of a bucket number count


def test_zero_register(engine):
  """s0 drops what is written, reads as zero and is never waited for."""
  result = run(engine, [[ins("smul", d=0, a=32, imm=5)], [ins("sadd", d=1, a=0, imm=7)], HALT], [9])
  assert result.cycles == COLD + 3
  assert engine.state()["sregs"][:2].tolist() == [0, 7]


def test_groups_read_before_they_write(engine):
  result = run(engine, [[ins("sadd", d=1, a=0, imm=5)], [ins("vmov", d=1, imm=6)],
                        [ins("sadd", d=1, a=1, imm=1), ins("vadd", d=1, a=1, bkind=S, b=1), ins("xrot", d=2, a=1, imm=0)], HALT])
  state = engine.state()
  assert result.fault is None and state["sregs"][1] == 6
  assert (state["vregs"][1] == 11).all() and (state["vregs"][2] == 6).all()


def test_swap(engine):
  run(engine, [[ins("ssub", d=1, a=32, imm=3, swap=True), ins("vmov", d=1, imm=10)], [ins("vsub", d=2, a=1, imm=3, swap=True)],
               [ins("ssel", d=2, a=32, imm=3, c=33, swap=True), ins("vlid", d=4)], [ins("vsel", d=3, a=4, imm=5, c=1, swap=True)], HALT],
      [10, 11])
  state = engine.state()
  assert state["sregs"][1:3].tolist() == [(3 - 10) % (1 << 32), 11]
  assert (state["vregs"][2] == (3 - 10) % (1 << 32)).all()
  assert state["vregs"][3].tolist() == [5] + [10] * (W - 1)


def test_end_waits_for_everything(engine):
  assert run(engine, [[ins("vdiv", d=1, a=2, imm=3), ins("halt")]]).cycles == COLD + CYCLES["DIV"]
  assert run(engine, [[ins("mmfz", d=1, a=2, b=3), ins("halt")]]).cycles == COLD + CYCLES["MM"]
  assert run(engine, [[ins("vld", d=1, a=0), ins("halt")]]).cycles == COLD + timing.LOAD + 1
  assert run(engine, [[ins("vst", d=1, a=0), ins("halt")]]).cycles == COLD + 2
  assert run(engine, [[ins("hld", d=1, a=0), ins("halt")]]).cycles == COLD + timing.HBM_ISSUE + 1 + CONFIG.hbm_latency


# -- memories -----------------------------------------------------------------------------------------------

def test_memory_path(engine):
  """HBM -> VMEM by DMA, load, add, store, VMEM -> HBM by DMA, and the direct way; each wait in its cycle."""
  data = np.arange(W, dtype=np.uint32) * 3
  engine.hbm[DATA:DATA + LINE] = data.view(np.uint8)
  engine.hbm[DATA + LINE:DATA + 3 * LINE] = 0
  # s32: HBM address, s33: VMEM address, s34: bytes, s35: rows, s36, s37: HBM addresses of results.
  groups = [
    [ins("dmai", c=33, c2=0, a=32, r=0, d=34, x=35)], [ins("dwaiti", imm=0), ins("scyc", d=1)],
    [ins("vld", d=1, a=33)], [ins("vadd", d=1, a=1, imm=1)], [ins("vst", d=1, a=33)],
    [ins("dmao", c=33, c2=0, a=36, r=0, d=34, x=35)], [ins("hst", d=1, a=37)], [ins("fence"), ins("scyc", d=2)],
    [ins("dwaito", imm=0), ins("scyc", d=3)], [ins("hld", d=2, a=36)], [ins("hld", d=3, a=37)], HALT]
  result = run(engine, groups, [DATA, 256, LINE, 1, DATA + LINE, DATA + 2 * LINE])
  assert result.fault is None
  arrived = COLD + 2 + 1 + CONFIG.hbm_latency + 1
  sent = arrived + 1 + timing.LOAD + 1 + CYCLES["ALU"] + 1
  stored = sent + 1
  state = engine.state()
  assert state["sregs"][1:4].tolist() == [arrived, stored + 3, max(stored + 4, sent + 2 + 1 + 2)]
  for reg in (1, 2, 3):
    assert state["vregs"][reg].tolist() == (data + 1).tolist()
  for at in (DATA + LINE, DATA + 2 * LINE):
    assert engine.hbm[at:at + LINE].view(np.uint32).tolist() == (data + 1).tolist()
  assert state["vmem"][256:256 + LINE].view(np.uint32).tolist() == (data + 1).tolist()
  counters = result.counters
  assert (counters["dma_lines"], counters["hbm_lines"], counters["vmem_cycles"], counters["refills"]) == (2, 3, 2, 1)


def test_masks(engine):
  run(engine, [[ins("vlid", d=1)], [ins("vand", d=2, a=1, imm=1)], [ins("vst", d=1, a=32), ins("vmov", d=4, imm=99)],
               [ins("vst", d=4, a=32, masked=True, c=2)], [ins("vld", d=5, a=32)], [ins("vld", d=6, a=32, masked=True, c=2)], HALT], [512])
  vregs, lanes = engine.state()["vregs"], np.arange(W)
  assert vregs[5].tolist() == np.where(lanes % 2, 99, lanes).tolist()
  assert vregs[6].tolist() == np.where(lanes % 2, 99, 0).tolist()


# -- faults -------------------------------------------------------------------------------------------------

def test_illegal(engine):
  assert fault(run(engine, [[ins("nop")], [Raw(0)]])) == (Fault.ILLEGAL, 1, COLD + 1, 0)
  twice = Raw(int(pack([[ins("sadd", d=1, imm=0)]])[0]))
  result = run(engine, [[ins("sadd", d=2, a=0, imm=1)], [ins("sadd", d=2, a=0, imm=5), twice], HALT])
  assert fault(result) == (Fault.ILLEGAL, 1, COLD + 1, 0) and result.cycles == COLD + 2
  assert engine.state()["sregs"][2] == 1  # the group had no effect


def test_trap_has_no_effect(engine):
  result = run(engine, [[ins("sadd", d=2, a=0, imm=1)], [ins("sadd", d=2, a=0, imm=5), ins("trap", imm=0xABCD1234)]])
  assert fault(result) == (Fault.TRAP, 1, COLD + 1, 0xABCD1234)
  assert engine.state()["sregs"][2] == 1 and result.counters["groups"] == 1


def test_watchdog(engine):
  forever = [Label("x"), [ins("sadd", d=1, a=1, imm=1), ins("jmp", target="x")]]
  result = run(engine, [[ins("sadd", d=1, a=0, imm=0)], *forever], limit=1000)
  assert fault(result) == (Fault.WATCHDOG, 1, 1000, 0) and result.cycles == 1001
  assert engine.state()["sregs"][1] == 1000 - COLD - 1
  assert fault(run(engine, [HALT], limit=COLD)) == (Fault.WATCHDOG, 0, COLD, 0)
  assert run(engine, [HALT], limit=COLD + 1).fault is None
  assert fault(run(engine, [HALT], limit=7)) == (Fault.WATCHDOG, 0, 7, 0)           # during the refill, which completes:
  assert engine.launch(PROGRAM).cycles == WARM + 1
  assert fault(run(engine, [[Raw(0)]], limit=COLD)) == (Fault.WATCHDOG, 0, COLD, 0)  # before what the group would raise


def test_memory_fault_stops_the_next_group(engine):
  """Taken in t + 1: the group of t + 1 does not issue; the faulting group's other operations complete, the load has no effect."""
  run(engine, [[ins("vmov", d=1, imm=77), ins("sadd", d=1, a=0, imm=0)], HALT])
  bad = CONFIG.vmem_bytes - 4
  group = [ins("vld", d=1, a=32), ins("sadd", d=1, a=0, imm=1), ins("vmov", d=2, imm=5)]
  result = run(engine, [group, [ins("sadd", d=1, a=0, imm=2)], HALT], [bad])
  assert fault(result) == (Fault.VMEM_BOUNDS, 0, COLD + 1, bad + 4)
  state = engine.state()
  assert state["sregs"][1] == 1 and (state["vregs"][1] == 77).all() and (state["vregs"][2] == 5).all()
  assert result.cycles == COLD + 2 and result.counters["groups"] == 1
  assert run(engine, [[ins("vadd", d=1, a=1, imm=0)], HALT]).cycles == COLD + CYCLES["ALU"]  # v1 is not outstanding


@pytest.mark.parametrize(("op", "args", "expected"), [
  (ins("vld", d=1, a=32), [2], (Fault.VMEM_ALIGN, 2)),
  (ins("vst", d=1, a=32), [CONFIG.vmem_bytes], (Fault.VMEM_BOUNDS, CONFIG.vmem_bytes)),
  (ins("hld", d=1, a=32), [CONFIG.hbm_bytes - 8], (Fault.HBM_BOUNDS, CONFIG.hbm_bytes)),
  (ins("hst", d=1, a=32), [CONFIG.hbm_bytes + 1], (Fault.HBM_ALIGN, CONFIG.hbm_bytes + 1)),
  (ins("dmai", c=33, a=32, d=34, x=35), [CONFIG.hbm_bytes - 60, 0, 64, 1], (Fault.DMA_BOUNDS, CONFIG.hbm_bytes - 60)),
  (ins("dmao", c=33, a=32, d=34, x=35), [0, 6, 64, 1], (Fault.DMA_ALIGN, 6)),
])
def test_memory_faults(engine, op, args, expected):
  result = run(engine, [[op], HALT], args)
  assert fault(result) == (expected[0], 0, COLD + 1, expected[1]) and result.cycles == COLD + 2


def test_fault_in_a_group_with_halt(engine):
  result = run(engine, [[ins("vld", d=1, a=32), ins("halt")]], [2])
  assert fault(result) == (Fault.VMEM_ALIGN, 0, COLD + 1, 2) and result.cycles == COLD + 2


def test_load_fault_comes_before_store_fault(engine):
  result = run(engine, [[ins("vst", d=1, a=33), ins("vld", d=1, a=32)], HALT], [2, 1])
  assert fault(result) == (Fault.VMEM_ALIGN, 0, COLD + 1, 2)
  result = run(engine, [[ins("hst", d=1, a=33), ins("vld", d=1, a=32)], HALT], [2, 1])
  assert fault(result) == (Fault.VMEM_ALIGN, 0, COLD + 1, 2)


def test_memory_fault_before_watchdog_and_illegal(engine):
  assert fault(run(engine, [[ins("vld", d=1, a=32)], [Raw(0)]], [2], limit=COLD + 1)) == (Fault.VMEM_ALIGN, 0, COLD + 1, 2)


# -- host ---------------------------------------------------------------------------------------------------

def test_registers_survive_launches(engine):
  run(engine, [[ins("sadd", d=7, a=0, imm=123), ins("vmov", d=7, imm=321)], [ins("ppush", d=3, a=7)], HALT], [5, 6])
  engine.launch(PROGRAM, entry=2, args=[9])
  state = engine.state()
  assert state["sregs"][7] == 123 and (state["vregs"][7] == 321).all() and (state["psums"][3] == 321).all()
  assert state["sregs"][Config.ARG_BASE:Config.ARG_BASE + 2].tolist() == [9, 6]
