"""Models with the weights of a file: GGUF, or safetensors as Hugging Face lays them out, with config.json beside."""
from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinygrad import Tensor, dtypes, nn

from . import gpt2, llama
from .common import InputError
from .files import fill, load_gguf, load_safetensors, read

Model = llama.Llama | gpt2.GPT2

GGUF_KEYS = {  # field of Config: key of the metadata, behind the architecture's name, and what stands for it where it is missing
  "llama": {"width": ("embedding_length", None), "layers": ("block_count", None), "heads": ("attention.head_count", None),
            "kv_heads": ("attention.head_count_kv", None), "hidden": ("feed_forward_length", None), "context": ("context_length", None),
            "base": ("rope.freq_base", 10000.0), "epsilon": ("attention.layer_norm_rms_epsilon", None)},
  "gpt2": {"width": ("embedding_length", None), "layers": ("block_count", None), "heads": ("attention.head_count", None),
           "hidden": ("feed_forward_length", None), "context": ("context_length", None), "epsilon": ("attention.layer_norm_epsilon", None)}}
JSON_KEYS = {  # the same of config.json
  "llama": {"vocab": ("vocab_size", None), "width": ("hidden_size", None), "layers": ("num_hidden_layers", None),
            "heads": ("num_attention_heads", None), "kv_heads": ("num_key_value_heads", None), "hidden": ("intermediate_size", None),
            "context": ("max_position_embeddings", None), "base": ("rope_theta", 10000.0), "epsilon": ("rms_norm_eps", None)},
  "gpt2": {"vocab": ("vocab_size", None), "width": ("n_embd", None), "layers": ("n_layer", None), "heads": ("n_head", None),
           "context": ("n_positions", None), "epsilon": ("layer_norm_epsilon", 1e-5)}}
NAMES = {  # Hugging Face's names to GGUF's
  "llama": {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm",
            "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
            "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
            "mlp.down_proj": "ffn_down"},
  "gpt2": {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "lm_head": "output", "ln_1": "attn_norm", "ln_2": "ffn_norm",
           "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}}
TURNED = ("attn_qkv", "attn_output", "ffn_up", "ffn_down")
"""Of GPT-2 these weights are (inputs, outputs) at Hugging Face."""
ALIKE: dict[str, dict[str, tuple[Any, ...]]] = {
  "llama": {"attention_bias": (False,), "mlp_bias": (False,), "hidden_act": ("silu", "swish"), "partial_rotary_factor": (1,)},
  "gpt2": {"activation_function": ("gelu_new", "gelu_pytorch_tanh"), "scale_attn_weights": (True,), "add_cross_attention": (False,),
           "scale_attn_by_inverse_layer_idx": (False,)}}
"""Entries of config.json that change what a model computes, and the values for which it is what the classes here compute."""


def load_model(path: Path, context: int) -> Model:
  """The model that a file holds, in float32.

  Args:
    context: tokens for which the cache has room; fewer if the model knows fewer positions.

  Raises:
    InputError: the file, or config.json, cannot be used; says why.
  """
  return _from_gguf(path, context) if read(path)[:4] == b"GGUF" else _from_safetensors(path, context)


def _from_gguf(path: Path, context: int) -> Model:
  metadata, tensors = load_gguf(path)
  kind = metadata.get("general.architecture")
  if kind not in GGUF_KEYS:
    raise InputError(f"{path} is a model of architecture {kind}; there are {' and '.join(GGUF_KEYS)}")
  scaling = metadata.get(f"{kind}.rope.scaling.type")
  factors = [metadata.get(f"{kind}.rope.{name}", 1) for name in ("scaling.factor", "scale_linear")]
  if scaling not in (None, "none") or (scaling is None and factors != [1, 1]):
    raise InputError(f"{path} scales its rotary angles, which the model here does not")
  fields = _fields(GGUF_KEYS[kind], metadata, f"{kind}.", path)
  for key in ("rope.dimension_count", "attention.key_length", "attention.value_length"):
    _check_head(metadata.get(f"{kind}.{key}"), fields, f"{path}: {kind}.{key}")
  if "token_embd.weight" not in tensors:
    raise InputError(f"{path} has no tensor token_embd.weight")
  return _build(kind, {**fields, "vocab": tensors["token_embd.weight"].shape[0]}, tensors, context, path)


def _from_safetensors(path: Path, context: int) -> Model:
  given, beside = load_safetensors(path), path.with_name("config.json")
  try:
    config = json.loads(read(beside))
    kind = config["model_type"]
  except (ValueError, KeyError, TypeError):
    raise InputError(f"{beside} is no model's configuration") from None
  if not isinstance(kind, str) or kind not in JSON_KEYS:
    raise InputError(f"{beside} tells of a {kind}; there are {' and '.join(JSON_KEYS)}")
  unlike = [key for key, values in ALIKE[kind].items() if config.get(key, values[0]) not in values]
  for key in ("rope_scaling", "rope_parameters"):  # of which newer files keep all that is told of the angles
    rotary = config.get(key) or {}
    if not isinstance(rotary, dict) or rotary.get("rope_type", "default") != "default" or rotary.keys() - {"rope_type", "rope_theta"}:
      unlike.append(key)
    else:
      config = {**config, **rotary}
  if unlike:
    raise InputError(f"{beside} has {unlike[0]} {config[unlike[0]]}, which the model here does not compute")
  fields = _fields(JSON_KEYS[kind], config, "", beside)
  _check_head(config.get("head_dim"), fields, f"{beside}: head_dim")
  if kind == "gpt2":
    fields |= _fields({"hidden": ("n_inner", None)}, {"n_inner": config.get("n_inner") or 4 * fields["width"]}, "", beside)
  tensors = {}
  for name, tensor in given.items():
    if re.search(r"\.attn\.(masked_)?bias$|rotary_emb\.inv_freq$", name):  # constants that old files carry
      continue
    layer, own = re.fullmatch(r"(?:(?:transformer\.h|h|model\.layers)\.(\d+)\.)?(?:transformer\.)?(.*)", name, re.DOTALL).groups()  # type: ignore[union-attr]
    stem, _, ending = own.rpartition(".")
    ours = NAMES[kind].get(stem, stem)
    if kind == "gpt2" and ours in TURNED and ending == "weight" and tensor.ndim == 2:
      tensor = tensor.transpose()
    if ours in ("attn_q", "attn_k"):
      tensor = _pairs(tensor, fields["heads" if ours == "attn_q" else "kv_heads"])
    tensors[(f"blk.{layer}." if layer else "") + f"{ours}.{ending}"] = tensor
  return _build(kind, fields, tensors, context, path)


def _fields(keys: Mapping[str, tuple[str, Any]], values: Mapping[str, Any], prefix: str, path: Path) -> dict[str, Any]:
  found = {field: values.get(prefix + key, default) for field, (key, default) in keys.items()}
  for field, value in found.items():
    types = (int, float) if field in ("base", "epsilon") else (int,)
    if type(value) not in types or not 0 < value < math.inf:
      raise InputError(f"{path} has no usable {prefix}{keys[field][0]}: {value}")
  return found


def _check_head(size: Any, fields: Mapping[str, Any], what: str) -> None:
  """Raises InputError: heads are of another size than the width's share, or are turned in part only. None: not told."""
  if size is not None and size * fields["heads"] != fields["width"]:
    raise InputError(f"{what} is {size}, and the model here has heads of {fields['width']} / {fields['heads']} elements")


def _pairs(weight: Tensor, heads: int) -> Tensor:
  """Rows of a head from (all first of the pairs that are turned, all second) to neighbours."""
  if weight.shape[0] % (2 * heads):
    return weight  # whose shape is refused later
  return weight.reshape(heads, 2, -1, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)


def _build(kind: str, fields: dict[str, Any], tensors: dict[str, Tensor], context: int, path: Path) -> Model:
  heads, kv_heads = fields["heads"], fields.get("kv_heads", fields["heads"])
  if fields["width"] % heads or heads % kv_heads:
    raise InputError(f"{path}: {fields['width']} elements cannot be cut into {heads} heads, or those into {kv_heads} groups")
  if kind == "llama" and fields["width"] // heads % 2:
    raise InputError(f"{path}: heads of {fields['width'] // heads} elements have no pairs that could be turned")
  if (last := f"blk.{fields['layers'] - 1}.attn_norm.weight") not in tensors:  # before as many are made
    raise InputError(f"{path} has no tensor {last}")
  fields["context"] = min(context, fields["context"])
  if kind == "gpt2" and "position_embd.weight" in tensors:
    tensors["position_embd.weight"] = tensors["position_embd.weight"][:fields["context"]]
  if "token_embd.weight" in tensors:
    tensors.setdefault("output.weight", tensors["token_embd.weight"])
  if (embedding := tensors.get("token_embd.weight")) is None or embedding.shape != (fields["vocab"], fields["width"]):
    told = "no tensor token_embd.weight" if embedding is None else f"a tensor token_embd.weight of shape {list(embedding.shape)}"
    raise InputError(f"{path} has {told}, and the model {fields['vocab']} tokens of {fields['width']} elements")
  model: Model = llama.Llama(llama.Config(**fields)) if kind == "llama" else gpt2.GPT2(gpt2.Config(**fields))
  fill(nn.state.get_state_dict(model), tensors, path, dtypes.float32)
  return model
