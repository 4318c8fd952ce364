"""The simulator of every preset, and of machines whose tiles take several beats, against numpy and the rules of docs/timing.md."""
from __future__ import annotations

import numpy as np
import pytest

from tests.iss.support import DATA, Machine
from tests.rtl.memory_reference import Operation, random_operation
from tests.tile_reference import move, reduction, step
from tinytpu.config import Config, preset
from tinytpu.isa.encoding import BKind, MemType
from tinytpu.isa.instruction import Instr, ins
from tinytpu.isa.table import OPS
from tinytpu.isa.timing import DMA_QUEUE, HBM_ISSUE, LOAD, REDUCTIONS, interval, latency

CONFIGS = ("8x8", "16x16", "4x4,vector_lanes=4", "4x4,vector_lanes=8", "16x16,vector_lanes=32")
HALT = [ins("halt")]
SIZE = 1 << 16
"""Bytes of the memories that random accesses keep to."""


@pytest.fixture(scope="module", params=CONFIGS)
def machine(request) -> Machine:
  return Machine(preset(request.param))


def seeded(machine: Machine, number: int) -> np.random.Generator:
  print(f"{machine.config.name}, seed {number}")
  return np.random.default_rng(number)


def issue(machine: Machine, groups: list[list[Instr]], args=()) -> list[int]:
  """Issue cycles of the groups, told by an scyc in each; the program is in the instruction buffer."""
  probed = [[*g, ins("scyc", d=8 + i)] for i, g in enumerate(groups)]
  assert machine.warm([*probed, HALT], args).fault is None
  return [int(t) for t in machine.state("sregs")[8:8 + len(groups)]]


def test_lanes_and_their_numbers(machine):
  n, rng = machine.width, seeded(machine, 1)
  a, b = rng.integers(0, 1 << 32, (2, n), dtype=np.uint32)
  machine.set_vregs(1, np.stack([a, b]))
  assert (machine.vector("vadd", a=1, b=2, bkind=BKind.VREG) == a + b).all()
  assert (machine.vector("vlid") == np.arange(n)).all()
  assert (machine.vector("vxor", a=1, imm=0x5A5A5A5A) == (a ^ np.uint32(0x5A5A5A5A))).all()


@pytest.mark.parametrize("name", [op.name for op in OPS.values() if op.timing == "XLU"])
def test_moves(machine, name):
  n, rng = machine.width, seeded(machine, 2)
  a, b = rng.integers(0, 1 << 32, (2, n), dtype=np.uint32)
  machine.set_vregs(1, np.stack([a, b]))
  for k in (0, 1, n // 2 - 1, n - 1, n + 3, 0xFFFFFFFF):
    fields = {"b": 2} if name == "xperm" else {"imm": k}
    assert (machine.vector(name, a=1, **fields) == move(name, a, b, k)).all()


@pytest.mark.parametrize("name", [op.name for op in OPS.values() if op.timing in REDUCTIONS])
def test_reductions(machine, name):
  rng = seeded(machine, 3)
  tile = rng.integers(0, 1 << 32, machine.width, dtype=np.uint32)
  if name[1] == "f":
    tile = rng.normal(0, 1, machine.width).astype(np.float32).view(np.uint32)
  machine.set_vregs(1, tile[None])
  with np.errstate(all="ignore"):
    assert (machine.vector(name, a=1) == reduction(name, tile[None])[0]).all()


@pytest.mark.parametrize("name", [f"mm{form}{held}{zero}" for form in "fihb" for held in ("", "w") for zero in ("", "z")])
def test_matrix_steps(machine, name):
  side, rng = machine.config.sublanes, seeded(machine, 4)
  a, b, c = (rng.normal(0, 1, 2 * machine.width).astype(np.float16).view(np.uint32) for _ in range(3))
  if name[2] in "fi":
    a, b, c = (rng.normal(0, 1, machine.width).astype(np.float32).view(np.uint32) for _ in range(3))
  machine.set_vregs(1, np.stack([a, b, c]))
  groups = [[ins("ppush", d=2, a=3)], [ins("mmld", a=2)], [ins(name, d=2, a=1, b=3 if "w" in name else 2)], [ins("ppop", d=4, a=2)], HALT]
  assert machine.run(groups).fault is None
  with np.errstate(all="ignore"):
    expected = step(name, *(x.reshape(side, side) for x in (a, b, c)))
  assert (machine.state("vregs")[4].reshape(side, side) == expected).all()


def beats(config: Config, op: Operation) -> list[list[int]]:
  """Addresses of the active elements, beat by beat."""
  where, active, p = op.addresses(config), set(op.active()), config.vector_lanes
  return [[where[e] for e in range(first, first + p) if e in active] for first in range(0, config.width, p)]


def vmem_cycles(config: Config, op: Operation) -> int:
  """What docs/timing.md says of VMEM."""
  total = int(op.atomic)
  for beat in beats(config, op):
    words = [a // 4 for a in beat] if op.atomic else {a // 4 for a in beat}
    banks = [w % config.vector_lanes for w in words]
    total += max([banks.count(bank) for bank in banks], default=1)
  return total


@pytest.mark.parametrize("prefix", ["vld", "vst", "vatom", "hld", "hst"])
def test_accesses(machine, prefix):
  """Random operands of every form, type and mask: what they load and store, and the cycles or lines that they take."""
  config, rng = machine.config, seeded(machine, 5)
  space = 2 * DATA if prefix[0] == "h" else 0
  memory = rng.integers(0, 256, SIZE, dtype=np.uint8)
  done = 0
  for _ in range(60):
    op = random_operation(rng, config, prefix, SIZE)
    if op.fault(config, SIZE) or not -(1 << 19) <= op.off < 1 << 19:
      continue
    machine.set_vmem(0, memory) if prefix[0] == "v" else machine.put(space, memory)
    machine.set_vregs(1, np.stack([op.data, op.index, op.mask.astype(np.uint32)]))
    before = memory.copy()
    fields = {"d": 4 if prefix[1:] == "ld" else 1, "a": 33, "x": 34, "c": 3, "masked": True, "off": op.off, "mtype": op.mtype,
              "r": 2 if op.name[-1] == "x" else 35, "c2": 36}
    args = [0, (space + op.base) % (1 << 32), op.x, op.r % (1 << 32), op.c2 % (1 << 32)]
    result = machine.warm([[ins(op.name, **fields)], HALT], args)
    assert result.fault is None
    if prefix[1:] == "ld":
      assert (machine.state("vregs")[4] == op.load(config, before)).all()
    else:
      op.store(config, before)
      if prefix == "vatom":  # twice: cold and warm
        op.store(config, before)
      assert ((machine.state("vmem")[:SIZE] if prefix[0] == "v" else machine.get(space, SIZE, np.uint8)) == before).all()
    if prefix[0] == "v":
      assert result.counters["vmem_cycles"] == vmem_cycles(config, op)
      n = result.counters["vmem_cycles"]
      assert result.cycles == 1 + n + (LOAD if prefix == "vld" else 1)
    else:
      n = sum(len({(space + a) // config.line_bytes for a in beat}) for beat in beats(config, op))
      assert result.counters["hbm_lines"] == n
      assert result.cycles == 1 + HBM_ISSUE + max(n, 1) + (config.hbm_latency if prefix == "hld" else 0)
    done += 1
  assert done > 30


def test_contiguous_and_strided_tiles(machine):
  """Without a mask, which the simulator takes another way: a beat each, and rows that meet in banks."""
  config = machine.config
  p, side = config.vector_lanes, config.sublanes
  for r, c2 in ((side, 1), (p, 1), (1, p), (p + side, 1), (0, 0), (1, side), (2 * p, 0)):
    op = Operation("vld2", r=r, c2=c2, index=np.zeros(config.width, np.uint32), mask=np.ones(config.width, bool))
    result = machine.warm([[ins("vld2", d=1, a=0, x=0, r=32, c2=33)], HALT], [r, c2])
    assert result.counters["vmem_cycles"] == vmem_cycles(config, op), (r, c2)
  for mtype in MemType:
    assert machine.warm([[ins("vld", d=1, a=0, mtype=mtype)], HALT]).counters["vmem_cycles"] == config.beats


OPERATIONS = {"ALU": ins("vadd", d=1, a=2), "IMUL": ins("vmul", d=1, a=2), "FLOAT": ins("vfadd", d=1, a=2), "DIV": ins("vdiv", d=1, a=2),
              "TRANS": ins("vfsin", d=1, a=2), "XLU": ins("xtr", d=1, a=2), "XRED": ins("xsumr", d=1, a=2),
              "XREDT": ins("xmaxt", d=1, a=2), "XFRED": ins("xfsumc", d=1, a=2), "XFREDT": ins("xfprodt", d=1, a=2),
              "PPOP": ins("ppop", d=1, a=2)}
OTHERS = {"ALU": ins("vmul", d=3, a=4), "IMUL": ins("vfmul", d=3, a=4), "FLOAT": ins("vadd", d=3, a=4), "DIV": ins("vfsqrt", d=3, a=4),
          "TRANS": ins("vfcos", d=3, a=4), "XLU": ins("xtos", d=3, a=4), "XRED": ins("xfsumt", d=3, a=4), "XREDT": ins("xsumr", d=3, a=4),
          "XFRED": ins("xamaxr", d=3, a=4), "XFREDT": ins("xfsumr", d=3, a=4), "PPOP": ins("ppop", d=3, a=5)}
"""Of the same unit, so that it must wait for it."""


@pytest.mark.parametrize("name", OPERATIONS)
def test_latency_and_interval(machine, name):
  config = machine.config
  assert issue(machine, [[OPERATIONS[name]], [ins("ppush", d=1, a=1)]]) == [1, 1 + latency(config, name)]
  first, second = issue(machine, [[OPERATIONS[name]], [OTHERS[name]]])
  wait = interval(config, name)
  # Both results may fall due together on a shared port: then one cycle later still.
  other = latency(config, OTHERS[name].op.timing) if OTHERS[name].op.timing != "X2S" else 0
  assert second - first == wait + (other and wait + other == latency(config, name))


def test_matrix_unit_waits_for_side_cycles(machine):
  side = machine.config.sublanes
  full, half = [ins("mmf", d=1, a=2, b=3)], [ins("mmh", d=1, a=2, b=3)]
  assert issue(machine, [full, half, full, [ins("ppop", d=4, a=1)]]) == [1, 1 + side, 1 + 3 * side, 1 + 3 * side + side + 15]
  assert issue(machine, [half, [ins("ppop", d=4, a=1)]]) == [1, 1 + 2 * side + 15]


def test_units_of_a_slot_work_side_by_side(machine):
  assert issue(machine, [[ins("vdiv", d=1, a=9)], [ins("vfsin", d=2, a=9)], [ins("vfadd", d=3, a=9)]]) == [1, 2, 3]
  assert issue(machine, [[ins("xfsumt", d=1, a=9)], [ins("xtr", d=2, a=9)], [ins("ppop", d=3, a=9)]])[:2] == [1, 2]


def test_results_of_a_division_and_another_do_not_meet(machine):
  """However many cycles the division takes: an addition that would be done with it waits a cycle."""
  config = machine.config
  gap = latency(config, "DIV") - latency(config, "FLOAT")
  waiting = [[ins("sadd", d=1, a=0, imm=gap - 2)], [ins("loop", a=1, target="over")], [ins("lend")]]
  from tinytpu.isa.instruction import Label
  groups = [[ins("vdiv", d=1, a=9), ins("scyc", d=8)], *waiting, Label("over"), [ins("vfadd", d=2, a=9), ins("scyc", d=9)], HALT]
  for less, delay in ((2, 1), (1, 0), (3, 0)):
    groups[1] = [ins("sadd", d=1, a=0, imm=gap - less - 1)]
    machine.warm(groups)
    first, second = machine.state("sregs")[8:10]
    assert second - first == gap + 2 - less + delay


def test_transfers_move_a_line_in_a_cycle(machine):
  line = machine.config.line_bytes
  result = machine.warm([[ins("dmai", c=0, c2=0, a=32, r=0, d=33, x=34)], [ins("dwaiti"), ins("scyc", d=1)], HALT], [DATA, 5 * line, 1])
  assert result.counters["dma_lines"] == 5
  assert machine.state("sregs")[1] == 1 + 2 + 5 + machine.config.hbm_latency + 1
  assert DMA_QUEUE == 4
