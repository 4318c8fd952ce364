"""Both decoders in numpy and float64, without a cache: every token is computed from all before it."""
from __future__ import annotations

import numpy as np

Weights = dict[str, np.ndarray]


def softmax(x: np.ndarray) -> np.ndarray:
  e = np.exp(x - x.max(-1, keepdims=True))
  return e / e.sum(-1, keepdims=True)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
  """(heads, n, head) each; a token looks at those before it and itself."""
  n = q.shape[1]
  scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
  return softmax(np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)) @ v


def heads(x: np.ndarray, count: int) -> np.ndarray:
  return x.reshape(len(x), count, -1).transpose(1, 0, 2)


def rms_norm(x: np.ndarray, weight: np.ndarray, epsilon: float) -> np.ndarray:
  return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight


def layer_norm(x: np.ndarray, w: Weights, name: str, epsilon: float) -> np.ndarray:
  return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon) * w[f"{name}.weight"] + w[f"{name}.bias"]


def turned(x: np.ndarray, base: float) -> np.ndarray:
  """(heads, n, head): neighbours as complex numbers, times e^(i position frequency)."""
  n, head = x.shape[1:]
  turn = np.exp(1j * np.arange(n)[:, None] * base ** (-np.arange(0, head, 2) / head))
  pairs = (x[..., 0::2] + 1j * x[..., 1::2]) * turn
  return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)


def llama(tokens: list[int], w: Weights, count: int, kv_count: int, base: float, epsilon: float) -> np.ndarray:
  """Logits (n, vocab)."""
  x, layer = w["token_embd.weight"][tokens], 0
  while f"blk.{layer}.attn_q.weight" in w:
    p = {name.split(".", 2)[2].removesuffix(".weight"): value for name, value in w.items() if name.startswith(f"blk.{layer}.")}
    h = rms_norm(x, p["attn_norm"], epsilon)
    q, k = turned(heads(h @ p["attn_q"].T, count), base), turned(heads(h @ p["attn_k"].T, kv_count), base)
    k, v = (np.repeat(t, count // kv_count, axis=0) for t in (k, heads(h @ p["attn_v"].T, kv_count)))
    x = x + attention(q, k, v).transpose(1, 0, 2).reshape(len(x), -1) @ p["attn_output"].T
    h = rms_norm(x, p["ffn_norm"], epsilon)
    gate = h @ p["ffn_gate"].T
    x = x + (gate / (1 + np.exp(-gate)) * (h @ p["ffn_up"].T)) @ p["ffn_down"].T
    layer += 1
  return rms_norm(x, w["output_norm.weight"], epsilon) @ w["output.weight"].T


def gpt2(tokens: list[int], w: Weights, count: int, epsilon: float) -> np.ndarray:
  """Logits (n, vocab)."""
  def linear(x: np.ndarray, name: str) -> np.ndarray:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

  x, layer = w["token_embd.weight"][tokens] + w["position_embd.weight"][:len(tokens)], 0
  while f"blk.{layer}.attn_qkv.weight" in w:
    b = f"blk.{layer}."
    q, k, v = (heads(t, count) for t in np.split(linear(layer_norm(x, w, b + "attn_norm", epsilon), b + "attn_qkv"), 3, axis=-1))
    x = x + linear(attention(q, k, v).transpose(1, 0, 2).reshape(len(x), -1), b + "attn_output")
    h = linear(layer_norm(x, w, b + "ffn_norm", epsilon), b + "ffn_up")
    x = x + linear(0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h ** 3))), b + "ffn_down")
    layer += 1
  return layer_norm(x, w, "output_norm", epsilon) @ w["output.weight"].T
