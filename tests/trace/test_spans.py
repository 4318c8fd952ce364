"""Busy spans: by hand of one small program, and of random ones by what must hold: units do one thing at a time, waits end with spans."""
from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tinytpu.config import preset
from tinytpu.fuzz import execute, generate
from tinytpu.isa import timing
from tinytpu.isa.instruction import DecodeError, ins, pack
from tinytpu.machine import open_engine
from tinytpu.trace import SPAN, SPAN_UNITS, Trace, describe, spans

CONFIG = preset("4x4")
DATA = 1 << 20
PROGRAM = [  # cycle of issue on the preset 4x4, warm
  [ins("dmai", c=0, c2=0, a=32, r=0, d=33, x=34)],                      # 1: requests its line in 3
  [ins("sadd", d=1, a=34, imm=1), ins("vlid", d=1)],                    # 2
  [ins("vmul", d=2, a=1, imm=16), ins("mmf", d=1, a=3, b=4)],           # 4
  [ins("vldx", d=5, a=0, r=2), ins("vst", d=6, a=0)],                   # 7: 16 cycles, the store beside the last
  [ins("hst", d=6, a=32, off=8), ins("vfdiv", d=7, a=6, imm=3)],        # 8: two lines
  [ins("hst", d=6, a=32), ins("xsumr", d=8, a=6)],                      # 10
  [ins("ppop", d=9, a=1)],                                              # 23: MM of the step in 4 is 19
  [ins("halt")]]
SPANS = {"dma_in": [(3, 4)], "scalar_alu": [(2, 3)], "vector_alu": [(2, 3), (4, 5)], "array": [(4, 8)], "vmem": [(7, 23)],
         "hbm": [(8, 10), (10, 11)], "vector_divider": [(8, 45)], "reduce": [(10, 12)], "psum": [(23, 24)]}


def test_by_hand():
  trace, words = Trace(), pack(PROGRAM)
  engine = open_engine(CONFIG, trace=trace)
  engine.hbm[:words.nbytes] = words.view(np.uint8)
  for _ in range(2):
    engine.launch(0, [DATA, 64, 1])
  cold, warm = trace.launches
  assert warm.events["cycle"].tolist() == [1, 2, 4, 7, 8, 10, 23, 24]
  found: dict[str, list[tuple[int, int]]] = {}
  for span in spans(warm, words, CONFIG):
    assert warm.events["cycle"][span["event"]] <= span["start"]
    found.setdefault(SPAN_UNITS[span["unit"]], []).append((int(span["start"]), int(span["stop"])))
  assert found == SPANS
  first = spans(cold, words, CONFIG)
  assert [tuple(s)[1:] for s in first[first["unit"] == SPAN_UNITS.index("fetch")]] == [(1, 51, 0)]
  engine.close()


@pytest.mark.parametrize("name", ["4x4", "4x4,vector_lanes=4"])
def test_random_programs(name):
  config, trace, seen = preset(name), Trace(), Counter[str]()
  engine = open_engine(config, trace=trace)
  for seed in range(200):
    case = generate(seed, config)
    trace.clear()
    execute(case, engine)
    for launch in trace.launches[1:]:  # the first one sets the state
      found = spans(launch, case.tree.words(), config)
      assert found.dtype == SPAN and (found["start"] < found["stop"]).all()
      one_unit = found["unit"][1:] == found["unit"][:-1]
      assert not (one_unit & (found["start"][1:] < found["stop"][:-1])).any(), seed
      ends = {unit: set(found["stop"][found["unit"] == i].tolist()) for i, unit in enumerate(SPAN_UNITS)}
      for event in map(describe, launch.events[launch.events["wait"] > 0]):
        unit = event["cause"].removeprefix("unit_")
        if unit != event["cause"] and event["kind"] == "group":
          assert event["cycle"] in ends[unit], (seed, event)
          seen[unit] += 1
  assert len(seen) >= 7 + (config.beats > 1) * 2
  assert set(timing.UNITS) - set(seen) <= ({"vector_alu", "cross"} if config.beats == 1 else set())
  engine.close()


def test_another_program_is_refused():
  trace, words = Trace(), pack([*[[ins("nop")]] * 4, [ins("halt")]])
  engine = open_engine(CONFIG, trace=trace)
  engine.hbm[:words.nbytes] = words.view(np.uint8)
  engine.launch(0)
  with pytest.raises(ValueError, match="a group at word 2, the program 2 words: it is another one"):
    spans(trace.launches[0], words[:2], CONFIG)
  with pytest.raises(DecodeError, match="unknown operation code 0x00"):
    spans(trace.launches[0], np.zeros(5, np.uint64), CONFIG)
  engine.close()
