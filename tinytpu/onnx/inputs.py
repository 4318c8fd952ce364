"""What a model is run on: arrays from files, values from the command line, random numbers for the rest."""
from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from . import images
from .errors import OnnxError
from .model import Model, Value


def complete(model: Model, given: Mapping[str, np.ndarray], dims: Mapping[str, int] | None = None, seed: int = 0) -> dict[str, np.ndarray]:
  """An array for each input of the model.

  Args:
    given: arrays by input name; of the declared dtype and shape. A free dimension is bound by the first that has it.
    dims: sizes of free dimensions, by name.
    seed: of inputs that are not given: normal float values, and 0 or 1 for integers and bools, which is a valid index, mask and flag alike.

  Returns:
    C-contiguous arrays by input name, in the model's order.

  Raises:
    OnnxError: a name that the model does not have, a wrong dtype or shape, a free dimension without a size.
  """
  names = [value.name for value in model.inputs]
  for name in given:
    if name not in names:
      raise OnnxError(f"the model has no input {name!r}; its inputs: {', '.join(names) or 'none'}")
  sizes = _sizes(model, dims or {})
  for value in model.inputs:
    if value.name in given:
      _bind(value, given[value.name], sizes)
  rng = np.random.default_rng(seed)
  return {value.name: np.ascontiguousarray(given[value.name]) if value.name in given else _random(value, sizes, rng)
          for value in model.inputs}


def read(texts: Sequence[str], model: Model, dims: Mapping[str, int] | None = None, pixels: images.Pixels | None = None
         ) -> dict[str, np.ndarray]:
  """Arrays from the command line: "FILE.npz" (names are those of inputs), "FILE.npy" or an image (of a model with one input),
  "NAME=FILE.npy", "NAME=photo.png", or "NAME=1,2,3": numbers, which take the declared dtype and shape.

  Args:
    dims: sizes of free dimensions, which images and numbers are made to fit. pixels: how.

  Raises:
    OnnxError: a text that is none of these, a file that holds something else, an input given twice. OSError: no such file.
  """
  found: dict[str, np.ndarray] = {}
  sizes = _sizes(model, dims or {})
  for text in texts:
    for name, array in _read(text, model, sizes, pixels or images.Pixels()).items():
      if name in found:
        raise OnnxError(f"input {name!r} is given twice")
      found[name] = array
  return found


def dimensions(texts: Sequence[str]) -> dict[str, int]:
  """Sizes of free dimensions from texts "NAME=SIZE". Raises OnnxError: not of this form, or given twice."""
  found: dict[str, int] = {}
  for text in texts:
    name, equals, size = text.rpartition("=")
    if not equals or not name or not size.isascii() or not size.isdecimal() or len(size) > 9:
      raise OnnxError(f"{text!r}: expected NAME=SIZE, as in batch=1")
    if name in found:
      raise OnnxError(f"dimension {name!r} is given twice")
    found[name] = int(size)
  return found


def numbers(text: str, name: str, positive: bool = False) -> tuple[float, ...]:
  """Numbers from the text of the option `name`, "0.5" or "0.4,0.5,0.6". Raises OnnxError: it has others, or one that is not positive."""
  try:
    found = tuple(map(float, text.split(",")))
  except ValueError:
    found = ()
  if not found or not np.isfinite(found).all() or (positive and min(found) <= 0):
    raise OnnxError(f"{name} {text}: expected {'positive ' if positive else ''}numbers such as 0.5 or 0.4,0.5,0.6")
  return found


def _read(text: str, model: Model, dims: Mapping[str, int], pixels: images.Pixels) -> dict[str, np.ndarray]:
  name, equals, rest = text.partition("=")
  if not equals or Path(text).exists():
    if text.endswith(".npz"):
      return _load(Path(text))
    if not _is_file(text):
      raise OnnxError(f"{text!r}: expected FILE.npz, FILE.npy or an image, NAME=FILE.npy, NAME=IMAGE or NAME=NUMBERS")
    if len(model.inputs) != 1:
      raise OnnxError(f"{text!r}: the model has {len(model.inputs)} inputs; name one: NAME={text}")
    name, rest = model.inputs[0].name, text
  if rest.endswith(".npy"):
    return {name: _load(Path(rest))[""]}
  value = next((value for value in model.inputs if value.name == name), None)
  if value is None:
    raise OnnxError(f"{text!r}: the model has no input {name!r}; its inputs: {', '.join(v.name for v in model.inputs) or 'none'}")
  return {name: images.read(Path(rest), value, dims, pixels) if _is_file(rest) else _numbers(rest, value, dims, text)}


def _is_file(text: str) -> bool:
  return text.endswith(".npy") or text.lower().endswith(images.SUFFIXES)


def _load(path: Path) -> dict[str, np.ndarray]:
  """Arrays of a file by name; the one of a .npy file as ""."""
  try:
    loaded = np.load(path, allow_pickle=False)
    return {"": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
  except (ValueError, EOFError, zipfile.BadZipFile) as error:
    raise OnnxError(f"{path} holds no arrays of numpy: {str(error).splitlines()[0] if str(error) else 'it is damaged'}") from None


def _numbers(text: str, value: Value, dims: Mapping[str, int], whole: str) -> np.ndarray:
  dtype = np.dtype(value.dtype)
  try:
    numbers = [float(part) if dtype.kind == "f" else int(part, 0) for part in text.split(",")]
    array = np.array(numbers, dtype)
  except (ValueError, OverflowError):
    raise OnnxError(f"{whole!r}: expected numbers of type {value.dtype}, an image, or a file whose name ends in .npy") from None
  if value.shape is None or any(isinstance(size, str) and size not in dims for size in value.shape):
    return array
  shape = tuple(dims[size] if isinstance(size, str) else size for size in value.shape)
  if array.size not in (1, math.prod(shape)):
    raise OnnxError(f"{whole!r}: {array.size} numbers for {value}")
  return array.reshape(shape) if array.size == math.prod(shape) else np.full(shape, array[0])


def _sizes(model: Model, dims: Mapping[str, int]) -> dict[str, int]:
  free = {size for value in model.inputs for size in value.shape or () if isinstance(size, str)}
  for name, size in dims.items():
    if name not in free:
      raise OnnxError(f"the model has no free dimension {name!r}; its free dimensions: {', '.join(sorted(free)) or 'none'}")
    if size < 1:
      raise OnnxError(f"dimension {name!r} cannot have size {size}")
  return dict(dims)


def _bind(value: Value, array: np.ndarray, sizes: dict[str, int]) -> None:
  if str(array.dtype) != value.dtype:
    raise OnnxError(f"input {value.name!r} is {value}, and the array given is of type {array.dtype}")
  if value.shape is None:
    return
  if len(value.shape) != array.ndim:
    raise OnnxError(f"input {value.name!r} is {value}, and the array given has shape {list(array.shape)}")
  for declared, size in zip(value.shape, array.shape, strict=True):
    wanted = sizes.setdefault(declared, size) if isinstance(declared, str) else declared
    if wanted != size:
      where = f" with {declared}={wanted}" if isinstance(declared, str) else ""
      raise OnnxError(f"input {value.name!r} is {value}{where}, and the array given has shape {list(array.shape)}")


def _random(value: Value, sizes: Mapping[str, int], rng: np.random.Generator) -> np.ndarray:
  if value.shape is None:
    raise OnnxError(f"input {value.name!r} has no declared shape: give it with --input {value.name}=FILE.npy")
  for size in value.shape:
    if isinstance(size, str) and size not in sizes:
      raise OnnxError(f"input {value.name!r} has the free dimension {size!r}: add --dim {size}=SIZE")
  shape = tuple(sizes[size] if isinstance(size, str) else size for size in value.shape)
  dtype = np.dtype(value.dtype)
  return (rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 2, shape)).astype(dtype)
