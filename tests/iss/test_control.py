"""Predicates, reading of the loop stack, and the barrier, with cycles worked out by hand from docs/timing.md."""

from __future__ import annotations

import numpy as np
import pytest

from tests.iss.support import CONFIG, DATA, SREG, W
from tinytpu.config import Config
from tinytpu.isa import encoding as enc
from tinytpu.isa.instruction import Label, Raw, encode, ins
from tinytpu.isa.timing import HBM_ISSUE, LOAD, SMUL, latency

LATENCY = CONFIG.hbm_latency
HALT = [ins("halt")]

DIV, MM = (latency(CONFIG, name) for name in ("DIV", "MM"))


def taken(iss, groups: list, args=()) -> bool:
  """Whether the last of `groups`, a branch to "over", is taken; that costs no cycle more or less than not."""
  over: list = [[ins("sadd", d=1, a=0, imm=1)], *groups, [ins("sadd", d=1, a=0, imm=0)], Label("over"), HALT]
  result = iss.warm(over, args)
  assert result.fault is None
  skipped = bool(iss.state("sregs")[1])
  assert result.cycles == 1 + len(groups) + 2 + (not skipped)
  return skipped


@pytest.mark.parametrize("value", [0, 1, -1, 1 << 31, 0x10000])
@pytest.mark.parametrize("number", range(Config.PREDICATES))
def test_set_and_branch(iss, number, value):
  for name, holds in (("pset0", value == 0), ("pset1", value != 0)):
    assert taken(iss, [[ins(name, d=number, a=32)], [ins("bp", a=number, target="over")]], [value]) == holds
    assert taken(iss, [[ins(name, d=number, a=32)], [ins("bnp", a=number, target="over")]], [value]) != holds


def test_predicates_are_apart_and_clear_at_launch(iss):
  """Setting all but one leaves that one; a launch starts with none, whatever the one before left."""
  for clear in range(Config.PREDICATES):
    sets = [[ins("pset0", d=k, a=0)] for k in range(Config.PREDICATES) if k != clear]
    for k in range(Config.PREDICATES):
      assert taken(iss, [*sets, [ins("bp", a=k, target="over")]]) == (k != clear)
  assert iss.run([*([ins("pset0", d=k, a=0)] for k in range(Config.PREDICATES)), HALT]).fault is None
  for k in range(Config.PREDICATES):
    assert not taken(iss, [[ins("bp", a=k, target="over")]])


def test_low_bits_of_a_predicates_number_count(iss):
  assert taken(iss, [[Raw(encode(ins("pset0", a=0)) | enc.D.put(5))], [ins("bp", a=1, target="over")]])
  assert taken(iss, [[ins("pset0", d=3, a=0)], [Raw(encode(ins("bp", imm=4)) | enc.A.put(63))]])


def test_setting_waits_for_its_register(iss):
  groups: list = [[ins("smul", d=1, a=32, imm=3)], [ins("pset0", d=0, a=1)], [ins("scyc", d=2)], [ins("bp", a=0, imm=0)], HALT]
  iss.warm(groups, [5])
  assert iss.state("sregs")[2] == 1 + SMUL + 1


def test_both_arms(iss):
  """if s32 == 0: s1 = 10 else: s1 = 20."""
  groups: list = [[ins("pset0", d=2, a=32)], [ins("bnp", a=2, target="else")], [ins("sadd", d=1, a=0, imm=10), ins("jmp", target="end")],
                  Label("else"), [ins("sadd", d=1, a=0, imm=20)], Label("end"), HALT]
  for value, expected in ((0, 10), (7, 20)):
    assert iss.warm(groups, [value]).fault is None
    assert iss.state("sregs")[1] == expected


def test_loop_indices(iss):
  """Each pass of three nested loops stores the three indices and the depth; beyond the outermost there are zeros."""
  counts = [2, 3, 4]
  store = [[ins("sldx", d=10 + k, imm=k)] for k in range(3)]
  store += [[ins("sldx", d=13, imm=3)], [ins("sldx", d=14, imm=-1)], [ins("sldx", d=15, bkind=SREG, b=35)], [ins("sldep", d=16)]]
  tiles: list = []
  for k in range(7):
    tiles += [[ins("vmov", d=1, bkind=SREG, b=10 + k)], [ins("hst", d=1, a=1), ins("sadd", d=1, a=1, imm=4 * W)]]
  groups: list = [[ins("sadd", d=1, a=0, imm=DATA)], *([ins("loop", a=32 + i, target="end")] for i in range(3)),
                  *store, *tiles, *[[ins("lend")]] * 3, Label("end"), [ins("sldep", d=17)], [ins("sldx", d=18, imm=0)], HALT]
  assert iss.run(groups, [*counts, 1]).fault is None
  got = iss.get(DATA, 24 * 7 * W).reshape(24, 7, W)[:, :, 0].tolist()
  expected = [[i, j, k] for k in range(2) for j in range(3) for i in range(4)]
  assert got == [[*indices, 0, 0, indices[1], 3] for indices in expected]
  assert iss.state("sregs")[17:19].tolist() == [0, 0]


def test_index_beside_loop_and_lend(iss):
  """Operands are read before the group's control operation takes effect."""
  groups: list = [[ins("loop", a=32, target="end"), ins("sldep", d=1)], [ins("sldx", d=2, imm=0), ins("lend")], Label("end"), HALT]
  iss.run(groups, [5])
  assert iss.state("sregs")[1:3].tolist() == [0, 4]


def test_depth_to_the_limit(iss):
  depth = Config.LOOP_DEPTH
  loops: list = [[ins("loop", a=32, target="end")] for _ in range(depth)]
  iss.run([*loops, [ins("sldep", d=1)], [ins("sldx", d=2, imm=depth - 1)], [ins("sldx", d=3, imm=depth)], Label("end"), HALT], [3])
  assert iss.state("sregs")[1:4].tolist() == [depth, 0, 0]


BARRIERS = {  # operation issued in cycle 1, and the first cycle in which nothing of it is outstanding
  "nothing": (ins("nop"), 2),
  "scalar": (ins("smul", d=1, a=2, imm=3), 1 + SMUL),
  "s0": (ins("smul", d=0, a=2, imm=3), 2),
  "vector": (ins("vdiv", d=1, a=2, imm=3), 1 + DIV),
  "matrix": (ins("mmf", d=1, a=2, b=3), 1 + MM),
  "load": (ins("vld", d=1, a=0), 1 + LOAD + 1),
  "store": (ins("vst", d=1, a=0), 1 + 1 + 1),
  "direct load": (ins("hld", d=1, a=32), 1 + HBM_ISSUE + 1 + LATENCY),
  "direct store": (ins("hst", d=1, a=32), 1 + HBM_ISSUE + 1),
  "inbound": (ins("dmai", c=0, c2=0, a=32, r=0, d=33, x=34), 3 + 1 + LATENCY + 1),
  "outbound": (ins("dmao", c=0, c2=0, a=32, r=0, d=33, x=34), 3 + 1 + 2)}


@pytest.mark.parametrize("name", BARRIERS)
def test_barrier(iss, name):
  op, quiet = BARRIERS[name]
  result = iss.warm([[op], [ins("barrier"), ins("scyc", d=40)], HALT], [DATA, 64, 1])
  assert result.fault is None
  assert iss.state("sregs")[40] == quiet
  assert result.cycles == quiet + 2
  assert iss.warm([[op], HALT], [DATA, 64, 1]).cycles == max(quiet, 3)  # a barrier waits for what the end of the program waits for


def test_barrier_does_not_wait_for_its_own_group(iss):
  iss.set_vregs(2, np.zeros((1, W), np.uint32))
  groups = [[ins("nop")], [ins("barrier"), ins("vdiv", d=1, a=2, imm=3), ins("scyc", d=40)], HALT]
  assert iss.warm(groups).cycles == 2 + DIV
  assert iss.state("sregs")[40] == 2
