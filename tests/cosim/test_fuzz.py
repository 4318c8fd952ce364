"""The fuzzer itself: it repeats, it covers the machine, it finds a planted defect and cuts the program down to it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.cosim.conftest import CONFIG
from tinytpu.fuzz import execute, generate, run_fuzz
from tinytpu.fuzz.program import flatten
from tinytpu.isa.faults import Fault
from tinytpu.isa.instruction import Instr, Label
from tinytpu.isa.table import OPS
from tinytpu.machine import Engine, open_engine


@pytest.fixture(scope="module")
def iss() -> Engine:
  return open_engine(CONFIG)


class Broken:
  """The simulator with a defect: the first vector register is off by one after any program with a matrix step; or, if it
  `lasts`, from then on."""

  def __init__(self, lasts: bool = False) -> None:
    self.engine = open_engine(CONFIG)
    self.hbm, self.config, self.lasts, self.hurt, self.now = self.engine.hbm, CONFIG, lasts, False, False

  def launch(self, program_address, *args, **options):
    result = self.engine.launch(program_address, *args, **options)
    step = result.counters["mxu_steps"] > 0
    self.now = self.hurt if self.lasts else step
    # What lasts begins to hurt in the next program, which starts with its set-up at address 0.
    self.pending = getattr(self, "pending", False) or step
    if program_address == 0:
      self.hurt = self.pending
    return result

  def state(self) -> dict[str, np.ndarray]:
    state = self.engine.state()
    state["vregs"][0, 0] += self.now
    return state

  def close(self) -> None:
    self.engine.close()


def _operations(text: str) -> list[str]:
  """Operations in assembly text, padding left out."""
  return [op.strip() for line in text.splitlines() for op in line.split("#")[0].split(";") if op.strip() not in ("", "nop")]


def test_programs_repeat():
  assert generate(5, CONFIG).text() == generate(5, CONFIG).text() != generate(6, CONFIG).text()


def test_simulator_agrees_with_itself():
  assert run_fuzz(100, 1000, CONFIG, engines=("iss",), tell=lambda line: None) == 0


def test_coverage(iss):
  """Three hundred programs use every operation and end in every way."""
  used: Counter[str] = Counter()
  ends: Counter[str] = Counter()
  for seed in range(300):
    case = generate(seed, CONFIG)
    used.update(op.op.name for group in flatten(case.tree.items) if not isinstance(group, Label) for op in group if isinstance(op, Instr))
    result = execute(case, iss)[1][0]
    ends[result.fault.cause.name if result.fault else "NONE"] += 1
  assert used.keys() == OPS.keys()
  assert ends.keys() == {fault.name for fault in Fault}
  assert ends["NONE"] > 150


def test_a_defect_is_found_and_cut_down():
  lines: list[str] = []
  opener = {"iss": lambda: open_engine(CONFIG), "rtl": Broken}
  assert run_fuzz(50, 0, CONFIG, tell=lines.append, opener=lambda kind: opener[kind]()) == 1
  report = "\n".join(lines)
  assert "engines differ" in report and "vregs[0, 0]" in report and "only after" not in report
  smallest = _operations(report.split("smallest program that differs:\n")[1].split("  launch")[0])
  # One step; loops may stay that keep the program from another end, and one that runs into nothing needs no halt.
  assert len([op for op in smallest if op.startswith("mm")]) == 1 and len(smallest) <= 6


def test_what_a_program_leaves_behind_is_found_and_cut_down():
  lines: list[str] = []
  opener = {"iss": lambda: open_engine(CONFIG), "rtl": lambda: Broken(lasts=True)}
  assert run_fuzz(50, 0, CONFIG, tell=lines.append, opener=lambda kind: opener[kind]()) == 1
  first, second = "\n".join(lines).split("only after this program")[1].split("smallest program that differs:\n")
  steps = _operations(first.split(":", 1)[1])
  assert len([step for step in steps if step.startswith("mm")]) == 1 and len(steps) <= 6
  assert _operations(second.split("  launch")[0]) == ["halt"]


def test_engines_to_compare():
  with pytest.raises(ValueError, match="one or two engines can be compared, not 3"):
    run_fuzz(1, 0, CONFIG, engines=("iss", "iss", "rtl"))
