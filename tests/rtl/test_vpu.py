"""VectorUnit against numpy: every operation of slot V, alone and in mixes as the issue stage allows them."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numba import njit

from tests.iss.reference import UNARY, WORDS, half_round
from tinytpu.config import Config, preset
from tinytpu.isa import timing
from tinytpu.isa.table import OPS
from tinytpu.isa.transcendental import REFERENCE as TRANSCENDENTAL
from tinytpu.isa.transcendental import TransFn
from tinytpu.rtl.verilate import UnitSim, lint
from tinytpu.rtl.vpu import VECTOR_CLOCKS, VectorUnit, check_timing

CONFIG = preset("4x4")
BEATS = {"2 beats": preset("4x4", vector_lanes=8), "4 beats": preset("4x4", vector_lanes=4), "8x8": preset("8x8"), "16x16": preset("16x16")}
W = CONFIG.width
NAN = np.uint32(0x7FC00000)


def f(words: np.ndarray) -> np.ndarray:
  return words.view(np.float32)


def i(words: np.ndarray) -> np.ndarray:
  return words.view(np.int32)


def wide(words: np.ndarray) -> np.ndarray:
  return i(words).astype(np.int64)


def bits(values: np.ndarray) -> np.ndarray:
  """Float32 values as words, every NaN the canonical one."""
  return np.where(np.isnan(values), NAN, values.astype(np.float32).view(np.uint32))


def quotient(a: np.ndarray, b: np.ndarray, floor: bool) -> tuple[np.ndarray, np.ndarray]:
  """Quotient and remainder of int64 operands; by zero: -1 and the dividend."""
  divisor = np.where(b == 0, 1, b)
  q = a // divisor if floor else np.abs(a) // np.abs(divisor) * np.sign(a) * np.sign(divisor)
  return np.where(b == 0, -1, q), np.where(b == 0, a, a - q * divisor)


def extreme(a: np.ndarray, b: np.ndarray, pick: Callable, zero: Callable) -> np.ndarray:
  """np.maximum / np.minimum with ordered zeros: both zero gives `zero` of the words."""
  return np.where((f(a) == 0) & (f(b) == 0), zero(a, b), bits(pick(f(a), f(b))))


def saturated(a: np.ndarray, low: int, high: int) -> np.ndarray:
  return np.clip(np.trunc(np.nan_to_num(f(a).astype(np.float64), nan=0.0)), low, high).astype(np.int64)


def half(a: np.ndarray) -> np.ndarray:
  return np.where(np.isnan(f(a)), 0x7E00, f(a).astype(np.float16).view(np.uint16)).astype(np.uint32)


def unhalf(a: np.ndarray) -> np.ndarray:
  return bits(a.astype(np.uint16).view(np.float16).astype(np.float32))


def brain(a: np.ndarray) -> np.ndarray:
  """The nearer of the two bfloat16 around a, measured in float64; the even one in the middle."""
  magnitude = a & np.uint32(0x7FFFFFFF)
  low = magnitude & np.uint32(0xFFFF0000)
  high = low + np.uint32(0x10000)

  def value(m: np.ndarray) -> np.ndarray:
    return np.where(m >= 0x7F800000, 2.0**128, m.view(np.float32).astype(np.float64))
  down, up = value(magnitude) - value(low), value(high) - value(magnitude)
  nearest = np.where((up < down) | ((up == down) & (low & 0x10000 != 0)), high, low)
  nearest = np.where(magnitude == 0x7F800000, magnitude, nearest)
  return np.where(np.isnan(f(a)), 0x7FC0, (nearest | (a & np.uint32(0x80000000))) >> 16).astype(np.uint32)


def unbrain(a: np.ndarray) -> np.ndarray:
  return bits(f((a << np.uint32(16)).astype(np.uint32)))


def transcendental(fn: TransFn) -> Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
  """The reference function, which has tests of its own against double precision."""
  @njit
  def compute(words: np.ndarray) -> np.ndarray:
    out = np.empty_like(words)
    for k in range(len(words)):
      out[k] = function(words[k])
    return out
  function = TRANSCENDENTAL[fn]
  return lambda a, b, c: compute(a.ravel()).reshape(a.shape)


REFERENCE: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
  "vadd": lambda a, b, c: wide(a) + wide(b), "vsub": lambda a, b, c: wide(a) - wide(b), "vmul": lambda a, b, c: i(a) * i(b),
  "vand": lambda a, b, c: a & b, "vor": lambda a, b, c: a | b, "vxor": lambda a, b, c: a ^ b,
  "vshl": lambda a, b, c: a.astype(np.uint64) << (b % 32), "vshr": lambda a, b, c: a // (np.uint64(1) << (b % 32)),
  "vsar": lambda a, b, c: wide(a) // (np.int64(1) << (b % 32)),
  "vmin": lambda a, b, c: np.minimum(i(a), i(b)), "vmax": lambda a, b, c: np.maximum(i(a), i(b)),
  "vminu": lambda a, b, c: np.minimum(a, b), "vmaxu": lambda a, b, c: np.maximum(a, b),
  "vlt": lambda a, b, c: i(a) < i(b), "vltu": lambda a, b, c: a < b, "veq": lambda a, b, c: a == b, "vne": lambda a, b, c: a != b,
  "vsel": lambda a, b, c: np.where(a != 0, b, c), "vmov": lambda a, b, c: b,
  "vlid": lambda a, b, c: np.broadcast_to(np.arange(a.shape[1]), a.shape),
  "vdiv": lambda a, b, c: quotient(wide(a), wide(b), False)[0], "vrem": lambda a, b, c: quotient(wide(a), wide(b), False)[1],
  "vfldiv": lambda a, b, c: quotient(wide(a), wide(b), True)[0], "vflmod": lambda a, b, c: quotient(wide(a), wide(b), True)[1],
  "vdivu": lambda a, b, c: quotient(a.astype(np.int64), b.astype(np.int64), True)[0],
  "vremu": lambda a, b, c: quotient(a.astype(np.int64), b.astype(np.int64), True)[1],
  "vflt": lambda a, b, c: f(a) < f(b), "vfle": lambda a, b, c: f(a) <= f(b),
  "vfeq": lambda a, b, c: f(a) == f(b), "vfne": lambda a, b, c: f(a) != f(b),
  "vfmax": lambda a, b, c: extreme(a, b, np.maximum, np.bitwise_and), "vfmin": lambda a, b, c: extreme(a, b, np.minimum, np.bitwise_or),
  "vfsmax": lambda a, b, c: np.where(f(a) > f(b), a, b), "vfsmin": lambda a, b, c: np.where(f(a) < f(b), a, b),
  "vf2h": lambda a, b, c: half(a), "vh2f": lambda a, b, c: unhalf(a), "vroundh": lambda a, b, c: unhalf(half(a)),
  "vf2b": lambda a, b, c: brain(a), "vb2f": lambda a, b, c: unbrain(a), "vroundb": lambda a, b, c: unbrain(brain(a)),
  "vfadd": lambda a, b, c: bits(f(a) + f(b)), "vfsub": lambda a, b, c: bits(f(a) - f(b)), "vfmul": lambda a, b, c: bits(f(a) * f(b)),
  "vi2f": lambda a, b, c: bits(i(a).astype(np.float32)), "vu2f": lambda a, b, c: bits(a.astype(np.float32)),
  "vf2i": lambda a, b, c: saturated(a, -2**31, 2**31 - 1), "vf2u": lambda a, b, c: saturated(a, 0, 2**32 - 1),
  "vftrunc": lambda a, b, c: bits(np.trunc(f(a))),
  "vfdiv": lambda a, b, c: bits(f(a) / f(b)), "vfrcp": lambda a, b, c: bits(np.float32(1) / f(a)),
  "vfsqrt": lambda a, b, c: bits(np.sqrt(f(a))),
  "vfexp2": transcendental(TransFn.EXP2), "vflog2": transcendental(TransFn.LOG2),
  "vfsin": transcendental(TransFn.SIN), "vfcos": transcendental(TransFn.COS),
  "vaxr": half_round,
}
REFERENCE |= {name: lambda a, b, c, reference=reference: reference(a, b) for name, reference in WORDS.items()}
REFERENCE |= {name: lambda a, b, c, reference=reference: reference(a) for name, reference in UNARY.items() if name not in REFERENCE}


@pytest.fixture(scope="module")
def unit() -> UnitSim:
  """With clock domains resting where they may, as in the chip."""
  return UnitSim(VectorUnit(CONFIG), "VectorUnit", gated=VECTOR_CLOCKS)


@pytest.fixture(scope="module")
def ticking() -> UnitSim:
  """With all clocks always ticking."""
  return UnitSim(VectorUnit(CONFIG), "VectorUnit")


def test_table_is_covered():
  assert set(REFERENCE) == {op.name for op in OPS.values() if op.slot == "V"}


def latency(config: Config, name: str) -> int:
  return timing.latency(config, OPS[name].timing)


def run(config: Config, unit: UnitSim, schedule: list[tuple[int, str]], d: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
  """Issue operation n of `schedule` (cycle, name) with row n of the operands; check the result port in every cycle."""
  cycles = np.array([t for t, _ in schedule])
  names = np.array([name for _, name in schedule])
  n = cycles[-1] + timing.latency(config, "DIV")
  inputs = {}
  for field, values in {"start": 1, "code": [OPS[name].code for name in names], "d": d, "a": a, "b": b, "c": c}.items():
    full = np.zeros((n, *np.shape(values)[1:]), np.uint32) if field == "start" else np.full((n, *np.shape(values)[1:]), 0x55, np.uint32)
    full[cycles] = values
    inputs[f"issue__{field}"] = full
  out = unit.run(inputs)
  due = cycles + [latency(config, name) - 1 for name in names]
  assert np.array_equal(np.flatnonzero(out["result__valid"]), np.sort(due))
  assert np.array_equal(out["result__reg"][due], d)
  data = out["result__data"][due]
  for name in np.unique(names):
    rows = names == name
    expected = REFERENCE[name](a[rows], b[rows], c[rows]).astype(np.int64).astype(np.uint32)
    wrong = np.argwhere(data[rows] != expected)
    text = [f"{a[rows][tuple(w)]:08x} {b[rows][tuple(w)]:08x} {c[rows][tuple(w)]:08x}: got {data[rows][tuple(w)]:08x}, "
            f"expected {expected[tuple(w)]:08x}" for w in wrong[:8]]
    assert not len(wrong), f"{name}: {len(wrong)} elements differ\n" + "\n".join(text)


def tiles(width: int, *operands: np.ndarray) -> list[np.ndarray]:
  """Operand vectors as rows of whole tiles, the rest dropped."""
  return [x[:len(x) // width * width].reshape(-1, width) for x in operands]


@pytest.mark.parametrize("name", REFERENCE)
def test_operation(unit, operands, name):
  """One operation at full rate, on all pairs of special values, random floats and integers of every size."""
  n = 20_000 if OPS[name].timing == "DIV" else 100_000
  float_a, float_b = operands.pairs(n)
  int_a, int_b = operands.integer_pairs(n)
  a, b = tiles(W, np.concatenate([float_a, int_a]), np.concatenate([float_b, int_b]))
  c = operands.raw(a.size).reshape(a.shape)
  if name == "vsel":
    a = a * operands.rng.integers(0, 2, a.shape, np.uint32)
  pace = timing.interval(CONFIG, OPS[name].timing)
  run(CONFIG, unit, [(t * pace, name) for t in range(len(a))], np.arange(len(a)) % 64, a, b, c)


def mix(config: Config, rng: np.random.Generator, n: int, names: list[str], gaps: float) -> list[tuple[int, str]]:
  """n random operations, each in the first cycle in which the result port and its unit are free for it."""
  unit_of = {kind: unit for unit, kinds in timing.UNITS.items() for kind in kinds}
  schedule: list[tuple[int, str]] = []
  t, free, taken = 0, {}, set()
  for name in rng.choice(names, n):
    unit = unit_of[OPS[name].timing]
    t += rng.random() < gaps and int(rng.integers(1, 50))
    while t + latency(config, name) in taken or t < free.get(unit, 0):
      t += 1
    schedule.append((t, str(name)))
    taken.add(t + latency(config, name))
    free[unit] = t + timing.interval(config, OPS[name].timing)
    t += 1
  return schedule


def run_mixes(config: Config, unit: UnitSim, operands, n: int, gaps: float) -> None:
  """All latencies at once, dividers rare and often."""
  fast = [name for name in REFERENCE if OPS[name].timing != "DIV"]
  for names in (list(REFERENCE), fast * 20 + list(REFERENCE), fast):
    a, b = tiles(config.width, *(x[:n * config.width] for x in operands.pairs(n * config.width)))
    order, c = operands.rng.permutation(n), operands.raw(n * config.width).reshape(n, config.width)
    run(config, unit, mix(config, operands.rng, n, names, gaps), operands.rng.integers(0, 64, n), a[order], b[order], c)


@pytest.mark.parametrize("clocks", ["unit", "ticking"])
@pytest.mark.parametrize("gaps", [0, 0.3])
def test_mix(request, operands, clocks, gaps):
  """Back to back and with idle times; clocks resting or not."""
  run_mixes(CONFIG, request.getfixturevalue(clocks), operands, 3000, gaps)


@pytest.mark.parametrize("machine", BEATS)
def test_beats(operands, machine):
  """Tiles wider than the lanes, and the larger presets: also operations of one class between the beats of another."""
  config = BEATS[machine]
  unit = UnitSim(VectorUnit(config), "VectorUnit", gated=VECTOR_CLOCKS)
  for gaps in (0, 0.3):
    run_mixes(config, unit, operands, 16_000 // config.width, gaps)
  assert lint(unit.verilog, "VectorUnit") == []


@pytest.mark.parametrize("name", ["ALU", "IMUL", "FLOAT", "DIV", "TRANS"])
def test_refuses_another_timing(monkeypatch, name):
  built = timing.latency(CONFIG, name)
  monkeypatch.setitem(timing.CLASSES, name, timing.CLASSES[name]._replace(latency=lambda c: built + 1))
  with pytest.raises(ValueError, match=f"the latency {name} is {built + 1}, but the vector unit takes {built} cycles"):
    check_timing(CONFIG)


def test_lint(unit):
  assert lint(unit.verilog, "VectorUnit") == []
