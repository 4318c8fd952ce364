"""Everything here runs on the device, by name only; nothing may fall back to the host."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto

from tests.backend.conftest import floats, on_device, rng  # noqa: F401  (the same device, and the same numbers)


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., Path]:
  """Write a model to a file of its own."""
  def save(model: ModelProto, name: str = "model.onnx") -> Path:
    onnx.save(model, tmp_path / name)
    return tmp_path / name
  return save


@pytest.fixture
def agrees(saved: Callable[..., Path]) -> Callable[..., None]:
  """Run a model on the device; all its outputs must be within the budget of onnxruntime's."""
  from tinytpu.onnx import run

  def check(model: ModelProto, inputs: dict[str, np.ndarray] | None = None, **options) -> None:
    result = run(saved(model), inputs, **options)
    assert result.within, [f"{c.name}: {c.wrong}, {c.relative:.1e}" for c in result.comparisons]
    assert result.comparisons and result.fallbacks == 0
  return check
