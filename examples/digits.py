"""A convolution net learns scikit-learn's handwritten digits, by Adam or by SGD: python -m examples.digits --optimizer sgd

Goal: 97% of the held-out digits. A step draws its batch on the device, so that TinyJit's captured step needs no input at all.
"""
from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from tinygrad import Tensor, TinyJit, nn
from tinygrad.helpers import Context

from tinytpu.demo.digits import Split, load

from .common import Report, options, run

GOAL = 0.97


class Net:
  """(n, 1, 8, 8) images to (n, 10) logits. first, second: channels of the convolutions."""

  def __init__(self, first: int = 16, second: int = 32):
    self.conv1, self.conv2, self.out = nn.Conv2d(1, first, 3, padding=1), nn.Conv2d(first, second, 3), nn.Linear(second * 3 * 3, 10)

  def __call__(self, x: Tensor) -> Tensor:
    x = self.conv2(self.conv1(x).relu()).relu().max_pool2d()
    return self.out(x.flatten(1).dropout(0.3))


def tensors(split: Split) -> tuple[Tensor, Tensor]:
  """Images (n, 1, 8, 8) and int32 labels (n,) on the device."""
  return Tensor(split.images.reshape(-1, 1, 8, 8)).realize(), Tensor(split.labels.astype("int32")).realize()


def prepare(seed: int, batch: int, rate: float, optimizer: str,
            make: Callable[[], Net] = Net) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
  """A step of training, which returns its loss, and the accuracy on the held-out digits. rate: 0 stands for the optimizer's usual one."""
  Tensor.manual_seed(seed)
  train, held_out = load()
  (x, y), (xt, yt) = tensors(train), tensors(held_out)
  net = make()
  parameters = nn.state.get_parameters(net)
  if optimizer == "adam":
    adapt = nn.optim.Adam(parameters, lr=rate or 2e-3)
  else:
    adapt = nn.optim.SGD(parameters, lr=rate or 0.05, momentum=0.9)

  @TinyJit
  def step() -> Tensor:
    adapt.zero_grad()
    chosen = Tensor.randint(batch, high=x.shape[0])
    loss = net(x[chosen]).sparse_categorical_crossentropy(y[chosen]).backward()
    return loss.realize(*adapt.schedule_step())

  @TinyJit
  def accuracy() -> Tensor:
    return (net(xt).argmax(axis=1) == yt).mean().realize()
  return step, accuracy


def learn(a: argparse.Namespace, step: Callable[[], Tensor], accuracy: Callable[[], Tensor], **more: Any) -> int:
  """Train, print, draw."""
  report = Report(a, "held-out accuracy")
  for n in range(1, a.steps + 1):
    with Context(TRAINING=1):
      report.step(step().item())
    if n % 50 == 0 or n == a.steps:
      report.evaluated(accuracy().item())
  return report.finish(GOAL, **more)


def main() -> int:
  """Read the options and train."""
  parser = options(__doc__, steps=600, rate=0.0)
  parser.add_argument("--optimizer", choices=("adam", "sgd"), default="adam")
  a = parser.parse_args()
  return learn(a, *prepare(a.seed, a.batch, a.rate, a.optimizer), optimizer=a.optimizer)


if __name__ == "__main__":
  run(main)
