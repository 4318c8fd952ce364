"""Gradients against central differences of numpy's functions in float64. `python -m bench.gradients` compares more
operators, with torch."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tinygrad import Tensor

STEP = 1e-5
"""Central differences are exact to about STEP^2 and 2^-53 / STEP, both below 1e-10."""
BUDGET = 1e-6
"""As of bench.gradients."""


def softmax(x: np.ndarray) -> np.ndarray:
  e = np.exp(x - x.max(-1, keepdims=True))
  return e / e.sum(-1, keepdims=True)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
  return softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) @ v


def conv2d(x: np.ndarray, w: np.ndarray) -> np.ndarray:
  x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
  windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
  return np.einsum("nchwij,ocij->nohw", windows, w)


def layer_norm(x: np.ndarray) -> np.ndarray:
  return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def max_pool(x: np.ndarray) -> np.ndarray:
  n, c, h, w = x.shape
  return x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))


A = (3, 5)
CASES: dict[str, tuple[Callable[..., Tensor], Callable[..., np.ndarray], tuple[tuple[int, ...], ...]]] = {
  "mul, broadcast": (lambda x, y: x * y, lambda x, y: x * y, (A, (5,))),
  "div": (lambda x, y: x / (y * y + 1), lambda x, y: x / (y * y + 1), (A, A)),
  "exp, log": (lambda x: (x.exp() + 1).log(), lambda x: np.log(np.exp(x) + 1), (A,)),
  "sin, sqrt": (lambda x: (x.sin() + 2).sqrt(), lambda x: np.sqrt(np.sin(x) + 2), (A,)),
  "relu": (lambda x: x.relu(), lambda x: np.maximum(x, 0), (A,)),
  "sigmoid, tanh": (lambda x: x.sigmoid() * x.tanh(), lambda x: np.tanh(x) / (1 + np.exp(-x)), (A,)),
  "sum, mean": (lambda x: x.sum(0) * x.mean(), lambda x: x.sum(0) * x.mean(), (A,)),
  "max": (lambda x: x.max(1), lambda x: x.max(1), (A,)),
  "softmax": (lambda x: x.softmax(), softmax, (A,)),
  "layer norm": (lambda x: x.layernorm(), layer_norm, (A,)),
  "matmul": (lambda x, y: x @ y, lambda x, y: x @ y, ((5, 9), (9, 6))),
  "attention": (lambda q, k, v: q.scaled_dot_product_attention(k, v), attention, ((2, 4, 6),) * 3),
  "conv2d": (lambda x, w: x.conv2d(w, padding=1), conv2d, ((2, 2, 4, 5), (3, 2, 3, 3))),
  "max_pool2d": (lambda x: x.max_pool2d(2), max_pool, ((1, 2, 4, 6),)),
  "gather": (lambda x: x[Tensor([2, 0, 2])], lambda x: x[[2, 0, 2]], (A,)),
  "pad, slice, flip": (lambda x: x.pad(((1, 2), (0, 3)))[2:, 1:].flip(0), lambda x: np.pad(x, ((1, 2), (0, 3)))[2:, 1:][::-1], (A,))}


def differences(f: Callable[..., np.ndarray], inputs: list[np.ndarray], weights: np.ndarray, n: int) -> np.ndarray:
  """The gradient of sum(f(*inputs) * weights) in input n."""
  found = np.empty(inputs[n].shape)
  for at in np.ndindex(found.shape):
    ends = []
    for sign in (1, -1):
      moved = [x.copy() for x in inputs]
      moved[n][at] += sign * STEP
      ends.append((f(*moved) * weights).sum())
    found[at] = (ends[0] - ends[1]) / (2 * STEP)
  return found


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_float64(name, floats):
  ours, theirs, shapes = CASES[name]
  given = [floats(*shape) for shape in shapes]
  exact = [x.astype(np.float64) for x in given]
  weights = floats(*theirs(*exact).shape)
  tensors = [Tensor(x).realize() for x in given]
  gradients = (ours(*tensors) * Tensor(weights)).sum().gradient(*tensors)
  for n, gradient in enumerate(gradients):
    expected = differences(theirs, exact, weights.astype(np.float64), n)
    assert np.abs(gradient.numpy() - expected).max() <= BUDGET * np.abs(expected).max(), n
