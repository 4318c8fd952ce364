"""CrossUnit against numpy: every operation, issued back to back."""
from __future__ import annotations

import numpy as np
import pytest

from tinytpu.config import preset
from tinytpu.isa import timing
from tinytpu.isa.table import OPS
from tinytpu.rtl.verilate import UnitSim, lint
from tinytpu.rtl.xlu import CrossUnit

CONFIG = preset("4x4")
CYCLES = {name: timing.latency(CONFIG, name) for name in timing.CLASSES}
S, W = CONFIG.sublanes, CONFIG.width

TILE = {
  "xbcr": lambda a, b, k: np.repeat(a.reshape(S, S)[k % S][None], S, 0),
  "xbcc": lambda a, b, k: np.repeat(a.reshape(S, S)[:, k % S][:, None], S, 1),
  "xbce": lambda a, b, k: np.full(W, a[k % W]),
  "xtr": lambda a, b, k: a.reshape(S, S).T,
  "xtrb": lambda a, b, k: a.view(np.uint8).reshape(W // 4, 4, 4).transpose(0, 2, 1).copy().view(np.uint32),
  "xtrh": lambda a, b, k: a.view(np.uint16).reshape(W // 2, 2, 2).transpose(0, 2, 1).copy().view(np.uint32),
  "xrot": lambda a, b, k: np.roll(a, -(k % W)),
  "xperm": lambda a, b, k: a[b % W],
}
SCALAR = {
  "xtos": lambda a, b, k: a[k % W],
  "xany": lambda a, b, k: np.any(a != 0),
  "xall": lambda a, b, k: np.all(a != 0),
}
OTHERS = ("mmf", "mmiz", "ppop", "ppush")


@pytest.fixture(scope="module")
def unit() -> UnitSim:
  return UnitSim(CrossUnit(CONFIG), "CrossUnit")


def test_table_is_covered():
  rows = {op.name: op.timing for op in OPS.values() if op.timing in ("XLU", "X2S")}
  assert rows == dict.fromkeys(TILE, "XLU") | dict.fromkeys(SCALAR, "X2S")


def run(unit: UnitSim, names: list[str], d: np.ndarray, a: np.ndarray, b: np.ndarray, k: np.ndarray, start: np.ndarray) -> None:
  """Issue names[t] in cycle t where start[t], and compare both result ports in every cycle with what is due."""
  codes = [OPS[name].code for name in names]
  n, drain = len(names), CYCLES["X2S"]
  fields = {"start": start, "code": np.array(codes), "d": d, "a": a, "b": b, "k": k}
  out = unit.run({f"issue__{f}": np.concatenate([v, np.zeros((drain, *v.shape[1:]), np.uint32)]) for f, v in fields.items()})
  for port, table, latency in (("result", TILE, CYCLES["XLU"]), ("scalar", SCALAR, CYCLES["X2S"])):
    due = {t + latency - 1: t for t in range(n) if start[t] and names[t] in table}
    assert sorted(due) == np.flatnonzero(out[f"{port}__valid"]).tolist()
    for cycle, t in due.items():
      assert out[f"{port}__reg"][cycle] == d[t], (names[t], t)
      expected = np.asarray(table[names[t]](a[t], b[t], int(k[t])), np.uint32).ravel()
      np.testing.assert_array_equal(np.atleast_1d(out[f"{port}__data"][cycle]), expected, err_msg=f"{names[t]} issued in {t}")


def test_every_index(unit):
  """All values of k (and some beyond the width) for every operation, on a tile of distinct elements and on its zeros."""
  names = [name for name in (*TILE, *SCALAR) for _ in range(4 * W)]
  n = len(names)
  k = np.tile(np.r_[np.arange(2 * W), 2**32 - np.arange(1, W + 1), 2**31 + np.arange(W)], n // (4 * W)).astype(np.uint32)
  a = np.tile(np.arange(W, dtype=np.uint32) * 0x01010101 + 0x80000000, (n, 1))
  b = (np.arange(n)[:, None] * 7 + np.arange(W) * 5).astype(np.uint32)
  run(unit, names, np.arange(n) % 64, a, b, k, np.ones(n, np.uint32))


def test_flags_of_sparse_tiles(unit):
  """xany and xall with no, one, all but one and all elements set, in every position and single bits."""
  rows = [np.zeros(W), np.ones(W), *np.eye(W) * 2**31, *np.eye(W), *(1 - np.eye(W))]
  names = [name for name in ("xany", "xall") for _ in rows]
  a = np.array(rows * 2).astype(np.uint32)
  n = len(names)
  run(unit, names, np.arange(n) % 64, a, a, np.zeros(n, np.uint32), np.ones(n, np.uint32))


@pytest.mark.parametrize("seed", [1, 2])
def test_random_mix(unit, seed):
  """Random operations of slot X back to back and with gaps; those of the matrix unit leave no trace."""
  print(f"seed {seed}")
  rng = np.random.default_rng(seed)
  n = 20_000
  names = rng.choice([*TILE, *SCALAR, *OTHERS], n).tolist()
  a = np.where(rng.random((n, W)) < rng.random((n, 1)), rng.integers(0, 2**32, (n, W)), 0).astype(np.uint32)
  b = rng.integers(0, 2**32, (n, W), np.uint32)
  run(unit, names, rng.integers(0, 64, n), a, b, rng.integers(0, 2**32, n, np.uint32), (rng.random(n) < 0.8).astype(np.uint32))


def test_lint(unit):
  assert lint(unit.verilog, "CrossUnit") == []
