"""Generation: tokens of both models against numpy in float64, cached keys and values without new programs, weights from files."""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tinygrad import nn

from examples import gpt2, llama
from examples.common import InputError
from examples.files import load_gguf
from examples.generate import Generator, random_model
from examples.weights import load_model

from . import gguf, reference

CLOSE = 1e-4
"""Logits nearer than this are taken to be the same: the device computes in float32."""


def follow(config: llama.Config | gpt2.Config, weights: reference.Weights, tokens: list[int]) -> np.ndarray:
  w = {name: value.astype(np.float64) for name, value in weights.items()}
  if isinstance(config, llama.Config):
    return reference.llama(tokens, w, config.heads, config.kv_heads, config.base, config.epsilon)
  return reference.gpt2(tokens, w, config.heads, config.epsilon)


def check(config: llama.Config | gpt2.Config, weights: reference.Weights, prompt: list[int], generated: list[int]) -> None:
  """Every token must be the likeliest by the reference, given those before it."""
  logits = follow(config, weights, prompt + generated)[len(prompt) - 1:-1]
  assert len(generated) == len(logits)
  for row, token in zip(logits, generated, strict=True):
    assert row.max() - row[token] < CLOSE, (row.argmax(), token)
  assert len(set(generated)) > 1, "a model that repeats one token shows nothing"


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_tokens_are_the_reference_and_need_no_new_programs(kind):
  model = random_model(kind, seed=2)
  weights = {name: tensor.numpy() for name, tensor in nn.state.get_state_dict(model).items()}
  generator = Generator(model)
  prompt = [5, 300, 7]
  check(model.config, weights, prompt, generator(prompt, 17))
  assert generator.programs[0] > 10 and sum(generator.programs[2:]) == 0
  assert len(generator.cycles) == 19 and generator.cycles[2] < generator.cycles[-1] < 1.5 * generator.cycles[2]


def test_another_prompt_of_the_same_generator():
  """What the cache holds behind the position counts for nothing."""
  model = random_model("llama", seed=3)
  generator = Generator(model)
  first = generator([9, 8, 7, 6], 5)
  generator([1, 2], 9)
  assert generator([9, 8, 7, 6], 5) == first and sum(generator.programs[2:]) == 0


LLAMA = {"general.architecture": "llama", "llama.embedding_length": 64, "llama.block_count": 2, "llama.attention.head_count": 4,
         "llama.attention.head_count_kv": 2, "llama.feed_forward_length": 96, "llama.context_length": 32, "llama.rope.freq_base": 5000.0,
         "llama.attention.layer_norm_rms_epsilon": 1e-5}
GPT2 = {"general.architecture": "gpt2", "gpt2.embedding_length": 64, "gpt2.block_count": 1, "gpt2.attention.head_count": 4,
        "gpt2.feed_forward_length": 128, "gpt2.context_length": 32, "gpt2.attention.layer_norm_epsilon": 1e-5}


def arrays(kind: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
  """Random weights of the models above, by GGUF's names."""
  model = (llama.Llama(llama.Config(vocab=96, hidden=96)) if kind == "llama" else
           gpt2.GPT2(gpt2.Config(vocab=96, layers=1, hidden=128, context=32)))
  return {name: (rng.standard_normal(tensor.shape) * (0.3 if tensor.ndim > 1 else 0.1) + (name.endswith("norm.weight"))).astype(np.float32)
          for name, tensor in nn.state.get_state_dict(model).items()}


@pytest.mark.parametrize("kind", [gguf.Q4_0, gguf.Q8_0], ids=["Q4_0", "Q8_0"])
def test_quantised_blocks_are_dequantised_to_the_bit(tmp_path, kind):
  values = np.random.default_rng(4).standard_normal((6, 96)).astype(np.float32) * np.float32([[1], [1e-3], [30], [0], [5e-7], [900]])
  meant = gguf.write(tmp_path / "x.gguf", {"general.architecture": "none"}, {"a": (values, gguf.F16), "x": (values, kind)})
  metadata, tensors = load_gguf(tmp_path / "x.gguf")
  assert metadata["general.architecture"] == "none"
  np.testing.assert_array_equal(tensors["x"].numpy().view(np.uint32) << 1, meant["x"].view(np.uint32) << 1)  # -0 and 0 are one
  np.testing.assert_array_equal(tensors["a"].float().numpy(), meant["a"])


@pytest.mark.parametrize(("kind", "metadata", "quant"), [
  ("llama", LLAMA, gguf.Q4_0), ("llama", LLAMA, gguf.Q8_0), ("gpt2", GPT2, gguf.F32)], ids=["llama Q4_0", "llama Q8_0", "gpt2 F32"])
def test_a_model_from_gguf(tmp_path, kind, metadata, quant):
  tensors = {name: (value, quant if value.ndim > 1 else gguf.F32) for name, value in arrays(kind, np.random.default_rng(5)).items()}
  meant = gguf.write(tmp_path / "m.gguf", metadata, tensors)
  model = load_model(tmp_path / "m.gguf", 32)
  assert model.config.vocab == 96 and model.config.context == 32
  check(model.config, meant, [3, 1, 4], Generator(model)([3, 1, 4], 6))


HUGGING_FACE = {
  "gpt2": {"token_embd": "wte", "position_embd": "wpe", "output_norm": "ln_f", "attn_norm": "ln_1", "ffn_norm": "ln_2",
           "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"},
  "llama": {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head", "attn_norm": "input_layernorm",
            "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
            "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
            "ffn_down": "mlp.down_proj"}}


def hugging_face(kind: str, w: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
  """The same weights as Hugging Face names and lays them out."""
  names = HUGGING_FACE[kind]
  found = {}
  for name, value in w.items():
    *block, stem, ending = name.split(".")
    if kind == "gpt2" and stem == "output":
      continue  # it is the embedding
    if kind == "gpt2" and block and ending == "weight" and value.ndim == 2:
      value = np.ascontiguousarray(value.T)
    if stem in ("attn_q", "attn_k"):  # neighbours to halves of the head
      head = 16
      value = np.concatenate([np.concatenate([rows[0::2], rows[1::2]]) for rows in value.reshape(-1, head, 64)])
    prefix = (f"h.{block[1]}." if kind == "gpt2" else f"model.layers.{block[1]}.") if block else ""
    found[f"{prefix}{names[stem]}.{ending}"] = value
  return found


CONFIGS = {"llama": {"model_type": "llama", "vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
                     "num_key_value_heads": 2, "intermediate_size": 96, "max_position_embeddings": 32, "rms_norm_eps": 1e-5},
           "gpt2": {"model_type": "gpt2", "vocab_size": 96, "n_embd": 64, "n_layer": 1, "n_head": 4, "n_positions": 32, "n_inner": 128}}


def save(folder: Path, kind: str, w: dict[str, np.ndarray], **config: object) -> Path:
  """A safetensors file and config.json, as Hugging Face has them."""
  header, data = {}, b""
  for name, value in hugging_face(kind, w).items():
    header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [len(data), len(data) + value.nbytes]}
    data += value.tobytes()
  text = json.dumps(header).encode()
  (folder / "config.json").write_text(json.dumps({**CONFIGS[kind], **config}))
  path = folder / "model.safetensors"
  path.write_bytes(len(text).to_bytes(8, "little") + text + data)
  return path


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_model_from_safetensors(tmp_path, kind):
  w = arrays(kind, np.random.default_rng(6))
  if kind == "gpt2":
    w["output.weight"] = w["token_embd.weight"]
  model = load_model(save(tmp_path, kind, w), 32)
  check(model.config, w, [3, 1, 4], Generator(model)([3, 1, 4], 5))


# -- what cannot be used ------------------------------------------------------------------------------
def refuse(path: Path, match: str) -> None:
  with pytest.raises(InputError, match=match):
    load_model(path, 32)


def test_files_that_are_none(tmp_path):
  refuse(tmp_path / "none.gguf", "none.gguf cannot be read: No such file")
  assert not (tmp_path / "none.gguf").exists()
  refuse(tmp_path, "cannot be read: Is a directory")
  for contents in (b"", b"hello", bytes(100), b"\x05" + bytes(7) + b"{}xxx", b"\x02" + bytes(7) + b"[]"):
    (tmp_path / "bad").write_bytes(contents)
    refuse(tmp_path / "bad", "is no safetensors file, or is cut short or damaged|holds no tensors")


def test_files_that_are_cut_short(tmp_path):
  w = arrays("llama", np.random.default_rng(7))
  gguf.write(tmp_path / "m.gguf", LLAMA, {name: (value, gguf.Q8_0 if value.ndim > 1 else gguf.F32) for name, value in w.items()})
  save(tmp_path, "llama", w)
  for name in ("m.gguf", "model.safetensors"):
    whole = (tmp_path / name).read_bytes()
    for size in (5, 30, 500, len(whole) // 2, len(whole) - 64):
      (tmp_path / name).write_bytes(whole[:size])
      refuse(tmp_path / name, "cut short or damaged")


def test_other_names_shapes_and_kinds(tmp_path):
  w = arrays("llama", np.random.default_rng(8))
  refuse(save(tmp_path, "llama", {n: v for n, v in w.items() if n != "blk.1.ffn_up.weight"}), "has no tensor blk.1.ffn_up.weight")
  refuse(save(tmp_path, "llama", w, intermediate_size=64), "ffn_gate.weight is 96x64, the model's is 64x64")
  refuse(save(tmp_path, "llama", w, num_hidden_layers=1), "has a tensor blk.1.*for which the model has no place")
  refuse(save(tmp_path, "llama", w, model_type="bert"), "config.json tells of a bert; there are llama and gpt2")
  refuse(save(tmp_path, "llama", w, num_attention_heads=5), "cannot be cut into 5 heads")
  refuse(save(tmp_path, "llama", w, rope_scaling={"factor": 2}), "rope_scaling .* which the model here does not compute")
  refuse(save(tmp_path, "llama", w, hidden_size="x"), "config.json has no usable hidden_size: x")
  path = save(tmp_path, "llama", {n: v for n, v in w.items() if n != "token_embd.weight"})
  refuse(path, "has no tensor token_embd.weight, and the model 96 tokens of 64 elements")
  refuse(save(tmp_path, "llama", w, vocab_size=95), r"token_embd.weight of shape \[96, 64\], and the model 95 tokens of 64 elements")
  path = save(tmp_path, "llama", w)
  (tmp_path / "config.json").unlink()
  refuse(path, "config.json cannot be read: No such file")
  tensors = {name: (value, gguf.F32) for name, value in w.items()}
  gguf.write(tmp_path / "m.gguf", {**LLAMA, "general.architecture": "mamba"}, tensors)
  refuse(tmp_path / "m.gguf", "of architecture mamba; there are llama and gpt2")
  gguf.write(tmp_path / "m.gguf", {k: v for k, v in LLAMA.items() if "head_count_kv" not in k}, tensors)
  refuse(tmp_path / "m.gguf", "has no usable llama.attention.head_count_kv: None")


def test_models_that_compute_something_else(tmp_path):
  w = {kind: arrays(kind, np.random.default_rng(9)) for kind in ("llama", "gpt2")}
  scaled = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8}
  for kind, entry, other in (
      ("llama", "hidden_act", "gelu"), ("llama", "partial_rotary_factor", 0.5), ("llama", "attention_bias", True),
      ("llama", "rope_parameters", scaled), ("gpt2", "activation_function", "relu"), ("gpt2", "scale_attn_weights", False)):
    refuse(save(tmp_path, kind, w[kind], **{entry: other}), f"has {entry} .*, which the model here does not compute")
  refuse(save(tmp_path, "llama", w["llama"], head_dim=8), "head_dim is 8, and the model here has heads of 64 / 4 elements")
  refuse(save(tmp_path, "llama", w["llama"], num_attention_heads=64, num_key_value_heads=64), "heads of 1 elements have no pairs")
  for entry, other in (("hidden_size", 64.5), ("num_hidden_layers", True), ("rms_norm_eps", float("nan")), ("rope_theta", float("inf"))):
    refuse(save(tmp_path, "llama", w["llama"], **{entry: other}), f"has no usable {entry}")
  refuse(save(tmp_path, "llama", w["llama"], num_hidden_layers=10**9), "has no tensor blk.999999999.attn_norm.weight")
  refuse(save(tmp_path, "gpt2", w["gpt2"], n_inner="x"), "has no usable n_inner: x")
  rotary = {"rope_type": "default", "rope_theta": 5e5}
  assert load_model(save(tmp_path, "llama", w["llama"], rope_parameters=rotary), 32).config.base == 5e5
  tensors = {name: (value, gguf.F32) for name, value in w["llama"].items()}
  for key, value, says in (("rope.dimension_count", 8, "rope.dimension_count is 8"), ("attention.key_length", 32, "key_length is 32"),
                           ("rope.scaling.factor", 4.0, "scales its rotary angles"), ("rope.scaling.type", "linear", "scales its rotary")):
    gguf.write(tmp_path / "m.gguf", {**LLAMA, f"llama.{key}": value}, tensors)
    refuse(tmp_path / "m.gguf", says)


def test_entries_of_safetensors_that_are_no_shape(tmp_path):
  for shape, offsets in (([-1, -2], [0, 8]), ([2.0], [0, 8]), ([True, 2], [0, 8]), ([2], [0.0, 8.0]), ([3], [0, 8]), ([2], [8, 16])):
    header = json.dumps({"x": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}).encode()
    (tmp_path / "bad").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    refuse(tmp_path / "bad", "is no safetensors file, or is cut short or damaged")


def test_gguf_that_is_not_read(tmp_path):
  path = tmp_path / "m.gguf"
  gguf.write(path, {"split.count": 2}, {"x": (np.zeros((4, 32)), gguf.F32)})
  refuse(path, "is one of several files that make a model: merge them")
  gguf.write(path, {}, {"kind": (np.zeros((4, 32)), gguf.F32)})
  data = bytearray(path.read_bytes())
  data[data.index(b"kind") + 4 + 4 + 2 * 8] = 99
  path.write_bytes(data)
  refuse(path, "GGML type '99' is not supported")


def test_tokens_that_are_none():
  generator = Generator(random_model("gpt2", seed=1))
  with pytest.raises(InputError, match="320 is no token: the model has 320, from 0"):
    generator([1, 320], 1)
  with pytest.raises(InputError, match="the prompt has no token"):
    generator([], 1)
  with pytest.raises(InputError, match="60 tokens and 6 more are too many: there is room for 64"):
    generator([1] * 60, 6)


def test_the_command(example, tmp_path):
  done = example("generate", "--model", "llama", "--count", "4", "--json", tmp_path / "out.json")
  assert "0 for the other 4" in done.stdout and json.loads((tmp_path / "out.json").read_text())["cycles_a_token"] > 10_000
  done = example("generate", "--weights", tmp_path / "none.gguf", code=2)
  assert done.stderr.endswith("none.gguf cannot be read: No such file or directory\n") and done.stderr.count("\n") == 1
