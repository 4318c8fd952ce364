"""Control against a model in Python: random operations, some of which do not issue, with launches in between."""
from __future__ import annotations

import numpy as np
import pytest

from tinytpu.config import Config
from tinytpu.isa.faults import Fault
from tinytpu.isa.instruction import encode, ins
from tinytpu.isa.table import OPS
from tinytpu.rtl.chip import WAIVERS
from tinytpu.rtl.control import Control
from tinytpu.rtl.verilate import UnitSim, lint

CYCLES = 20_000
MASK = 0xFFFFFFFF
SLOT_C = [op.name for op in OPS.values() if op.slot == "C"]


@pytest.fixture(scope="module")
def unit() -> UnitSim:
  return UnitSim(Control(), "Control")


def signed(x: int) -> int:
  return x - (1 << 32) if x >> 31 else x


class Model:
  """Loop stack as (start, passes, passes left), and predicates; `step` gives the outputs of a cycle."""

  def __init__(self) -> None:
    self.loops: list[list[int]] = []
    self.predicates = [0] * Config.PREDICATES

  def step(self, name: str, i: dict[str, int], number: int, imm: int) -> dict[str, int]:
    a, c, following = i["a"], i["c"], i["following"]
    out = {"stall": 0, "target": following, "halt": int(name == "halt"), "fault": 0, "info": 0, "depth": len(self.loops), "index": 0}
    if i["distance"] < len(self.loops):
      _, passes, left = self.loops[-1 - i["distance"]]
      out["index"] = passes - left
    condition = {"jmp": True, "beq": a == c, "bne": a != c, "blt": signed(a) < signed(c), "bge": signed(a) >= signed(c), "bltu": a < c,
                 "bgeu": a >= c, "bp": self.predicates[number] == 1, "bnp": self.predicates[number] == 0}.get(name)
    if condition:
      out["target"] = imm
    if name == "loop":
      if len(self.loops) == Config.LOOP_DEPTH:
        out["fault"] = Fault.LOOP_OVERFLOW
      if signed(a) <= 0:
        out["target"] = imm
    if name == "lend":
      if not self.loops:
        out["fault"] = Fault.LOOP_UNDERFLOW
      elif self.loops[-1][2] > 1:
        out["target"] = self.loops[-1][0]
    if name == "trap":
      out["fault"], out["info"] = Fault.TRAP, imm
    out["stall"] = int({"fence": not i["fence_ok"], "barrier": not i["quiet"], "dwaiti": i["unfinished_in"] > imm,
                        "dwaito": i["unfinished_out"] > imm}.get(name, False))
    if i["clear"]:
      self.loops, self.predicates = [], [0] * Config.PREDICATES
    elif i["issue"] and not out["fault"]:
      if name == "loop" and signed(a) > 0:
        self.loops.append([following, a, a])
      elif name == "lend":
        self.loops[-1][2] -= 1
        if not self.loops[-1][2]:
          self.loops.pop()
      elif name in ("pset0", "pset1"):
        self.predicates[number] = int((a == 0) == (name == "pset0"))
    return out


def test_random_operations(unit):
  seed = int(np.random.SeedSequence().generate_state(1)[0])
  print(f"seed {seed}")
  rng = np.random.default_rng(seed)
  # Loops often enough, and short enough, to fill and to empty the stack.
  weights = np.array([6 if name in ("loop", "lend") else 1 for name in SLOT_C], float)
  names = rng.choice(SLOT_C, CYCLES, p=weights / weights.sum())
  small = rng.random(CYCLES) < 0.8
  inputs = {
    "a": np.where(small, rng.integers(0, 4, CYCLES), rng.integers(0, 1 << 32, CYCLES)),
    "c": np.where(small, rng.integers(0, 4, CYCLES), rng.integers(0, 1 << 32, CYCLES)),
    "pc": rng.integers(0, 1 << 32, CYCLES), "following": rng.integers(0, 1 << 32, CYCLES), "issue": rng.random(CYCLES) < 0.8,
    "clear": rng.random(CYCLES) < 0.002, "fence_ok": rng.random(CYCLES) < 0.5, "quiet": rng.random(CYCLES) < 0.5,
    "distance": np.where(small, rng.integers(0, 10, CYCLES), rng.integers(0, 1 << 32, CYCLES)),
    "unfinished_in": rng.integers(0, 5, CYCLES), "unfinished_out": rng.integers(0, 5, CYCLES)}
  inputs = {name: values.astype(np.uint32) for name, values in inputs.items()}
  numbers = rng.integers(0, Config.PREDICATES, CYCLES)
  imms = np.where(small, rng.integers(0, 5, CYCLES), rng.integers(0, 1 << 32, CYCLES))
  words = np.array([encode(ins(name, a=int(k), d=int(k), imm=int(imm))) for name, k, imm in zip(names, numbers, imms, strict=True)],
                   np.uint64)
  has_imm = np.array([not {"imm", "to"}.isdisjoint(OPS[name].operands) for name in names])

  model = Model()
  # What faults does not issue; the model tells, so its steps come first.
  expected: dict[str, list[int]] = {}
  for t in range(CYCLES):
    here = {name: int(values[t]) for name, values in inputs.items()}
    for port, value in model.step(str(names[t]), here, int(numbers[t]), int(imms[t]) if has_imm[t] else 0).items():
      expected.setdefault(port, []).append(int(value))
  inputs["issue"] = np.where(np.array(expected["fault"]) != 0, 0, inputs["issue"]).astype(np.uint32)
  out = unit.run(inputs | {"op__valid": 1, "op__word": words})
  for port, values in expected.items():
    # Where a group faults, nobody takes its target.
    differs = (out[port] != np.array(values, np.uint64)) & ((port != "target") | (np.array(expected["fault"]) == 0))
    wrong = np.flatnonzero(differs)
    assert not wrong.size, f"{port} in cycle {wrong[0]}, {names[wrong[0]]}: {out[port][wrong[0]]}, expected {values[wrong[0]]}"
  depths = np.array(expected["depth"])
  assert depths.max() == Config.LOOP_DEPTH and depths.min() == 0 and max(expected["index"]) > 1
  assert {Fault.LOOP_OVERFLOW, Fault.LOOP_UNDERFLOW, Fault.TRAP} <= set(expected["fault"])


def test_nothing_without_an_operation(unit):
  words = np.array([encode(ins(name)) for name in SLOT_C], np.uint64)
  out = unit.run({"op__valid": 0, "op__word": words, "fence_ok": 0, "quiet": 0, "unfinished_in": 4, "unfinished_out": 4, "following": 77,
                  "clear": 1})
  assert not out["stall"].any() and not out["halt"].any() and not out["fault"].any() and (out["target"] == 77).all()


def test_lint(unit):
  assert lint(unit.verilog, "Control", WAIVERS) == []
