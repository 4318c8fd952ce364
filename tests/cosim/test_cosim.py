"""Simulator and RTL: same memory, registers, faults, counters and cycles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.cosim.conftest import CONFIGS, LARGEST
from tinytpu.config import preset
from tinytpu.fuzz import compare, execute, exercise, run_fuzz
from tinytpu.fuzz.case import Layout
from tinytpu.fuzz.program import Group, Tree
from tinytpu.isa.instruction import ins, pack
from tinytpu.isa.table import OPS

KINDS = {(op.slot, op.timing, op.operands): name for name, op in OPS.items()}
"""One operation of every kind."""


def case(config: str, name: str):
  """Parameters of a test of one operation. On the largest preset one of every kind is enough for all but `make test-full`."""
  return pytest.param(config, name, marks=(pytest.mark.full,) if config == LARGEST and name not in KINDS.values() else ())


@pytest.mark.parametrize(("engines", "name"), [case(config, name) for config in CONFIGS for name in OPS], indirect=["engines"])
def test_every_operation(engines, config, name):
  program = exercise(name, config)
  outcomes = [execute(program, engine) for engine in engines]
  differences = compare(outcomes)
  assert not differences, "\n".join([*map(str, differences), program.text()])
  result = outcomes[0][1][0]
  assert (result.fault is not None) == (name == "trap")
  if OPS[name].slot and name != "trap":  # a trap does not issue
    assert result.counters[f"slot_{OPS[name].slot}"] >= 1


@pytest.mark.parametrize("seed", range(0, 500, 50))
@pytest.mark.parametrize("name", CONFIGS)
def test_random_programs(name, seed):
  """Fifty programs each; the seed of a failure and the smallest program that shows it are printed."""
  assert run_fuzz(50, seed, preset(name)) == 0


def small_case(groups, args, repeat, engine):
  """Result of the warm program `groups`, launched `repeat` times at once."""
  words = pack(groups)
  engine.hbm[:words.nbytes] = words.view(np.uint8)
  engine.launch(0, args, invalidate=True)
  return engine.launch(0, args, repeat=repeat)


@pytest.mark.parametrize("end", ["halt", "trap"])
def test_a_launch_begins_at_rest(engines, end):
  """Whatever a launch leaves at work, the next one, at once, takes the same cycles. Results go to register 0 where they can."""
  args = [1 << 16, 64, 1, 0]
  for op in OPS.values():
    if op.slot in ("", "C"):
      continue
    fields = {"d": 33, "a": 32, "c": 35, "x": 34} if op.name.startswith("dma") else {"a": 32 if op.slot == "T" else 0}
    instr = ins(op.name, **fields)
    for groups in ([[instr], [ins(end)]], [[instr, ins(end)]], [[instr], [instr], [ins(end)]]):
      once, thrice = ([small_case(groups, args, n, engine) for engine in engines] for n in (1, 3))
      assert once[0] == once[1] == thrice[0] == thrice[1], (op.name, groups)


@pytest.mark.parametrize("write", ["dmao", "hst"])
def test_code_that_a_program_writes(engines, config, write):
  """Behind a wait a block is fetched as written; one that is in the buffer stays as it is until invalidated."""
  block, data = config.ibuf_block_bytes, 1 << 20
  args = [0, block, data, 64, 1]
  copy = {"dmao": [[ins("dmai", c=32, c2=0, a=34, r=0, d=35, x=36)], [ins("dwaiti")],
                   [ins("dmao", c=32, c2=0, a=33, r=0, d=35, x=36)], [ins("dwaito")]],
          "hst": [[ins("hld", d=1, a=34)], [ins("hst", d=1, a=33)], [ins("fence")]]}[write]
  main = pack([*copy, [ins("jmp", imm=block // 8)]])

  def launches(engine):
    engine.hbm[:main.nbytes], engine.hbm[block:2 * block] = main.view(np.uint8), 0
    for imm, invalidate in ((7, True), (9, False), (11, False), (13, True)):
      code = pack([[ins("sadd", d=1, a=0, imm=imm)], [ins("halt")]])
      engine.hbm[data:data + 64] = np.resize(code.view(np.uint8), 64)
      result = engine.launch(0, args, invalidate=invalidate)
      assert result.fault is None and (engine.hbm[block:block + code.nbytes] == code.view(np.uint8)).all()
      yield result, int(engine.state()["sregs"][1])

  iss, rtl = (list(launches(engine)) for engine in engines)
  assert iss == rtl and [s1 for _, s1 in iss] == [7, 7, 7, 13]


def test_code_far_apart(engines, config):
  """Programs whose blocks put each other out of the instruction buffer, and that jump beyond memory."""
  size = config.ibuf_blocks * config.ibuf_block_bytes
  layout = Layout(config)
  results = []
  for engine in engines:
    engine.hbm[: layout.end] = 0
    near = pack([[ins("loop", a=32, imm=0)], [ins("jmp", imm=size // 8)], [ins("lend")], [ins("jmp", a=0, c=0, imm=0xFFFFFFF0)]])
    far = pack([[ins("sadd", d=1, a=1, imm=1)], [ins("jmp", imm=2)]])
    engine.hbm[: near.nbytes], engine.hbm[size : size + far.nbytes] = near.view(np.uint8), far.view(np.uint8)
    results.append([engine.launch(0, [5], invalidate=True), engine.launch(0, [3], limit=100), engine.launch(0, [2])])
  assert results[0] == results[1]
  assert results[0][0].counters["refills"] >= 10
  assert results[0][0].fault.pc == 0xFFFFFFF0


@pytest.mark.parametrize("limit", range(1, 120, 7))
def test_watchdog(engines, config, limit):
  """In every phase of a program: refill, waiting, issuing, draining."""
  program = replace(exercise("vfdiv", config), limit=limit)
  assert not compare([execute(program, engine) for engine in engines])


def test_entry(engines, config):
  tree = Tree((Group((ins("trap", imm=1),)), Group((ins("sadd", d=1, a=0, imm=1),)), Group((ins("halt"),))), entry=1)
  outcomes = [execute(replace(exercise("nop", config), tree=tree), engine) for engine in engines]
  assert not compare(outcomes)
  assert outcomes[0][1][0].fault is None


@pytest.mark.parametrize("gap", range(29, 36))
def test_load_that_faults_while_another_returns(engines, config, gap):
  """In one of these the earlier load's result comes in the cycle of the fault: a fence in a later program must not wait for ever."""
  program = pack([[ins("hld", d=1, a=32)], *[[ins("nop")]] * gap, [ins("hld", d=2, a=33)], [ins("halt")]])
  after = pack([[ins("fence")], [ins("halt")]])
  results = []
  for engine in engines:
    for address, words in ((0, program), (8192, after)):
      engine.hbm[address : address + words.nbytes] = words.view(np.uint8)
    args = [1 << 20, config.hbm_bytes]
    results.append([engine.launch(0, args, invalidate=True), engine.launch(0, args), engine.launch(8192, limit=1000)])
  assert results[0] == results[1]
  assert results[0][2].fault is None
