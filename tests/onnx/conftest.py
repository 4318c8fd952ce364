"""Everything here runs on the device, by name only; nothing may fall back to the host."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto

import tinytpu.boot  # noqa: F401  (what tinytpu_boot.pth does in an installed package)

os.environ.setdefault("TINYTPU_CHECK", "1")  # every access must lie within a buffer that its kernel was given


@pytest.fixture(autouse=True)
def on_device() -> Iterator[None]:
  from tinygrad.helpers import Context

  from tinytpu.backend.runtime import stats
  with Context(DEV="TINYTPU"):
    yield
  assert stats.host_fallbacks == 0


@pytest.fixture
def rng() -> np.random.Generator:
  return np.random.default_rng(7)


@pytest.fixture
def floats(rng: np.random.Generator) -> Callable[..., np.ndarray]:
  """Normal float32 arrays of a shape."""
  return lambda *shape: rng.standard_normal(shape).astype(np.float32)


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
