"""Gradient accumulation: a batch of 64 as four parts of 16, whose gradients are added before the optimizer steps.

Two equal nets learn the same batches, one whole, one in parts. Goals: the first batch's gradient and, after all steps, the weights are
the same within rounding: apart by no more than 1e-5 of their norm.
"""
from __future__ import annotations

import numpy as np
from tinygrad import Tensor, TinyJit, nn
from tinygrad.helpers import Context

from tinytpu.demo.digits import load

from .common import Report, count, options, run
from .digits import tensors

GOAL = 1e-5


class Net:
  """(n, 1, 8, 8) images to (n, 10) logits, without dropout, which would draw other numbers for parts."""

  def __init__(self) -> None:
    self.conv, self.out = nn.Conv2d(1, 8, 3), nn.Linear(8 * 3 * 3, 10)

  def __call__(self, x: Tensor) -> Tensor:
    return self.out(self.conv(x).relu().max_pool2d().flatten(1))


class Trainer:
  """A net, its optimizer, and sums of gradients. x, y: all images and labels; parts: in which a batch is learnt, one by one."""

  def __init__(self, x: Tensor, y: Tensor, seed: int, rate: float, parts: int):
    Tensor.manual_seed(seed)
    self.x, self.y = x, y
    self.net, self.parts = Net(), parts
    self.weights = nn.state.get_parameters(self.net)
    Tensor.realize(*self.weights)  # else `add`, captured before the first update, would hold how they were drawn instead of them
    self.optimizer = nn.optim.SGD(self.weights, lr=rate, momentum=0.9)
    self.sums = [weight.zeros_like().contiguous().realize() for weight in self.weights]
    self.add, self.update = TinyJit(self._add), TinyJit(self._update)

  def _add(self, chosen: Tensor) -> Tensor:
    self.optimizer.zero_grad()
    loss = (self.net(self.x[chosen]).sparse_categorical_crossentropy(self.y[chosen]) / self.parts).backward()
    return loss.realize(*(total.assign(total + weight.grad) for total, weight in zip(self.sums, self.weights, strict=True)))

  def _update(self) -> None:
    for total, weight in zip(self.sums, self.weights, strict=True):
      weight.grad = total
    Tensor.realize(*self.optimizer.schedule_step())
    Tensor.realize(*(total.assign(total.zeros_like()) for total in self.sums))

  def gradient(self, chosen: np.ndarray) -> float:
    """Add the gradient of the batch with these numbers to `sums`, part by part; returns the loss."""
    return sum(self.add(Tensor(part).realize()).item() for part in np.split(chosen, self.parts))


def apart(ours: list[Tensor], theirs: list[Tensor]) -> float:
  """The norm of the difference of two lists of tensors, as a share of that of the second."""
  a, b = (np.concatenate([t.numpy().ravel() for t in tensors]).astype(np.float64) for tensors in (ours, theirs))
  return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def main() -> int:
  """Train both, print, draw."""
  parser = options(__doc__, steps=100, rate=0.05)
  parser.add_argument("--parts", type=count, default=4)
  a = parser.parse_args()
  if a.batch % a.parts:
    parser.error(f"a batch of {a.batch} cannot be cut into {a.parts} parts of the same size")
  x, y = tensors(load()[0])
  whole, parted = Trainer(x, y, a.seed, a.rate, 1), Trainer(x, y, a.seed, a.rate, a.parts)
  order = np.random.default_rng(a.seed)
  report = Report(a, every=20)
  losses: list[float] = []  # of the whole batches
  with Context(TRAINING=1):
    for n in range(a.steps):
      chosen = order.integers(0, x.shape[0], a.batch).astype(np.int32)
      losses.append(whole.gradient(chosen))
      whole_gradient = [total.clone().realize() for total in whole.sums] if n == 0 else []
      whole.update()
      report.skip()
      loss = parted.gradient(chosen)
      if n == 0:
        first = apart(parted.sums, whole_gradient)
      parted.update()
      report.step(loss)
  largest = max(abs(one - other) for one, other in zip(report.losses, losses, strict=True))
  weights = apart(parted.weights, whole.weights)
  print(f"first gradient apart by {first:.1e} of its norm, weights after {a.steps} steps by {weights:.1e}, losses by {largest:.1e} at most")
  report.finish(lines={"whole batch": losses, f"{a.parts} parts": report.losses}, first_gradient=first, weights=weights)
  return int(not (first <= GOAL and weights <= GOAL))  # NaN misses it too


if __name__ == "__main__":
  run(main)
