"""Traces: of random programs the same on both engines, event by event; of small ones as counted by hand from docs/timing.md."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.cosim.conftest import CONFIG, LARGEST
from tinytpu.config import preset
from tinytpu.fuzz import execute, generate, run_fuzz
from tinytpu.isa import stalls
from tinytpu.isa.encoding import BKind
from tinytpu.isa.instruction import Instr, decode, ins, pack
from tinytpu.isa.stalls import CAUSES, NUMBER
from tinytpu.isa.table import SLOTS
from tinytpu.iss import layout as lay
from tinytpu.machine import Engine, guard, open_engine
from tinytpu.machine.both import EngineMismatch
from tinytpu.trace import Launch, Trace, describe

BEATS = "4x4,vector_lanes=4"
"""The machine on which units that are otherwise free every cycle are taken for longer."""
DATA = 1 << 20
ARGS = [DATA, 64, 1, 16, 0x7FFFFFFC]
"""In s32 an address in device memory, s33 bytes of a tile, s34 one, s35 sixteen, s36 an address beyond all memory."""


class Traced(NamedTuple):
  """An engine and its trace."""
  engine: Engine
  trace: Trace

  def launch(self, groups: list[list[Instr]], *, cold: bool = False, limit: int | None = None, repeat: int = 1) -> Launch:
    """The program's launch, its second one, with all of it in the instruction buffer, unless `cold`."""
    words = pack(groups)
    self.engine.hbm[:words.nbytes] = words.view(np.uint8)
    if not cold:
      self.engine.launch(0, ARGS, invalidate=True)
    self.trace.clear()
    result = self.engine.launch(0, ARGS, invalidate=cold, limit=limit, repeat=repeat)
    launch = self.trace.launches[-1]
    assert sum(launch.causes.values()) == launch.cycles == result.cycles
    return launch


def traced(config: str, kind: str) -> Traced:
  trace = Trace()
  return Traced(open_engine(preset(config), kind, trace=trace), trace)


@pytest.fixture(scope="module", params=["iss", "rtl"])
def small(request) -> Iterator[dict[str, Traced]]:
  """Machines of one kind, by their names."""
  machines = {config: traced(config, request.param) for config in ("4x4", BEATS)}
  yield machines
  for machine in machines.values():
    machine.engine.close()


NOP, HALT = [ins("nop")], [ins("halt")]
DMAI, DMAO = [ins("dmai", c=0, c2=0, a=32, r=0, d=33, x=34)], [ins("dmao", c=0, c2=0, a=32, r=0, d=33, x=34)]
SDIV, VDIV, SINE = [ins("sdiv", d=1, a=34, imm=3)], [ins("vdiv", d=1, a=2, imm=3)], [ins("vfsin", d=1, a=2)]
STRIDE = [[ins("vlid", d=1)], [ins("vmul", d=2, a=1, imm=CONFIG.width)]]
"""v2 is readable in 6, the indices of 16 words in one bank: vlid in 1, its result in 3, that of the product in 6."""
READ_S1, READ_V1 = [ins("sadd", d=2, a=1, imm=0)], [ins("vadd", d=3, a=1, imm=0)]

WAITS: dict[str, tuple[list[list[Instr]], int, int]] = {
  # cause: groups, of which the last waits; the cycle in which that issues, and the cycles that it has waited. On the preset 4x4, warm:
  # the first group issues in 1, one each cycle after it.
  "fence": ([[ins("hst", d=1, a=32)], [ins("fence")]], 4, 2),                          # t + 2 + one line
  "barrier": ([[ins("vadd", d=1, a=2, imm=1)], [ins("barrier")]], 3, 1),               # ALU 2
  "dwaiti": ([DMAI, [ins("dwaiti")]], 37, 35),                                         # s = 3, one line, + hbm_latency 32 + 1
  "dwaito": ([DMAO, [ins("dwaito")]], 6, 4),                                           # s = 3, one line, + 2
  "queue_dma_in": ([DMAI] * 5, 37, 32),                                                # the first of four is finished
  "queue_dma_out": ([DMAO] * 5, 6, 1),
  "result_hbm": ([[ins("hld", d=1, a=32)], READ_V1], 36, 34),                          # HBM_ISSUE 2 + one line + 32
  "result_vmem": ([[ins("vld", d=1, a=0)], READ_V1], 4, 2),                            # LOAD 2 + 1
  "result_scalar_divider": ([SDIV, READ_S1], 38, 36),                                  # SDIV 37
  "result_scalar_multiplier": ([[ins("smul", d=1, a=34, imm=3)], READ_S1], 4, 2),      # SMUL 3
  "result_vector_divider": ([VDIV, READ_V1], 38, 36),                                  # DIV 37
  "result_transcendental": ([SINE, READ_V1], 15, 13),                                  # TRANS 14
  "result_reduce": ([[ins("xsumr", d=1, a=2)], READ_V1], 5, 3),                        # XRED: 2 turns + 2
  "result_vector_alu": ([[ins("vfadd", d=1, a=2, imm=0)], READ_V1], 5, 3),             # FLOAT 4
  "result_cross": ([[ins("xtos", d=1, a=2, imm=0)], READ_S1], 4, 2),                   # X2S 3
  "result_psum": ([[ins("ppop", d=1, a=2)], READ_V1], 3, 1),                           # PPOP 2
  "bucket": ([[ins("mmf", d=1, a=2, b=3)], [ins("ppop", d=4, a=1)]], 20, 18),          # MM: 4 + 15
  "unit_hbm": ([[ins("hst", d=1, a=32, off=8)], [ins("hst", d=1, a=32)]], 3, 1),       # across two lines
  "unit_vmem": ([*STRIDE, [ins("vldx", d=3, a=0, r=2)], [ins("vld", d=4, a=0)]], 22, 15),  # 16 words of a bank, from 6 on
  "unit_vector_divider": ([VDIV, [ins("vdiv", d=4, a=5, imm=3)]], 38, 36),             # busy for DIV
  "unit_transcendental": ([SINE, [ins("vfcos", d=4, a=5)]], 5, 3),                     # 16 elements, 4 pipelines
  "unit_scalar_divider": ([SDIV, [ins("srem", d=2, a=34, imm=5)]], 38, 36),            # busy for SDIV
  "unit_reduce": ([[ins("xsumr", d=1, a=2)], [ins("xmaxr", d=4, a=5)]], 3, 1),         # busy for XRED - 2
  "unit_array": ([[ins("mmf", d=1, a=2, b=3)], [ins("mmf", d=2, a=2, b=3)]], 5, 3),    # a row a cycle
  "port_V": ([[ins("vfadd", d=1, a=2, imm=0)], [ins("vmul", d=4, a=5, imm=3)]], 3, 1),  # both due in 5: 1 + FLOAT, 2 + IMUL
  "port_S": ([SDIV, *[NOP] * 33, [ins("smul", d=2, a=34, imm=3)]], 36, 1),             # both due in 38: 1 + SDIV, 35 + SMUL
  "port_X": ([[ins("xsumr", d=1, a=2)], NOP, [ins("xtr", d=4, a=5)]], 4, 1),           # both due in 5: 1 + XRED, 3 + XLU
}
SLOW_WAITS: dict[str, tuple[list[list[Instr]], int, int]] = {  # the same where a tile takes 4 beats
  "unit_vector_alu": ([[ins("vadd", d=1, a=2, imm=1)], [ins("vadd", d=4, a=5, imm=1)]], 5, 3),
  "unit_cross": ([[ins("xtr", d=1, a=2)], [ins("xtr", d=4, a=5)]], 5, 3),
}


def check_wait(machine: Traced, cause: str, groups: list[list[Instr]], cycle: int, wait: int) -> None:
  launch = machine.launch([*groups, HALT])
  *before, event, halt = (describe(e) for e in launch.events)
  assert (event["cycle"], event["wait"], event["cause"], event["fetch"]) == (cycle, wait, cause, 0)
  assert halt["cycle"] == cycle + 1 and halt["slots"] == "C" and len(before) == len(groups) - 1
  assert launch.causes[cause] == wait and launch.causes["issue"] == len(groups) + 1


@pytest.mark.parametrize("cause", WAITS)
def test_wait(small, cause):
  check_wait(small["4x4"], cause, *WAITS[cause])


@pytest.mark.parametrize("cause", SLOW_WAITS)
def test_wait_where_tiles_take_beats(small, cause):
  check_wait(small[BEATS], cause, *SLOW_WAITS[cause])


def test_every_wait_is_provoked():
  assert WAITS.keys() | SLOW_WAITS.keys() == stalls.WAITS.keys()


DRAINS: dict[str, tuple[list[list[Instr]], dict[str, int]]] = {
  # groups; cycles of the launch by cause beside launch 1 and issue. Halt issues in 2 if one group is before it.
  "drain_dma_out": ([DMAO], {"drain_dma_out": 3}),                                 # 3 to 5: finished from 6 on
  "drain_dma_in": ([DMAI], {"drain_dma_in": 34}),                                  # 3 to 36
  "drain_hbm": ([[ins("hst", d=1, a=32)]], {"drain_hbm": 1}),                      # 3: in memory by 4
  # v2 readable in 6 (two waits of 1 and 2): 16 accesses in 7 to 22, halt in 7; the loaded tile readable in 6 + 2 + 16.
  "drain_vmem": ([*STRIDE, [ins("vldx", d=3, a=0, r=2)]], {"result_vector_alu": 3, "drain_vmem": 15, "drain_result": 1}),
  "drain_result": ([[ins("vfadd", d=1, a=2, imm=0)]], {"drain_result": 2}),        # 3 and 4: readable in 5
  # Both: outbound first in order, finished from 6 on; inbound, issued in 2, from 38 on.
  "both ways": ([DMAO, DMAI], {"drain_dma_out": 2, "drain_dma_in": 32}),
}


@pytest.mark.parametrize("name", DRAINS)
def test_drain(small, name):
  groups, causes = DRAINS[name]
  launch = small["4x4"].launch([*groups, HALT])
  assert {cause: n for cause, n in launch.causes.items() if n} == {"launch": 1, "issue": len(groups) + 1, **causes}


def test_every_drain_is_provoked():
  assert set().union(*(causes for _, causes in DRAINS.values())) >= stalls.DRAINS.keys()


def test_of_two_that_end_together_the_first_in_order(small):
  """v1 of the vector ALU and v2 of VMEM are both readable in 5."""
  for a, b in ((1, 2), (2, 1)):
    groups = [[ins("vfadd", d=1, a=4, imm=0)], [ins("vld", d=2, a=0)], [ins("vadd", d=3, a=a, b=b, bkind=BKind.VREG)]]
    check_wait(small["4x4"], "result_vmem", groups, 5, 2)
  assert NUMBER["result_vmem"] < NUMBER["result_vector_alu"]


def test_the_last_one_is_the_cause_of_the_whole_wait(small):
  """The load would be there in 5, the vector ALU's result is in 6."""
  groups = [[ins("vld", d=6, a=0)], [ins("vld", d=2, a=0)], [ins("vfadd", d=1, a=4, imm=0)],
            [ins("vadd", d=3, a=1, b=2, bkind=BKind.VREG)]]
  check_wait(small["4x4"], "result_vector_alu", groups, 7, 3)


def test_a_register_is_its_last_writers(small):
  """v1 is written by a load, then by the vector ALU."""
  groups = [[ins("vld", d=1, a=0)], NOP, NOP, [ins("vfadd", d=1, a=4, imm=0)], READ_V1]
  check_wait(small["4x4"], "result_vector_alu", groups, 8, 3)


def test_fetch(small):
  """hbm_latency 32, 16 lines and 2: cycles 1 to 50; a warm launch has none."""
  launch = small["4x4"].launch([HALT], cold=True)
  assert [describe(e)["fetch"] for e in launch.events] == [50] and launch.events[0]["cycle"] == 51
  assert {c: n for c, n in launch.causes.items() if n} == {"launch": 1, "fetch": 50, "issue": 1}
  assert {c: n for c, n in small["4x4"].launch([HALT]).causes.items() if n} == {"launch": 1, "issue": 1}


FAULTS: dict[str, tuple[list[list[Instr]], dict[str, Any], dict[str, Any]]] = {  # groups, options, the last event
  "trap": ([NOP, [ins("trap", imm=1)]], {}, {"cycle": 2, "pc": 1, "wait": 0, "fetch": 0}),
  "memory": ([[ins("vld", d=1, a=36)], HALT], {}, {"cycle": 2, "pc": 0, "wait": 0, "fetch": 0}),  # in t + 1, of the group of t
  "watchdog, waiting": ([VDIV, READ_V1], {"limit": 10}, {"cycle": 10, "pc": 1, "wait": 8, "cause": "result_vector_divider", "fetch": 0}),
  "watchdog, waiting for a port": ([[ins("vfadd", d=1, a=2, imm=0)], [ins("vmul", d=4, a=5, imm=3)]], {"limit": 3},
                                   {"cycle": 3, "pc": 1, "wait": 1, "cause": "port_V", "fetch": 0}),
  "watchdog, fetching": ([HALT], {"limit": 20, "cold": True}, {"cycle": 20, "pc": 0, "wait": 0, "fetch": 19}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault(small, name):
  groups, options, last = FAULTS[name]
  launch = small["4x4"].launch(groups, **options)
  event = describe(launch.events[-1])
  assert event["kind"] == "fault" and last.items() <= event.items() and event["slots"] == "" and launch.causes["fault"] == 1
  assert all(e["kind"] == stalls.GROUP for e in launch.events[:-1])


def test_transfers_and_accesses(small):
  """Three rows of 64 bytes 32 bytes off a line touch two lines each; the second transfer requests when the first has, from 10 on."""
  six = [ins("sadd", d=1, a=32, imm=32)], [ins("sadd", d=2, a=34, imm=2)]
  three = [ins("dmai", c=0, c2=0, a=1, r=33, d=33, x=2)]
  groups = [*six, three, DMAI, [ins("vld", d=1, a=0), ins("vst", d=2, a=0)], [ins("hst", d=1, a=1)], HALT]
  events = [describe(e) for e in small["4x4"].launch(groups).events]
  first, second, vmem, direct = events[2:6]
  # s = 3 + 2; 6 lines to 11; finished from 11 + 32 + 1 on. The other one requests in 11 and is finished a cycle later.
  assert (first["cycle"], first["lines"], first["end"]) == (3, 6, 44)
  assert (second["cycle"], second["lines"], second["end"]) == (4, 1, 45)
  assert vmem["vmem"] == 2 and vmem["lines"] == vmem["end"] == 0
  assert direct["lines"] == 2 and direct["vmem"] == direct["end"] == 0


def test_launches_at_once(small):
  machine = small["4x4"]
  launch = machine.launch([VDIV, READ_V1, HALT], repeat=3)
  assert len(machine.trace.launches) == 3 and all(other.difference(launch) is None for other in machine.trace.launches)


@pytest.mark.parametrize("where", ["start", "run", "result"])
def test_an_interrupt_leaves_the_next_trace_whole(small, where, monkeypatch):
  """Wherever it comes in a launch of some 40,000 cycles, which the hardware looks up from several times."""
  long = [[ins("sadd", d=1, a=0, imm=1000)], [ins("loop", a=1, imm=5)], [ins("sdiv", d=2, a=34, imm=3)], [ins("lend")], HALT]
  machine = small["4x4"]
  expected = machine.launch(long)
  assert expected.cycles > 37_000

  def step(place: str) -> None:
    if place == where:
      monkeypatch.undo()
      raise KeyboardInterrupt

  monkeypatch.setattr(guard, "step", step)
  with pytest.raises(KeyboardInterrupt):
    machine.engine.launch(0, ARGS)
  assert len(machine.trace.launches) <= 1 + (where == "result")
  assert expected.difference(machine.launch(long)) is None


@pytest.mark.parametrize("seed", range(0, 500, 50))
def test_random_programs(seed):
  assert run_fuzz(50, seed, CONFIG, trace=True) == 0


@pytest.mark.parametrize("config", [BEATS, "8x8", LARGEST])
def test_random_programs_on_other_machines(config):
  assert run_fuzz(60, 0, preset(config), trace=True) == 0


def test_counters_from_the_trace():
  """What the machine counts, counted from events; they agree on engines (above), so one will do."""
  machine, seen = traced("4x4", "iss"), Counter[str]()
  for seed in range(200):
    case = generate(seed, CONFIG)
    words = case.tree.words()
    machine.trace.clear()
    outcomes = execute(case, machine.engine)
    for (result, _), launch in zip(outcomes[1:], machine.trace.launches[case.repeat::case.repeat], strict=True):
      assert sum(launch.causes.values()) == launch.cycles == result.cycles and launch.dropped == 0
      groups = launch.events[launch.events["kind"] == stalls.GROUP]
      counted = {"groups": len(groups), "vmem_cycles": int(groups["vmem"].sum())}
      counted |= {f"slot_{slot}": int((groups["slots"] >> i & 1).sum()) for i, slot in enumerate(SLOTS)}
      moved = groups["end"] != 0
      counted |= {"hbm_lines": int(groups["lines"][~moved].sum()), "dma_lines": int(groups["lines"][moved].sum())}
      ops = Counter(op.op.timing for pc in groups["pc"] for op in group_at(words, int(pc)))
      counted |= {"mxu_steps": ops["MM"] + ops["MM16"], "div_ops": ops["DIV"]}
      if result.fault is None:  # else the group after may be fetched, and has no event
        counted["refills"] = int((launch.events["fetch"] > 0).sum())
      assert counted == {name: result.counters[name] for name in counted}
      spent = Counter({cause: int(launch.events["wait"][launch.events["cause"] == number].sum()) for cause, number in NUMBER.items()})
      spent["fetch"] = int(launch.events["fetch"].sum())
      assert all(spent[cause] == launch.causes[cause] for cause in ("fetch", *stalls.WAITS))
      seen.update({cause: n for cause, n in launch.causes.items() if n})
  assert len(seen) > 0.8 * len(CAUSES)


def group_at(words: np.ndarray, pc: int) -> Iterator[Instr]:
  while True:
    op, chain = decode(int(words[pc]))
    yield op
    if not chain:
      return
    pc += 1


def confuse(engine: Any) -> None:
  """Plant a defect: the simulator takes one unit for another."""
  engine._traced[2][lay.VMEM] = NUMBER["unit_hbm"]


def test_a_wrong_cause_is_found_and_cut_down():
  def opener(kind: str) -> Engine:
    machine = traced("4x4", "iss")
    if kind == "rtl":
      confuse(machine.engine)
    return machine.engine

  lines: list[str] = []
  assert run_fuzz(100, 0, CONFIG, opener=opener, tell=lines.append) == 1
  report = "\n".join(lines)
  assert "trace[event" in report and "cause unit_vmem != cause unit_hbm" in report
  smallest = report.split("smallest program that differs:\n")[1].split("  launch")[0]
  assert len([op for line in smallest.splitlines() for op in line.split("#")[0].split(";") if op.strip() not in ("", "nop")]) <= 6


def test_both_compares_traces():
  trace = Trace()
  engine: Any = open_engine(CONFIG, "both", trace=trace)
  engine.hbm_used = 1 << 16
  words = pack([*WAITS["unit_vmem"][0], HALT])
  engine.hbm[:words.nbytes] = words.view(np.uint8)
  engine.launch(0, ARGS, invalidate=True, repeat=2)
  engine.launch(0, ARGS)
  assert len(trace.launches) == 3
  trace.clear()
  engine.launch(0, ARGS)
  assert len(trace.launches) == 1 and trace.launches[0].causes["unit_vmem"] == 15
  confuse(engine.engines["iss"])
  with pytest.raises(EngineMismatch, match=r"trace, event 3: iss cause unit_hbm; rtl cause unit_vmem"):
    engine.launch(0, ARGS)
  engine.close()
