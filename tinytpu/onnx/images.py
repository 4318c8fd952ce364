"""Images as inputs: a file becomes an array of the declared shape and dtype."""
from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .errors import OnnxError
from .model import Value, first_line

if TYPE_CHECKING:
  from PIL.Image import Image

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
"""Ends of names that mean an image."""
_DEEP = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")
"""Pillow's names of pixels with more than 8 bits."""


class Fit(StrEnum):
  """How an image comes to the declared height and width. STRETCH: each side by itself. CROP: scaled to cover them, what juts out on both
  sides is cut off. PAD: scaled to fit in, in the middle, with black around it. Scaling is bilinear."""
  STRETCH = "stretch"
  CROP = "crop"
  PAD = "pad"


@dataclass(frozen=True)
class Pixels:
  """How pixels become numbers: from 0 to 255 as they are for integers; for floats (pixel / 255 - mean) / std.

  Attributes:
    fit: see there. mean, std: one number, or one for each channel, in the model's order. bgr: blue comes first.
  """
  fit: Fit = Fit.STRETCH
  mean: tuple[float, ...] = (0.0,)
  std: tuple[float, ...] = (1.0,)
  bgr: bool = False


def read(path: Path, value: Value, dims: Mapping[str, int], how: Pixels) -> np.ndarray:
  """The image in a file, as an input of a model: float32, float16, float64 or uint8 in the declared layout.

  Args:
    dims: sizes of free dimensions; a height or width that is not among them is the image's.

  Raises:
    OnnxError: no image, or the input cannot be one. OSError: no such file.
  """
  channels, *_ = layout(value)  # before anything is read
  return array(_open(path, channels, how), value, dims, how)


def array(image: Image, value: Value, dims: Mapping[str, int], how: Pixels) -> np.ndarray:
  """An image of Pillow's as an input of a model. Arguments and errors as of `read`."""
  channels, height, width, last = layout(value)
  wanted = tuple(size if isinstance(size, int) else dims.get(size, own) for size, own in ((height, image.height), (width, image.width)))
  pixels = np.asarray(_fitted(image, (wanted[1], wanted[0]), how.fit)).reshape(*wanted, channels)
  if how.bgr:
    pixels = pixels[..., ::-1]
  dtype = np.dtype(value.dtype)
  if dtype.kind == "f":
    for name, numbers in (("mean", how.mean), ("std", how.std)):
      if len(numbers) not in (1, channels):
        raise OnnxError(f"--{name} has {len(numbers)} numbers, and input {value.name!r} has {channels} channels")
    pixels = ((pixels / 255 - np.array(how.mean)) / np.array(how.std)).astype(dtype)
  elif dtype != np.uint8:
    raise OnnxError(f"input {value.name!r} is {value}, and an image gives floats or uint8: give it as an array")
  elif (how.mean, how.std) != (Pixels.mean, Pixels.std):
    raise OnnxError(f"input {value.name!r} is {value}: it takes pixels as they are, without --mean and --std")
  if not last:
    pixels = pixels.transpose(2, 0, 1)
  assert value.shape is not None
  return np.ascontiguousarray(pixels if len(value.shape) == 3 else pixels[None])


def layout(value: Value) -> tuple[int, int | str, int | str, bool]:
  """Channels, height, width, and whether channels come last, of an input of three dimensions, or four of which the first is 1 or free:
  the axis of channels is the one of size 1 or 3.

  Raises:
    OnnxError: it is not so, or first and last axis might both be it.
  """
  shape = value.shape or ()
  if len(shape) not in (3, 4) or (len(shape) == 4 and isinstance(shape[0], int) and shape[0] != 1):
    raise OnnxError(f"input {value.name!r} is {value}, which cannot be one image: give it as an array")
  first, middle, last = shape[-3:]
  places = [place for place, size in ((0, first), (2, last)) if size in (1, 3)]
  if len(places) != 1:
    raise OnnxError(f"input {value.name!r} is {value}: which axis is of channels (1 or 3) cannot be told; give it as an array")
  if places[0] == 0:
    return int(first), middle, last, False
  return int(last), first, middle, True


def _open(path: Path, channels: int, how: Pixels) -> Image:
  """The image, upright, grey or in three colours; what is transparent is shown as if it were not."""
  try:
    from PIL import Image as pillow
    from PIL import ImageOps, UnidentifiedImageError
  except ModuleNotFoundError:
    raise ValueError("PIL is missing: pip install 'tinytpu[onnx]'") from None
  data = path.open("rb")  # no such file is another error than no image
  with data, warnings.catch_warnings():
    warnings.simplefilter("error", pillow.DecompressionBombWarning)
    try:
      with pillow.open(data) as image:
        if image.mode in _DEEP:
          raise OnnxError(f"{path} has pixels of more than 8 bits ({image.mode}): give it as an array")
        return ImageOps.exif_transpose(image).convert("L" if channels == 1 else "RGB")
    except UnidentifiedImageError:
      raise OnnxError(f"{path} is no image that Pillow reads") from None
    except (OSError, SyntaxError, ValueError, pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
      if isinstance(error, OnnxError):
        raise
      raise OnnxError(f"{path} cannot be read as an image: {first_line(error)}") from error


def _fitted(image: Image, size: tuple[int, int], fit: Fit) -> Image:
  """The image in (width, height)."""
  from PIL import ImageOps
  from PIL.Image import Resampling
  if image.size == size:
    return image
  match fit:
    case Fit.STRETCH: return image.resize(size, Resampling.BILINEAR)
    case Fit.CROP: return ImageOps.fit(image, size, Resampling.BILINEAR)
    case Fit.PAD: return ImageOps.pad(image, size, Resampling.BILINEAR)
