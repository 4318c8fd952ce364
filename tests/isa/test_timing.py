"""Latencies and intervals of the presets, worked out by hand from docs/timing.md."""
from __future__ import annotations

import pytest

from tinytpu.config import preset
from tinytpu.isa import timing

FIXED = {"SCALAR": 1, "SMUL": 3, "SDIV": (37, 37), "PPOP": 2, "PPUSH": 2, "PCLR": 1, "LOAD": 2, "HBM_ISSUE": 2}
CYCLES: dict[str, dict[str, int | tuple[int, int]]] = {  # latency, or latency and interval
  "4x4": FIXED | {"X2S": 3, "ALU": 2, "IMUL": 3, "FLOAT": 4, "DIV": (37, 37), "TRANS": (14, 4), "XLU": 2, "XRED": (4, 2), "XREDT": (6, 4),
                  "XFRED": (8, 6), "XFREDT": (14, 12), "MM": (19, 4), "MM16": (23, 8)},
  # Trees of 3 and 6 levels, steps of twice as many cycles.
  "8x8": FIXED | {"X2S": 3, "ALU": 2, "IMUL": 3, "FLOAT": 4, "DIV": (37, 37), "TRANS": (14, 4), "XLU": 2, "XRED": (5, 3), "XREDT": (8, 6),
                  "XFRED": (11, 9), "XFREDT": (20, 18), "MM": (23, 8), "MM16": (31, 16)},
  # Four beats: 3 cycles more; divisions 36 + 36 + 36 + 37; trees of 4 + 2 + 1 + 1 and 4 + 2 + 1 + 1 + 1 + 1 + 1 + 1 turns.
  "16x16": FIXED | {"X2S": (6, 4), "ALU": (5, 4), "IMUL": (6, 4), "FLOAT": (7, 4), "DIV": (145, 145), "TRANS": (26, 16), "XLU": (5, 4),
                    "XRED": (10, 8), "XREDT": (14, 12), "XFRED": (26, 24), "XFREDT": (38, 36), "MM": (31, 16), "MM16": (47, 32)},
  # Two beats: 4 nodes for 8, 4, 2, 1 pairs.
  "4x4,vector_lanes=8": FIXED | {"X2S": (4, 2), "ALU": (3, 2), "IMUL": (4, 2), "FLOAT": (5, 2), "DIV": (73, 73), "TRANS": (18, 8),
                                 "XLU": (3, 2), "XRED": (5, 3), "XREDT": (7, 5), "XFRED": (11, 9), "XFREDT": (17, 15), "MM": (19, 4),
                                 "MM16": (23, 8)}}


@pytest.mark.parametrize("name", CYCLES)
def test_cycles(name):
  config = preset(name)
  expected = {which: cycles if isinstance(cycles, tuple) else (cycles, 1) for which, cycles in CYCLES[name].items()}
  assert {which: (timing.latency(config, which), timing.interval(config, which)) for which in timing.CLASSES} == expected


def test_refill():
  assert [timing.refill(preset(name)) for name in ("4x4", "8x8", "16x16")] == [32 + 16 + 2, 32 + 4 + 2, 32 + 4 + 2]
