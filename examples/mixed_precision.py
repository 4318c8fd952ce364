"""bfloat16 with float32 master weights: the digits again, all products and activations in bfloat16, the optimizer in float32.

bfloat16 has 8 bits of mantissa: an update below 1/256 of a weight is lost if the weight itself is kept in it. `--master bfloat16` does that.
Goal: 97% of the held-out digits.
"""
from __future__ import annotations

from tinygrad import Tensor, TinyJit, dtypes, nn
from tinygrad.helpers import Context
from tinytpu.demo.digits import load

from .common import Report, options, run
from .digits import GOAL, Net, tensors


class Bfloat16Net(Net):
  """`Net` computed in bfloat16, whatever its weights are kept in. Logits are float32, for the loss."""

  def __call__(self, x: Tensor) -> Tensor:
    (w1, b1), (w2, b2), (w3, b3) = ((layer.weight.bfloat16(), layer.bias.bfloat16()) for layer in (self.conv1, self.conv2, self.out))
    x = x.bfloat16().conv2d(w1, b1, padding=1).relu().conv2d(w2, b2).relu().max_pool2d()
    return x.flatten(1).dropout(0.3).linear(w3.transpose(), b3).float()


def main() -> int:
  """Train, print, draw."""
  parser = options(__doc__, steps=600, rate=2e-3)
  parser.add_argument("--master", choices=("float32", "bfloat16"), default="float32", help="what weights are kept in")
  parser.add_argument("--batch", type=int, default=64)
  a = parser.parse_args()
  Tensor.manual_seed(a.seed)
  train, held_out = load()
  (x, y), (xt, yt) = tensors(train), tensors(held_out)
  net = Bfloat16Net()
  for parameter in nn.state.get_parameters(net):
    parameter.replace(parameter.cast(getattr(dtypes, a.master)).contiguous().realize())
  optimizer = nn.optim.Adam(nn.state.get_parameters(net), lr=a.rate)

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
  return report.finish(GOAL, master=a.master)


if __name__ == "__main__":
  run(main)
