"""ScalarUnit against Python integers: every operation, latencies, multiplier and divider side by side."""
from __future__ import annotations

import numpy as np
import pytest

from tinytpu.config import Config
from tinytpu.isa import timing
from tinytpu.isa.table import OPS
from tinytpu.rtl.scalar import ScalarUnit
from tinytpu.rtl.verilate import UnitSim, lint

MASK = 0xFFFFFFFF


def signed(x: int) -> int:
  return x - (1 << 32) if x >> 31 else x


def truncated(a: int, b: int) -> tuple[int, int]:
  """Quotient rounded toward zero, and its remainder."""
  q = abs(a) // abs(b)
  q = -q if (a < 0) != (b < 0) else q
  return q, a - q * b


def division(name: str, a: int, b: int) -> int:
  if b == 0:
    return a if name in ("rem", "remu", "flmod") else MASK
  if name in ("divu", "remu"):
    return a // b if name == "divu" else a % b
  a, b = signed(a), signed(b)
  return {"div": truncated(a, b)[0], "rem": truncated(a, b)[1], "fldiv": a // b, "flmod": a % b}[name]


REFERENCE = {
  "sadd": lambda a, b, c: a + b, "ssub": lambda a, b, c: a - b, "sand": lambda a, b, c: a & b, "sor": lambda a, b, c: a | b,
  "sxor": lambda a, b, c: a ^ b, "sshl": lambda a, b, c: a << b % 32, "sshr": lambda a, b, c: a >> b % 32,
  "ssar": lambda a, b, c: signed(a) >> b % 32, "smin": lambda a, b, c: min(signed(a), signed(b)),
  "smax": lambda a, b, c: max(signed(a), signed(b)), "sminu": lambda a, b, c: min(a, b), "smaxu": lambda a, b, c: max(a, b),
  "slt": lambda a, b, c: signed(a) < signed(b), "sltu": lambda a, b, c: a < b, "seq": lambda a, b, c: a == b,
  "sne": lambda a, b, c: a != b, "ssel": lambda a, b, c: b if a else c, "smul": lambda a, b, c: a * b,
} | {f"s{n}": (lambda a, b, c, n=n: division(n, a, b)) for n in ("div", "rem", "divu", "remu", "fldiv", "flmod")}
SPECIAL = np.array([0, 1, 2, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0x10000, 0xFFFF], np.uint32)


@pytest.fixture(scope="module")
def unit() -> UnitSim:
  return UnitSim(ScalarUnit(), "ScalarUnit")


def operands(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
  """All pairs of special values, then random ones, some equal or small."""
  rng = np.random.default_rng(seed)
  a, b = (x.ravel() for x in np.meshgrid(SPECIAL, SPECIAL))
  random = rng.integers(0, 1 << 32, (2, n), dtype=np.uint32)
  random[1] = np.where(rng.random(n) < 0.3, random[1] & 0xF, np.where(rng.random(n) < 0.1, random[0], random[1]))
  return np.concatenate([a, random[0]]), np.concatenate([b, random[1]])


def test_table_is_covered():
  assert {op.name for op in OPS.values() if op.slot == "S"} == {*REFERENCE, "scyc", "sldx", "sldep"}


@pytest.mark.parametrize("name", [name for name in REFERENCE if OPS[name].timing != "SDIV"])
def test_every_cycle(unit, name):
  """Back to back; the result leaves latency - 1 cycles later, on the port of its latency."""
  a, b = operands(500, 1)
  c = a[::-1].copy()
  n, d = len(a), (np.arange(len(a)) % 64).astype(np.uint32)
  late = timing.latency(Config(), OPS[name].timing) - 1
  port = "slow" if late else "fast"

  def pad(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, np.zeros(late, x.dtype)])

  out = unit.run({"issue__start": pad(np.ones(n, np.uint32)), "issue__code": OPS[name].code, "issue__d": pad(d), "issue__a": pad(a),
                  "issue__b": pad(b), "issue__c": pad(c)})
  expected = [int(REFERENCE[name](int(x), int(y), int(z))) & MASK for x, y, z in zip(a, b, c, strict=True)]
  assert out[f"{port}__data"][late:].tolist() == expected
  assert out[f"{port}__valid"].tolist() == [0] * late + [1] * n
  np.testing.assert_array_equal(out[f"{port}__reg"][late:], d)
  assert not out["fast__valid" if late else "slow__valid"].any()


@pytest.mark.parametrize("name", [name for name in REFERENCE if OPS[name].timing == "SDIV"])
def test_division(unit, name):
  """One after the other, as often as the contract allows, with other operations' operands on the bus in between."""
  a, b = operands(60, 2)
  n = len(a) * timing.SDIV
  rng = np.random.default_rng(3)
  bus = {f"issue__{f}": rng.integers(0, 1 << 32, n + 1, dtype=np.uint32) for f in "ab"}
  start, code, d = np.zeros(n + 1, np.uint32), np.full(n + 1, OPS["sadd"].code), rng.integers(0, 64, n + 1, dtype=np.uint32)
  begins = np.arange(len(a)) * timing.SDIV
  start[begins], code[begins], bus["issue__a"][begins], bus["issue__b"][begins] = 1, OPS[name].code, a, b
  out = unit.run(bus | {"issue__start": start, "issue__code": code, "issue__d": d, "issue__c": 0})
  due = begins + timing.SDIV - 1
  assert np.flatnonzero(out["slow__valid"]).tolist() == due.tolist()
  assert out["slow__data"][due].tolist() == [REFERENCE[name](int(x), int(y), 0) & MASK for x, y in zip(a, b, strict=True)]
  np.testing.assert_array_equal(out["slow__reg"][due], d[begins])


def test_cycle_counter_and_multiplies_beside_a_division(unit):
  """A division under way does not disturb products, nor they it; scyc returns the cycle input."""
  n = timing.SDIV + 1
  names = ["sdiv"] + ["smul" if t % 2 else "scyc" for t in range(1, n)]
  names[timing.SDIV - timing.SMUL] = "scyc"  # a product then would fall due with the quotient
  a, b = np.arange(100, 100 + n, dtype=np.uint32), np.full(n, 7, np.uint32)
  cycle = np.arange(5000, 5000 + n, dtype=np.uint32)
  out = unit.run({"issue__start": 1, "issue__code": np.array([OPS[x].code for x in names]), "issue__d": np.arange(n), "issue__a": a,
                  "issue__b": b, "cycle": cycle}, n)
  for t, name in enumerate(names):
    if name == "scyc":
      assert out["fast__valid"][t] and out["fast__data"][t] == cycle[t] and out["fast__reg"][t] == t
    elif t + timing.latency(Config(), OPS[name].timing) - 1 < n:
      due = t + timing.latency(Config(), OPS[name].timing) - 1
      assert out["slow__valid"][due] and out["slow__reg"][due] == t
      assert out["slow__data"][due] == (100 // 7 if name == "sdiv" else (100 + t) * 7)


def test_loop_state(unit):
  """sldx and sldep return what control says of the loop stack."""
  names = ["sldx", "sldep", "sadd"] * 9
  index, depth = np.arange(2**32 - 27, 2**32, dtype=np.uint32), np.arange(27) % 9
  out = unit.run({"issue__start": 1, "issue__code": np.array([OPS[x].code for x in names]), "issue__d": np.arange(27), "issue__a": 1,
                  "issue__b": 2, "loop_index": index, "loop_depth": depth})
  expected = [{"sldx": int(i), "sldep": int(d), "sadd": 3}[name] for name, i, d in zip(names, index, depth, strict=True)]
  assert out["fast__data"].tolist() == expected and out["fast__valid"].all() and out["fast__reg"].tolist() == list(range(27))


def test_lint(unit):
  assert lint(unit.verilog, "ScalarUnit") == []
