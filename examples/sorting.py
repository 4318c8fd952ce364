"""A transformer of two layers learns to sort: eight numbers below ten go in, the same in ascending order come out.

Goal: 99% of sequences that it never saw are right in all eight places. There are 10^8 of them; training draws a few ten thousand.
"""
from __future__ import annotations

from collections.abc import Callable

from tinygrad import Tensor, TinyJit, nn
from tinygrad.helpers import Context

from .common import Report, options, run

GOAL = 0.99
LENGTH, VALUES, WIDTH, HEADS, LAYERS = 8, 10, 32, 2, 2


class Block:
  """Attention among all places, then a two-layer perceptron for each; both add to what came in."""

  def __init__(self) -> None:
    self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
    self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
    self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

  def __call__(self, x: Tensor) -> Tensor:
    q, k, v = self.qkv(self.norm1(x)).reshape(-1, LENGTH, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
    x = x + self.out(q.scaled_dot_product_attention(k, v).transpose(1, 2).reshape(-1, LENGTH, WIDTH))
    return x + self.down(self.up(self.norm2(x)).gelu())


class Transformer:
  """(n, LENGTH) numbers to (n, LENGTH, VALUES) logits."""

  def __init__(self) -> None:
    self.value, self.place = nn.Embedding(VALUES, WIDTH), nn.Embedding(LENGTH, WIDTH)
    self.blocks = [Block() for _ in range(LAYERS)]
    self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VALUES)

  def __call__(self, numbers: Tensor) -> Tensor:
    x = self.value(numbers) + self.place(Tensor.arange(LENGTH))
    return self.head(self.norm(x.sequential(self.blocks)))


def draw(n: int) -> tuple[Tensor, Tensor]:
  """Random sequences, and the same sorted; both made on the device."""
  numbers = Tensor.randint(n, LENGTH, high=VALUES)
  return numbers, numbers.sort(dim=1)[0]


def prepare(seed: int, batch: int, rate: float, steps: int) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
  """A step of training, which returns its loss, and the share of new sequences that come out right. steps: until the rate is 3%."""
  Tensor.manual_seed(seed)
  model = Transformer()
  optimizer = nn.optim.Adam(nn.state.get_parameters(model), lr=rate)
  decay = 0.03 ** (1 / steps)

  @TinyJit
  def step() -> Tensor:
    optimizer.zero_grad()
    numbers, wanted = draw(batch)
    loss = model(numbers).flatten(0, 1).sparse_categorical_crossentropy(wanted.flatten()).backward()
    updates = optimizer.schedule_step()
    optimizer.lr.assign(optimizer.lr * decay)
    return loss.realize(*updates, optimizer.lr)

  @TinyJit
  def accuracy() -> Tensor:
    numbers, wanted = draw(1000)
    return (model(numbers).argmax(axis=-1) == wanted).all(axis=1).mean().realize()
  return step, accuracy


def main() -> int:
  """Train, print, draw."""
  parser = options(__doc__, steps=800, rate=4e-3)
  a = parser.parse_args()
  step, accuracy = prepare(a.seed, a.batch, a.rate, a.steps)
  report = Report(a, "sequences right")
  for n in range(1, a.steps + 1):
    with Context(TRAINING=1):
      report.step(step().item())
    if n % 100 == 0 or n == a.steps:
      report.evaluated(accuracy().item())
  return report.finish(GOAL)


if __name__ == "__main__":
  run(main)
