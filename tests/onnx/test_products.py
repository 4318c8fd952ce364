"""Multiplications of operators, counted by hand, and the shares that come from them."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.onnx.models import mlp, model, one, value
from tinytpu.config import PRESETS
from tinytpu.onnx import run
from tinytpu.onnx.products import multiplications, peak


def zeros(*shape: int) -> np.ndarray:
  return np.zeros(shape, np.float32)


@pytest.mark.parametrize("op, arrays, attributes, count", [
  ("MatMul", [zeros(2, 5, 3), zeros(3, 4)], {}, 2 * 5 * 3 * 4),
  ("MatMul", [zeros(3), zeros(3, 4)], {}, 12),
  ("Gemm", [zeros(7, 2), zeros(7, 3)], {"transA": 1}, 2 * 7 * 3),
  ("Conv", [zeros(2, 4, 8, 8), zeros(6, 4, 3, 3)], {}, 2 * 6 * 6 * 6 * 4 * 9),
  ("Conv", [zeros(1, 4, 8, 8), zeros(4, 1, 3, 3)], {"group": 4, "strides": [2, 2], "pads": [1, 1, 1, 1]}, 4 * 4 * 4 * 9),
  ("ConvTranspose", [zeros(1, 4, 5), zeros(4, 2, 3)], {}, 4 * 5 * 2 * 3),
  ("LSTM", [zeros(5, 2, 3), zeros(1, 16, 3), zeros(1, 16, 4)], {"hidden_size": 4}, 5 * 2 * 16 * (3 + 4)),
  ("GRU", [zeros(5, 2, 3), zeros(2, 12, 3), zeros(2, 12, 4)], {"hidden_size": 4, "direction": "bidirectional"}, 5 * 2 * 2 * 12 * 7),
  ("Relu", [zeros(3)], {}, 0),
])
def test_counts(op: str, arrays: list, attributes: dict, count: int) -> None:
  assert multiplications(one(op, arrays, **attributes)[0]) == count


def test_what_is_not_known_is_not_told() -> None:
  proto, _ = one("Einsum", [zeros(2, 3), zeros(3, 2)], equation="ij,jk->ik")
  assert multiplications(proto) is None
  assert multiplications(mlp("n")) is None
  assert multiplications(model([helper.make_node("MatMul", ["x", "x"], ["y"])], [value("x", None)], [value("y", None)])) is None


def test_shares(saved: Callable[..., Path], floats: Callable[..., np.ndarray]) -> None:
  """A product of whole tiles has no padding: every step is useful."""
  assert peak(PRESETS["4x4"]) == 16
  proto, inputs = one("MatMul", [floats(32, 32), floats(32, 32)])
  result = run(saved(proto), inputs)
  assert result.multiplications == 32**3 and result.useful_share == pytest.approx(result.matrix_share) and 0.3 < result.matrix_share < 1
  proto, inputs = one("MatMul", [floats(33, 33), floats(33, 33)])
  padded = run(saved(proto), inputs)
  assert padded.useful_share is not None and padded.useful_share < padded.matrix_share


CONVOLUTION = helper.make_node("Conv", ["a", "w"], ["c"], pads=[1, 1, 1, 1])
FUSED = {"joined before": [helper.make_node("Concat", ["x", "x"], ["a"], axis=2), CONVOLUTION, helper.make_node("Identity", ["c"], ["y"])],
         "padded before": [helper.make_node("Pad", ["x", "p"], ["a"], mode="reflect"), CONVOLUTION, helper.make_node("Relu", ["c"], ["y"])],
         "summed after": [helper.make_node("Identity", ["x"], ["a"]), CONVOLUTION, helper.make_node("GlobalMaxPool", ["c"], ["y"])]}


@pytest.mark.parametrize("name", FUSED)
def test_products_are_kernels_of_their_own(saved: Callable[..., Path], name: str) -> None:
  """Fused with what is before or after it, this convolution would not be made by the matrix unit."""
  weights = {"w": np.random.default_rng(0).standard_normal((16, 16, 3, 3)).astype(np.float32), "p": np.array([0, 0, 2, 2, 0, 0, 2, 2])}
  result = run(saved(model(FUSED[name], [value("x", [1, 16, 12, 12])], [value("y", None)], weights)))
  assert result.within and result.matrix_share > 0.8
