"""Gradients of tinygrad's operators on the device against torch in float64: `python -m bench.gradients [OPERATOR ...]`.

The device computes in float32. An operator passes if each gradient's largest error, divided by the gradient's largest magnitude, is
within its budget: BUDGET, or what its row says. torch comes with `pip install 'tinytpu[gradients]'`.
"""
from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from .history import append

BUDGET = 1e-6
"""About 17 times 2^-24, to which each operation is rounded. tinygrad's asin, atan and erf are polynomials of less accuracy."""


class Operator(NamedTuple):
  """ours, theirs: of tinygrad's and torch's tensors. shapes: of the inputs. draw: how these are drawn ("normal"; "positive": from 0.5 to 2;
  "unit": from -0.9 to 0.9). budget: largest relative error."""
  ours: Callable[..., Any]
  theirs: Callable[..., Any]
  shapes: tuple[tuple[int, ...], ...] = ((5, 7),)
  draw: str = "normal"
  budget: float = BUDGET


def same(f: Callable[..., Any], *shapes: tuple[int, ...], **more: Any) -> Operator:
  """An operator that both libraries write alike."""
  return Operator(f, f, shapes or ((5, 7),), **more)


def operators() -> dict[str, Operator]:
  """All that are compared, by name."""
  import torch
  from tinygrad import Tensor
  from torch.nn import functional as F
  a, labels = (5, 7), np.arange(5)
  return {
    "add": same(lambda x, y: x + y, a, (7,)),
    "sub": same(lambda x, y: x - y, a, (5, 1)),
    "mul": same(lambda x, y: x * y, a, a),
    "div": same(lambda x, y: x / y, a, a, draw="positive"),
    "pow": same(lambda x, y: x ** y, a, a, draw="positive"),
    "square": same(lambda x: x.square()),
    "sqrt": same(lambda x: x.sqrt(), draw="positive"),
    "rsqrt": same(lambda x: x.rsqrt(), draw="positive"),
    "reciprocal": same(lambda x: x.reciprocal(), draw="positive"),
    "exp": same(lambda x: x.exp()),
    "exp2": same(lambda x: x.exp2()),
    "log": same(lambda x: x.log(), draw="positive"),
    "log2": same(lambda x: x.log2(), draw="positive"),
    "sin": same(lambda x: x.sin()),
    "cos": same(lambda x: x.cos()),
    "tan": same(lambda x: x.tan(), draw="unit"),
    "asin": same(lambda x: x.asin(), draw="unit", budget=1e-5),
    "atan": same(lambda x: x.atan(), budget=1e-5),
    "erf": same(lambda x: x.erf(), budget=1e-5),
    "abs": same(lambda x: x.abs()),
    "relu": same(lambda x: x.relu()),
    "leaky_relu": Operator(lambda x: x.leaky_relu(0.1), lambda x: F.leaky_relu(x, 0.1)),
    "elu": Operator(lambda x: x.elu(), F.elu),
    "sigmoid": same(lambda x: x.sigmoid()),
    "tanh": same(lambda x: x.tanh()),
    "softplus": Operator(lambda x: x.softplus(), F.softplus),
    "silu": Operator(lambda x: x.silu(), F.silu),
    "gelu": Operator(lambda x: x.gelu(), lambda x: F.gelu(x, approximate="tanh")),
    "clamp": Operator(lambda x: x.clip(-0.5, 0.5), lambda x: x.clamp(-0.5, 0.5)),
    "maximum": Operator(lambda x, y: x.maximum(y), torch.maximum, (a, a)),
    "where": Operator(lambda x, y: (x > 0).where(x * y, y), lambda x, y: torch.where(x > 0, x * y, y), (a, a)),
    "sum": same(lambda x: x.sum(1)),
    "mean": same(lambda x: x.mean(0)),
    "max": Operator(lambda x: x.max(1), lambda x: x.amax(1)),
    "prod": same(lambda x: x.prod(1), draw="positive"),
    "var": same(lambda x: x.var(1)),
    "std": same(lambda x: x.std(1)),
    "cumsum": same(lambda x: x.cumsum(1)),
    "logsumexp": same(lambda x: x.logsumexp(1)),
    "softmax": same(lambda x: x.softmax(1)),
    "log_softmax": same(lambda x: x.log_softmax(1)),
    "cross_entropy": Operator(lambda x: x.sparse_categorical_crossentropy(Tensor(labels)),
                              lambda x: F.cross_entropy(x, torch.tensor(labels))),
    "matmul": same(lambda x, y: x @ y, (9, 13), (13, 6)),
    "batched matmul": same(lambda x, y: x @ y, (3, 5, 8), (3, 8, 6)),
    "layer_norm": Operator(lambda x: x.layernorm(), lambda x: F.layer_norm(x, (7,))),
    "conv2d": Operator(lambda x, w: x.conv2d(w, padding=1), lambda x, w: F.conv2d(x, w, padding=1), ((2, 3, 7, 6), (4, 3, 3, 3))),
    "conv2d, stride 2, groups": Operator(lambda x, w: x.conv2d(w, stride=2, groups=2),
                                         lambda x, w: F.conv2d(x, w, stride=2, groups=2), ((2, 4, 7, 6), (6, 2, 3, 3))),
    "conv_transpose2d": Operator(lambda x, w: x.conv_transpose2d(w, stride=2),
                                 lambda x, w: F.conv_transpose2d(x, w, stride=2), ((1, 3, 4, 5), (3, 2, 3, 3))),
    "max_pool2d": Operator(lambda x: x.max_pool2d(2), lambda x: F.max_pool2d(x, 2), ((2, 3, 6, 8),)),
    "avg_pool2d": Operator(lambda x: x.avg_pool2d(2), lambda x: F.avg_pool2d(x, 2), ((2, 3, 6, 8),)),
    "attention": Operator(lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
                          lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), ((2, 6, 8),) * 3),
    "gather": Operator(lambda x: x[Tensor([4, 0, 4, 2])], lambda x: x[torch.tensor([4, 0, 4, 2])]),
    "pad, shrink, flip": Operator(lambda x: x.pad(((1, 2), (0, 3)))[2:, 1:].flip(0), lambda x: F.pad(x, (0, 3, 1, 2))[2:, 1:].flip(0)),
    "cat, transpose": Operator(lambda x, y: x.cat(y.transpose(), dim=0), lambda x, y: torch.cat([x, y.T]), (a, (7, 4)))}


def inputs(operator: Operator, seed: int) -> list[np.ndarray]:
  """float32 arrays, so that both sides begin with the same numbers."""
  rng = np.random.default_rng(seed)
  draws: dict[str, Callable[[tuple[int, ...]], Any]] = {
    "normal": rng.standard_normal,
    "positive": lambda shape: rng.uniform(0.5, 2, shape),
    "unit": lambda shape: rng.uniform(-0.9, 0.9, shape)}
  return [draws[operator.draw](shape).astype(np.float32) for shape in operator.shapes]


def error(operator: Operator, seed: int) -> float:
  """The largest relative error of the gradients of an operator's inputs. Outputs are weighted with random numbers and summed."""
  import torch
  from tinygrad import Tensor
  given = inputs(operator, seed)
  theirs = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in given]
  out = operator.theirs(*theirs)
  weights = np.random.default_rng(seed + 1).standard_normal(out.shape).astype(np.float32)
  (out * torch.tensor(weights, dtype=torch.float64)).sum().backward()
  ours = [Tensor(value).realize() for value in given]
  gradients = (operator.ours(*ours) * Tensor(weights)).sum().gradient(*ours)
  worst = 0.0
  for got, want in zip(gradients, theirs, strict=True):
    assert want.grad is not None
    exact = want.grad.numpy()
    if got.shape != exact.shape:
      return float("inf")
    difference = np.abs(got.numpy().astype(np.float64) - exact).max()
    worst = max(worst, difference / np.abs(exact).max() if np.isfinite(difference) else float("inf"))
  return float(worst)


def main() -> int:
  """Compare those asked for, print a table, append it to the history. 1 if one is outside its budget."""
  os.environ.setdefault("DEV", "TINYTPU")  # before tinygrad is imported
  parser = argparse.ArgumentParser(prog="python -m bench.gradients", description=(__doc__ or "").split("\n")[0])
  parser.add_argument("names", nargs="*", help="operators (default: all)")
  parser.add_argument("--seed", type=int, default=1, help="of inputs (default: %(default)s)")
  a = parser.parse_args()
  try:
    known = operators()
  except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is missing: pip install 'tinytpu[gradients]'")
  if unknown := [name for name in a.names if name not in known]:
    parser.error(f"no operator {unknown[0]!r}; there are: {', '.join(known)}")
  table = Table(title=f"Gradients against torch in float64, seed {a.seed}", title_justify="left")
  for column in ("operator", "largest relative error", "budget", ""):
    table.add_column(column, justify="right" if column[:1] in "lb" else "left")
  found = {}
  for name in a.names or known:
    found[name] = error(known[name], a.seed)
    table.add_row(name, f"{found[name]:.1e}", f"{known[name].budget:.0e}", "" if found[name] <= known[name].budget else "outside")
  Console().print(table)
  outside = [name for name, worst in found.items() if not worst <= known[name].budget]
  print(f"{len(found)} operators, seed {a.seed}, {len(outside)} outside their budget")
  append("gradients", {"seed": a.seed, "gradients": {name: float(f"{worst:.1e}") for name, worst in found.items()}})
  return int(bool(outside))


if __name__ == "__main__":
  sys.exit(main())
