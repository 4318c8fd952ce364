"""Random tinygrad expressions with their numpy counterparts, by seed: elementwise, movement, reduction, product, gather, several dtypes.

Each step takes earlier values, so kernels come fused in ways that nobody wrote down. Floats stay within a few units and conditions are
never on values that rounding decides, so that float64 on the numpy side is a reference for float32; integers are exact, wrapping.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from tinygrad import Tensor, dtypes

SIDES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 20)
INTS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32)


class Pair(NamedTuple):
  """A value: on the device, as numpy (float64 for floats), and its steps in words."""
  t: Tensor
  n: np.ndarray
  text: str

  @property
  def is_float(self) -> bool:
    return self.n.dtype == np.float64


def _leaf(rng: np.random.Generator) -> Pair:
  shape = tuple(int(s) for s in rng.choice(SIDES, rng.integers(1, 4)))
  while np.prod(shape) > 1000:
    shape = shape[1:]
  if rng.random() < 0.65:
    x = rng.uniform(-2, 2, shape).astype(np.float32)
    return Pair(Tensor(x), x.astype(np.float64), f"float32{shape}")
  dtype = INTS[rng.integers(len(INTS))]
  info = np.iinfo(dtype)
  x = rng.integers(max(info.min, -1000), min(info.max, 1000), shape).astype(dtype)
  return Pair(Tensor(x), x, f"{np.dtype(dtype).name}{shape}")


def _broadcast(rng: np.random.Generator, p: Pair) -> Pair:
  """Another value that p can be combined with: like it, or with some sides 1."""
  shape = tuple(1 if rng.random() < 0.3 else s for s in p.n.shape)
  if p.is_float:
    x = rng.uniform(-2, 2, shape).astype(np.float32)
    return Pair(Tensor(x), x.astype(np.float64), f"float32{shape}")
  info = np.iinfo(p.n.dtype)
  x = rng.integers(max(info.min, -50), min(info.max, 50), shape).astype(p.n.dtype)
  return Pair(Tensor(x), x, f"{p.n.dtype.name}{shape}")


def _unary(rng: np.random.Generator, p: Pair) -> Pair:
  floats: list[tuple[str, Callable, Callable]] = [
    ("relu", lambda t: t.relu(), lambda n: np.maximum(n, 0)), ("tanh", lambda t: t.tanh(), np.tanh),
    ("sigmoid", lambda t: t.sigmoid(), lambda n: 1 / (1 + np.exp(-n))), ("sin", lambda t: t.sin(), np.sin),
    ("exp", lambda t: (-t.abs()).exp(), lambda n: np.exp(-np.abs(n))),
    ("sqrt", lambda t: (t.abs() + 1).sqrt(), lambda n: np.sqrt(np.abs(n) + 1)),
    ("log", lambda t: (t.abs() + 1).log(), lambda n: np.log(np.abs(n) + 1)),
    ("recip", lambda t: (t.square() + 1).reciprocal(), lambda n: 1 / (n * n + 1))]
  ints: list[tuple[str, Callable, Callable]] = [
    ("invert", lambda t: t.bitwise_not(), lambda n: ~n),
    ("relu", lambda t: t.maximum(3), lambda n: np.maximum(n, n.dtype.type(3))),
    ("shift", lambda t: t * 4, lambda n: n * n.dtype.type(4)), ("div", lambda t: t // 3, lambda n: n // n.dtype.type(3)),
    ("mod", lambda t: t % 5, lambda n: n % n.dtype.type(5))]
  if p.n.dtype.kind == "i":  # of unsigned integers tinygrad believes that their negative is at most 0, on every device
    ints.append(("neg", lambda t: -t, lambda n: -n))
  name, f, g = (choices := floats if p.is_float else ints)[rng.integers(len(choices))]
  return Pair(f(p.t), g(p.n), f"{name}({p.text})")


def _binary(rng: np.random.Generator, p: Pair) -> Pair:
  q = _broadcast(rng, p)
  name = ("add", "sub", "mul", "max", "where")[rng.integers(5)]
  if name == "where":
    odd = rng.integers(0, 2, p.n.shape).astype(bool)
    return Pair(Tensor(odd).where(p.t, q.t), np.where(odd, p.n, q.n), f"where(bool, {p.text}, {q.text})")
  f, g = {"add": (lambda a, b: a + b, np.add), "sub": (lambda a, b: a - b, np.subtract), "mul": (lambda a, b: a * b, np.multiply),
          "max": (lambda a, b: a.maximum(b), np.maximum)}[name]
  half = 0.5 if p.is_float and name in ("add", "sub") else None
  t, n = f(p.t, q.t), g(p.n, q.n)
  return Pair(t * half, n * half, f"{name}({p.text}, {q.text})/2") if half else Pair(t, n, f"{name}({p.text}, {q.text})")


def _move(rng: np.random.Generator, p: Pair) -> Pair:
  axis, rank = int(rng.integers(p.n.ndim)), p.n.ndim
  size = p.n.shape[axis]
  match rng.integers(7):
    case 0:
      order = tuple(int(i) for i in rng.permutation(rank))
      return Pair(p.t.permute(order), p.n.transpose(order), f"permute{order}({p.text})")
    case 1:
      return Pair(p.t.flip(axis), np.flip(p.n, axis), f"flip{axis}({p.text})")
    case 2:
      low, high = int(rng.integers(3)), int(rng.integers(4))
      pads = [(low, high) if i == axis else (0, 0) for i in range(rank)]
      return Pair(p.t.pad(tuple(pads)), np.pad(p.n, pads), f"pad{axis},{low},{high}({p.text})")
    case 3 if size > 2:
      low = int(rng.integers(size - 1))
      cut = tuple(slice(low, None) if i == axis else slice(None) for i in range(rank))
      return Pair(p.t[cut], p.n[cut], f"cut{axis},{low}({p.text})")
    case 4:
      return Pair(p.t.reshape(-1), p.n.reshape(-1), f"flat({p.text})")
    case 5 if p.n.size <= 700:
      return Pair(p.t.cat(p.t.flip(axis), dim=axis), np.concatenate([p.n, np.flip(p.n, axis)], axis), f"cat{axis}({p.text})")
    case _:
      index = rng.integers(0, size, rng.integers(1, 9))
      taken = p.t.gather(axis, _indices(Tensor(index.astype(np.int32)), p.n.shape, axis))
      return Pair(taken, np.take(p.n, index, axis), f"take{axis}({p.text})")


def _indices(index: Tensor, shape: tuple[int, ...], axis: int) -> Tensor:
  n = index.shape[0]
  return index.reshape(*(n if i == axis else 1 for i in range(len(shape)))).expand(*(n if i == axis else s for i, s in enumerate(shape)))


def _reduce(rng: np.random.Generator, p: Pair) -> Pair:
  axis = int(rng.integers(p.n.ndim))
  keep = bool(rng.integers(2)) or p.n.ndim == 1
  if p.is_float:
    match rng.integers(4):
      case 0:
        return Pair(p.t.mean(axis, keepdim=keep), p.n.mean(axis, keepdims=keep), f"mean{axis}({p.text})")
      case 1:
        return Pair(p.t.max(axis, keepdim=keep), p.n.max(axis, keepdims=keep), f"max{axis}({p.text})")
      case 2:
        e = np.exp(p.n - p.n.max(axis, keepdims=True))
        return Pair(p.t.softmax(axis), e / e.sum(axis, keepdims=True), f"softmax{axis}({p.text})")
      case _:
        scale = 1 / p.n.shape[axis]
        return Pair(p.t.cumsum(axis) * scale, p.n.cumsum(axis) * scale, f"cumsum{axis}({p.text})")
  if rng.integers(2):
    return Pair(p.t.max(axis, keepdim=keep), p.n.max(axis, keepdims=keep), f"max{axis}({p.text})")
  wide = p.t.sum(axis, keepdim=keep)  # tinygrad sums narrow integers in 32 bits
  unsigned = p.n.dtype.kind == "u"
  total = p.n.astype(np.int64).sum(axis, keepdims=keep).astype(np.uint32 if unsigned else np.int32)
  return Pair(wide.cast(dtypes.uint32 if unsigned else dtypes.int32), total, f"sum{axis}({p.text})")


def _product(rng: np.random.Generator, p: Pair) -> Pair:
  k, n = p.n.shape[-1], int(rng.choice(SIDES))
  if p.is_float:
    w = (rng.uniform(-1, 1, (k, n)) / np.sqrt(k)).astype(np.float32)
    return Pair(p.t @ Tensor(w), p.n @ w.astype(np.float64), f"matmul({p.text}, {k}x{n})")
  w = rng.integers(-9, 9, (k, n)).astype(np.int32)
  return Pair(p.t.cast(dtypes.int32) @ Tensor(w), (p.n.astype(np.int64) @ w).astype(np.int32), f"matmul({p.text}, {k}x{n})")


def expression(seed: int) -> Pair:
  """The expression of a seed, not realized yet."""
  rng = np.random.default_rng(seed)
  p = _leaf(rng)
  with np.errstate(over="ignore"):
    for _ in range(rng.integers(2, 7)):
      step = rng.choice([_unary, _binary, _move, _reduce, _product], p=[0.25, 0.3, 0.2, 0.15, 0.1])
      if p.n.size <= 2000:
        p = step(rng, p)
  return p


def check(seed: int) -> None:
  """Evaluate an expression and compare.

  Raises:
    AssertionError: the device computed something else; seed and expression are named.
  """
  p = expression(seed)
  got, name = p.t.numpy(), f"seed {seed}: {p.text}"
  assert got.shape == p.n.shape, f"{name}: shape {got.shape}, not {p.n.shape}"
  if p.is_float:
    np.testing.assert_allclose(got, p.n, rtol=1e-4, atol=1e-5, err_msg=name)
  else:
    np.testing.assert_array_equal(got.astype(p.n.dtype), p.n, err_msg=name)


if __name__ == "__main__":  # seeds A to B - 1 on the default device, which the environment chooses
  import tinytpu.boot  # noqa: F401
  from tinytpu.backend.runtime import stats
  for number in range(int(sys.argv[1]), int(sys.argv[2])):
    check(number)
  print(f"{stats.stats.launches} launches, {stats.stats.cycles} cycles, {stats.host_fallbacks} on the host")
