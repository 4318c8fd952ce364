"""GridSample, RoiAlign and DeformConv against onnxruntime, on places inside, at and outside the edges."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from tests.onnx.models import one
from tinytpu.onnx import RefusedError, load, run
from tinytpu.onnx.execute import on_device, tensor
from tinytpu.onnx.rewrite import prepared
from tinytpu.onnx.runner import Runner

Agrees = Callable[..., None]
Saved = Callable[..., Path]


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grid_sample(agrees: Agrees, floats: Callable[..., np.ndarray], mode: str, padding: str, align_corners: int) -> None:
  """Up to three sizes away; every fourth place exactly on an element or halfway between two."""
  grid = 2 * floats(2, 3, 8, 2)
  grid[:, :, ::4] = np.round(grid[:, :, ::4] * 5) / 5
  agrees(*one("GridSample", [floats(2, 3, 5, 6), grid], version=20, mode=mode, padding_mode=padding, align_corners=align_corners))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_grid_sample_of_volumes(agrees: Agrees, floats: Callable[..., np.ndarray], mode: str) -> None:
  agrees(*one("GridSample", [floats(1, 2, 3, 4, 5), floats(1, 2, 3, 2, 3)], version=20, mode=mode))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_grid_sample_of_version_16(agrees: Agrees, floats: Callable[..., np.ndarray], mode: str) -> None:
  agrees(*one("GridSample", [floats(1, 1, 1, 4), floats(1, 2, 3, 2)], version=16, mode=mode, padding_mode="reflection", align_corners=1))


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("transformation", ["half_pixel", "output_half_pixel"])
def test_roi_align(agrees: Agrees, floats: Callable[..., np.ndarray], mode: str, transformation: str) -> None:
  """Regions within, across edges, outside, and without an area."""
  rois = np.float32([[1, 2, 13, 9], [-9, -6, 8, 5], [10, 10, 40, 30], [50, 50, 60, 60], [4, 4, 4, 4], [0, 0, 0.5, 0.25]])
  agrees(*one("RoiAlign", [floats(2, 3, 8, 10), rois, np.array([0, 1, 1, 0, 1, 0])], mode=mode, output_height=3, output_width=2,
              sampling_ratio=2, spatial_scale=0.5, coordinate_transformation_mode=transformation))


def test_roi_align_without_a_number_of_samples_is_refused(saved: Saved, floats: Callable[..., np.ndarray]) -> None:
  proto, inputs = one("RoiAlign", [floats(1, 1, 4, 4), np.float32([[0, 0, 3, 3]]), np.array([0])])
  with pytest.raises(RefusedError, match="sampling_ratio 0, with which every region has its own number of samples"):
    run(saved(proto), inputs)


CASES = {
  "plain": ((1, 2, 5, 5), (4, 2, 3, 3), (3, 3), 1, {}, False),
  "everything": ((2, 4, 6, 5), (6, 2, 2, 3), (3, 5), 2, {"pads": [1, 1, 0, 1], "strides": [2, 1], "dilations": [2, 1], "group": 2,
                                                       "offset_group": 2}, True)}


@pytest.mark.parametrize("name", CASES)
def test_deformable_convolution(saved: Saved, floats: Callable[..., np.ndarray], name: str) -> None:
  """Against onnx's own evaluator."""
  shape, weight, places, groups, options, more = CASES[name]
  kernel = weight[2] * weight[3]
  arrays = [floats(*shape), floats(*weight), 2 * floats(shape[0], groups * kernel * 2, *places)]
  if more:
    arrays += [floats(weight[0]), floats(shape[0], groups * kernel, *places)]
  proto, inputs = one("DeformConv", arrays, version=19, **options)
  expected, = ReferenceEvaluator(proto).run(None, inputs)
  got = tensor(Runner(prepared(load(saved(proto)), inputs)[0])(on_device(inputs))["y0"]).numpy()
  assert got.shape == expected.shape
  np.testing.assert_allclose(got, expected, atol=1e-5, rtol=1e-5)
