"""Issue cycles counted by hand from docs/timing.md, with the latencies of isa.timing."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.iss.support import CONFIG, DATA, SREG, VREG, Machine, W
from tinytpu.isa.counters import COUNTERS
from tinytpu.isa.instruction import Instr, Label, ins
from tinytpu.isa.timing import HBM_ISSUE, LOAD, SCALAR, SMUL, interval, latency, refill

LATENCY, LINE, REFILL = CONFIG.hbm_latency, CONFIG.line_bytes, refill(CONFIG)
ALU, IMUL, FLOAT, DIV, TRANS = (latency(CONFIG, name) for name in ("ALU", "IMUL", "FLOAT", "DIV", "TRANS"))
XLU, X2S, XRED, XREDT, XFRED, XFREDT = (latency(CONFIG, name) for name in ("XLU", "X2S", "XRED", "XREDT", "XFRED", "XFREDT"))
PPOP, MM, MM16 = (latency(CONFIG, name) for name in ("PPOP", "MM", "MM16"))
TRANS_II, MM_II, MM16_II = (interval(CONFIG, name) for name in ("TRANS", "MM", "MM16"))


def timed(machine: Machine, groups: list[list[Instr]], args=(), cold: bool = False) -> tuple[list[int], int]:
  """Issue cycles of the groups, told by an scyc in each (they leave slot S and registers from s8 on alone), and the launch's cycles."""
  assert len(groups) <= 24
  probed = [[*g, ins("scyc", d=8 + i)] for i, g in enumerate(groups)]
  result = (machine.run if cold else machine.warm)([*probed, [ins("halt")]], args)
  assert result.fault is None
  return [int(t) for t in machine.state("sregs")[8 : 8 + len(groups)]], result.cycles


def issue(machine: Machine, groups: list[list[Instr]], args=()) -> list[int]:
  return timed(machine, groups, args)[0]


def test_one_group_per_cycle_from_cycle_1(iss):
  assert timed(iss, [[ins("nop")], [ins("nop")], [ins("vadd", d=1, a=2)]]) == ([1, 2, 3], 5)  # halt in 4; v1 readable in 3 + ALU
  assert iss.warm([[ins("halt")]]).cycles == 2


@pytest.mark.parametrize(
  "producer,consumer,latency",
  [
    (ins("vadd", d=1, a=2), ins("vadd", d=3, a=1), ALU),
    (ins("vmul", d=1, a=2), ins("vadd", d=3, a=1), IMUL),
    (ins("vfadd", d=1, a=2), ins("vadd", d=3, a=4, bkind=VREG, b=1), FLOAT),
    (ins("vi2f", d=1, a=2), ins("vsel", d=3, a=4, c=1), FLOAT),
    (ins("vdiv", d=1, a=2), ins("vst", d=1, a=0), DIV),
    (ins("vfsin", d=1, a=2), ins("vfadd", d=3, a=1), TRANS),
    (ins("xtr", d=1, a=2), ins("vadd", d=3, a=1), XLU),
    (ins("xsumr", d=1, a=2), ins("vadd", d=3, a=1), XRED),
    (ins("xfamaxt", d=1, a=2), ins("vadd", d=3, a=1), XREDT),
    (ins("xfsumc", d=1, a=2), ins("vadd", d=3, a=1), XFRED),
    (ins("xfprodt", d=1, a=2), ins("vadd", d=3, a=1), XFREDT),
    (ins("vld", d=1, a=0), ins("xperm", d=3, a=4, b=1), LOAD + 1),
    (ins("ppop", d=1, a=2), ins("vld", d=3, a=0, masked=True, c=1), PPOP),
    (ins("xtos", d=1, a=2), ins("vadd", d=3, a=2, bkind=SREG, b=1), X2S),
    (ins("hld", d=1, a=0), ins("vmov", d=3, bkind=VREG, b=1), HBM_ISSUE + 1 + LATENCY),
    (ins("mmf", d=1, a=2, b=3), ins("ppop", d=3, a=1), MM),
    (ins("mmbw", d=1, a=2), ins("ppop", d=3, a=1), MM16),
    (ins("ppush", d=1, a=2), ins("ppop", d=3, a=1), ALU),
  ],
)
def test_read_after_write(iss, producer, consumer, latency):
  assert issue(iss, [[producer], [consumer]]) == [1, 1 + latency]


@pytest.mark.parametrize(
  "producer,latency", [(ins("sadd", d=1, imm=0), SCALAR), (ins("smul", d=1, imm=0), SMUL), (ins("sdiv", d=1, a=1, imm=0), DIV)]
)
def test_read_after_scalar_write(iss, producer, latency):
  load = ins("vld", d=2, a=0, x=0, r=1)  # the field r that it does not use names the register, too: nothing waits
  iss.warm([[producer], [load, ins("scyc", d=2)], [ins("vmov", d=1, bkind=SREG, b=1)], [ins("scyc", d=3)], [ins("halt")]])
  assert list(iss.state("sregs")[2:4]) == [2, max(3, 1 + latency) + 1]


def test_write_after_write_waits_and_write_after_read_does_not(iss):
  assert issue(iss, [[ins("vfadd", d=1, a=2)], [ins("vadd", d=1, a=2)]]) == [1, 1 + FLOAT]
  assert issue(iss, [[ins("vfadd", d=1, a=2)], [ins("vld", d=1, a=0)]]) == [1, 1 + FLOAT]
  assert issue(iss, [[ins("vfadd", d=2, a=1)], [ins("vmov", d=1)]]) == [1, 2]


def test_s0_is_never_outstanding(iss):
  assert issue(iss, [[ins("xtos", d=0, a=2)], [ins("vmov", d=1, bkind=SREG, b=0)]]) == [1, 2]
  assert iss.warm([[ins("sdiv", d=0, a=1)], [ins("halt")]]).cycles == 3


def test_whole_group_waits(iss):
  """The load does not go ahead of the addition in its group."""
  assert issue(iss, [[ins("vdiv", d=1, a=2)], [ins("vadd", d=3, a=1), ins("vld", d=4, a=0)]]) == [1, 1 + DIV]


def test_vector_write_port(iss):
  assert issue(iss, [[ins("vfadd", d=1, a=9)], [ins("nop")], [ins("vadd", d=2, a=9)]]) == [1, 2, 4]  # both due in 5
  assert issue(iss, [[ins("vfadd", d=1, a=9)], [ins("vmul", d=2, a=9)], [ins("vadd", d=3, a=9)]]) == [1, 3, 5]  # 5: vfadd; 6: vmul
  assert issue(iss, [[ins("vfadd", d=1, a=9)], [ins("nop")], [ins("xtr", d=2, a=9), ins("vld", d=3, a=0)]]) == [
    1,
    2,
    3,
  ]  # ports of their own


def test_slow_scalar_port(iss):
  waiting = [[ins("nop")]] * (DIV - SMUL - 1)
  groups = [[ins("sdiv", d=1, a=5)], *waiting, [ins("smul", d=2, a=5)], [ins("scyc", d=3)], [ins("halt")]]
  iss.warm(groups)
  assert iss.state("sregs")[3] == 1 + (DIV - SMUL) + 1 + 1  # the product would fall due with the quotient: one cycle later


def test_dividers(iss):
  assert issue(iss, [[ins("vdiv", d=1, a=9)], [ins("vfsqrt", d=2, a=9)]]) == [1, 1 + DIV]
  iss.warm([[ins("vdiv", d=1, a=9), ins("sdiv", d=1, a=5)], [ins("srem", d=2, a=5)], [ins("scyc", d=3)], [ins("halt")]])
  assert iss.state("sregs")[3] == 1 + DIV + 1


def test_transcendental_pipelines(iss):
  operation = [ins("vfexp2", d=1, a=9)]
  assert issue(iss, [operation, [ins("vfcos", d=2, a=9)], [ins("vflog2", d=3, a=9)]]) == [1, 1 + TRANS_II, 1 + 2 * TRANS_II]
  assert issue(iss, [operation, [ins("vfadd", d=2, a=9)], [ins("vdiv", d=3, a=9)]]) == [1, 2, 3]
  waiting = [[ins("nop")]] * (TRANS - FLOAT - 1)
  assert issue(iss, [operation, *waiting, [ins("vfadd", d=2, a=9)]])[-1] == 1 + TRANS - FLOAT + 1  # both due in 1 + TRANS
  assert iss.warm([operation, [ins("halt")]]).cycles == 1 + TRANS
  assert iss.warm([operation, [ins("halt")]]).counters["div_ops"] == 0


def test_matrix_steps_chain(iss):
  step = [ins("mmf", d=1, a=2, b=3)]
  assert issue(iss, [step, step, step, [ins("ppop", d=4, a=1)]]) == [1, 1 + MM_II, 1 + 2 * MM_II, 1 + 2 * MM_II + MM]
  assert issue(iss, [step, [ins("ppop", d=4, a=2)], [ins("ppush", d=3, a=9)], [ins("xtr", d=5, a=9)]]) == [1, 2, 3, 4]
  assert issue(iss, [step, [ins("ppush", d=1, a=9)]]) == [1, 1 + MM]
  assert issue(iss, [[ins("ppush", d=1, a=9)], step]) == [1, 2]
  assert issue(iss, [step, [ins("mmiz", d=1, a=2, b=3)]]) == [1, 1 + MM_II]
  half = [ins("mmh", d=1, a=2, b=3)]
  assert issue(iss, [half, half, step, [ins("ppop", d=4, a=1)]]) == [1, 1 + MM16_II, 1 + 2 * MM16_II, 1 + 2 * MM16_II + MM]
  assert issue(iss, [step, half, [ins("ppop", d=4, a=1)]]) == [1, 1 + MM_II, 1 + MM_II + MM16]
  assert issue(iss, [step, [ins("pclr", d=2)], [ins("pclra")], [ins("ppop", d=4, a=1)]]) == [1, 2, 1 + MM, 2 + MM]
  assert issue(iss, [step, [ins("ppopz", d=4, a=1)], [ins("ppop", d=5, a=1)], [ins("pclr", d=1)]]) == [1, 1 + MM, 2 + MM, 3 + MM]
  assert issue(iss, [half, [ins("mmld", a=9)], [ins("mmld", a=8)]]) == [1, 2, 3]


def test_reductions_share_a_unit_and_a_port(iss):
  slow, fast, move = ins("xfsumt", d=1, a=9), ins("xmaxr", d=2, a=9), ins("xtr", d=3, a=9)
  assert issue(iss, [[slow], [fast], [ins("xsumt", d=4, a=9)], [slow]]) == [
    1, XFREDT - 1, XFREDT + XRED - 3, XFREDT + XRED + XREDT - 5]
  assert issue(iss, [[slow], [ins("nop")], [move], [ins("ppop", d=4, a=1)]]) == [1, 2, 3, 4]
  assert issue(iss, [[fast], [ins("nop")], [move]]) == [1, 2, 4]                         # both due in 1 + XRED
  assert issue(iss, [[fast], [ins("ppop", d=4, a=1)], [ins("ppop", d=5, a=1)]]) == [1, 2, 4]
  assert issue(iss, [[fast], [ins("nop")], [ins("xtos", d=1, a=9)]]) == [1, 2, 3]         # a port of its own


CONFLICT = {"r": 32, "c2": 33}
"""Strides of W and 1 words: the rows of a 4x4 tile lie in the same banks, four cycles."""


def conflicting(name: str, **fields) -> Instr:
  return ins(name, a=0, x=0, **CONFLICT, **fields)


def test_bank_conflicts(iss):
  args = [W, 1]
  assert issue(iss, [[conflicting("vld2", d=1)], [ins("vmov", d=2, bkind=VREG, b=1)]], args) == [1, 1 + LOAD + 4]
  assert issue(iss, [[conflicting("vld2", d=1)], [ins("vld", d=2, a=0)]], args) == [1, 5]
  assert issue(iss, [[conflicting("vst2", d=1)], [ins("vst", d=2, a=0)], [ins("vld", d=2, a=0)]], args) == [1, 5, 6]
  both = [conflicting("vld2", d=1), conflicting("vst2", d=2)]
  assert issue(iss, [both, [ins("vld", d=3, a=0)]], args) == [1, 1 + 4 + 4 - 1]
  assert issue(iss, [[ins("vld", d=1, a=0), ins("vst", d=2, a=0)], [ins("vld", d=3, a=0), ins("vst", d=2, a=0)]]) == [1, 2]
  assert issue(iss, [[ins("vld", d=1, a=0), conflicting("vst2", d=2)], [ins("vld", d=3, a=0)]], args) == [1, 5]
  result = iss.warm([both, [ins("halt")]], args)
  assert result.counters["vmem_cycles"] == 8
  assert result.cycles == 1 + 7 + 1  # free in t + 7, and one more


@pytest.mark.parametrize(
  "r,c2,n",
  [
    (0, 0, 1),
    (4, 1, 1),
    (W, 1, 4),
    (W + 4, 1, 1),
    (1, W, 4),
    (0, W, 4),
    (W, W, 7),
    (4 * W, W, 16),
    (1, 1, 1),
    (5, 1, 2),
    (8, 1, 2),
    (0xFFFFFFFC, 1, 1),
    (0xFFFFFFF0, 1, 4),
  ],
)
def test_bank_cycles_of_tiles(iss, r, c2, n):
  """n: most distinct words in one bank, counted on paper; several elements in one word count once."""
  args = [r, c2, 4096]
  load = ins("vld2", d=1, a=34, x=0, r=32, c2=33)
  assert iss.warm([[load], [ins("halt")]], args).counters["vmem_cycles"] == n
  masked = replace(load, masked=True, c=2)
  iss.set_vregs(2, np.ones((1, W), np.uint32))
  assert iss.warm([[masked], [ins("halt")]], args).counters["vmem_cycles"] == n


def test_bank_cycles_of_gathers(iss):
  def cycles(index, **fields):
    iss.set_vregs(1, np.array([index, [1, 0] * 8], np.uint32))
    return iss.warm([[ins("vldx", d=3, a=0, x=0, r=1, **fields)], [ins("halt")]]).counters["vmem_cycles"]

  same_bank = [W * e for e in range(W)]
  assert cycles(same_bank) == 16
  assert cycles(same_bank, masked=True, c=2) == 8
  assert cycles([0] * 16) == 1
  assert cycles([4 * e for e in range(W)], mtype=1) == 1  # bytes, one per word
  assert cycles([64 * e for e in range(W)], mtype=1) == 16  # bytes, all in bank 0
  assert cycles([e // 2 * 64 + e % 2 for e in range(W)], mtype=1) == 8  # two in each word
  iss.set_vregs(1, np.array([same_bank, [0] * 16], np.uint32))
  assert iss.warm([[ins("vldx", d=3, a=0, r=1, masked=True, c=2)], [ins("halt")]]).counters["vmem_cycles"] == 1  # nothing active: one cycle


def test_atomic_adds_take_a_cycle_for_each_element_of_a_bank_and_one_more(iss):
  def cycles(index, mask=(1,) * W):
    iss.set_vregs(1, np.array([index, mask], np.uint32))
    add = ins("vatomx", d=3, a=0, r=1, masked=True, c=2)
    result = iss.warm([[add], [ins("vld", d=4, a=0), ins("scyc", d=40)], [ins("halt")]])
    n = result.counters["vmem_cycles"] - 1
    assert iss.state("sregs")[40] == 1 + n
    assert iss.warm([[add], [ins("halt")]]).cycles == 1 + n + 1
    return n

  assert cycles(range(W)) == 2
  assert cycles([0] * W) == W + 1
  assert cycles([W * e for e in range(W)]) == W + 1
  assert cycles([e % 8 for e in range(W)]) == 3
  assert cycles([0] * W, [1, 0] * (W // 2)) == W // 2 + 1
  assert cycles([0] * W, [0] * W) == 2
  add = ins("vatom", d=3, a=0)
  assert issue(iss, [[ins("vld", d=1, a=0), add], [ins("vld", d=2, a=0)]]) == [1, 1 + 1 + 2]  # not beside the load's last access
  assert issue(iss, [[conflicting("vld2", d=1), add], [ins("vst", d=2, a=0)]], [W, 1]) == [1, 1 + 4 + 2]


def test_direct_access(iss):
  args = [DATA, DATA + 4]
  assert issue(iss, [[ins("hld", d=1, a=33)], [ins("hld", d=2, a=32)], [ins("vmov", d=3, bkind=VREG, b=1)]], args) == [
    1,
    3,
    1 + HBM_ISSUE + 2 + LATENCY,
  ]
  assert issue(iss, [[ins("hst", d=1, a=32)], [ins("fence")]], args) == [1, 4]
  assert issue(iss, [[ins("hst", d=1, a=33)], [ins("fence")]], args) == [1, 5]
  assert issue(iss, [[ins("hld", d=1, a=32)], [ins("fence")]], args) == [1, 1 + HBM_ISSUE + 1 + LATENCY]
  assert issue(iss, [[ins("fence")], [ins("fence")]]) == [1, 2]
  assert iss.warm([[ins("hst", d=1, a=33)], [ins("halt")]], args).cycles == 5
  result = iss.warm([[ins("hld2", d=1, a=32, r=34, c2=35)], [ins("halt")]], [*args, 16, 0])
  assert (result.counters["hbm_lines"], result.cycles) == (4, 1 + HBM_ISSUE + 4 + LATENCY)
  iss.set_vregs(2, np.zeros((1, W), np.uint32))
  result = iss.warm([[ins("hld", d=1, a=32, masked=True, c=2)], [ins("halt")]], args)
  assert (result.counters["hbm_lines"], result.cycles) == (0, 1 + HBM_ISSUE + 1 + LATENCY)


DMA_ARGS = [0, DATA, 0, *(LINE * n for n in range(1, 11))]


def one_row(name: str, lines: int) -> Instr:
  """A transfer of one row of `lines` whole lines, for DMA_ARGS with 1 as the last argument."""
  return ins(name, c=32, c2=32, a=33, r=32, d=34 + lines, x=45)


def test_transfers(iss):
  args = [*DMA_ARGS, 1]
  inbound, outbound = LATENCY + 1, 2
  assert issue(iss, [[one_row("dmai", 1)], [ins("dwaiti")]], args) == [1, 3 + 1 + inbound]
  assert issue(iss, [[one_row("dmao", 1)], [ins("dwaito")]], args) == [1, 3 + 1 + outbound]
  assert issue(iss, [[one_row("dmai", 10)], [ins("dwaito")], [ins("dwaiti", imm=1)], [ins("dwaiti")]], args) == [1, 2, 3, 13 + inbound]
  pair = [[one_row("dmai", 10)], [one_row("dmai", 10)]]
  assert issue(iss, [*pair, [ins("dwaiti", imm=1)], [ins("dwaiti")]], args) == [1, 2, 13 + inbound, 23 + inbound]  # one engine, no gap
  assert issue(iss, [[one_row("dmai", 10)], [one_row("dmao", 10)], [ins("dwaito")]], args) == [1, 2, 4 + 10 + outbound]  # two engines
  five = [[one_row("dmai", 2)]] * 5
  assert issue(iss, [*five, [ins("dwaiti", imm=3)]], args) == [1, 2, 3, 4, 5 + inbound, 7 + inbound]
  assert iss.warm([[one_row("dmai", 3)], [ins("halt")]], args).cycles == 6 + inbound
  assert iss.warm([[one_row("dmao", 3)], [ins("halt")]], args).cycles == 6 + outbound


@pytest.mark.parametrize(
  "rows,nbytes,pitch,offset,lines",
  [(3, 64, 64, 0, 3), (3, 64, 64, 4, 6), (2, 128, 256, 60, 6), (5, 4, 0, 0, 5), (0, 64, 0, 0, 0), (3, 0, 0, 0, 0)],
)
def test_lines_of_transfers(iss, rows, nbytes, pitch, offset, lines):
  groups = [[ins("dmai", c=0, c2=0, a=32, r=33, d=34, x=35)], [ins("dwaiti"), ins("scyc", d=1)], [ins("halt")]]
  result = iss.warm(groups, [DATA + offset, pitch, nbytes, rows])
  assert result.counters["dma_lines"] == lines
  assert iss.state("sregs")[1] == 3 + max(lines, 1) + LATENCY + 1


def test_loops_and_branches_cost_nothing(iss):
  body: list = [[ins("nop")], [ins("vmov", d=1)], [ins("sadd", d=2, a=2, imm=1), ins("lend")]]
  result = iss.warm([[ins("sadd", d=2, a=0)], [ins("loop", a=32, target="end")], *body, Label("end"), [ins("halt")]], [10])
  assert (result.cycles, result.counters["groups"]) == (1 + 2 + 30 + 1, 33)
  assert iss.state("sregs")[2] == 10
  for count in (0, -3):
    assert iss.warm([[ins("loop", a=32, target="end")], *body, Label("end"), [ins("halt")]], [count]).cycles == 3
  nested: list = [
    [ins("loop", a=32, target="a")],
    [ins("loop", a=33, target="b")],
    [ins("lend")],
    Label("b"),
    [ins("lend")],
    Label("a"),
    [ins("halt")],
  ]
  assert iss.warm(nested, [3, 5]).cycles == 1 + 1 + 3 * (1 + 5 + 1) + 1
  backward: list = [
    [ins("sadd", d=1, a=0)],
    Label("top"),
    [ins("sadd", d=1, a=1, imm=1)],
    [ins("bne", a=1, c=32, target="top")],
    [ins("halt")],
  ]
  assert iss.warm(backward, [7]).cycles == 1 + 1 + 14 + 1


@pytest.mark.parametrize(
  "name,relation",
  [
    ("beq", lambda a, b: a == b),
    ("bne", lambda a, b: a != b),
    ("blt", lambda a, b: a < b),
    ("bge", lambda a, b: a >= b),
    ("bltu", lambda a, b: a % 2**32 < b % 2**32),
    ("bgeu", lambda a, b: a % 2**32 >= b % 2**32),
  ],
)
def test_branches(iss, name, relation):
  groups: list = [
    [ins("sadd", d=1, a=0)],
    [ins(name, a=32, c=33, target="over")],
    [ins("sadd", d=1, a=0, imm=1)],
    Label("over"),
    [ins("halt")],
  ]
  for a in (0, 1, -1, 2**31 - 1, -(2**31)):
    for b in (0, 1, -1, 2**31 - 1, -(2**31)):
      result = iss.warm(groups, [a, b])
      assert iss.state("sregs")[1] == (0 if relation(a, b) else 1)
      assert result.cycles == (4 if relation(a, b) else 5)


def test_refill(iss):
  assert timed(iss, [[ins("nop")]], cold=True) == ([1 + REFILL], 1 + REFILL + 2)
  words = CONFIG.ibuf_block_bytes // 8
  groups = [[ins("nop")]] * (words - 1) + [[ins("scyc", d=1)], [ins("scyc", d=2)], [ins("halt")]]
  result = iss.run(groups)
  assert list(iss.state("sregs")[1:3]) == [REFILL + words, REFILL + words + 1 + REFILL]
  assert result.counters["refills"] == 2
  assert iss.engine.launch(0).counters["refills"] == 0


def test_blocks_share_the_buffer():
  """Two blocks of one index put each other out: every jump between them fetches one."""
  config = replace(CONFIG, ibuf_blocks=2, ibuf_block_lines=2)
  machine = Machine(config)
  words = config.ibuf_block_bytes // 8
  far = [[ins("nop")]] * (2 * words - 3)  # the label behind them is two blocks on
  groups: list = [
    [ins("sadd", d=1, a=0)],
    Label("back"),
    [ins("sadd", d=1, a=1, imm=1)],
    [ins("jmp", target="far")],
    *far,
    Label("far"),
    [ins("bne", a=1, c=32, target="back")],
    [ins("halt")],
  ]
  result = machine.run(groups, [3])
  assert result.counters["refills"] == 6
  assert result.cycles == 1 + 6 * refill(config) + 1 + 3 * 3 + 1
  machine.engine.close()


def test_counters(iss):
  groups = [
    [ins("vadd", d=1, a=2), ins("sadd", d=1, a=1), ins("vld", d=2, a=0), ins("xtr", d=3, a=4)],
    [ins("vdiv", d=5, a=6), ins("sdiv", d=2, a=1)],
    [ins("vst", d=7, a=0)],
    [ins("mmf", d=1, a=7, b=8)],
    [ins("nop")],
    [ins("halt")],
  ]
  expected = {
    "groups": 6,
    "slot_C": 1,
    "slot_S": 2,
    "slot_V": 2,
    "slot_X": 2,
    "slot_L": 1,
    "slot_T": 1,
    "div_ops": 1,
    "mxu_steps": 1,
    "vmem_cycles": 2,
    "hbm_lines": 0,
    "dma_lines": 0,
    "refills": 0,
  }
  assert expected.keys() == set(COUNTERS)
  assert iss.warm(groups).counters == expected
