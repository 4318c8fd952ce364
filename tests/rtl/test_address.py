"""Lane addresses of all forms and types, and the check of them, against arithmetic on Python's integers."""
from __future__ import annotations

import numpy as np
import pytest
from amaranth.hdl import Signal

from tests.rtl.memory_reference import Stimulus, random_operation
from tinytpu.config import preset
from tinytpu.isa.faults import Fault
from tinytpu.rtl.address import LaneAddresses, is_form
from tinytpu.rtl.verilate import UnitSim, lint

CONFIG = preset("4x4")
SIZES = (1 << 12, 3 * (1 << 12) + 64, 1 << 32)


@pytest.fixture(scope="module", params=SIZES)
def unit(request: pytest.FixtureRequest) -> tuple[UnitSim, int]:
  return UnitSim(LaneAddresses(CONFIG, request.param, Fault.HBM_ALIGN, Fault.HBM_BOUNDS), "lane_addresses"), request.param


@pytest.mark.parametrize("prefix", ["vld", "vst", "hld", "hst"])
def test_addresses_and_faults(unit: tuple[UnitSim, int], prefix: str) -> None:
  sim, size = unit
  seed = 11
  print(f"seed {seed}")
  rng = np.random.default_rng(seed)
  n = 3000
  stimulus = Stimulus(rng, CONFIG, "operation", n + 1)
  operations = [random_operation(rng, CONFIG, prefix, int(rng.choice([256, size, 2 * min(size, 1 << 31)]))) for _ in range(n)]
  for cycle, op in enumerate(operations):
    stimulus.put(cycle, op.ports())
  inputs = stimulus.inputs()
  inputs["checked"] = np.concatenate([[0], inputs["operation__mask"][:n]])
  got = sim.run({**inputs, "capture": 1}, n + 1)
  want = np.array([op.addresses(CONFIG) for op in operations], np.uint32)
  np.testing.assert_array_equal(np.stack([got[f"addresses__{e}"][1:] for e in range(CONFIG.width)], axis=1), want)
  seen = set()
  for cycle, op in enumerate(operations, 1):
    fault = op.fault(CONFIG, size)
    seen.add(fault and fault[0])
    assert got["fault__valid"][cycle] == (fault is not None), op
    if fault:
      assert (got["fault__cause"][cycle], got["fault__info"][cycle]) == (Fault[f"HBM_{fault[0]}"], fault[1]), op
  assert seen == {None, "ALIGN"} | ({"BOUNDS"} if size < 1 << 32 else set())


def test_addresses_stay_until_the_next_capture(unit: tuple[UnitSim, int]) -> None:
  rng = np.random.default_rng(1)
  stimulus = Stimulus(rng, CONFIG, "operation", 50)
  stimulus.put(0, (op := random_operation(rng, CONFIG, "vld", 1024)).ports())
  got = unit[0].run({**stimulus.inputs(), "capture": np.arange(50) == 0}, 50)
  for e, address in enumerate(op.addresses(CONFIG)):
    assert (got[f"addresses__{e}"][1:] == address).all()


def test_unknown_form_is_an_error() -> None:
  with pytest.raises(KeyError, match="mem3"):
    is_form(Signal(8), "mem3")


def test_lint(unit: tuple[UnitSim, int]) -> None:
  assert lint(unit[0].verilog, "lane_addresses") == []
