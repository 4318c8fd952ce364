"""The demo's data and its network's parameters, both plain numpy."""
from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

import numpy as np

HELD_OUT = 360
"""Digits that training never sees; the demo classifies exactly these."""
SPLIT_SEED = 20

WEIGHTS = "digits.npz"


class Split(NamedTuple):
  """images: float32 (n, 64), 8x8 pixels row by row, 0 to 1. labels: int64 (n,), 0 to 9."""
  images: np.ndarray
  labels: np.ndarray


def load() -> tuple[Split, Split]:
  """The 1,797 digits of scikit-learn's wheel (UCI "Optical Recognition of Handwritten Digits"), as (training, held-out).

  Raises:
    SystemExit: scikit-learn is not installed; the message holds the command that installs it.
  """
  try:
    from sklearn.datasets import load_digits
  except ImportError:
    raise SystemExit("the demo's digits come with scikit-learn: pip install 'tinytpu[demo]'") from None
  digits = load_digits()
  order = np.random.default_rng(SPLIT_SEED).permutation(len(digits.target))
  images, labels = (digits.data[order] / 16).astype(np.float32), digits.target[order]
  return Split(images[HELD_OUT:], labels[HELD_OUT:]), Split(images[:HELD_OUT], labels[:HELD_OUT])


def weights() -> dict[str, np.ndarray]:
  """The trained float32 parameters: w1 (64, 32), b1 (32,), w2 (32, 10), b2 (10,)."""
  with (files(__package__) / WEIGHTS).open("rb") as f, np.load(f) as archive:
    return dict(archive)


def reference_logits(images: np.ndarray, w: dict[str, np.ndarray]) -> np.ndarray:
  """numpy's answer in float64: (n, 64) images -> (n, 10) logits."""
  p = {k: v.astype(np.float64) for k, v in w.items()}
  return np.maximum(images.astype(np.float64) @ p["w1"] + p["b1"], 0) @ p["w2"] + p["b2"]
