"""A GPT-2-style decoder: layer norm, learnt positions, GELU. Attributes are named as GGUF names tensors."""
from __future__ import annotations

from dataclasses import dataclass

from tinygrad import Tensor, UOp, nn


@dataclass(frozen=True)
class Config:
  """Sizes. context: tokens for which there are positions, and room in the cache. epsilon: of the norms."""
  vocab: int = 320
  width: int = 64
  layers: int = 2
  heads: int = 4
  hidden: int = 256
  context: int = 64
  epsilon: float = 1e-5

  @property
  def head(self) -> int:
    """Elements of a head."""
    return self.width // self.heads

  @property
  def kv_heads(self) -> int:
    """Heads of keys and values: as many as of queries."""
    return self.heads


class Block:
  """One layer."""

  def __init__(self, c: Config):
    self.config = c
    self.attn_norm, self.ffn_norm = nn.LayerNorm(c.width, c.epsilon), nn.LayerNorm(c.width, c.epsilon)
    self.attn_qkv, self.attn_output = nn.Linear(c.width, 3 * c.width), nn.Linear(c.width, c.width)
    self.ffn_up, self.ffn_down = nn.Linear(c.width, c.hidden), nn.Linear(c.hidden, c.width)

  def attend(self, x: Tensor, position: UOp, cache: Tensor) -> Tensor:
    """(1, width) of the token at `position`; what it may look at are the cached tokens and itself."""
    c = self.config
    q, k, v = self.attn_qkv(x).reshape(3, c.heads, 1, c.head)
    cache[:, :, position:position + 1].assign(Tensor.stack(k, v)).realize()
    keys, values = (cache[i, :, :position + 1] for i in range(2))
    scores = (q @ keys.transpose(-1, -2)) / c.head ** 0.5
    return self.attn_output((scores.softmax(-1) @ values).reshape(1, -1))

  def __call__(self, x: Tensor, position: UOp, cache: Tensor) -> Tensor:
    x = x + self.attend(self.attn_norm(x), position, cache)
    return x + self.ffn_down(self.ffn_up(self.ffn_norm(x)).gelu())


class GPT2:
  """A token, (1,), and its position to (1, vocab) logits of the next."""

  def __init__(self, c: Config):
    self.config = c
    self.token_embd, self.position_embd = nn.Embedding(c.vocab, c.width), nn.Embedding(c.context, c.width)
    self.blk = [Block(c) for _ in range(c.layers)]
    self.output_norm, self.output = nn.LayerNorm(c.width, c.epsilon), nn.Linear(c.width, c.vocab, bias=False)

  def __call__(self, token: Tensor, position: UOp, caches: list[Tensor]) -> Tensor:
    x = self.token_embd(token) + self.position_embd.weight[position:position + 1]
    for block, cache in zip(self.blk, caches, strict=True):
      x = block(x, position, cache)
    return self.output(self.output_norm(x))
