"""Cross-lane and matrix operations against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.iss.reference import FLOAT, SPECIALS, bits, random_words
from tests.iss.support import IMM, SREG, W
from tinytpu.isa.instruction import ins
from tinytpu.isa.table import OPS

S = 4
TILE = np.random.default_rng(1).integers(0, 1 << 32, W, dtype=np.uint32)
GRID = TILE.reshape(S, S)
E = np.arange(W)
MOVES = {
  "xbcr": lambda k: np.tile(GRID[k % S], S),
  "xbcc": lambda k: np.repeat(GRID[:, k % S], S),
  "xbce": lambda k: np.full(W, TILE[k % W]),
  "xrot": lambda k: TILE[(E + k) % W],
}
STEPS = {f"mm{form}{held}{zero}" for form in "fihb" for held in ("", "w") for zero in ("", "z")}
REDUCTIONS = {f"x{kind}{along}" for kind in ("sum", "prod", "max", "min", "fsum", "fprod", "fmax", "fmin", "amax", "amin", "famax", "famin",
                                       "maxu", "minu")
              for along in "rct"}
OTHERS = {"xtrb", "xtrh", "ppopr", "ppopz", "pclr", "pclra", "xtr",
          "xperm", "xtos", "xany", "xall", "mmld", "ppop", "ppush", *STEPS, *REDUCTIONS}


def test_every_operation_has_a_test():
  assert MOVES.keys() | OTHERS == {op.name for op in OPS.values() if op.slot == "X"}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("k", [0, 1, 3, 5, 15, 16, 31, 0xFFFFFFFF])
def test_moves(iss, name, k):
  iss.set_vregs(1, TILE[None])
  assert (iss.vector(name, a=1, imm=k, bkind=IMM) == MOVES[name](k)).all()
  iss.run([[ins("sadd", d=1, imm=k)], [ins("halt")]])
  assert (iss.vector(name, a=1, b=1, bkind=SREG) == MOVES[name](k)).all()


def test_transpose_and_permute(iss):
  index = np.random.default_rng(2).integers(0, 1 << 32, W, dtype=np.uint32)
  iss.set_vregs(1, np.stack([TILE, index]))
  assert (iss.vector("xtr", a=1) == GRID.T.reshape(-1)).all()
  assert (iss.vector("xperm", a=1, b=2) == TILE[index % W]).all()


def test_packed_transposes(iss):
  iss.set_vregs(1, TILE[None])
  assert (iss.vector("xtrb", a=1).view(np.uint8).reshape(-1, 4, 4) == TILE.view(np.uint8).reshape(-1, 4, 4).transpose(0, 2, 1)).all()
  assert (iss.vector("xtrh", a=1).view(np.uint16).reshape(-1, 2, 2) == TILE.view(np.uint16).reshape(-1, 2, 2).transpose(0, 2, 1)).all()


@pytest.mark.parametrize("dtype,move,step", [(np.int8, "xtrb", "mmiz"), (np.float16, "xtrh", "mmhz")])
def test_row_major_operands(iss, dtype, move, step):
  """Both operands row-major in memory: rows of B, four columns of them to a tile, transposed in the cross-lane unit."""
  rng = np.random.default_rng(7)
  per = 4 // np.dtype(dtype).itemsize
  a, b = rng.integers(-8, 8, (S, per * S)).astype(dtype), rng.integers(-8, 8, (per * S, S)).astype(dtype)
  lines = b.view(np.uint32)  # per row, the words of its four columns
  # Element (k, per * g + n) is word g of row per * k + n.
  tile = lines.reshape(S, per, -1).transpose(0, 2, 1).reshape(S, S)
  iss.set_vregs(1, np.stack([a.view(np.uint32).reshape(-1), tile.reshape(-1)]))
  groups = [[ins(move, d=3, a=2)], [ins(step, d=2, a=1, b=3)], [ins("ppop", d=4, a=2)], [ins("halt")]]
  assert iss.run(groups).fault is None
  result = iss.state("vregs")[4].view(np.int32 if dtype is np.int8 else np.float32).reshape(S, S)
  assert (result == (a.astype(np.int64) @ b.astype(np.int64))).all()


def test_buckets(iss):
  iss.set_vregs(1, np.stack([TILE, TILE[::-1]]))
  push = [[ins("ppush", d=5, a=1)], [ins("ppush", d=6, a=2)], [ins("sadd", d=1, imm=7)]]
  reads = [[ins("ppopr", d=10, a=5, imm=2)], [ins("ppopr", d=11, a=5, b=1, bkind=SREG)], [ins("ppopz", d=12, a=5)],
           [ins("ppop", d=13, a=5)], [ins("ppop", d=14, a=6)], [ins("pclr", d=6)], [ins("ppop", d=15, a=6)], [ins("halt")]]
  assert iss.run([*push, *reads]).fault is None
  v = iss.state("vregs")
  assert (v[10] == np.tile(GRID[2], S)).all() and (v[11] == np.tile(GRID[3], S)).all()
  assert (v[12] == TILE).all() and (v[14] == TILE[::-1]).all()
  assert not v[13].any() and not v[15].any()
  assert iss.run([*push, [ins("pclra")], [ins("mmf", d=5, a=0, b=0)], [ins("pclra")], [ins("halt")]]).fault is None
  assert not iss.state("psums").any()


def test_to_scalar(iss):
  tiles = np.array([TILE, np.zeros(W), np.ones(W), [0] * 9 + [8] + [0] * 6, [1] * 15 + [0]], np.uint32)
  iss.set_vregs(1, tiles)
  for i, tile in enumerate(tiles, 1):
    groups = [[ins("xany", d=1, a=i)], [ins("xall", d=2, a=i)], [ins("xtos", d=3, a=i, imm=25)], [ins("xtos", d=4, a=i, b=32, bkind=SREG)]]
    iss.run([*groups, [ins("halt")]], [3])
    assert list(iss.state("sregs")[1:5]) == [tile.any(), tile.all(), tile[25 % W], tile[3]]


def _tree(combine, row: list[np.uint32]) -> np.uint32:
  """The documented order: neighbours first."""
  while len(row) > 1:
    row = [combine(row[e], row[e + 1]) for e in range(0, len(row), 2)]
  return row[0]


def _float_pair(operation, x: np.uint32, y: np.uint32) -> np.uint32:
  return bits(operation(np.array([x], np.uint32).view(np.float32), np.array([y], np.uint32).view(np.float32)))[0]


def _place(row: np.ndarray, larger: bool) -> int:
  """Index of the largest or smallest: numpy's, the first of equals, NaN before all."""
  return int(np.argmax(row) if larger else np.argmin(row))


def _reduce(kind: str, row: np.ndarray) -> int:
  """Reduction of a row of words."""
  integers, values = row.view(np.int32).astype(object), row.view(np.float32)
  if "a" in kind.replace("max", "") and not kind.endswith("u"):
    return _place(values if kind[0] == "f" else row.view(np.int32), kind.endswith("max"))
  if kind in ("max", "min"):
    return int({"max": max, "min": min}[kind](integers)) & 0xFFFFFFFF
  if kind in ("maxu", "minu"):
    return int(row.max() if kind == "maxu" else row.min())
  if kind in ("sum", "prod"):
    return int(integers.sum() if kind == "sum" else integers.prod()) & 0xFFFFFFFF
  if kind in ("fsum", "fprod"):
    return int(_tree(lambda x, y: _float_pair(np.add if kind == "fsum" else np.multiply, x, y), list(row)))
  return int(_tree(lambda x, y: FLOAT["v" + kind](np.array([x], np.uint32), np.array([y], np.uint32))[0], list(row)))


@pytest.mark.parametrize("name", sorted(REDUCTIONS))
def test_reductions(iss, name):
  rng = np.random.default_rng(6)
  ties = np.array([0, 1 << 31, 1, 0xFFFFFFFF, 0x3F800000, 0xBF800000], np.uint32)
  for trial in range(16):
    tile = (rng.integers(0, 1 << 32, W, dtype=np.uint32), rng.normal(0, 1, W).astype(np.float32).view(np.uint32),
            rng.choice(SPECIALS, W), rng.choice(ties, W))[trial % 4]
    iss.set_vregs(1, tile[None])
    grid, kind = tile.reshape(S, S), name[1:-1]
    with np.errstate(all="ignore"):
      if name[-1] == "r":
        expected = np.repeat([_reduce(kind, row) for row in grid], S)
      elif name[-1] == "c":
        expected = np.tile([_reduce(kind, np.ascontiguousarray(column)) for column in grid.T], S)
      else:
        expected = np.full(W, _reduce(kind, tile))
    assert (iss.vector(name, a=1) == expected).all(), (name, trial)


def _matrix(iss, name: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
  """Tile of bucket 2 after one step on tiles a and b, the bucket holding c before; b is held for steps that use the held tile."""
  iss.set_vregs(1, np.stack([a, b, c]))
  groups = [[ins("ppush", d=2, a=3)], [ins("mmld", a=2)], [ins(name, d=2, a=1, b=3 if "w" in name else 2)], [ins("ppop", d=4, a=2)],
            [ins("halt")]]
  assert iss.run(groups).fault is None
  assert (iss.state("vregs")[4] == iss.state("psums")[2]).all()
  return iss.state("vregs")[4]


def _float_step(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
  """c + ((p0 + p1) + (p2 + p3)) in float32, each operation rounded, as bits."""
  x, y = a.view(np.float32).reshape(S, S), b.view(np.float32).reshape(S, S)
  with np.errstate(all="ignore"):
    p = [x[:, k, None] * y[None, k] for k in range(S)]
    return bits((c.view(np.float32).reshape(S, S) + ((p[0] + p[1]) + (p[2] + p[3]))).reshape(-1))


def _halves(tile: np.ndarray, form: str) -> np.ndarray:
  """The halfwords of a tile as float32, low half of each word first."""
  halves = tile.view(np.uint16)
  return halves.view(np.float16).astype(np.float32) if form == "h" else (halves.astype(np.uint32) << 16).view(np.float32)


def _half_step(form: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
  """(c + ((p0 + p1) + (p2 + p3))) + ((p4 + p5) + (p6 + p7)) in float32, as bits; word k holds elements 2k and 2k + 1 along K."""
  x, y = _halves(a, form).reshape(S, 2 * S), _halves(b, form).reshape(S, S, 2)
  with np.errstate(all="ignore"):
    p = [x[:, k, None] * y[k // 2, :, k % 2][None] for k in range(2 * S)]
    first = c.view(np.float32).reshape(S, S) + ((p[0] + p[1]) + (p[2] + p[3]))
    return bits((first + ((p[4] + p[5]) + (p[6] + p[7]))).reshape(-1))


@pytest.mark.parametrize("held", ["", "w"])
def test_float_steps(iss, held):
  rng = np.random.default_rng(3)
  for trial in range(40):
    a, b, c = (random_words(rng, W) if trial % 2 else rng.normal(0, 1, W).astype(np.float32).view(np.uint32) for _ in range(3))
    if trial % 4 == 3:
      a, b, c = (rng.choice(SPECIALS, W) for _ in range(3))
    assert (_matrix(iss, "mmf" + held, a, b, c) == _float_step(a, b, c)).all()
    assert (_matrix(iss, f"mmf{held}z", a, b, c) == _float_step(a, b, np.zeros(W, np.uint32))).all()


@pytest.mark.parametrize("held", ["", "w"])
@pytest.mark.parametrize("form", ["h", "b"])
def test_half_steps(iss, form, held):
  rng = np.random.default_rng(5)
  for trial in range(40):
    a, b = rng.integers(0, 1 << 32, (2, W), dtype=np.uint32)
    if trial % 2:
      values = rng.normal(0, 1, (2, 2 * W)).astype(np.float32)
      halves = values.astype(np.float16).view(np.uint16) if form == "h" else (values.view(np.uint32) >> 16).astype(np.uint16)
      a, b = halves.view(np.uint32)
    c = random_words(rng, W) if trial % 4 == 3 else rng.normal(0, 1, W).astype(np.float32).view(np.uint32)
    assert (_matrix(iss, f"mm{form}{held}", a, b, c) == _half_step(form, a, b, c)).all()
    assert (_matrix(iss, f"mm{form}{held}z", a, b, c) == _half_step(form, a, b, np.zeros(W, np.uint32))).all()


def test_order_of_half_products(iss):
  """Values for which any other grouping of the eight products gives another sum."""
  big = 2.0**12
  x = np.zeros((S, 2 * S), np.float16)
  x[:] = [big, 1, -big, 1, big, 1, 1, -big]
  y = np.full((S, S, 2), 2.0**12, np.float16)
  y[:, :, 1] = [[2.0**-1], [2.0**-1], [2.0**-1], [2.0**12]]
  a, b, c = x.view(np.uint32).reshape(-1), y.view(np.uint32).reshape(-1), np.zeros(W, np.uint32)
  expected = np.float32(np.float32(np.float32(2.0**24 + 0.5) + np.float32(-(2.0**24) + 0.5)) +
                        np.float32(np.float32(2.0**24 + 0.5) + np.float32(2.0**12 - 2.0**24)))
  assert (_matrix(iss, "mmhz", a, b, c).view(np.float32) == expected).all()


def test_clearing_float_step_adds_to_positive_zero(iss):
  """0 + -0 is +0."""
  minus = np.full(W, 0x80000000, np.uint32)
  one = np.full(W, 0x3F800000, np.uint32)
  assert (_matrix(iss, "mmfz", minus, one, one) == 0).all()
  assert (_matrix(iss, "mmf", minus, one, minus) == 0x80000000).all()


@pytest.mark.parametrize("held", ["", "w"])
def test_integer_steps(iss, held):
  rng = np.random.default_rng(4)
  for _ in range(20):
    a, b, c = rng.integers(0, 1 << 32, (3, W), dtype=np.uint32)
    x = a.view(np.int8).reshape(S, 4 * S).astype(np.int64)
    y = b.view(np.int8).reshape(S, S, 4).transpose(0, 2, 1).reshape(4 * S, S).astype(np.int64)
    product = (x @ y).reshape(-1)
    assert (_matrix(iss, "mmi" + held, a, b, c) == ((product + c) & 0xFFFFFFFF)).all()
    assert (_matrix(iss, f"mmi{held}z", a, b, c) == (product & 0xFFFFFFFF)).all()
  lowest = np.full(W, 0x80808080, np.uint32)
  assert (_matrix(iss, f"mmi{held}z", lowest, lowest, lowest) == 16 * 128 * 128).all()


def test_bucket_numbers_count_modulo_16(iss):
  from tinytpu.isa import encoding as enc
  from tinytpu.isa.instruction import Raw, encode

  iss.set_vregs(1, TILE[None])
  push = encode(ins("ppush", d=2, a=1)) | enc.D.put(48)
  pop = encode(ins("ppop", d=5, a=2)) | enc.A.put(16)
  iss.run([[Raw(push)], [Raw(pop)], [ins("halt")]])
  assert (iss.state("vregs")[5] == TILE).all()
