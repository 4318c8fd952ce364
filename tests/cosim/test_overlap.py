"""Engines at work in the same cycles: every pair of them, on the simulator and on the hardware.

Each engine gets work for `BUSY` cycles, alone and merged with another's. Counters say that merged both do as much as alone, so what
the merged program takes less than the sum of both is time in which both are at work.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pytest

from tinytpu.config import Config, preset
from tinytpu.isa import timing
from tinytpu.isa.instruction import Instr, ins, pack
from tinytpu.machine import Engine, RunResult

BUSY = 240
"""Cycles that each engine is kept busy."""
SAVED, SAVED_OF_A_SLOT = 200, 120
"""Cycles that a merged program must take less than the two programs one after the other; of engines that share a slot, and so the cycles
in which operations issue, in the second case. In proportion less if an operation takes so long that `BUSY` is no multiple of it."""
DATA, TO = 1 << 16, 1 << 18
DMA_LINES = 40


def arguments(config: Config) -> list[int]:
  """s32, s33: device memory read and written; s34: words of a tile; s35, s36: VMEM addresses of DMA; s37: bytes; s38: rows; s39: VMEM
  that is read."""
  return [DATA, TO, config.width, 0, config.vmem_bytes // 4, DMA_LINES * config.line_bytes, 1, config.vmem_bytes // 2]


@dataclass(frozen=True)
class Work:
  """An operation, given to its engine every `cycles` cycles; what it counts of `counter` for each of them."""
  op: Instr
  cycles: int
  counter: str
  events: int = 1

  def ops(self, registers: range) -> list[tuple[int, Instr]]:
    """When each should issue, with results in turn in `registers` (a step's are buckets; of a
    transfer, d is its length)."""
    if self.counter == "mxu_steps":
      registers = range(Config.PSUMS)
    turns = range(BUSY // self.cycles)
    ops = [self.op if self.counter == "dma_lines" else replace(self.op, d=registers[k % len(registers)]) for k in turns]
    return [(k * self.cycles, op) for k, op in enumerate(ops)]


def works(config: Config) -> dict[str, Work]:
  """Work for every engine."""
  def interval(name: str) -> int: return timing.interval(config, name)
  rows, beats = config.sublanes, config.beats
  return {
    "vector ALU": Work(ins("vadd", a=60, imm=1), interval("ALU"), "slot_V"),
    "divider": Work(ins("vfdiv", a=60, imm=3), interval("DIV"), "div_ops"),
    "transcendental": Work(ins("vfexp2", a=60), interval("TRANS"), "slot_V"),
    "cross-lane": Work(ins("xrot", a=60, imm=1), interval("XLU"), "slot_X"),
    "reductions": Work(ins("xsumt", a=60), interval("XREDT"), "slot_X"),
    "matrix": Work(ins("mmf", a=60, b=61), interval("MM"), "mxu_steps"),
    "VMEM": Work(ins("vld", a=39), beats, "vmem_cycles", beats),
    "direct HBM": Work(ins("hld2", a=32, r=34, c2=38), rows, "hbm_lines", rows),
    "DMA in": Work(ins("dmai", c=35, a=32, d=37, x=38), DMA_LINES, "dma_lines", DMA_LINES),
    "DMA out": Work(ins("dmao", c=36, a=33, d=37, x=38), DMA_LINES, "dma_lines", DMA_LINES)}


ENGINES = tuple(works(preset("4x4")))


def program(*chosen: Work) -> list[list[Instr]]:
  """All operations in the order of their times, those of a cycle together if they are of different slots."""
  share = 60 // len(chosen)
  timed = [entry for i, work in enumerate(chosen) for entry in work.ops(range(i * share, (i + 1) * share))]
  timed.sort(key=lambda entry: entry[0])
  groups: list[list[Instr]] = []
  last = -1
  for time, op in timed:
    if time == last and op.op.slot not in (other.op.slot for other in groups[-1]):
      groups[-1].append(op)
    else:
      groups.append([op])
    last = time
  return [*groups, [ins("halt")]]


def launch(engine: Engine, groups: list[list[Instr]]) -> RunResult:
  """The program's second launch: all of it is in the instruction buffer."""
  words = pack(groups)
  engine.hbm[:DATA] = 0
  engine.hbm[:words.nbytes] = words.view(np.uint8)
  args = arguments(engine.config)
  engine.launch(0, args, invalidate=True)
  result = engine.launch(0, args)
  assert result.fault is None and result.counters["refills"] == 0
  return result


def run(engine: Engine, *chosen: Work) -> RunResult:
  return launch(engine, program(*chosen))


@pytest.mark.parametrize("kind", [0, 1], ids=["iss", "rtl"])
@pytest.mark.parametrize("pair", list(combinations(ENGINES, 2)), ids=" + ".join)
def test_pair(engines, config, kind, pair):
  chosen = [works(config)[name] for name in pair]
  alone, both = [run(engines[kind], work) for work in chosen], run(engines[kind], *chosen)
  shorter = min(BUSY // work.cycles * work.cycles for work in chosen)
  for work, result in zip(chosen, alone, strict=True):
    times = BUSY // work.cycles
    assert result.counters[work.counter] == times * work.events
    assert result.cycles >= times * work.cycles > BUSY - timing.interval(config, "DIV")
  for name in {work.counter for work in chosen}:
    assert both.counters[name] == sum(result.counters[name] for result in alone)
  saved = SAVED_OF_A_SLOT if len({work.op.op.slot for work in chosen}) == 1 else SAVED
  assert both.cycles <= sum(result.cycles for result in alone) - saved * shorter // BUSY


def test_all_at_once(engines, config):
  """Ten engines get their work in less than a quarter of the time that they take one after the other, however they share slots."""
  everything = works(config).values()
  results = [run(engine, *everything) for engine in engines]
  assert results[0] == results[1]
  assert 4 * results[0].cycles < sum(run(engines[0], work).cycles for work in everything)


@pytest.mark.parametrize("kind", [0, 1], ids=["iss", "rtl"])
def test_handing_over_costs_no_cycle(engines, config, kind):
  """A result handed through nine engines takes the sum of their latencies: each takes it in the cycle after the one before gives it."""
  chain = [(ins("hld", d=1, a=32), timing.HBM_ISSUE + config.beats + config.hbm_latency), (ins("vfexp2", d=2, a=1), "TRANS"),
           (ins("xfsumt", d=3, a=2), "XFREDT"), (ins("vfdiv", d=4, a=3, imm=0x40400000), "DIV"), (ins("xtr", d=5, a=4), "XLU"),
           (ins("mmfz", d=1, a=5, b=5), "MM"), (ins("ppop", d=6, a=1), "PPOP"), (ins("vfadd", d=7, a=6, imm=0x3F800000), "FLOAT"),
           (ins("vst", d=7, a=39), config.beats),
           (ins("vld", d=8, a=39), timing.LOAD + config.beats), (ins("xtos", d=1, a=8, imm=0), "X2S"),
           (ins("sadd", d=2, a=1, imm=1), timing.SCALAR)]
  latencies = [timing.latency(config, cycles) if isinstance(cycles, str) else cycles for _, cycles in chain]
  result = launch(engines[kind], [*([op] for op, _ in chain), [ins("sadd", d=3, a=2, imm=0), ins("halt")]])
  assert result.cycles == 1 + sum(latencies) + timing.SCALAR


@pytest.mark.parametrize("kind", [0, 1], ids=["iss", "rtl"])
@pytest.mark.parametrize(("step", "name"), [("mmf", "MM"), ("mmi", "MM"), ("mmh", "MM16")])
def test_sums_stay_in_the_matrix_unit(engines, config, kind, step, name):
  """Dependent steps follow each other in an interval, not in a latency: the sum in the bucket never leaves the array."""
  n = 20
  steps = [[ins(step, d=1, a=60, b=61)] for _ in range(n)]
  result = launch(engines[kind], [*steps, [ins("ppop", d=2, a=1)], [ins("vmov", d=3, b=2, bkind=0)], [ins("halt")]])
  interval, latency = timing.interval(config, name), timing.latency(config, name)
  assert interval < latency
  issued = 1 + (n - 1) * interval + latency + timing.latency(config, "PPOP")
  assert result.cycles == issued + timing.latency(config, "ALU")
