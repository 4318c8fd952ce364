"""Whole matrix products on both engines: all formats, output- and weight-stationary, any M, N, K, to the bit of the documented order."""
from __future__ import annotations

import numpy as np
import pytest

from tinytpu.config import Config
from tinytpu.isa.instruction import Instr, ins, pack
from tinytpu.machine import Engine

A, B, C = 1 << 20, 2 << 20, 3 << 20
PACKED = {"f": 1, "h": 2, "b": 2, "i": 4}
"""Elements along K in a word."""


def words(form: str, x: np.ndarray) -> np.ndarray:
  """Elements packed along the last axis into uint32, lowest first."""
  match form:
    case "f":
      return x.view(np.uint32)
    case "h":
      return np.ascontiguousarray(x.astype(np.float16)).view(np.uint32)
    case "b":
      return np.ascontiguousarray((x.view(np.uint32) >> 16).astype(np.uint16)).view(np.uint32)
    case _:
      return np.ascontiguousarray(x.astype(np.int8)).view(np.uint32)


def draw(form: str, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
  """Values that the format holds exactly: int64 for bytes, else float32 over some orders of magnitude."""
  if form == "i":
    return rng.integers(-128, 128, shape)
  x = (rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 7, shape)).astype(np.float32)
  if form == "h":
    return x.astype(np.float16).astype(np.float32)
  return (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32) if form == "b" else x


def tiles(form: str, x: np.ndarray, config: Config) -> np.ndarray:
  """x as tiles of words, uint32 of shape (row tiles, K tiles, S, S), zeros beyond its ends."""
  s, per = config.sublanes, PACKED[form]
  rows, k = (-(-n // unit) for n, unit in zip(x.shape, (s, s * per), strict=True))
  padded = np.zeros((rows * s, k * s * per), x.dtype)
  padded[:x.shape[0], :x.shape[1]] = x
  return words(form, padded).reshape(rows, s, k, s).transpose(0, 2, 1, 3)


def expected(form: str, a: np.ndarray, b: np.ndarray, unit: int) -> np.ndarray:
  """The product's words: sums of four products along K, added one after the other, every operation rounded. K is filled up to `unit`."""
  if form == "i":
    return (a @ b).astype(np.uint32)
  total = np.zeros((len(a), b.shape[1]), np.float32)
  k = -(-a.shape[1] // unit) * unit
  a, b = np.pad(a, [(0, 0), (0, k - a.shape[1])]), np.pad(b, [(0, k - b.shape[0]), (0, 0)])
  for first in range(0, k, 4):
    p = [a[:, i:i + 1] * b[i:i + 1] for i in range(first, first + 4)]
    total = total + ((p[0] + p[1]) + (p[2] + p[3]))
  return total.view(np.uint32)


def program(form: str, held: bool, m: int, n: int, k: int, config: Config) -> np.ndarray:
  """A product of m x k by k x n tiles. held: each tile of B is held in the array for all of A's rows (weight-stationary)."""
  tile, groups = config.width, list[list[Instr]]()

  def at(base: int, number: int) -> list[Instr]:
    return [ins("sadd", d=4, a=base, imm=4 * tile * number)]
  for j in range(n):
    for l in range(k):
      groups += [at(33, j * k + l), [ins("hld", d=2, a=4)]]
      if held:
        groups.append([ins("mmld", a=2)])
      for i in range(m):
        groups += [at(32, i * k + l), [ins("hld", d=1, a=4)]]
        groups.append([ins(f"mm{form}{'w' if held else ''}{'z' if l == 0 else ''}", d=i, a=1, b=2)])
    for i in range(m):
      groups += [[ins("ppop", d=3, a=i)], at(34, i * n + j), [ins("hst", d=3, a=4)]]
  return pack([*groups, [ins("halt")]])


def product(engine: Engine, form: str, held: bool, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, int]:
  """The product's words on an engine, and the cycles."""
  config, s = engine.config, engine.config.sublanes
  at, bt = tiles(form, a, config), tiles(form, np.ascontiguousarray(b.T), config)
  code = program(form, held, len(at), len(bt), at.shape[1], config)
  for address, data in ((0, code), (A, at), (B, bt.transpose(0, 1, 3, 2))):  # words of B: [k][j]
    flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    engine.hbm[address:address + len(flat)] = flat
  result = engine.launch(0, [A, B, C], invalidate=True, limit=1_000_000)
  assert result.fault is None, result.fault
  out = engine.hbm[C:C + 4 * len(at) * len(bt) * s * s].view(np.uint32).reshape(len(at), len(bt), s, s)
  return out.transpose(0, 2, 1, 3).reshape(len(at) * s, -1)[:len(a), :b.shape[1]].copy(), result.cycles


@pytest.mark.parametrize("form", PACKED)
@pytest.mark.parametrize("seed", range(6))
def test_products(engines, config, form, seed):
  rng = np.random.default_rng(seed)
  m, n = (int(x) for x in rng.choice([1, 3, config.sublanes, config.sublanes + 1, 3 * config.sublanes], 2))
  k = int(rng.choice([1, 2, config.sublanes, 5 * config.sublanes - 1, 9 * config.sublanes]))
  a, b = draw(form, (m, k), rng), draw(form, (k, n), rng)
  want = expected(form, a, b, config.sublanes * PACKED[form])
  cycles = {}
  for held in (False, True):
    for engine in engines:
      got, cycles[held, engine] = product(engine, form, held, a, b)
      np.testing.assert_array_equal(got, want, err_msg=f"seed {seed}: {form} {m}x{k}x{n}, held {held}, {type(engine).__name__}")
    assert len({cycles[held, engine] for engine in engines}) == 1
