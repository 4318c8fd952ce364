"""Train the demo's 64-32-10 network with numpy alone and write its weights: python -m tinytpu.demo.train

Plain minibatch Adam (Kingma and Ba, 2015) on softmax cross-entropy; seeded, so a run gives the same weights up to
the rounding of the numpy in use.
"""
from __future__ import annotations

from pathlib import Path

import numpy as np

from .digits import WEIGHTS, load, reference_logits

EPOCHS, BATCH, RATE, DECAY = 120, 32, 2e-3, 1e-4


def train(seed: int = 1) -> dict[str, np.ndarray]:
  """Trained float32 parameters w1 (64, 32), b1 (32,), w2 (32, 10), b2 (10,)."""
  rng = np.random.default_rng(seed)
  data, _ = load()
  p = {"w1": rng.normal(0, np.sqrt(2 / 64), (64, 32)), "b1": np.zeros(32),
       "w2": rng.normal(0, np.sqrt(2 / 32), (32, 10)), "b2": np.zeros(10)}
  mean, var = ({k: np.zeros_like(v) for k, v in p.items()} for _ in range(2))
  step = 0
  for _ in range(EPOCHS):
    for rows in np.array_split(rng.permutation(len(data.labels)), len(data.labels) // BATCH):
      step += 1
      x, y = data.images[rows].astype(np.float64), data.labels[rows]
      hidden = np.maximum(x @ p["w1"] + p["b1"], 0)
      logits = hidden @ p["w2"] + p["b2"]
      d = np.exp(logits - logits.max(axis=1, keepdims=True))
      d /= d.sum(axis=1, keepdims=True)
      d[np.arange(len(y)), y] -= 1
      d /= len(y)
      dh = (d @ p["w2"].T) * (hidden > 0)
      grads = {"w1": x.T @ dh + DECAY * p["w1"], "b1": dh.sum(0), "w2": hidden.T @ d + DECAY * p["w2"], "b2": d.sum(0)}
      for k, g in grads.items():
        mean[k] = 0.9 * mean[k] + 0.1 * g
        var[k] = 0.999 * var[k] + 0.001 * g * g
        p[k] -= RATE * (mean[k] / (1 - 0.9**step)) / (np.sqrt(var[k] / (1 - 0.999**step)) + 1e-8)
  return {k: v.astype(np.float32) for k, v in p.items()}


if __name__ == "__main__":
  trained = train()
  path = Path(__file__).with_name(WEIGHTS)
  np.savez(path, w1=trained["w1"], b1=trained["b1"], w2=trained["w2"], b2=trained["b2"])
  for name, split in zip(("training", "held-out"), load(), strict=True):
    print(f"{name}: {np.mean(reference_logits(split.images, trained).argmax(1) == split.labels):.2%} of {len(split.labels)} right")
  print(f"wrote {path}")
