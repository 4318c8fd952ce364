"""docs/tinyspec.md says of every operation of tinygrad what becomes of it, and what it says is so."""
from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from tinygrad.dtype import dtypes
from tinygrad.uop.ops import Ops, UOp

from tinytpu.backend.errors import UnsupportedError
from tinytpu.backend.lower.kernel import Lowering
from tinytpu.backend.lower.rules import RULES, SUPPORTED_OPS
from tinytpu.config import preset
from tinytpu.isa.table import OPS

PAGE = Path(__file__).parents[2] / "docs" / "tinyspec.md"
STATES = {"native", "structure", "tinygrad", "ours", "host", "refused"}


@cache
def rows() -> dict[str, tuple[str, str, str]]:
  """State, way and test of every operation."""
  lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text().splitlines() if re.match(r"\| [A-Z]", line)]
  assert len({name for name, *_ in lines}) == len(lines), "an operation has two rows"
  return {name: (state, how, test) for name, state, how, test in (line for line in lines if len(line) == 4)}


def test_every_operation_has_a_row():
  assert set(rows()) == {op.name for op in Ops}
  assert {state for state, *_ in rows().values()} <= STATES


def test_instructions_are_those_of_the_rules():
  for op in dict.fromkeys(op for op, _ in RULES if op in SUPPORTED_OPS):
    state, how, _ = rows()[op.name]
    names = {n for (o, _), rule in RULES.items() if o is op for n in (rule.vector, rule.scalar) if n}
    assert state == "native" and set(re.findall(r"`(\w+)`", how)) == names, f"{op.name}: {sorted(names)}"
  named = {n for state, how, _ in rows().values() if state == "native" for n in re.findall(r"`(\w+)`", how)}
  assert named <= set(OPS)


def test_what_tinygrad_decomposes_is_not_claimed_as_supported():
  assert not [op.name for op in SUPPORTED_OPS if rows()[op.name][0] != "native"]


def test_tests_exist():
  for name, (_, _, test) in rows().items():
    if test:
      file, function = test.split("::")
      assert f"def {function}(" in (PAGE.parents[1] / "tests" / "backend" / f"{file}.py").read_text(), f"{name}: no {test}"


@pytest.mark.parametrize("name", [name for name, (state, *_) in rows().items() if state == "refused"])
def test_refused(name):
  config, zero = preset("4x4"), UOp.const(0, dtypes.int32)
  u = UOp(Ops[name], dtypes.int32, (zero, zero, zero), "text")
  with pytest.raises(UnsupportedError, match=rf"^{name} of dtypes.int .* in kernel \w+: .+"):
    Lowering(config, [zero, u, UOp(Ops.SINK, src=(u,))], 0).run()
