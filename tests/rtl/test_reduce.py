"""ReduceUnit against numpy: every reduction, as often as the unit takes one."""
from __future__ import annotations

import numpy as np
import pytest

from tests.tile_reference import PAIRS, PLACES, reduction
from tinytpu.config import Config, preset
from tinytpu.isa import timing
from tinytpu.isa.table import OPS
from tinytpu.rtl.reduce import REDUCE_CLOCKS, ReduceUnit, check_timing
from tinytpu.rtl.verilate import UnitSim, lint

CONFIG = preset("4x4")
CONFIGS = {"4x4": CONFIG, "8x8": preset("8x8"),
           "4x4 in four beats": preset("4x4", vector_lanes=4), "4x4 in two": preset("4x4", vector_lanes=8)}
REDUCTIONS = tuple(op.name for op in OPS.values() if op.timing in timing.REDUCTIONS)


class Bench:
  """A unit of `config`, with clock domains resting where they may, as in the chip, or always ticking."""

  def __init__(self, config: Config, gated: tuple[str, ...]) -> None:
    self.config, self.unit = config, UnitSim(ReduceUnit(config), f"ReduceUnit{config.sublanes}_{config.beats}", gated=gated)


@pytest.fixture(scope="module", params=[*CONFIGS, "ticking"])
def bench(request) -> Bench:
  return Bench(CONFIGS.get(request.param, CONFIG), () if request.param == "ticking" else REDUCE_CLOCKS)


def run(bench: Bench, names: list[str], tiles: np.ndarray, cycles: np.ndarray) -> None:
  """Issue names[i] on tiles[i] in cycles[i]; other codes of slot X in between; every cycle's result is what is due."""
  latency = {name: timing.latency(bench.config, OPS[name].timing) for name in names}
  n, width = int(cycles[-1]) + max(latency.values()) + 5, bench.config.width
  rng = np.random.default_rng(1)
  others = [OPS[name].code for name in ("xtr", "mmf", "ppop", "xany", "ppush")]
  inputs = {"start": np.ones(n, np.uint32), "code": rng.choice(others, n), "d": rng.integers(0, 64, n),
            "a": np.full((n, width), 0x7FC12345, np.uint32)}
  regs = np.arange(len(names)) % 64
  inputs["code"][cycles], inputs["d"][cycles], inputs["a"][cycles] = [OPS[name].code for name in names], regs, tiles
  out = bench.unit.run({f"issue__{field}": value for field, value in inputs.items()})
  due = cycles + np.array([latency[name] - 1 for name in names])
  assert np.flatnonzero(out["result__valid"]).tolist() == due.tolist()
  np.testing.assert_array_equal(out["result__reg"][due], regs)
  with np.errstate(all="ignore"):
    for name in set(names):
      mine = [i for i, other in enumerate(names) if other == name]
      np.testing.assert_array_equal(out["result__data"][due[mine]], reduction(name, tiles[mine]), err_msg=name)


def schedule(config: Config, names: list[str], gaps: np.ndarray) -> np.ndarray:
  """Issue cycles, each as early as the one before allows, plus a gap."""
  free = np.cumsum([timing.interval(config, OPS[name].timing) for name in names] + gaps)
  return np.r_[0, free[:-1]]


def tiles_of(operands, n: int, width: int, kind: str) -> np.ndarray:
  if kind == "special":
    return operands.rng.choice(operands.specials, (n, width))
  if kind == "small":  # ties, both zeros
    return operands.rng.choice(np.array([0, 1 << 31, 1, 0xFFFFFFFF, 0x3F800000, 0xBF800000], np.uint32), (n, width))
  if kind == "normal":
    return operands.rng.standard_normal((n, width)).astype(np.float32).view(np.uint32)
  return operands.raw(n * width).reshape(n, width)


def test_table_is_covered():
  assert {name[1:-1] for name in REDUCTIONS} == PAIRS.keys() | PLACES.keys()
  assert len(REDUCTIONS) == 3 * (len(PAIRS) + len(PLACES))


@pytest.mark.parametrize("kind", ["raw", "special", "small", "normal"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_back_to_back(bench, operands, name, kind):
  n, config = 100, bench.config
  run(bench, [name] * n, tiles_of(operands, n, config.width, kind), schedule(config, [name] * n, np.zeros(n, int)))


def test_mix(bench, operands):
  n, config = 2000, bench.config
  names = operands.rng.choice(REDUCTIONS, n).tolist()
  kinds = np.stack([tiles_of(operands, n, config.width, kind) for kind in ("raw", "special", "small", "normal")])
  tiles = kinds[operands.rng.integers(0, 4, n), np.arange(n)]
  run(bench, names, tiles, schedule(config, names, operands.rng.integers(0, 12, n) * (operands.rng.random(n) < 0.3)))


@pytest.mark.parametrize("name", timing.REDUCTIONS)
def test_refuses_another_timing(monkeypatch, name):
  built, cycles = timing.CLASSES[name], timing.latency(CONFIG, name)
  monkeypatch.setitem(timing.CLASSES, name, built._replace(latency=lambda c: cycles + 1))
  with pytest.raises(ValueError, match=f"the latency {name} is {cycles + 1}, but .* take {cycles} cycles"):
    check_timing(CONFIG)


def test_lint(bench):
  assert lint(bench.unit.verilog, f"ReduceUnit{bench.config.sublanes}_{bench.config.beats}") == []
