"""A Llama-style decoder: RMS norm, rotary positions, grouped-query attention, SwiGLU. Attributes are named as GGUF names tensors."""
from __future__ import annotations

from dataclasses import dataclass

from tinygrad import Tensor, UOp, nn


@dataclass(frozen=True)
class Config:
  """Sizes. kv_heads: keys and values have fewer heads; each serves heads / kv_heads of the queries'. context: tokens that the cache holds.
  base: of the rotary angles. epsilon: of the norms."""
  vocab: int = 320
  width: int = 64
  layers: int = 2
  heads: int = 4
  kv_heads: int = 2
  hidden: int = 176
  context: int = 64
  base: float = 10000.0
  epsilon: float = 1e-5

  @property
  def head(self) -> int:
    """Elements of a head."""
    return self.width // self.heads


def rotate(x: Tensor, angles: Tensor) -> Tensor:
  """Turn pairs of neighbours (2i, 2i + 1) of the last axis by angles (..., i)."""
  even, odd = x[..., 0::2], x[..., 1::2]
  cos, sin = angles.cos(), angles.sin()
  return Tensor.stack(even * cos - odd * sin, even * sin + odd * cos, dim=-1).flatten(-2)


class Block:
  """One layer, with its own cache of keys and values: (2, kv_heads, context, head)."""

  def __init__(self, c: Config):
    self.config = c
    self.attn_norm, self.ffn_norm = nn.RMSNorm(c.width, c.epsilon), nn.RMSNorm(c.width, c.epsilon)
    self.attn_q = nn.Linear(c.width, c.heads * c.head, bias=False)
    self.attn_k, self.attn_v = (nn.Linear(c.width, c.kv_heads * c.head, bias=False) for _ in range(2))
    self.attn_output = nn.Linear(c.heads * c.head, c.width, bias=False)
    self.ffn_gate, self.ffn_up = (nn.Linear(c.width, c.hidden, bias=False) for _ in range(2))
    self.ffn_down = nn.Linear(c.hidden, c.width, bias=False)

  def attend(self, x: Tensor, position: UOp, cache: Tensor) -> Tensor:
    """(1, width) of the token at `position`; what it may look at are the cached tokens and itself."""
    c = self.config
    frequencies = c.base ** -(Tensor.arange(0, c.head, 2) / c.head)
    angles = frequencies * Tensor(position)
    q = rotate(self.attn_q(x).reshape(c.heads, 1, c.head), angles)
    k = rotate(self.attn_k(x).reshape(c.kv_heads, 1, c.head), angles)
    v = self.attn_v(x).reshape(c.kv_heads, 1, c.head)
    cache[:, :, position:position + 1].assign(Tensor.stack(k, v)).realize()
    keys, values = (cache[i, :, :position + 1].repeat_interleave(c.heads // c.kv_heads, dim=0) for i in range(2))
    scores = (q @ keys.transpose(-1, -2)) / c.head ** 0.5
    return self.attn_output((scores.softmax(-1) @ values).reshape(1, -1))

  def __call__(self, x: Tensor, position: UOp, cache: Tensor) -> Tensor:
    x = x + self.attend(self.attn_norm(x), position, cache)
    h = self.ffn_norm(x)
    return x + self.ffn_down(self.ffn_gate(h).silu() * self.ffn_up(h))


class Llama:
  """A token, (1,), and its position to (1, vocab) logits of the next."""

  def __init__(self, c: Config):
    self.config = c
    self.token_embd = nn.Embedding(c.vocab, c.width)
    self.blk = [Block(c) for _ in range(c.layers)]
    self.output_norm, self.output = nn.RMSNorm(c.width, c.epsilon), nn.Linear(c.width, c.vocab, bias=False)

  def __call__(self, token: Tensor, position: UOp, caches: list[Tensor]) -> Tensor:
    x = self.token_embd(token)
    for block, cache in zip(self.blk, caches, strict=True):
      x = block(x, position, cache)
    return self.output(self.output_norm(x))
