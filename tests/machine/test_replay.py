"""Stops: the state between two groups is that of program order, on both engines; each watched place, and what changes it."""
from __future__ import annotations

import numpy as np
import pytest

from tinytpu.asm import assemble
from tinytpu.config import preset
from tinytpu.machine import Engine, RunResult, open_engine
from tinytpu.machine.replay import Place, Replay, Stop
from tinytpu.trace import Trace

CONFIG = preset("4x4")
PROGRAM = assemble("""
  smov s1, 1024 ; vmov v1, 3              # 0
  smov s2, 64                             # 2
  smov s3, 1
  dmai [s0 : s0], [s1 : s0], s2, s3       # 4
  dwaiti 0
  vld.w v2, [s0]                          # 6
  vadd v2, v2, v1
  vst.w v2, [s0 + 16]                     # 8
  ppush p2, v2
  dmao [s2 : s0], [s1 : s0], s2, s3       # 10
  dwaito 0
  hst.w v1, [s1 + 2] ; sadd s4, s4, 5     # 12
  fence
  smov s4, 5                              # 15: the same value
  halt
""", CONFIG)
BEFORE = np.arange(1, 17, dtype="<u4")
AT = 4096
PLACES = [Place("s", 4), Place("v", 2), Place("p", 2), Place("vmem", 0, 17), Place("hbm", 1024, 4)]


def replay(kind: str, limit: int = 1000) -> Replay:
  def opened(trace: Trace | None) -> Engine:
    engine = open_engine(CONFIG, kind, trace=trace)
    engine.hbm[1024:1088] = BEFORE.view(np.uint8)
    engine.hbm[AT:AT + len(PROGRAM.code_bytes())] = np.frombuffer(PROGRAM.code_bytes(), np.uint8)
    return engine

  def launched(engine: Engine, most: int) -> RunResult:
    return engine.launch(AT, limit=most)
  return Replay(opened, launched, PROGRAM.words, limit, 1 << 12)


@pytest.mark.parametrize("kind", ["iss", "rtl"])
def test_every_change_is_found_where_it_is_made(kind: str) -> None:
  found = [(stop.pc, {p.kind: (a.tolist(), b.tolist()) for p, (a, b) in changed.items()})
           for stop, changed in replay(kind).changes(PLACES)]
  data, zero = BEFORE.tolist(), [0] * 16
  plus = [n + 3 for n in data]
  assert found == [
    (4, {"vmem": ([0] * 17, [*data, 0])}),  # the transfer, when it ends
    (6, {"v": (zero, data)}), (7, {"v": (data, plus)}),
    (8, {"vmem": ([*data, 0], [*data, plus[0]])}), (9, {"p": (zero, plus)}),
    (10, {"hbm": (data[:4], plus[:4])}),
    (12, {"s": ([0], [5]), "hbm": (plus[:4], [*plus[:2], 3, 3])})]


def test_states_are_those_of_program_order_on_both_engines() -> None:
  """At every group, long before its results would be there."""
  iss, rtl = replay("iss"), replay("rtl")
  assert iss.groups.tolist() == rtl.groups.tolist() and len(iss.groups) == 15
  for event in iss.groups:
    for after in (False, True):
      stop = Stop(int(event["cycle"]), int(event["pc"]), after)
      with iss.at(stop) as a, rtl.at(stop) as b:
        for key, value in a.state().items():
          assert np.array_equal(value, b.state()[key]), (stop, key)
        assert np.array_equal(a.hbm[:8192], b.hbm[:8192]), stop


def test_breaks_and_operands() -> None:
  at = replay("iss")
  assert [stop.pc for stop in at.breaks([12, 6, 5])] == [5, 6, 12]
  (stop,) = at.breaks([8])
  with at.at(stop) as engine:
    assert {name: values.tolist() for name, values in at.operands(engine, 8).items()} == {"v2": [n + 3 for n in BEFORE.tolist()]}
  (stop,) = at.breaks([4])
  with at.at(stop) as engine:
    assert {name: values.tolist() for name, values in at.operands(engine, 4).items()} == {"s1": [1024], "s2": [64], "s3": [1]}


def test_a_launch_that_the_watchdog_ends_has_stops_up_to_there() -> None:
  whole = replay("iss").groups
  cut = replay("iss", int(whole[5]["cycle"])).groups
  assert cut.tolist() == whole[:5].tolist()
