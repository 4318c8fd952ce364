"""A convolution net learns scikit-learn's handwritten digits, by Adam or by SGD: python -m examples.digits --optimizer sgd

Goal: 97% of the held-out digits. A step draws its batch on the device, so that TinyJit's captured step needs no input at all.
"""
from __future__ import annotations

from tinygrad import Tensor, TinyJit, nn
from tinygrad.helpers import Context
from tinytpu.demo.digits import Split, load

from .common import Report, options, run

GOAL = 0.97


class Net:
  """(n, 1, 8, 8) images to (n, 10) logits."""

  def __init__(self) -> None:
    self.conv1, self.conv2, self.out = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3), nn.Linear(32 * 3 * 3, 10)

  def __call__(self, x: Tensor) -> Tensor:
    x = self.conv2(self.conv1(x).relu()).relu().max_pool2d()
    return self.out(x.flatten(1).dropout(0.3))


def tensors(split: Split) -> tuple[Tensor, Tensor]:
  """Images (n, 1, 8, 8) and int32 labels (n,) on the device."""
  return Tensor(split.images.reshape(-1, 1, 8, 8)).realize(), Tensor(split.labels.astype("int32")).realize()


def main() -> int:
  """Train, print, draw."""
  parser = options(__doc__, steps=600, rate=0.0)
  parser.add_argument("--optimizer", choices=("adam", "sgd"), default="adam")
  parser.add_argument("--batch", type=int, default=64)
  a = parser.parse_args()
  Tensor.manual_seed(a.seed)
  train, held_out = load()
  (x, y), (xt, yt) = tensors(train), tensors(held_out)
  net = Net()
  parameters = nn.state.get_parameters(net)
  if a.optimizer == "adam":
    optimizer = nn.optim.Adam(parameters, lr=a.rate or 2e-3)
  else:
    optimizer = nn.optim.SGD(parameters, lr=a.rate or 0.05, momentum=0.9)

  @TinyJit
  def step() -> Tensor:
    optimizer.zero_grad()
    chosen = Tensor.randint(a.batch, high=x.shape[0])
    loss = net(x[chosen]).sparse_categorical_crossentropy(y[chosen]).backward()
    return loss.realize(*optimizer.schedule_step())

  @TinyJit
  def accuracy() -> Tensor:
    return (net(xt).argmax(axis=1) == yt).mean().realize()

  report = Report(a, "held-out accuracy")
  for n in range(1, a.steps + 1):
    with Context(TRAINING=1):
      report.step(step().item())
    if n % 50 == 0 or n == a.steps:
      report.evaluated(accuracy().item())
  return report.finish(GOAL)


if __name__ == "__main__":
  run(main)
