"""Reductions, running ones, searches, sorts and products.

Sums and products of floats are drawn where they round nowhere, so their order does not matter. Left out: NaN where an order is
asked for, ties in sorts' indices of +0 and -0, and for narrow integers sums in their own width (tinygrad sums in 32 bits).
"""
from __future__ import annotations

import numpy as np

from .elementwise import is_number
from .graph import LIMIT, Draw, Step, op
from .values import BITS, Value, exact, need, no_minus_zero, numpy_dtype, ordered, small, to_float, wide

SUMS = {"bool": "int32", "int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}


def axes_of(d: Draw, a: int) -> tuple[int, ...]:
  rank = d.values[a].data.ndim
  need(rank)
  return tuple(sorted(int(i) for i in d.rng.choice(rank, int(d.rng.integers(1, rank + 1)), replace=False)))


def total(x: Value, axes: tuple[int, ...] | int, keep: bool) -> Value:
  """A sum that rounds nowhere."""
  if x.is_float:
    no_minus_zero(x)
    need(exact(np.append(wide(x).ravel(), np.abs(wide(x)).sum(axes).ravel()), BITS[x.dtype]) and (not x.loose or small(x)))
    return Value(to_float(wide(x).sum(axes, keepdims=keep), x.dtype), x.dtype)
  dtype = SUMS.get(x.dtype, x.dtype)
  return Value(np.asarray(x.data.sum(axes, keepdims=keep, dtype=dtype)), dtype)


@op(2.5)
def sum_(d: Draw) -> Step:
  a = d.pick()
  axes, keep = axes_of(d, a), d.chance(0.4)
  if d.chance(0.25):
    def mean(x: Value) -> Value:
      count = np.prod([x.shape[i] for i in axes])
      need(x.is_float and count & (count - 1) == 0)  # else a product with the rounded reciprocal
      v = total(x, axes, keep)
      return Value(to_float(wide(v) / count, x.dtype), x.dtype, True)
    return Step("mean", f"{{0}}.mean({axes}, keepdim={keep})", (a,), mean)
  return Step("sum", f"{{0}}.sum({axes}, keepdim={keep})", (a,), lambda x: total(x, axes, keep))


@op(0.7)
def prod(d: Draw) -> Step:
  a = d.pick(is_number)
  axes = axes_of(d, a)

  def mirror(x: Value) -> Value:
    if x.is_float:
      size = np.log2(np.maximum(np.abs(wide(x)), 1))
      data = wide(x).prod(axes)
      need(np.isfinite(wide(x)).all() and (not x.loose or small(x)) and size.sum(axes).max() < 14)
      widths = np.log2(np.maximum(np.abs(wide(x)) * 4, 1)).sum(axes).max()  # of the product of their integers
      need(exact(wide(x), 5) and widths <= BITS[x.dtype])
      return Value(to_float(data, x.dtype), x.dtype)
    return x.having(np.asarray(x.data.prod(axes, dtype=x.data.dtype)))
  return Step("prod", f"{{0}}.prod({axes})", (a,), mirror)


def extreme(x: np.ndarray, axes: tuple[int, ...] | int, keep: bool, largest: bool) -> np.ndarray:
  """The largest or smallest: NaN if one is; +0 above -0."""
  data = (np.max if largest else np.min)(x, axis=axes, keepdims=keep)
  if x.dtype.kind != "f":
    return data
  zeros = (x == 0) & (np.signbit(x) != largest)  # those that win over the other zeros
  won = zeros.any(axis=axes, keepdims=keep)
  return np.where(data == 0, np.where(won == largest, x.dtype.type(0.0), x.dtype.type(-0.0)), data)


@op(2.5)
def max_(d: Draw) -> Step:
  a = d.pick()
  axes, keep, largest = axes_of(d, a), d.chance(0.4), d.chance(0.6)
  if d.values[a].dtype == "bool":
    name = d.choose(["any", "all"])
    return Step(name, f"{{0}}.{name}({axes})", (a,), lambda x: Value(np.asarray(getattr(x.data, name)(axes)), "bool"))
  name = "max" if largest else "min"

  def mirror(x: Value) -> Value:
    return Value(np.asarray(extreme(x.data, axes, keep, largest)), x.dtype)
  return Step(name, f"{{0}}.{name}({axes}, keepdim={keep})", (a,), mirror)


@op(2)
def argmax(d: Draw) -> Step:
  a = d.pick()
  axis, name = d.axis(a), d.choose(["argmax", "argmin"])

  def mirror(x: Value) -> Value:
    ordered(x)
    return Value(np.asarray(getattr(x.data, name)(axis).astype(np.int32)), "int32")
  return Step(name, f"{{0}}.{name}({axis})", (a,), mirror)


@op(1)
def running(d: Draw) -> Step:
  a = d.pick(lambda v: v.dtype != "bool")
  axis, name = d.axis(a), d.choose(["cumsum", "cumsum", "cummax", "cummax_at"])

  def cumsum(x: Value) -> Value:
    last = total(x, axis, False)
    data = np.cumsum(wide(x) if x.is_float else x.data.astype(last.data.dtype), axis, dtype=None if x.is_float else last.data.dtype)
    return Value(to_float(data, x.dtype) if x.is_float else data, last.dtype)

  def cummax(x: Value) -> Value:
    ordered(x)
    no_minus_zero(x)
    data = np.maximum.accumulate(x.data, axis)
    if name == "cummax":
      return Value(data, x.dtype)
    place = np.arange(x.shape[axis]).reshape([-1 if i == axis else 1 for i in range(x.data.ndim)])
    before = np.concatenate([np.zeros_like(np.take(data, [0], axis)), np.delete(data, -1, axis)], axis)
    return Value(np.maximum.accumulate(np.where(data != before, place, 0), axis).astype(np.int32), "int32")  # the first of equals
  if name == "cumsum":
    return Step(name, f"{{0}}.cumsum({axis})", (a,), cumsum)
  return Step(name, f"{{0}}.cummax({axis})[{int(name != 'cummax')}]", (a,), cummax)


def sorting(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
  """Where the elements of a stable sort come from."""
  if not descending:
    return np.argsort(x, axis, kind="stable")
  n = x.shape[axis]
  return n - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)


@op(0.25)
def sort(d: Draw) -> Step:
  """Each stage is a kernel: short axes, seldom."""
  a = d.pick(lambda v: v.data.size <= 200 and v.data.ndim and min(v.shape) <= 8)
  v = d.values[a]
  axis = int(d.choose([i for i, n in enumerate(v.shape) if n <= 8]))
  return sort_of(d, "{0}", a, v.shape[axis], axis, lambda x: x)


def sort_of(d: Draw, what: str, a: int, n: int, axis: int, key, order_only: bool = False) -> Step:
  """A sort or topk of an expression whose order is that of key(value)."""
  second, down = int(order_only or d.chance(0.5)), d.chance(0.5)
  k = int(d.rng.integers(1, n + 1)) if d.chance(0.5) else 0
  text = f"{what}.topk({k}, dim={axis}, largest={down})[{second}]" if k else f"{what}.sort({axis}, descending={down})[{second}]"

  def mirror(x: Value) -> Value:
    ordered(x)
    no_minus_zero(x)
    order = sorting(key(x.data), axis, down)
    order = np.take(order, np.arange(k), axis) if k else order
    if second:
      return Value(order.astype(np.int32), "int32")
    return x.having(np.take_along_axis(x.data, order, axis))
  return Step("topk" if k else "sort", text, (a,), mirror)


@op(1.5)
def product(d: Draw) -> Step:
  """A matrix product in all formats that the matrix unit has, and in those it has not; sizes that need padding."""
  dtype = str(d.choose(["float32", "float32", "float16", "bfloat16", "int8", "int32", "uint8", "int16"]))
  m, k, n = (int(d.choose([1, 2, 3, 4, 5, 7, 8, 13, 16, 17])) for _ in range(3))
  need(max(m * k, k * n, m * n) <= LIMIT)
  fits = [i for i, v in enumerate(d.values) if v.dtype == dtype and v.data.ndim == 2 and v.shape[1] <= 40]
  a = d.choose(fits) if fits and d.chance(0.6) else d.new(dtype, (m, k), "small")
  k = d.values[a].shape[1]
  b = d.new(dtype, (k, n), "small")
  widened = dtype == "int8" and d.chance(0.7)
  words = "float32" if dtype in ("float16", "bfloat16") and d.chance(0.7) else ""

  def mirror(x: Value, y: Value) -> Value:
    if x.is_float:
      # The sums, and of 16-bit floats each product, which are multiplied in 16 bits where the matrix unit is not used, round nowhere.
      need(exact(wide(x), 8) and exact(wide(y), 8) and np.abs(wide(x)).max() * np.abs(wide(y)).max() <= 1 << BITS[dtype])
      need(exact((np.abs(wide(x)) @ np.abs(wide(y))) * 16, 24 if words else BITS[dtype] + 4))
      need(not (x.loose or y.loose) or small(x, y))
      v = Value(to_float(wide(x) @ wide(y), words or dtype), words or dtype)
      no_minus_zero(x)
      no_minus_zero(v)
      return v
    out = "int32" if widened else dtype
    return Value((x.data.astype(np.int64) @ y.data.astype(np.int64)).astype(numpy_dtype(out)), out)
  text = "{0}.cast(dtypes.int32) @ {1}.cast(dtypes.int32)" if widened else "{0}.matmul({1}, dtype=dtypes.float32)" if words else "{0} @ {1}"
  return Step(f"product_{dtype}", text, (a, b), mirror)
