"""Tokens from a GPT-2-style or Llama-style model, the likeliest each time: python -m examples.generate --model llama --prompt 1,2,3

Keys and values of earlier tokens are cached. The position is a variable of the kernels, so that the programs which the first two tokens
make (kernels one by one, then linked by TinyJit) serve all others; `programs` counts them.
"""
from __future__ import annotations

import argparse
import json
from pathlib import Path

from tinygrad import Tensor, TinyJit, Variable, nn
from tinygrad.uop.ops import UOp

from tinytpu.backend.runtime.stats import stats

from . import gpt2, llama
from .common import WARM, InputError, count, reporting, run
from .weights import Model, load_model


class Generator:
  """A model with its caches.

  Attributes:
    cycles, programs: of each token that went in, on TINYTPU: what it took, and programs that were made for it.
  """

  def __init__(self, model: Model):
    c = self.config = model.config
    self.model, self.cycles, self.programs = model, list[int](), list[int]()
    self.caches = [Tensor.zeros(2, c.kv_heads, c.context, c.head).contiguous().realize() for _ in range(c.layers)]
    self.step = TinyJit(self._step)

  def _step(self, token: Tensor, position: UOp) -> Tensor:
    return self.model(token, position, self.caches).argmax(axis=-1).realize()

  def __call__(self, prompt: list[int], number: int) -> list[int]:
    """`number` tokens that follow a prompt.

    Raises:
      InputError: a token is none of the vocabulary's, or there are more than the cache has room for.
    """
    if not prompt:
      raise InputError("the prompt has no token")
    if strange := [token for token in prompt if not 0 <= token < self.config.vocab]:
      raise InputError(f"{strange[0]} is no token: the model has {self.config.vocab}, from 0")
    if len(prompt) + number - 1 > self.config.context:
      raise InputError(f"{len(prompt)} tokens and {number} more are too many: there is room for {self.config.context}")
    tokens = list(prompt)
    for n in range(len(prompt) + number - 1):
      cycles, programs = stats.cycles, stats.programs
      position = Variable("position", 0, self.config.context - 1).bind(n)
      following = self.step(Tensor(tokens[n:n + 1], dtype="int32").realize(), position).item()
      self.cycles.append(stats.cycles - cycles)
      self.programs.append(stats.programs - programs)
      if n >= len(prompt) - 1:
        tokens.append(int(following))
    return tokens[len(prompt):]


def random_model(kind: str, seed: int) -> Model:
  """A small model with random weights."""
  Tensor.manual_seed(seed)
  model: Model = llama.Llama(llama.Config()) if kind == "llama" else gpt2.GPT2(gpt2.Config())
  Tensor.realize(*nn.state.get_parameters(model))
  return model


def tokens(text: str) -> list[int]:
  """Numbers from "1,2,3"."""
  try:
    return [int(word) for word in text.split(",")]
  except ValueError:
    raise argparse.ArgumentTypeError(f"{text!r}: expected tokens as numbers, such as 1,2,3") from None


def main() -> int:
  """Generate and print."""
  parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
  parser.add_argument("--model", choices=("gpt2", "llama"), default="llama", help="with random weights (default: %(default)s)")
  parser.add_argument("--weights", type=Path, metavar="FILE", help="of a GGUF or safetensors file instead, which tells the model too")
  parser.add_argument("--prompt", type=tokens, default=[1, 2, 3], help="numbers of tokens (default: 1,2,3)")
  parser.add_argument("--count", type=count, default=20, help="tokens to generate (default: %(default)s)")
  parser.add_argument("--context", type=count, default=256, help="most tokens for which a file's model has room (default: %(default)s)")
  reporting(parser)
  a = parser.parse_args()
  generator = Generator(load_model(a.weights, a.context) if a.weights else random_model(a.model, a.seed))
  generated = generator(a.prompt, a.count)
  first, later = sum(generator.programs[:WARM]), sum(generator.programs[WARM:])
  print(f"prompt {','.join(map(str, a.prompt))}" + ("" if a.weights else f", random weights of seed {a.seed}"))
  print(f"tokens {','.join(map(str, generated))}")
  steady = generator.cycles[WARM:] or [0]
  mean = round(sum(steady) / len(steady))
  print(f"cycles a token: {mean:,} in the mean, {steady[0]:,} to {steady[-1]:,} as the cache grows")
  print(f"programs made: {first} for the first {WARM} tokens, {later} for the other {len(generator.programs[WARM:])}")
  if a.json:
    a.json.write_text(json.dumps({"seed": a.seed, "tokens": generated, "cycles_a_token": mean, "programs": first, "programs_later": later}))
  return 0


if __name__ == "__main__":
  run(main)
