"""exp2, log2, sin and cos against double precision, with exact reduction of large arguments; special values; tables."""
from __future__ import annotations

import os
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from numba import njit

from tinytpu.isa import transcendental_fit, transcendental_tables
from tinytpu.isa.transcendental import REFERENCE, TransFn

WORST = 0.64  # ulp; over all inputs, bench.ulp measures 0.628, 0.567, 0.638 and 0.639
NAN, INF, ONE, SIGN = 0x7FC00000, 0x7F800000, 0x3F800000, 1 << 31
DOUBLE = {TransFn.EXP2: np.exp2, TransFn.LOG2: np.log2, TransFn.SIN: np.sin, TransFn.COS: np.cos}


def _vectorised(reference):
  @njit
  def run(words):
    out = np.empty_like(words)
    for k in range(len(words)):
      out[k] = reference(words[k])
    return out
  return run


COMPUTE = {fn: _vectorised(reference) for fn, reference in REFERENCE.items()}


def compute(fn: TransFn, words) -> np.ndarray:
  """The function's results, of words to words."""
  return COMPUTE[fn](np.asarray(words, np.uint32))


def floats(words) -> np.ndarray:
  return np.asarray(words, np.uint32).view(np.float32)


def words_of(values) -> np.ndarray:
  return np.asarray(values, np.float32).view(np.uint32)


def errors(words: np.ndarray, exact: np.ndarray) -> np.ndarray:
  """Errors of finite results in units of the last place of the exact ones (doubles)."""
  _, exponent = np.frexp(exact)
  return np.abs(floats(words).astype(np.float64) - exact) / np.ldexp(1.0, np.maximum(exponent - 1, -126) - 23)


def check(fn: TransFn, x: np.ndarray, exact: np.ndarray) -> None:
  """Every result within WORST of the exact one; what is NaN, infinite or zero when rounded exactly so."""
  got = compute(fn, x)
  with np.errstate(all="ignore"):
    nearest = exact.astype(np.float32)
    expected = np.where(np.isnan(exact), np.uint32(NAN), nearest.view(np.uint32))
    special = ~np.isfinite(nearest) | (exact == 0)
    error = np.where(special, 0, errors(got, exact))
  wrong = np.flatnonzero(np.where(special, got != expected, ~(error <= WORST)))
  assert not len(wrong), f"{len(wrong)} wrong: " + ", ".join(f"{x[k]:08x}: {got[k]:08x}, {exact[k]!r}" for k in wrong[:8])


@pytest.fixture
def rng() -> np.random.Generator:
  """Random numbers; the seed is printed, and set by TINYTPU_SEED to repeat a run."""
  seed = int(os.environ.get("TINYTPU_SEED") or np.random.SeedSequence().generate_state(1)[0])
  print(f"TINYTPU_SEED={seed}")
  return np.random.default_rng(seed)


def edges() -> np.ndarray:
  """Words around every power of two, of both signs."""
  powers = np.arange(0, 256, dtype=np.int64) << 23
  near = (powers[:, None] + np.arange(-3, 4)).ravel() & 0x7FFFFFFF
  return np.concatenate([near, near | SIGN]).astype(np.uint32)


@pytest.mark.parametrize("fn", TransFn)
def test_random(fn, rng):
  x = np.concatenate([edges(), rng.integers(0, 1 << 32, 300_000, np.uint32)])
  with np.errstate(all="ignore"):
    check(fn, x, DOUBLE[fn](floats(x).astype(np.float64)))


RANGES = {
  TransFn.EXP2: ((-151, -125), (-126, 128), (-1, 1), (-1e-6, 1e-6)),
  TransFn.LOG2: ((0, 1e-38), (0.5, 2), (0.9999, 1.0001), (0, 1e6)),
  TransFn.SIN: ((-4, 4), (-1e-3, 1e-3), (-100, 100), (-1e9, 1e9)),
  TransFn.COS: ((-4, 4), (-1e-3, 1e-3), (-100, 100), (-1e9, 1e9)),
}


@pytest.mark.parametrize("fn", TransFn)
def test_usual_ranges(fn, rng):
  for low, high in RANGES[fn]:
    x = words_of(rng.uniform(low, high, 100_000))
    with np.errstate(all="ignore"):
      check(fn, x, DOUBLE[fn](floats(x).astype(np.float64)))


SPECIAL = {
  TransFn.EXP2: {
    0: ONE, SIGN: ONE, INF: INF, INF | SIGN: 0, 1: ONE, 1 | SIGN: ONE, 0x43000000: INF, 0x7F7FFFFF: INF, 0xFF7FFFFF: 0,
    0x42FFFFFF: 0x7F7FFFA7,  # 128 - 2^-17
    0xC3160000: 0, 0xC3158000: 1, 0xC3150000: 1},  # -150, -149.5, -149
  TransFn.LOG2: {
    0: INF | SIGN, SIGN: INF | SIGN, INF: INF, INF | SIGN: NAN, ONE: 0, ONE | SIGN: NAN, 1 | SIGN: NAN, 0xFF7FFFFF: NAN,
    1: 0xC3150000, 0x7F7FFFFF: 0x43000000},
  TransFn.SIN: {0: 0, SIGN: SIGN, INF: NAN, INF | SIGN: NAN, 1: 1, 1 | SIGN: 1 | SIGN, 0x00800000: 0x00800000, 0x397FFFFF: 0x397FFFFF},
  TransFn.COS: {0: ONE, SIGN: ONE, INF: NAN, INF | SIGN: NAN, 1: ONE, 1 | SIGN: ONE, 0x397FFFFF: ONE},
}


@pytest.mark.parametrize("fn", TransFn)
def test_special_values(fn):
  nans = (0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFC00000, 0xFFFFFFFF)
  table = SPECIAL[fn] | dict.fromkeys(nans, NAN)
  got = compute(fn, list(table))
  assert {f"{x:08x}": f"{y:08x}" for x, y in zip(table, got, strict=True)} == {f"{x:08x}": f"{y:08x}" for x, y in table.items()}


def test_exact_powers():
  n = np.arange(-149, 128)
  powers = words_of(np.ldexp(1.0, n))
  assert (compute(TransFn.EXP2, words_of(n)) == powers).all()
  assert (compute(TransFn.LOG2, powers) == words_of(n)).all()


def test_tiny_arguments():
  """Below 2^-12 the sine is the argument, and the cosine 1."""
  x = np.arange(0, 0x39800000, 9973, dtype=np.uint32)
  for sign in (0, SIGN):
    assert (compute(TransFn.SIN, x | np.uint32(sign)) == x | np.uint32(sign)).all()
    assert (compute(TransFn.COS, x | np.uint32(sign)) == ONE).all()


def test_symmetry(rng):
  x = rng.integers(0, INF, 200_000, np.uint32)
  assert (compute(TransFn.SIN, x | np.uint32(SIGN)) == compute(TransFn.SIN, x) ^ np.uint32(SIGN)).all()
  assert (compute(TransFn.COS, x | np.uint32(SIGN)) == compute(TransFn.COS, x)).all()


def _pi() -> Decimal:
  """By Gauss and Legendre's iteration, in the current precision."""
  a, b, t, p = Decimal(1), 1 / Decimal(2).sqrt(), Decimal("0.25"), 1
  for _ in range(9):
    a, b, t, p = (a + b) / 2, (a * b).sqrt(), t - p * ((a - b) / 2) ** 2, 2 * p
  return (a + b) ** 2 / (4 * t)


def reduced(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Of each finite word's float x: k mod 4 and r as double, with x = k * pi / 2 + r and |r| <= pi / 4, exact but for r's rounding."""
  quadrants, rests = [], []
  with localcontext() as context:
    context.prec = 140
    half_pi = _pi() / 2
    assert str(half_pi * 2).startswith("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")
    for value in floats(words).astype(np.float64):
      x = Decimal(float(value))
      k = (x / half_pi).to_integral_value()
      quadrants.append(int(k) % 4)
      rests.append(float(x - k * half_pi))
  return np.array(quadrants), np.array(rests)


@pytest.mark.parametrize("fn", [TransFn.SIN, TransFn.COS])
def test_large_arguments(fn, rng):
  """All exponents, the float nearest to a multiple of pi / 2 in proportion, floats next to such multiples."""
  with localcontext() as context:
    context.prec = 140
    multiples = rng.integers(1, 1 << 24, 400) * 4.0 ** rng.integers(0, 50, 400)
    near = words_of([float(Decimal(k) * _pi() / 2) for k in multiples])
  worst = np.array([0x6F79BE45, 0x6F79BE45 | SIGN, 0x7F7FFFFF, 0xFF7FFFFF, 0x39800000, 0x3FC90FDB, 0x40490FDB], np.uint32)
  random = rng.integers(0x39800000, INF, 6_000, np.uint32) | np.uint32(SIGN) * rng.integers(0, 2, 6_000, np.uint32)
  x = np.concatenate([worst, near, near - np.uint32(1), near + np.uint32(1), random])
  quadrant, rest = reduced(x)
  quadrant = (quadrant + (fn == TransFn.COS)) % 4
  exact = np.where(quadrant % 2, np.cos(rest), np.sin(rest)) * np.where(quadrant >= 2, -1, 1)
  check(fn, x, exact)


@pytest.mark.parametrize("fn, low, high, slope", [
  (TransFn.EXP2, -140, 127, 1), (TransFn.LOG2, 1e-40, 1e38, 1), (TransFn.SIN, 1e-6, 1.57, 1), (TransFn.COS, 1e-6, 3.14, -1)])
def test_monotonic(fn, low, high, slope, rng):
  """Runs of neighbouring floats: around multiples of 1/64 in the argument or the reduced one, and anywhere."""
  grid = np.linspace(low, high, 64 * 64)
  if fn == TransFn.LOG2:
    grid = np.ldexp(1 + np.arange(128) / 128, rng.integers(-126, 127, (16, 1))).ravel()
  turns = np.arange(1, 129) / 128 * np.pi / 2
  starts = np.concatenate([grid, np.arange(1, 64) / 64, rng.uniform(low, high, 2000), turns[turns < high]])
  starts = words_of(starts[(starts > low) & (starts < high)])
  runs = starts[:, None] + np.arange(-32, 32).astype(np.uint32)
  results = floats(compute(fn, runs.ravel())).reshape(runs.shape)
  steps = np.diff(results, axis=1) * np.where(floats(starts) < 0, -slope, slope)[:, None]
  assert (steps >= 0).all(), [f"{w:08x}" for w in starts[(steps < 0).any(axis=1)][:8]]


def test_tables_are_what_the_procedure_gives():
  with open(transcendental_tables.__file__) as file:
    assert file.read() == transcendental_fit.render()


def test_table_of_two_over_pi():
  """The limbs times pi are 2, but for the last bit."""
  value = 0
  for limb in transcendental_tables.TWO_OVER_PI:
    value = value << 32 | limb
  with localcontext() as context:
    context.prec = 140
    pi = Fraction(_pi())
  assert 0 < 2 - Fraction(value, 1 << 219) * pi < Fraction(4, 1 << 219)
