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
  """The simulator with a defect: the first vector register is off by one after any program with a matrix step."""

  def __init__(self) -> None:
    self.engine = open_engine(CONFIG)
    self.hbm, self.config, self.hurt = self.engine.hbm, CONFIG, False

  def launch(self, *args, **options):
    result = self.engine.launch(*args, **options)
    self.hurt = result.counters["mxu_steps"] > 0
    return result

  def state(self) -> dict[str, np.ndarray]:
    state = self.engine.state()
    state["vregs"][0, 0] += self.hurt
    return state


def test_programs_repeat():
  assert generate(5, CONFIG).text() == generate(5, CONFIG).text() != generate(6, CONFIG).text()


def test_simulator_agrees_with_itself(iss):
  assert run_fuzz(100, 1000, CONFIG, engines=("iss",), opened=[iss], tell=lambda line: None) == 0


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


def test_a_defect_is_found_and_cut_down(iss):
  lines: list[str] = []
  assert run_fuzz(50, 0, CONFIG, engines=("iss", "rtl"), opened=[iss, Broken()], tell=lines.append) == 1
  report = "\n".join(lines)
  assert "engines differ" in report and "vregs[0, 0]" in report
  smallest = report.split("smallest program that differs:\n")[1]
  assert len([line for line in smallest.splitlines() if " mm" in f" {line}"]) == 1
  operations = [
    word for line in smallest.split("  launch")[0].splitlines() for word in line.split("#")[0].split(";") if word.strip() not in ("", "nop")
  ]
  assert len(operations) == 2  # the step and the end


def test_engines_to_compare():
  with pytest.raises(ValueError, match="one or two engines can be compared, not 3"):
    run_fuzz(1, 0, CONFIG, engines=("iss", "iss", "rtl"))
