"""What the operations on whole tiles compute, in numpy, for tiles of any size: reductions, matrix steps and cross-lane moves."""
from __future__ import annotations

import numpy as np

NAN = np.uint32(0x7FC00000)


def floats(word: np.ndarray) -> np.ndarray:
  return word.view(np.float32)


def words(value: np.ndarray) -> np.ndarray:
  return np.where(np.isnan(value), NAN, value.astype(np.float32).view(np.uint32))


def larger(x: np.ndarray, y: np.ndarray, sign: int) -> np.ndarray:
  """IEEE 754-2019 maximum (sign 1) or minimum (sign -1), as bits."""
  a, b = floats(x), floats(y)
  zeros = (a == 0) & (b == 0)
  first = np.where(zeros, np.signbit(a) == (sign < 0), a > b if sign > 0 else a < b)
  return np.where(np.isnan(a) | np.isnan(b), NAN, np.where(first, x, y))


PAIRS = {  # of uint32 arrays
  "sum": lambda x, y: x + y, "prod": lambda x, y: x * y,
  "max": lambda x, y: np.maximum(x.view(np.int32), y.view(np.int32)).view(np.uint32),
  "min": lambda x, y: np.minimum(x.view(np.int32), y.view(np.int32)).view(np.uint32),
  "fsum": lambda x, y: words(floats(x) + floats(y)), "fprod": lambda x, y: words(floats(x) * floats(y)),
  "maxu": np.maximum, "minu": np.minimum,
  "fmax": lambda x, y: larger(x, y, 1), "fmin": lambda x, y: larger(x, y, -1),
}
PLACES = {  # numpy: the first of equals, NaN first of all
  "amax": lambda x: np.argmax(x.view(np.int32), -1), "amin": lambda x: np.argmin(x.view(np.int32), -1),
  "famax": lambda x: np.argmax(floats(x), -1), "famin": lambda x: np.argmin(floats(x), -1),
}


def reduction(name: str, tiles: np.ndarray) -> np.ndarray:
  """Results of a reduction of tiles (n, W)."""
  kind, along, width = name[1:-1], name[-1], tiles.shape[1]
  side = int(width**0.5)
  grid = tiles.reshape(-1, side, side)
  rows = np.ascontiguousarray({"r": grid, "c": grid.transpose(0, 2, 1), "t": grid.reshape(-1, 1, width)}[along])
  if kind in PLACES:
    result = PLACES[kind](rows).astype(np.uint32)
  else:
    while rows.shape[-1] > 1:
      rows = PAIRS[kind](np.ascontiguousarray(rows[..., 0::2]), np.ascontiguousarray(rows[..., 1::2]))
    result = rows[..., 0]
  shaped = {"r": result[:, :, None], "c": result[:, None, :], "t": result[:, :, None]}[along]
  return np.broadcast_to(shaped, (len(tiles), side, side)).reshape(-1, width)


def operands_of(tile: np.ndarray, form: str) -> np.ndarray:
  """The float32 operands in a matrix of words, in the order of K: one per word, or low and high halfword."""
  if form == "f":
    return tile.view(np.float32)[..., None]
  halves = tile.view(np.uint16).reshape(*tile.shape, 2)
  return halves.view(np.float16).astype(np.float32) if form == "h" else (halves.astype(np.uint32) << 16).view(np.float32)


def step(name: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
  """The new bucket, from tiles as matrices of words."""
  form, clear = name[2], name.endswith("z")
  if form == "i":
    x, y = (t.view(np.int8).reshape(*t.shape, 4).astype(np.int64) for t in (a, b))
    total = np.einsum("ikn,kjn->ij", x, y) + (0 if clear else c.astype(np.int64))
    return (total & 0xFFFFFFFF).astype(np.uint32)
  x = operands_of(a, form).reshape(len(a), -1)                                  # i, k
  y = operands_of(b, form).transpose(0, 2, 1).reshape(x.shape[1], -1)           # k, j
  p = x[:, :, None] * y[None]  # i, k, j
  total = np.zeros_like(c).view(np.float32) if clear else c.view(np.float32)
  for k in range(0, p.shape[1], 4):
    total = total + ((p[:, k] + p[:, k + 1]) + (p[:, k + 2] + p[:, k + 3]))
  return np.where(np.isnan(total), np.uint32(0x7FC00000), total.view(np.uint32))


def move(name: str, a: np.ndarray, b: np.ndarray, k: int) -> np.ndarray:
  """Tile that a cross-lane move of tile a makes (both flat; b: indices of xperm, k: the scalar operand)."""
  width = len(a)
  side = int(width**0.5)
  grid = a.reshape(side, side)
  moved = {
    "xbcr": lambda: np.repeat(grid[k % side][None], side, 0),
    "xbcc": lambda: np.repeat(grid[:, k % side][:, None], side, 1),
    "xbce": lambda: np.full(width, a[k % width]),
    "xtr": lambda: grid.T,
    "xtrb": lambda: a.view(np.uint8).reshape(-1, 4, 4).transpose(0, 2, 1).copy().view(np.uint32),
    "xtrh": lambda: a.view(np.uint16).reshape(-1, 2, 2).transpose(0, 2, 1).copy().view(np.uint32),
    "xrot": lambda: np.roll(a, -(k % width)),
    "xperm": lambda: a[b % width],
  }
  return np.asarray(moved[name](), np.uint32).reshape(-1)
