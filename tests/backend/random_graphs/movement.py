"""Operations that move elements: views, joins, gathers by index tensors.

Left out, since tinygrad is at odds with numpy there, on every device: -0 where it sums in place of moving (cat, stack, gather: the sign
may get lost), see `no_minus_zero`; sums that a `repeat` is fused with (`x.repeat(2, 1).sum()` counts elements too often), so it ends its
kernel; what two index tensors look up of bools, which become integers, or by
narrow integers, in which the place is computed; the result of `one_hot`, of a dtype that is never realized, is cast.
"""
from __future__ import annotations

import math

import numpy as np

from .graph import LIMIT, Draw, Step, op
from .values import Value, need, no_minus_zero


def _move(name: str, text: str, a: int, f) -> Step:
  return Step(name, text, (a,), lambda x: x.having(f(x.data)))


@op(1)
def permute(d: Draw) -> Step:
  a = d.pick(lambda v: v.data.ndim > 1)
  order = tuple(int(i) for i in d.rng.permutation(d.values[a].data.ndim))
  return _move("permute", f"{{0}}.permute({order})", a, lambda x: x.transpose(order))


@op(1)
def flip(d: Draw) -> Step:
  a = d.pick()
  axis = d.axis(a)
  return _move("flip", f"{{0}}.flip({axis})", a, lambda x: np.flip(x, axis))


@op(1)
def pad(d: Draw) -> Step:
  a = d.pick()
  v, axis = d.values[a], d.axis(a)
  pads = tuple((int(d.rng.integers(3)), int(d.rng.integers(4))) if i == axis else (0, 0) for i in range(v.data.ndim))
  fill = bool(d.chance(0.5)) if v.dtype == "bool" else d.choose([0, 1, 3]) if v.is_int else d.choose([0.0, 1.0, float("inf"), -2.5])
  text = str(fill).replace("inf", "float('inf')")
  return _move("pad", f"{{0}}.pad({pads}, value={text})", a, lambda x: np.pad(x, pads, constant_values=fill))


@op(1.5)
def cut(d: Draw) -> Step:
  """A slice, with a step sometimes."""
  a = d.pick(lambda v: v.data.size > 1)
  parts, text = [], []
  for n in d.values[a].shape:
    low, step = int(d.rng.integers(0, (n + 2) // 2)), int(d.choose([1, 1, 1, 2, -1]))
    high = int(d.rng.integers(low + 1, n + 1))
    if step < 0:
      parts.append(slice(None, None, -1))
      text.append("::-1")
    else:
      parts.append(slice(low, high, step))
      text.append(f"{low}:{high}:{step}")
  return _move("cut", f"{{0}}[{', '.join(text)}]", a, lambda x: x[tuple(parts)])


@op(1)
def reshape(d: Draw) -> Step:
  a = d.pick()
  n = d.values[a].data.size
  sides: list[int] = []
  while n > 1 and len(sides) < 3 and d.chance(0.7):
    side = int(d.choose([k for k in range(1, n + 1) if n % k == 0]))
    sides.append(side)
    n //= side
  shape = (*sides, n)
  return _move("reshape", f"{{0}}.reshape({shape})", a, lambda x: x.reshape(shape))


@op(0.7)
def expand(d: Draw) -> Step:
  a = d.pick(lambda v: v.data.size * 2 <= LIMIT)
  shape, n = d.values[a].shape, int(d.choose([2, 3, 5]))
  return _move("expand", f"{{0}}.unsqueeze(0).expand({(n, *shape)})", a, lambda x: np.broadcast_to(x, (n, *shape)))


@op(0.7)
def repeat(d: Draw) -> Step:
  a = d.pick(lambda v: v.data.size * 2 <= LIMIT)
  axis = d.axis(a)
  times = tuple(2 if i == axis else 1 for i in range(d.values[a].data.ndim))
  return _move("repeat", f"{{0}}.repeat({times}).contiguous()", a, lambda x: np.tile(x, times))


@op(0.5)
def roll(d: Draw) -> Step:
  a = d.pick()
  axis, by = d.axis(a), int(d.rng.integers(-3, 6))

  def mirror(x: Value) -> Value:
    no_minus_zero(x)
    return x.having(np.roll(x.data, by, axis))
  return Step("roll", f"{{0}}.roll({by}, {axis})", (a,), mirror)


@op(1)
def triangle(d: Draw) -> Step:
  a = d.pick(lambda v: v.data.ndim >= 2)
  k, name = int(d.rng.integers(-2, 3)), d.choose(["tril", "triu"])
  return _move("triangle", f"{{0}}.{name}({k})", a, lambda x: getattr(np, name)(x, k))


@op(1)
def join(d: Draw) -> Step:
  a = d.pick(lambda v: v.data.size * 2 <= LIMIT)
  v = d.values[a]
  others = [i for i, w in enumerate(d.values) if w.dtype == v.dtype and w.shape == v.shape and i != a]
  b = d.choose(others) if others and d.chance(0.7) else d.new(v.dtype, v.shape, "any")
  axis, stack = d.axis(a), d.chance(0.4)

  def mirror(x: Value, y: Value) -> Value:
    no_minus_zero(x)
    no_minus_zero(y)
    return Value((np.stack if stack else np.concatenate)([x.data, y.data], axis), x.dtype, x.loose or y.loose)
  return Step("stack" if stack else "cat", f"{{0}}.{'stack' if stack else 'cat'}({{1}}, dim={axis})", (a, b), mirror)


# -- gathers --------------------------------------------------------------------------------------------
def indices(d: Draw, top: int, most: int = LIMIT, shape: tuple[int, ...] = (), dtype: str = "") -> int:
  """An index tensor below `top`: a column or a few of a larger matrix of odd size, or of its own."""
  dtype = dtype or d.choose(["int32", "int32", "int64", "uint8", "int16", "int8"])
  top = min(top, 127)
  if shape or d.chance(0.4):
    small = [s for s in ((3,), (7,), (2, 3), (4, 16), (33,), (13, 3)) if math.prod(s) <= most]
    return d.new(dtype, shape or d.choose(small or [(1,)]), "index", top)
  rows, columns = d.choose([(13, 32), (17, 33), (21, 10), (5, 9), (3, 7)])
  a = d.new(dtype, (rows, columns), "index", top)
  low, n = int(d.rng.integers(columns - 2)), max(1, min(int(d.rng.integers(1, 4)), most // rows))
  if d.chance(0.3):
    return d.add(Step("index_column", f"{{0}}[:, {low}]", (a,), lambda x: x.having(x.data[:, low])))
  return d.add(Step("index_columns", f"{{0}}[:, {low}:{low + n}]", (a,), lambda x: x.having(x.data[:, low:low + n])))


def _within(i: Value, top: int) -> None:
  need(((0 <= i.data) & (i.data < top)).all())


@op(3)
def look_up(d: Draw) -> Step:
  """table[i], of rows or of an embedding, and with two index tensors."""
  a = d.pick()
  v = d.values[a]
  need(v.data.ndim)
  n, row = v.shape[0], v.data[0].size
  need(row <= LIMIT // 2)
  two_indices = v.data.ndim >= 2 and v.dtype != "bool" and d.chance(0.4)
  i = indices(d, n, max(1, LIMIT // row), dtype=d.choose(["int32", "int64"]) if two_indices else "")
  if two_indices:
    m, shape = v.shape[1], d.values[i].shape
    j = indices(d, m, shape=shape, dtype=d.values[i].dtype)

    def two(x: Value, i: Value, j: Value) -> Value:
      no_minus_zero(x)
      _within(i, n)
      _within(j, m)
      return x.having(x.data[i.data.astype(int), j.data.astype(int)])
    return Step("look_up_two", "{0}[{1}, {2}]", (a, i, j), two)

  def mirror(x: Value, i: Value) -> Value:
    no_minus_zero(x)
    _within(i, n)
    return x.having(x.data[i.data.astype(int)])
  return Step("look_up", "{0}[{1}]", (a, i), mirror)


COMPUTED = (  # for an index i: as text and in numpy, where it wraps as i's dtype does
  ("({1} + 10)", lambda i: i + 10), ("({1} + 100)", lambda i: i + 100), ("({1} * 3)", lambda i: i * 3), ("({1} + {1})", lambda i: i + i),
  ("({1} << 1)", lambda i: i << 1), ("(({1} & 31) * 9)", lambda i: (i & 31) * 9))


@op(1.5)
def look_up_computed(d: Draw) -> Step:
  """table[f(i)] with f computed in narrow integers, in which it wraps; the table has a row for every result."""
  dtype, shape = d.choose(["uint8", "int8", "uint16", "int16"]), d.choose([(5,), (16,), (3, 9), (70,)])
  table = d.new(d.choose(["int32", "float32", "int8"]), d.choose([(300,), (300, 3), (256,)]), "small")
  rows = d.values[table].shape[0]
  text, f = d.choose(COMPUTED)
  if dtype == "uint8":  # an index as it is, too
    end, g = d.choose([("", np.asarray), (".cast(dtypes.int32)", np.asarray)])
  elif dtype == "int8":
    end, g = ".cast(dtypes.int32) + 128", lambda i: i.astype(np.int32) + 128
  else:
    end, g = ".cast(dtypes.int32) % ROWS", lambda i: i.astype(np.int32) % rows

  def mirror(x: Value, i: Value) -> Value:
    no_minus_zero(x)
    at = g(f(i.data))
    need((at < x.shape[0]).all())
    return x.having(x.data[at.astype(int)])
  return Step("look_up_computed", f"{{0}}[{text}{end}]".replace("ROWS", str(rows)), (table, d.new(dtype, shape, "any")), mirror)


@op(2)
def embedding_sum(d: Draw) -> Step:
  """Rows of a table, summed or the largest taken: numbers that sum without rounding."""
  dtype, width = d.choose(["float32", "int32", "float32"]), int(d.choose([1, 3, 8]))
  table = d.new(dtype, (int(d.choose([10, 50])), width), "small")
  i = indices(d, 10, LIMIT // width)
  axis, name = d.axis(i), d.choose(["sum", "max", "min"])

  def mirror(x: Value, i: Value) -> Value:
    no_minus_zero(x)
    _within(i, x.shape[0])
    return x.having(getattr(x.data[i.data.astype(int)], name)(axis).astype(x.data.dtype))
  return Step("embedding_sum", f"{{0}}[{{1}}].{name}({axis})", (table, i), mirror)


@op(1)
def gather(d: Draw) -> Step:
  a = d.pick()
  v, axis = d.values[a], d.axis(a)
  n = v.shape[axis]
  i = indices(d, n, shape=tuple(min(s, 5) if k == axis else s for k, s in enumerate(v.shape)))

  def mirror(x: Value, i: Value) -> Value:
    no_minus_zero(x)
    _within(i, n)
    return x.having(np.take_along_axis(x.data, i.data.astype(int), axis))
  return Step("gather", f"{{0}}.gather({axis}, {{1}})", (a, i), mirror)


@op(1)
def one_hot(d: Draw) -> Step:
  i = indices(d, 7, 80)

  def mirror(x: Value) -> Value:
    return Value((x.data[..., None] == np.arange(7)).astype(np.int32), "int32")
  return Step("one_hot", "{0}.one_hot(7).cast(dtypes.int32)", (i,), mirror)
