"""Values of the reference: numpy arrays with a dtype of tinygrad's, and when arithmetic on them is exact.

A graph may be fused and rewritten in many ways. Its result is still one array of bits if each chain of arithmetic either rounds nowhere
(its numbers are small multiples of a power of two) or rounds once. A value that has been computed with rounding, or with constants,
which tinygrad moves and folds ((x + 1) + y becomes (x + y) + 1), is *loose*: what is computed from it may not round. A reduction, or a
realized tensor, ends a chain.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float32", "float16", "bfloat16")
DTYPES = ("bool", *INTS, *FLOATS)
BITS = {"float32": 24, "float16": 11, "bfloat16": 8}
SMALL = {"float32": 10, "float16": 5, "bfloat16": 4}
"""Bits of a significand, and of numbers that several operations may be applied to without rounding."""


class Unfit(Exception):
  """The operation has no single right result for these operands."""


class Value(NamedTuple):
  """data: an array of `numpy_dtype(dtype)`. dtype: its name in tinygrad. loose: see the module."""
  data: np.ndarray
  dtype: str
  loose: bool = False

  @property
  def shape(self) -> tuple[int, ...]:
    return self.data.shape

  @property
  def is_float(self) -> bool:
    return self.dtype in FLOATS

  @property
  def is_int(self) -> bool:
    return self.dtype in INTS

  def having(self, data: np.ndarray) -> Value:
    """The same with other data: what moves and selections give."""
    return self._replace(data=np.asarray(data, order="C"))


Mirror = Callable[..., Value]


def need(condition: object) -> None:
  """Raise Unfit unless a condition holds."""
  if not condition:
    raise Unfit


def numpy_dtype(dtype: str) -> np.dtype:
  """The dtype of a value's array: bfloat16 lies in float32, which holds it."""
  return np.dtype("float32" if dtype == "bfloat16" else dtype)


def to_float(x: np.ndarray, dtype: str) -> np.ndarray:
  """Round to a float dtype, ties to even."""
  if dtype != "bfloat16":
    return x.astype(dtype)
  words = x.astype(np.float32).view(np.uint32)
  rounded = (words + np.uint32(0x7FFF) + (words >> np.uint32(16) & np.uint32(1))) & np.uint32(0xFFFF0000)
  return np.where(np.isnan(x), np.float32(np.nan), rounded.view(np.float32)).astype(np.float32)


def wide(v: Value) -> np.ndarray:
  """Floats as float64: one operation on them, rounded to their dtype, is that operation correctly rounded. Others as they are."""
  return v.data.astype(np.float64) if v.is_float else v.data


def exact(x: np.ndarray, bits: int) -> bool:
  """Whether all are finite multiples of one power of two, at most 2^bits of it."""
  if not np.isfinite(x).all():
    return False
  for scale in (2.0 ** k for k in range(9)):
    if (x * scale == np.floor(x * scale)).all():
      return float(np.abs(x).max(initial=0)) * scale <= 1 << bits
  return False


def small(*values: Value) -> bool:
  """Whether floats are so few bits wide that a few more operations round nowhere."""
  return all(exact(wide(v), SMALL[v.dtype]) for v in values)


def once(result: np.ndarray, dtype: str, *operands: Value) -> Value:
  """The result of float arithmetic, which rounds here and nowhere else, or not at all."""
  v = Value(to_float(result, dtype), dtype, True)
  need(not any(o.loose for o in operands) or small(v, *operands))
  return v


def no_minus_zero(v: Value) -> None:
  """Raise Unfit where a -0 is: sums that stand for moves in tinygrad may lose the sign."""
  need(not v.is_float or not (np.signbit(v.data) & (v.data == 0)).any())


def ordered(v: Value) -> None:
  """Raise Unfit where NaN is, which has no place in an order."""
  need(not v.is_float or not np.isnan(v.data).any())


def same(got: np.ndarray, expected: np.ndarray) -> bool:
  """Equal to the bit, but for NaNs, of which there is one."""
  if got.shape != expected.shape or got.dtype != expected.dtype:
    return False
  if got.dtype.kind != "f":
    return bool(np.array_equal(got, expected))
  nan = np.isnan(expected)
  words = np.dtype(f"u{got.dtype.itemsize}")
  return bool(np.array_equal(np.isnan(got), nan) and np.array_equal(got.view(words)[~nan], expected.view(words)[~nan]))


# -- leaves ---------------------------------------------------------------------------------------------
KINDS = ("small", "any", "special", "index", "nonzero", "apart")


def leaf(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], kind: str, top: int = 0) -> Value:
  """Data for a leaf.

  Args:
    kind: of floats "small" numbers (see `small`), "any", "special" (any, and NaN, infinities, zeros, subnormals), "nonzero" (to divide
      by), "apart" (distinct by a wide margin); of integers "small", "any", "nonzero" (and not -1), "index" (below `top`).
  """
  target = numpy_dtype(dtype)
  if dtype == "bool":
    return Value(rng.integers(0, 2, shape).astype(bool), dtype)
  if dtype in INTS:
    info = np.iinfo(target)
    if kind == "index":
      return Value(rng.integers(0, top, shape).astype(target), dtype)
    low, high = (max(info.min, -9), 10) if kind == "small" else (info.min, info.max)
    x = rng.integers(low, high, shape, dtype=target, endpoint=kind != "small")
    if kind != "small":
      x = np.where(rng.random(shape) < 0.3, x >> target.type(target.itemsize * 8 - 4), x)  # near zero too
    if kind == "nonzero":
      x = np.where((x == 0) | (x == target.type(-1) if info.min < 0 else x == 0), target.type(3), x)
    return Value(np.asarray(x, target), dtype)
  if kind in ("small", "nonzero"):
    top = {"float32": 31, "float16": 15, "bfloat16": 7}[dtype]
    x = rng.integers(-top, top + 1, shape) * (0.25 if dtype == "float32" else 1.0)
    if kind == "nonzero":
      x = np.where((x == 0) | (rng.random(shape) < 0.7), rng.uniform(0.1, 9, shape) * rng.choice([-1, 1], shape), x)
  elif kind == "apart":
    count = int(np.prod(shape))
    x = (rng.permutation(count).reshape(shape) + rng.uniform(0, 0.4, shape) - count / 2) * rng.choice([0.05, 0.3])
  else:
    x = rng.standard_normal(shape) * rng.choice([0.5, 1, 8])
  if kind == "special":
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-40, 2.5, 65504.0])
    x = np.where(rng.random(shape) < 0.25, rng.choice(odd, shape), x)
  return Value(to_float(np.asarray(x, np.float64), dtype), dtype)
