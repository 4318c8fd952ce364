"""NonMaxSuppression against onnxruntime."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.onnx.models import INT64, one

Agrees = Callable[..., None]


def boxes(rng: np.random.Generator, batch: int, n: int, centred: bool) -> np.ndarray:
  """Many of which overlap; corners in any order."""
  middle, size = rng.uniform(0, 4, (batch, n, 2)), rng.uniform(0.5, 3, (batch, n, 2))
  if centred:
    return np.concatenate([middle, size], axis=2).astype(np.float32)
  return np.concatenate([middle + size / 2 * rng.choice([-1, 1], (batch, n, 1)), middle], axis=2).astype(np.float32)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("centred", [0, 1])
def test_random_boxes(agrees: Agrees, seed: int, centred: int) -> None:
  rng = np.random.default_rng(seed)
  batch, classes, n = int(rng.integers(1, 3)), int(rng.integers(1, 4)), 12
  scores = rng.permutation(batch * classes * n).reshape(batch, classes, n).astype(np.float32) / 10
  arrays = [boxes(rng, batch, n, bool(centred)), scores, np.array(rng.integers(1, 15)), np.float32(rng.uniform(0.1, 0.7)),
            np.float32(rng.uniform(0, scores.max() / 2)) if seed % 2 else None]
  agrees(*one("NonMaxSuppression", arrays, constants=(2, 3, 4), types={0: INT64}, center_point_box=centred))


def test_edges(agrees: Agrees) -> None:
  """Boxes that are equal, that touch, without an area; no thresholds; scores that are equal or minus infinity; no boxes wanted."""
  arrays = [np.float32([[[0, 0, 1, 1], [0, 0, 1, 1], [0, 1, 1, 2], [3, 3, 3, 3], [3, 3, 3, 3], [5, 5, 6, 6]]]),
            np.float32([[[1, 1, 1, 2, 2, -np.inf]]])]
  agrees(*one("NonMaxSuppression", [*arrays, np.array(9), np.float32(0.5)], constants=(2, 3), types={0: INT64}))
  agrees(*one("NonMaxSuppression", [*arrays, np.array(9)], constants=(2,), types={0: INT64}))
  agrees(*one("NonMaxSuppression", [*arrays, np.array(2), np.float32(0.5), np.float32(1)], constants=(2, 3, 4), types={0: INT64}))
  agrees(*one("NonMaxSuppression", arrays, types={0: INT64}))
  agrees(*one("NonMaxSuppression", [*arrays, np.array(9), None, np.float32(5)], constants=(2, 4), types={0: INT64}))
