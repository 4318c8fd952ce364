"""MatrixUnit against numpy: steps, pops and pushes in every spacing that the issue stage allows."""
from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pytest

from tests.tile_reference import step
from tinytpu.config import Config, preset
from tinytpu.isa import timing
from tinytpu.isa.table import OPS
from tinytpu.rtl.mxu import MATRIX_CLOCKS, MatrixUnit, check_timing
from tinytpu.rtl.verilate import UnitSim, lint

CONFIG = preset("4x4")
CYCLES = {name: timing.latency(CONFIG, name) for name in timing.CLASSES}
STEPS = tuple(f"mm{form}{held}{zero}" for form in "fihb" for held in ("", "w") for zero in ("", "z"))
POPS = ("ppop", "ppopr", "ppopz")
OTHERS = ("xtr", "xtos", "xperm")


def latency(config: Config, name: str) -> int:
  return timing.latency(config, OPS[name].timing)


def interval(config: Config, name: str) -> int:
  return timing.interval(config, OPS[name].timing)


class Issue(NamedTuple):
  """One operation: cycle, name, bucket (any 6-bit number for steps and pushes), register of ppop, operand tiles."""
  cycle: int
  name: str
  bucket: int
  reg: int
  a: np.ndarray
  b: np.ndarray


class Bench:
  """A unit, and the buckets as they ought to be: they keep their contents from run to run, as the unit does."""

  def __init__(self, config: Config, gated: Iterable[str]) -> None:
    self.unit = UnitSim(MatrixUnit(config), f"MatrixUnit{config.name}", gated=gated)
    self.config, self.size = config, config.sublanes
    self.buckets = np.zeros((16, self.size, self.size), np.uint32)
    self.held = np.zeros((self.size, self.size), np.uint32)

  def run(self, issues: Iterable[Issue]) -> list[np.ndarray]:
    """Run the operations and compare every pop; the tiles popped."""
    issues = list(issues)
    width, n = self.size**2, issues[-1].cycle + timing.latency(self.config, "MM16") + 8
    inputs = {f"issue__{f}": np.zeros(n, np.uint32) for f in ("start", "code", "d", "bucket")}
    inputs["issue__k"] = np.zeros(n, np.uint32)
    inputs |= {f"issue__{f}": np.full((n, width), 0x3FC00001, np.uint32) for f in "ab"}
    pops = {}
    for t, name, bucket, reg, a, b in issues:
      inputs["issue__start"][t], inputs["issue__code"][t] = 1, OPS[name].code
      inputs["issue__d"][t] = reg if name in POPS else bucket
      inputs["issue__k"][t] = row = int(a[0])
      inputs["issue__bucket"][t] = bucket % 16
      inputs["issue__a"][t], inputs["issue__b"][t] = a, b
      if name in POPS:
        popped = self.buckets[bucket % 16].copy()
        if name == "ppopr":
          popped[:] = popped[row % self.size]
        pops[t + CYCLES["PPOP"] - 1] = (reg, popped, t, bucket)
        if name == "ppopz":
          self.buckets[bucket % 16] = 0
      elif name == "pclr":
        self.buckets[bucket % 16] = 0
      elif name == "pclra":
        self.buckets[:] = 0
      elif name == "ppush":
        self.buckets[bucket % 16] = a.reshape(self.size, self.size)
      elif name in STEPS:
        c = self.buckets[bucket % 16]
        self.buckets[bucket % 16] = step(name, a.reshape(c.shape), self.held if "w" in name else b.reshape(c.shape), c)
      elif name == "mmld":
        self.held = a.reshape(self.held.shape)
    out = self.unit.run(inputs)
    assert np.flatnonzero(out["result__valid"]).tolist() == sorted(pops)
    for cycle, (reg, expected, t, bucket) in pops.items():
      assert out["result__reg"][cycle] == reg
      np.testing.assert_array_equal(out["result__data"][cycle], expected.ravel(), err_msg=f"ppop of bucket {bucket} in {t}")
    return [out["result__data"][cycle] for cycle in sorted(pops)]


@pytest.fixture(scope="module")
def bench() -> Bench:
  """With clock domains resting where they may, as in the chip."""
  return Bench(CONFIG, MATRIX_CLOCKS)


@pytest.fixture(scope="module")
def ticking() -> Bench:
  """With all clocks always ticking."""
  return Bench(CONFIG, ())


@pytest.fixture(scope="module")
def large() -> Bench:
  """The array of preset 8x8, whose steps are chains of two groups."""
  return Bench(preset("8x8"), MATRIX_CLOCKS)


def tiles(operands, n: int, size: int, kind: str, form: str = "f") -> np.ndarray:
  """n tiles: raw words; floats from the special and random classes; or floats of like magnitude, where rounding differs by order,
  in the operand format `form`."""
  if kind == "raw":
    return operands.raw(n * size**2).reshape(n, -1)
  if kind == "special":
    return operands.rng.permutation(operands.words(n * size**2))[:n * size**2].reshape(n, -1)
  if form in "hb":
    floats = operands.rng.standard_normal((n, 2 * size**2)).astype(np.float32)
    halves = floats.astype(np.float16).view(np.uint16) if form == "h" else (floats.view(np.uint32) >> 16).astype(np.uint16)
    return halves.view(np.uint32)
  return operands.rng.standard_normal((n, size**2)).astype(np.float32).view(np.uint32)


def test_table_is_covered():
  steps = {op.name for op in OPS.values() if op.name.startswith("mm") and op.timing}
  assert steps == set(STEPS)


@pytest.mark.parametrize("kind", ["raw", "special", "normal"])
@pytest.mark.parametrize("name", STEPS)
def test_chain(bench, operands, name, kind):
  """Steps back to back on one bucket, popped as early as allowed, after a push of random contents."""
  t, issues, n = 0, [], 300
  for length in operands.rng.integers(1, 12, n):
    a, b = (tiles(operands, int(length), bench.size, kind, name[2]) for _ in range(2))
    c = tiles(operands, 1, bench.size, kind)
    bucket = int(operands.rng.integers(0, 64))
    issues += [Issue(t, "ppush", bucket, 0, c[0], c[0]), Issue(t + 1, "mmld", 0, 0, b[0], a[0])]
    t += 2
    for index, (x, y) in enumerate(zip(a, b, strict=True)):
      issues.append(Issue(t, name, bucket, 0, x, y))
      if index % 3 == 1:
        issues.append(Issue(t + 1, "mmld", 0, 0, y, x))  # for the steps that follow, not for those under way
      t += interval(bench.config, name)
    t += latency(bench.config, name) - interval(bench.config, name)
    issues.append(Issue(t, "ppop", bucket, int(operands.rng.integers(0, 64)), a[0], b[0]))
    t += int(operands.rng.integers(1, 5))
  bench.run(issues)


def test_every_spacing(bench, operands):
  """Three steps at all distances from MM_II to 2 MM_II + 4 more than needed, at every phase, on equal and different buckets, of all
  formats; pops of each as early as allowed."""
  t, issues = 0, []
  spacings = range(2 * timing.interval(bench.config, "MM") + 5)
  for first in spacings:
    for second in spacings:
      for buckets in ((0, 0, 0), (1, 2, 1), (3, 4, 5), (6, 6, 7)):
        t += int(operands.rng.integers(0, 4))
        a, b = (tiles(operands, 3, bench.size, "normal") for _ in range(2))
        names = operands.rng.choice(STEPS, 3)
        at = t + first + interval(bench.config, names[0])
        cycles = (t, at, at + second + interval(bench.config, names[1]))
        plan = [Issue(*x, 0, p, q) for *x, p, q in zip(cycles, names, buckets, a, b, strict=True)]
        ready = {bucket: cycle + latency(bench.config, name) for name, cycle, bucket in zip(names, cycles, buckets, strict=True)}
        taken = set(cycles)
        for bucket, cycle in ready.items():
          cycle = next(c for c in range(cycle, cycle + 4) if c not in taken)
          taken.add(cycle)
          plan.append(Issue(cycle, "ppop", bucket, bucket, a[0], b[0]))
        issues += sorted(plan)
        t = max(taken) + 1
  bench.run(issues)


def mix(config: Config, operands, n: int, gaps: float) -> list[Issue]:
  """n random operations of slot X, each in the first cycle in which the contract lets it issue."""
  rng = operands.rng
  kinds = {kind: tiles(operands, 2 * n, config.sublanes, kind) for kind in ("raw", "special", "normal")}
  issues, t, unit_free, ready = [], 0, 0, [0] * 16
  for index, name in enumerate(rng.choice([*STEPS, *[*POPS, "ppush", "mmld", "pclr"] * 2, "pclra", *OTHERS], n)):
    t += int(rng.random() < gaps) * int(rng.integers(1, 40))
    bucket, reg = int(rng.choice([rng.integers(0, 64), rng.integers(0, 3)])), int(rng.integers(0, 64))
    if name in STEPS:
      t = max(t, unit_free)
      unit_free, ready[bucket % 16] = t + interval(config, name), t + latency(config, name)
    elif name == "pclra":
      t = max(t, *ready)
    elif name == "pclr":
      t = max(t, ready[bucket % 16])
    elif name in POPS:
      bucket %= 16
      t = max(t, ready[bucket])
    elif name == "ppush":
      t = max(t, ready[bucket % 16])
      ready[bucket % 16] = t + CYCLES["PPUSH"]
    a, b = kinds[rng.choice(list(kinds))][2 * index:2 * index + 2]
    issues.append(Issue(t, str(name), bucket, reg, a, b))
    t += 1
  return issues


@pytest.mark.parametrize("clocks", ["bench", "ticking", "large"])
@pytest.mark.parametrize("gaps", [0, 0.2])
def test_mix(request, operands, clocks, gaps):
  bench = request.getfixturevalue(clocks)
  bench.run(mix(bench.config, operands, 6000 if bench.size == 4 else 2000, gaps))


@pytest.mark.parametrize("which", ["bench", "large"])
def test_held_and_second_operand_give_the_same_bits(request, operands, which):
  """The two dataflows: the same steps with B held and with B as an operand."""
  bench = request.getfixturevalue(which)
  t, issues = 0, []
  for form in "fihb":
    a = tiles(operands, 16, bench.size, "normal", form)
    for names in (["mmld", f"mm{form}wz", *[f"mm{form}w"] * 14], ["nop", f"mm{form}z", *[f"mm{form}"] * 14]):
      for index, name in enumerate(names):
        if name != "nop":
          issues.append(Issue(t, name, 1, 0, a[index], a[0]))
        t += timing.interval(bench.config, "MM16")
      t += timing.latency(bench.config, "MM16")
      issues.append(Issue(t, "ppop", 1, 2, a[0], a[0]))
      t += 1
  found = bench.run(issues)
  for held, given in zip(found[::2], found[1::2], strict=True):
    np.testing.assert_array_equal(held, given)


@pytest.mark.parametrize("name", ["MM", "MM16"])
def test_refuses_another_timing(monkeypatch, name):
  built = timing.CLASSES[name]
  monkeypatch.setitem(timing.CLASSES, name, built._replace(latency=lambda c: built.latency(c) - 1))
  with pytest.raises(ValueError, match=f"latency and interval of {name} are .{CYCLES[name] - 1}, .* takes .{CYCLES[name]}, .* cycles"):
    check_timing(CONFIG)


def test_lint(bench):
  assert lint(bench.unit.verilog, "MatrixUnit4x4") == []
