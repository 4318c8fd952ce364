"""The cubic through four elements (R. G. Keys, Cubic convolution interpolation, 1981): the weight of an element by its distance."""
from __future__ import annotations

from tinygrad import Tensor

SLOPE = -0.75
"""At a distance of 1, as ONNX has it where a model does not say."""


def near(t: Tensor, slope: float = SLOPE) -> Tensor:
  """Of distances from 0 to 1."""
  return ((slope + 2) * t - (slope + 3)) * t * t + 1


def far(t: Tensor, slope: float = SLOPE) -> Tensor:
  """Of distances from 1 to 2."""
  return ((t - 5) * t + 8) * t * slope - 4 * slope
