"""Operators on windows against onnxruntime."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.onnx.models import INT64, one
from tinytpu.onnx import RefusedError, run
from tinytpu.onnx.windows import Col2Im

Agrees = Callable[..., None]
Floats = Callable[..., np.ndarray]
Saved = Callable[..., Path]
POOLS = {
  "plain": ((2, 3, 7, 9), {"kernel_shape": [3, 2]}), "1-norm": ((2, 3, 7), {"kernel_shape": [3], "p": 1}),
  "3-norm": ((1, 2, 6, 6), {"kernel_shape": [2, 2], "p": 3, "strides": [2, 2]}), "volume": ((1, 2, 4, 5, 3), {"kernel_shape": [2, 3, 2]}),
  "padded": ((1, 2, 6, 7), {"kernel_shape": [3, 3], "pads": [1, 0, 1, 2], "strides": [2, 3]}),
  "dilated": ((1, 2, 9, 9), {"kernel_shape": [2, 3], "dilations": [3, 2]}),
  "up": ((1, 2, 7, 8), {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER", "strides": [2, 3]}),
  "down": ((1, 2, 7, 8), {"kernel_shape": [2, 4], "auto_pad": "SAME_LOWER", "strides": [2, 3]}),
  "valid": ((1, 2, 7, 8), {"kernel_shape": [3, 3], "auto_pad": "VALID", "strides": [2, 2]}),
  **{f"ceiling {size} {step}": ((1, 1, size), {"kernel_shape": [3], "ceil_mode": 1, "strides": [step], "pads": [1, 1]})
     for size in (5, 6, 7, 8) for step in (2, 3, 4)}}


@pytest.mark.parametrize("name", POOLS)
def test_pool(agrees: Agrees, floats: Floats, name: str) -> None:
  shape, options = POOLS[name]
  agrees(*one("LpPool", [floats(*shape)], version=18, **options))


@pytest.mark.parametrize("p", [1, 2, 3])
def test_pool_of_all(agrees: Agrees, floats: Floats, p: int) -> None:
  agrees(*one("GlobalLpPool", [floats(2, 3, 4, 5)], p=p))


COLUMNS = {
  "plain": ((1, 5, 5), (1, 5), {}), "pads": ((2, 5, 5), (3, 3), {"pads": [1, 1, 1, 1]}),
  "one side": ((1, 4, 6), (3, 2), {"pads": [1, 0, 0, 0]}), "strides": ((2, 5, 5), (2, 2), {"strides": [2, 2]}),
  "dilations": ((1, 6, 6), (2, 2), {"dilations": [1, 5], "strides": [4, 1]}), "volume": ((1, 3, 4, 5), (1, 2, 3), {})}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_to_images(agrees: Agrees, floats: Floats, name: str) -> None:
  (channels, *size), block, options = COLUMNS[name]
  ndim = len(size)
  steps, spread, around = (options.get(k, [d] * n) for k, d, n in (("strides", 1, ndim), ("dilations", 1, ndim), ("pads", 0, 2 * ndim)))
  windows = np.prod([(s + around[i] + around[i + ndim] - spread[i] * (block[i] - 1) - 1) // steps[i] + 1 for i, s in enumerate(size)])
  arrays = [floats(2, channels * int(np.prod(block)), int(windows)), np.array(size), np.array(block)]
  agrees(*one("Col2Im", arrays, version=18, constants=(1, 2), **options))


def test_columns_that_do_not_fit_are_refused() -> None:
  from tinygrad import Tensor
  with pytest.raises(ValueError, match=r"columns of shape \[1, 4, 8\] for images of \[4, 4\] and blocks of \[2, 2\]"):
    Col2Im(Tensor.zeros(1, 4, 8), Tensor([4, 4]), Tensor([2, 2]))


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("options", [{}, {"strides": [2, 1]}, {"pads": [1, 0, 1, 1], "strides": [2, 2], "ceil_mode": 1}])
def test_indices_of_maxima(agrees: Agrees, floats: Floats, options: dict, order: int) -> None:
  """Those of the second channel and picture too."""
  agrees(*one("MaxPool", [floats(2, 3, 5, 4)], 2, types={1: INT64}, kernel_shape=[3, 2], storage_order=order, **options))


def test_columns_first_in_volumes_are_refused(saved: Saved, floats: Floats) -> None:
  proto, inputs = one("MaxPool", [floats(1, 1, 3, 3, 3)], 2, types={1: INT64}, kernel_shape=[2, 2, 2], storage_order=1)
  with pytest.raises(RefusedError, match="storage order 1 with 3 axes of windows"):
    run(saved(proto), inputs)


def test_maxima_are_put_back(agrees: Agrees) -> None:
  index = np.array([0, 5, 8, 11, 17, 19, 25, 27]).reshape(1, 2, 2, 2)
  agrees(*one("MaxUnpool", [np.arange(1, 9, dtype=np.float32).reshape(1, 2, 2, 2), index], kernel_shape=[2, 2], strides=[2, 2]))


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("kernel", [(3, 2), (4, 5)])
def test_transposed_convolutions_that_choose_their_padding(agrees: Agrees, floats: Floats, kernel: tuple, auto_pad: str) -> None:
  agrees(*one("ConvTranspose", [floats(1, 2, 4, 5), floats(2, 3, *kernel)], auto_pad=auto_pad, strides=[2, 3]))
