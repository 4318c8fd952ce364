"""Resize against onnxruntime."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.onnx.models import one

Agrees = Callable[..., None]
F = np.float32


def check(agrees: Agrees, x: np.ndarray, scales: Any = None, sizes: Any = None, roi: Any = None, version: int = 19, **options: Any) -> None:
  arrays = [x, None if roi is None else F(roi), None if scales is None else F(scales), None if sizes is None else np.array(sizes)]
  types = {0: {"float32": TensorProto.FLOAT, "uint8": TensorProto.UINT8}[str(x.dtype)]}
  agrees(*one("Resize", arrays[:3] if sizes is None else arrays, version=version, constants=(1, 2, 3), types=types, **options))


@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "asymmetric", "align_corners"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_coordinates(agrees: Agrees, floats: Callable[..., np.ndarray], mode: str, coordinates: str) -> None:
  """One axis grows, another shrinks, to sizes that are no multiples; then to one element."""
  x = floats(1, 2, 5, 8)
  check(agrees, x, sizes=[1, 2, 8, 3], mode=mode, coordinate_transformation_mode=coordinates)
  check(agrees, x, sizes=[1, 2, 1, 8], mode=mode, coordinate_transformation_mode=coordinates)


@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest(agrees: Agrees, floats: Callable[..., np.ndarray], nearest: str) -> None:
  check(agrees, floats(1, 1, 4, 6), scales=[1, 1, 2, 0.5], mode="nearest", nearest_mode=nearest)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("shape, options", [
  ((1, 2, 3, 5), {"scales": [2], "axes": [3]}), ((1, 2, 3, 5), {"scales": [2], "axes": [2]}),
  ((1, 2, 3, 5), {"scales": [3, 2], "axes": [-1, 2]}), ((3, 5), {"scales": [2, 3]}),
  ((2, 3, 5), {"scales": [1, 2, 3]}), ((1, 2, 3, 5), {"scales": [1, 2, 1, 1]}),
  ((1, 2, 3, 5), {"sizes": [7, 8], "axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"}),
  ((1, 2, 3, 5), {"sizes": [8], "axes": [3], "keep_aspect_ratio_policy": "not_smaller"}),
  ((1, 2, 10, 9), {"scales": [1, 1, 0.7, 1 / 3]})])
def test_axes(agrees: Agrees, floats: Callable[..., np.ndarray], shape: tuple, options: dict, mode: str) -> None:
  """tinygrad's front end takes the last ones, whichever are named, and none before the third."""
  check(agrees, floats(*shape), mode=mode, **options)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("excluded", [0, 1])
@pytest.mark.parametrize("sizes", [[1, 2, 3, 4], [1, 2, 16, 5]])
def test_antialiasing(agrees: Agrees, floats: Callable[..., np.ndarray], mode: str, excluded: int, sizes: list) -> None:
  check(agrees, floats(1, 2, 9, 14), sizes=sizes, mode=mode, antialias=1, exclude_outside=excluded)


def test_cubic_options(agrees: Agrees, floats: Callable[..., np.ndarray]) -> None:
  check(agrees, floats(1, 1, 4, 5), scales=[1, 1, 2, 1.5], mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1)


def test_cropping(agrees: Agrees, floats: Callable[..., np.ndarray]) -> None:
  """Partly outside, where it gives the value asked for."""
  for mode in ("linear", "nearest"):
    check(agrees, floats(1, 1, 5, 6), sizes=[1, 1, 4, 3], roi=[0, 0, -0.3, 0.2, 1, 1, 0.8, 1.25], mode=mode,
          coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=7.0)


def test_bytes(agrees: Agrees) -> None:
  x = np.random.default_rng(0).integers(0, 256, (1, 1, 5, 6)).astype(np.uint8)
  check(agrees, x, scales=[1, 1, 2, 1.5], mode="nearest")
  check(agrees, x, scales=[1, 1, 2, 2], mode="linear", coordinate_transformation_mode="asymmetric")


def test_version_10(agrees: Agrees, floats: Callable[..., np.ndarray]) -> None:
  for mode in ("nearest", "linear"):
    agrees(*one("Resize", [floats(1, 2, 3, 5), F([1, 1, 2, 1.4])], version=10, constants=(1,), mode=mode))
