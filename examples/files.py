"""Reads tensors from safetensors and GGUF files, onto the device; what is wrong with a file is told in one sentence.

A GGUF file is read whole into device memory and cut up and converted there, so that the device dequantises Q4_0 and Q8_0 blocks.
"""
from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinygrad import Tensor
from tinygrad.dtype import DType
from tinygrad.llm.gguf import gguf_load
from tinygrad.nn.state import safe_dtypes, safe_save

from .common import InputError

KNOWN = {name for name in safe_dtypes if name != "F64" and not name.startswith("F8")}
"""Dtypes of safetensors files that are read: the machine has no float64, and 8-bit floats have no one format."""


def read(path: Path) -> bytes:
  """A file's bytes. Raises InputError: it cannot be read, or is a folder."""
  try:
    return path.read_bytes()
  except OSError as error:
    raise InputError(f"{path} cannot be read: {error.strerror}") from None


def load_safetensors(path: Path) -> dict[str, Tensor]:
  """Tensors by name, with the file's dtypes.

  Raises:
    InputError: there is no such file, or it is none of this format, cut short, damaged, or of a dtype that is not KNOWN.
  """
  data = read(path)
  start = 8 + int.from_bytes(data[:8], "little")
  bad = InputError(f"{path} is no safetensors file, or is cut short or damaged")
  try:
    header = json.loads(data[8:start])
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    if unknown := sorted({entry["dtype"] for entry in entries.values()} - KNOWN):
      raise InputError(f"{path} holds tensors of {unknown[0]}; there are {', '.join(sorted(KNOWN))}")
    for entry in entries.values():
      (low, high), size = entry["data_offsets"], math.prod(entry["shape"]) * safe_dtypes[entry["dtype"]].itemsize
      if any(type(number) is not int or number < 0 for number in [low, *entry["shape"]]) or high > len(data) - start or high - low != size:
        raise bad
  except (ValueError, KeyError, TypeError, AttributeError):
    raise bad from None
  if not entries:
    raise InputError(f"{path} holds no tensors")
  found = {}
  for name, entry in entries.items():
    low, high = entry["data_offsets"]
    found[name] = Tensor(data[start + low:start + high], dtype=safe_dtypes[entry["dtype"]]).reshape(entry["shape"])
  return found


def save_safetensors(tensors: Mapping[str, Tensor], path: Path) -> None:
  """Write tensors by name; a file that is there stays as it is until the new one is whole."""
  part = path.with_name(f"{path.name}.part")
  try:
    safe_save(dict(tensors), str(part))
    part.replace(path)
  finally:
    part.unlink(missing_ok=True)


def load_gguf(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
  """The file's metadata, and tensors by name: what is quantised as float32, the rest with the file's dtypes.

  Raises:
    InputError: there is no such file, or it is none of this format, cut short, damaged, or quantised in a way that tinygrad has not.
  """
  data = read(path)
  if data[:4] != b"GGUF":
    raise InputError(f"{path} is no GGUF file")
  try:
    return gguf_load(Tensor(data))
  except ValueError as error:
    if "GGML type" in str(error):
      raise InputError(f"{path}: {error}") from None
    if "multi-part" in str(error):
      raise InputError(f"{path} is one of several files that make a model: merge them (llama.cpp's gguf-split --merge)") from None
    raise InputError(f"{path} is cut short or damaged, or a GGUF version other than 2 and 3") from None
  except Exception:  # tinygrad's reader ends in whatever the first byte that is missing leads to
    raise InputError(f"{path} is cut short or damaged") from None


def fill(model: Mapping[str, Tensor], given: Mapping[str, Tensor], path: Path, dtype: DType | None = None) -> None:
  """Put tensors into a model's.

  Args:
    model: by name, as of `get_state_dict`. given: by the same names. dtype: what they are converted to; None: they must have the model's.

  Raises:
    InputError: a name is missing or unknown, or a shape or dtype is another one; names the first.
  """
  if missing := [name for name in model if name not in given]:
    raise InputError(f"{path} has no tensor {missing[0]}" + (f", and {len(missing) - 1} more are missing" if missing[1:] else ""))
  if unknown := [name for name in given if name not in model]:
    raise InputError(f"{path} has a tensor {unknown[0]}, for which the model has no place")
  for name, tensor in model.items():
    if given[name].shape != tensor.shape:
      raise InputError(f"{path}: {name} is {_shape(given[name])}, the model's is {_shape(tensor)}")
    if dtype is None and given[name].dtype != tensor.dtype:
      raise InputError(f"{path}: {name} is of {given[name].dtype.name}, the model's of {tensor.dtype.name}")
  for name, tensor in model.items():
    tensor.assign(given[name].cast(dtype or tensor.dtype)).realize()


def _shape(tensor: Tensor) -> str:
  return "x".join(map(str, tensor.shape)) or "a scalar"
