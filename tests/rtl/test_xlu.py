"""CrossUnit against numpy: every operation, issued back to back."""
from __future__ import annotations

from math import isqrt

import numpy as np
import pytest

from tinytpu.config import Config, preset
from tinytpu.isa import timing
from tinytpu.isa.table import OPS
from tinytpu.rtl.verilate import UnitSim, lint
from tinytpu.rtl.xlu import CrossUnit

CONFIGS = {"4x4": preset("4x4"), "2 beats": preset("4x4", vector_lanes=8), "4 beats": preset("4x4", vector_lanes=4),
           "8x8": preset("8x8"), "16x16": preset("16x16")}


def square(a: np.ndarray) -> np.ndarray:
  """The tile as sublanes and lanes."""
  side = isqrt(len(a))
  return a.reshape(side, side)


TILE = {
  "xbcr": lambda a, b, k: np.repeat(square(a)[k % isqrt(len(a))][None], isqrt(len(a)), 0),
  "xbcc": lambda a, b, k: np.repeat(square(a)[:, k % isqrt(len(a))][:, None], isqrt(len(a)), 1),
  "xbce": lambda a, b, k: np.full(len(a), a[k % len(a)]),
  "xtr": lambda a, b, k: square(a).T,
  "xtrb": lambda a, b, k: a.view(np.uint8).reshape(-1, 4, 4).transpose(0, 2, 1).copy().view(np.uint32),
  "xtrh": lambda a, b, k: a.view(np.uint16).reshape(-1, 2, 2).transpose(0, 2, 1).copy().view(np.uint32),
  "xrot": lambda a, b, k: np.roll(a, -(k % len(a))),
  "xperm": lambda a, b, k: a[b % len(a)],
}
SCALAR = {
  "xtos": lambda a, b, k: a[k % len(a)],
  "xany": lambda a, b, k: np.any(a != 0),
  "xall": lambda a, b, k: np.all(a != 0),
}
OTHERS = ("mmf", "mmiz", "ppop", "ppush")


class Machine:
  """A unit under test."""

  def __init__(self, config: Config) -> None:
    self.config, self.sim = config, UnitSim(CrossUnit(config), "CrossUnit")
    self.cycles = {name: timing.latency(config, name) for name in ("XLU", "X2S")}

  def run(self, names: list[str], d: np.ndarray, a: np.ndarray, b: np.ndarray, k: np.ndarray, issue: np.ndarray) -> None:
    """Operation n issues with row n of the operands if issue[n], as soon as the unit is free, else leaves a gap of a cycle (and those of
    the matrix unit follow at once). Both result ports in every cycle are compared with what is due."""
    interval = [timing.interval(self.config, "XLU") if go and name not in OTHERS else 1 for name, go in zip(names, issue, strict=True)]
    at = np.cumsum([0, *interval])
    n = at[-1] + self.cycles["X2S"]
    inputs = {"issue__start": np.zeros(n, np.uint32)}
    inputs["issue__start"][at[:-1]] = issue
    for field, values in {"code": np.array([OPS[name].code for name in names]), "d": d, "a": a, "b": b, "k": k}.items():
      full = np.full((n, *values.shape[1:]), 0x55, np.uint32)
      full[at[:-1]] = values
      inputs[f"issue__{field}"] = full
    out = self.sim.run(inputs)
    for port, table, latency in (("result", TILE, self.cycles["XLU"]), ("scalar", SCALAR, self.cycles["X2S"])):
      due = {t + latency - 1: i for i, t in enumerate(at[:-1]) if issue[i] and names[i] in table}
      assert sorted(due) == np.flatnonzero(out[f"{port}__valid"]).tolist()
      for cycle, i in due.items():
        assert out[f"{port}__reg"][cycle] == d[i], (names[i], i)
        expected = np.asarray(table[names[i]](a[i], b[i], int(k[i])), np.uint32).ravel()
        np.testing.assert_array_equal(np.atleast_1d(out[f"{port}__data"][cycle]), expected, err_msg=f"{names[i]}, operation {i}")


@pytest.fixture(scope="module", params=CONFIGS)
def machine(request: pytest.FixtureRequest) -> Machine:
  return Machine(CONFIGS[request.param])


def test_table_is_covered():
  rows = {op.name: op.timing for op in OPS.values() if op.timing in ("XLU", "X2S")}
  assert rows == dict.fromkeys(TILE, "XLU") | dict.fromkeys(SCALAR, "X2S")


def test_every_index(machine):
  """All values of k (and some beyond the width) for every operation, on a tile of distinct elements and on its zeros."""
  width = machine.config.width
  names = [name for name in (*TILE, *SCALAR) for _ in range(4 * width)]
  n = len(names)
  k = np.tile(np.r_[np.arange(2 * width), 2**32 - np.arange(1, width + 1), 2**31 + np.arange(width)], n // (4 * width)).astype(np.uint32)
  a = np.tile(np.arange(width, dtype=np.uint32) * 0x01010101 + 0x80000000, (n, 1))
  b = (np.arange(n)[:, None] * 7 + np.arange(width) * 5).astype(np.uint32)
  machine.run(names, np.arange(n) % 64, a, b, k, np.ones(n, np.uint32))


def test_flags_of_sparse_tiles(machine):
  """xany and xall with no, one, all but one and all elements set, in every position and single bits."""
  width = machine.config.width
  rows = [np.zeros(width), np.ones(width), *np.eye(width) * 2**31, *np.eye(width), *(1 - np.eye(width))]
  names = [name for name in ("xany", "xall") for _ in rows]
  a = np.array(rows * 2).astype(np.uint32)
  n = len(names)
  machine.run(names, np.arange(n) % 64, a, a, np.zeros(n, np.uint32), np.ones(n, np.uint32))


@pytest.mark.parametrize("seed", [1, 2])
def test_random_mix(machine, seed):
  """Random operations of slot X back to back and with gaps; those of the matrix unit leave no trace."""
  print(f"seed {seed}")
  rng, width = np.random.default_rng(seed), machine.config.width
  n = 80_000 // width
  names = rng.choice([*TILE, *SCALAR, *OTHERS], n).tolist()
  a = np.where(rng.random((n, width)) < rng.random((n, 1)), rng.integers(0, 2**32, (n, width)), 0).astype(np.uint32)
  b = rng.integers(0, 2**32, (n, width), np.uint32)
  machine.run(names, rng.integers(0, 64, n), a, b, rng.integers(0, 2**32, n, np.uint32), (rng.random(n) < 0.8).astype(np.uint32))


def test_lint(machine):
  assert lint(machine.sim.verilog, "CrossUnit") == []
