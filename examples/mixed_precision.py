"""bfloat16 with float32 master weights: the digits again, all products and activations in bfloat16, the optimizer in float32.

bfloat16 has 8 bits of mantissa: an update below 1/512 of a weight is lost if the weight itself is kept in it. `--master bfloat16` does
that. Goal: 97% of the held-out digits.
"""
from __future__ import annotations

from tinygrad import Tensor, nn

from .common import options, run
from .digits import Net, learn, prepare


class Bfloat16Net(Net):
  """`Net` computed in bfloat16, whatever its weights are kept in. Logits are float32, for the loss."""

  def __call__(self, x: Tensor) -> Tensor:
    (w1, b1), (w2, b2), (w3, b3) = ((layer.weight.bfloat16(), layer.bias.bfloat16()) for layer in (self.conv1, self.conv2, self.out))
    x = x.bfloat16().conv2d(w1, b1, padding=1).relu().conv2d(w2, b2).relu().max_pool2d()
    return x.flatten(1).dropout(0.3).linear(w3.transpose(), b3).float()


class Bfloat16Weights(Bfloat16Net):
  """The same with weights that are kept in bfloat16 too."""

  def __init__(self) -> None:
    super().__init__()
    for weight in nn.state.get_parameters(self):
      weight.replace(weight.bfloat16().contiguous().realize())


def main() -> int:
  """Read the options and train."""
  parser = options(__doc__, steps=600, rate=0.0)
  parser.add_argument("--master", choices=("float32", "bfloat16"), default="float32", help="what weights are kept in")
  a = parser.parse_args()
  make = Bfloat16Net if a.master == "float32" else Bfloat16Weights
  return learn(a, *prepare(a.seed, a.batch, a.rate, "adam", make), master=a.master)


if __name__ == "__main__":
  run(main)
