"""A small GAN: a generator learns a distribution of points, eight clusters on a circle, against a discriminator.

Goal, measured on 2,000 generated points: each cluster gets at least 5% of them (12.5% would be even; a generator that collapses to a few
clusters fails), and at least 90% lie within three standard deviations of a cluster (98.9% of real points do).
"""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from tinygrad import Tensor, TinyJit, nn
from tinygrad.helpers import Context

from .common import Report, options, run

GOAL, LEAST = 0.90, 0.05
CLUSTERS, DEVIATION = 8, 0.05
NOISE, WIDTH = 8, 64
CENTRES = [[math.cos(2 * math.pi * n / CLUSTERS), math.sin(2 * math.pi * n / CLUSTERS)] for n in range(CLUSTERS)]


class Perceptron:
  """Three layers; (n, inputs) to (n, outputs). leak: what is left of negative values between them, as a share."""

  def __init__(self, inputs: int, outputs: int, leak: float = 0.0):
    self.leak = leak
    self.layers = [nn.Linear(inputs, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, outputs)]

  def __call__(self, x: Tensor) -> Tensor:
    for layer in self.layers[:-1]:
      x = layer(x).leaky_relu(self.leak)
    return self.layers[-1](x)


def near(points: np.ndarray) -> np.ndarray:
  """Shares of (n, 2) points that lie within three deviations of each cluster's centre."""
  distances = np.linalg.norm(points[:, None] - np.array(CENTRES)[None], axis=-1)
  return (distances < 3 * DEVIATION).mean(axis=0)


def prepare(seed: int, batch: int, rate: float) -> tuple[Callable[[], tuple[Tensor, Tensor]], Callable[[], Tensor]]:
  """A step of training, which returns the losses of discriminator and generator, and 2,000 generated points."""
  Tensor.manual_seed(seed)
  centres = Tensor(CENTRES).realize()
  generator, discriminator = Perceptron(NOISE, 2), Perceptron(2, 1, leak=0.2)
  for_generator, for_discriminator = (nn.optim.Adam(nn.state.get_parameters(net), lr=rate, b1=0.5) for net in (generator, discriminator))

  @TinyJit
  def step() -> tuple[Tensor, Tensor]:
    """One step of each; losses of discriminator and generator."""
    for_discriminator.zero_grad()
    real = centres[Tensor.randint(batch, high=CLUSTERS)] + DEVIATION * Tensor.randn(batch, 2)
    fake = generator(Tensor.randn(batch, NOISE))
    told = ((-discriminator(real)).softplus() + discriminator(fake.detach()).softplus()).mean().backward()
    told.realize(*for_discriminator.schedule_step())
    for_generator.zero_grad()
    fooled = (-discriminator(generator(Tensor.randn(batch, NOISE)))).softplus().mean().backward()
    fooled.realize(*for_generator.schedule_step())
    return told, fooled

  @TinyJit
  def sample() -> Tensor:
    return generator(Tensor.randn(2000, NOISE)).realize()
  return step, sample


def main() -> int:
  """Train, print, draw."""
  parser = options(__doc__, steps=4000, rate=1e-3, batch=256)
  a = parser.parse_args()
  step, sample = prepare(a.seed, a.batch, a.rate)
  report = Report(a, "points near a cluster", every=250)
  for n in range(1, a.steps + 1):
    with Context(TRAINING=1):
      report.step(step()[0].item())
    if n % 250 == 0 or n == a.steps:
      shares = near(sample().numpy())
      report.evaluated(float(shares.sum()))
  print("share of each cluster:", *(f"{share:.1%}" for share in shares))
  missed = report.finish(GOAL, least_share=round(float(shares.min()), 4))
  return int(missed or shares.min() < LEAST)


if __name__ == "__main__":
  run(main)
