"""Transcendental and TranscendentalTile against the reference functions, bit for bit, and their timing."""
from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from tinytpu.isa.transcendental import REFERENCE, TINY, TransFn
from tinytpu.rtl.transcendental import Transcendental
from tinytpu.rtl.transcendental_tile import TRANSCENDENTAL_CLOCKS, TranscendentalTile, beats
from tinytpu.rtl.verilate import UnitSim, lint

EXP2, LOG2, SIN, COS = (REFERENCE[fn] for fn in TransFn)
WIDTH = 8


@njit
def expected(fns: np.ndarray, words: np.ndarray) -> np.ndarray:
  """The reference results, of functions by number."""
  out = np.empty_like(words)
  for k in range(len(words)):
    fn, x = fns[k], words[k]
    out[k] = EXP2(x) if fn == 0 else LOG2(x) if fn == 1 else SIN(x) if fn == 2 else COS(x)
  return out


def arguments(operands, fn: TransFn, n: int) -> np.ndarray:
  """More than n words: specials and all kinds of floats; the function's usual range; next to segment borders."""
  rng, half = operands.rng, n // 2
  low, high = {TransFn.EXP2: (-151, 129), TransFn.LOG2: (0, 4)}.get(fn, (-100, 100))
  usual = rng.uniform(low, high, half)
  borders = rng.integers(1, 256, n // 8) / 128
  count = len(borders)
  borders = {TransFn.EXP2: borders + rng.integers(-150, 127, count), TransFn.LOG2: np.ldexp(borders, rng.integers(-140, 127, count))}.get(
    fn, (borders + rng.integers(0, 1 << 20, count)) * np.pi / 2)
  near = borders.astype(np.float32).view(np.uint32) + rng.integers(-3, 4, len(borders)).astype(np.uint32)
  nearest = np.array([0x6F79BE45, 0xEF79BE45, int(TINY) - 1, int(TINY), int(TINY) + 1], np.uint32)  # nearest: to a multiple of pi / 2
  return np.concatenate([operands.words(half), nearest, usual.astype(np.float32).view(np.uint32), near])


@pytest.fixture(scope="module")
def unit() -> UnitSim:
  return UnitSim(Transcendental(), "Transcendental", opt=("-O2",))


@pytest.mark.parametrize("fn", TransFn)
def test_function(unit, operands, fn):
  x = arguments(operands, fn, 1_000_000)
  assert len(x) > 1_000_000
  got = unit.pipe({"fn": int(fn), "x": x}, Transcendental.CUTS)["o"]
  operands.check(got, expected(np.full(len(x), int(fn)), x), x)


def test_every_coefficient(unit, operands):
  """In each segment of each table some positions, the ends among them."""
  positions = np.array([0, 1, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF, *operands.rng.integers(0, 1 << 16, 200)])
  fraction = (np.arange(128)[:, None] << 16 | positions).ravel()
  logs = (fraction | 127 << 23).astype(np.uint32)
  exponentials = np.ldexp(fraction.astype(np.float64), -23).astype(np.float32).view(np.uint32)
  turns = np.ldexp(fraction + 0.5, -24) * np.pi / 2  # to pi / 4
  circular = turns.astype(np.float32).view(np.uint32)
  for fn, x in ((TransFn.LOG2, logs), (TransFn.EXP2, exponentials), (TransFn.SIN, circular), (TransFn.COS, circular)):
    got = unit.pipe({"fn": int(fn), "x": x}, Transcendental.CUTS)["o"]
    operands.check(got, expected(np.full(len(x), int(fn)), x), x)


def test_mixed(unit, operands):
  """Functions change from cycle to cycle."""
  x = np.concatenate([arguments(operands, fn, 50_000) for fn in TransFn])
  operands.rng.shuffle(x)
  fn = operands.rng.integers(0, len(TransFn), len(x))
  operands.check(unit.pipe({"fn": fn, "x": x}, Transcendental.CUTS)["o"], expected(fn, x), fn, x)


def test_lint(unit):
  assert lint(unit.verilog, "Transcendental") == []


@pytest.fixture(scope="module", params=[(1, True), (2, False), (WIDTH, True)], ids=["1", "2", "all"])
def tile(request) -> tuple[TranscendentalTile, UnitSim]:
  """With one, two, and as many pipelines as elements; the clock resting where it may, and always ticking."""
  units, gated = request.param
  tile = TranscendentalTile(WIDTH, units)
  return tile, UnitSim(tile, f"TranscendentalTile{units}", gated=TRANSCENDENTAL_CLOCKS if gated else ())


def test_tile(tile, operands):
  """Operations at every distance from as close as can be to far apart: results in their cycle, and in no other."""
  component, sim = tile
  n, rng = 3_000, operands.rng
  gaps = component.beats + np.where(rng.integers(0, 2, n), 0, rng.integers(0, 2 * component.latency, n))
  start = np.cumsum(gaps)
  cycles = int(start[-1]) + component.latency + 5
  x = np.concatenate([arguments(operands, fn, n * WIDTH // 4) for fn in TransFn])
  x = rng.choice(x, (n, WIDTH))
  fns = rng.integers(0, len(TransFn), n)
  inputs = {"start": np.zeros(cycles, np.uint32), "fn": operands.raw(cycles) & 3, "x": operands.raw(cycles * WIDTH).reshape(cycles, WIDTH)}
  inputs["start"][start], inputs["fn"][start], inputs["x"][start] = 1, fns, x
  sim.reset()
  out = sim.run(inputs)
  assert np.flatnonzero(out["due"]).tolist() == (start + component.latency).tolist()
  for e in range(WIDTH):
    operands.check(out["o"][start + component.latency, e], expected(fns, x[:, e].copy()), fns, x[:, e])


def test_tile_lint(tile):
  component, sim = tile
  assert lint(sim.verilog, f"TranscendentalTile{component.units}") == []


@pytest.mark.parametrize("units", [0, 3, 2 * WIDTH])
def test_refuses(units):
  with pytest.raises(ValueError, match=f"units must divide the {WIDTH} elements of a tile into a power of two of beats, not be {units}"):
    beats(WIDTH, units)
