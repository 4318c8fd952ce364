"""Resize. tinygrad's takes the axes to be the last ones, however many are named, and has neither antialiasing nor cropping."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from tinygrad import Tensor, dtypes

from .cubic import SLOPE, far, near

_FEW = 4
"""Elements of a mean up to which they are looked up one by one; more are a product with the matrix of their weights."""

_COORDINATES: dict[str, Callable[[Tensor, int, int, float], Tensor]] = {  # of outputs 0, 1, ..., for sizes before and after, and the scale
  "half_pixel": lambda x, before, after, scale: (x + 0.5) / scale - 0.5,
  "pytorch_half_pixel": lambda x, before, after, scale: (x + 0.5) / scale - 0.5 if after > 1 else x * 0,
  "half_pixel_symmetric": lambda x, before, after, scale: before / 2 * (1 - after / (before * scale)) + (x + 0.5) / scale - 0.5,
  "asymmetric": lambda x, before, after, scale: x / scale,
  "align_corners": lambda x, before, after, scale: x * ((before - 1) / (after - 1)) if after > 1 else x * 0}
_NEAREST: dict[str, Callable[[Tensor], Tensor]] = {
  "round_prefer_floor": lambda x: (x - 0.5).ceil(), "round_prefer_ceil": lambda x: (x + 0.5).floor(), "floor": Tensor.floor,
  "ceil": Tensor.ceil}


def _triangle(t: Tensor) -> Tensor:
  return (1 - t).maximum(0)


def _cubic(a: float) -> Callable[[Tensor], Tensor]:
  return lambda t: (t <= 1).where(near(t, a), (t < 2).where(far(t, a), 0.0))


def _means(x: Tensor, axis: int, at: Tensor, weight: Callable[[Tensor], Tensor], reach: int, scale: float, inside: bool) -> Tensor:
  """Weighted means along an axis.

  Args:
    at: (outputs,), where on the axis. weight: of an element, by its distance times `scale`; 0 from `reach` on. inside: elements outside of
    the axis do not count; else they are those at its ends.
  """
  size, outputs = int(x.shape[axis]), int(at.shape[0])
  span = math.ceil(reach / scale)
  numbers = at.floor().reshape(-1, 1) + (Tensor.arange(2 * span) - (span - 1)).reshape(1, -1)
  weights = weight((numbers - at.reshape(-1, 1)).abs() * scale)
  if inside:
    weights = ((numbers >= 0) & (numbers < size)).where(weights, 0.0)
  weights = (weights / weights.sum(1, keepdim=True)).contiguous()
  places = numbers.clip(0, size - 1).cast(dtypes.int32).contiguous()
  if 2 * span > _FEW:
    matrix = (places.reshape(outputs, -1, 1) == Tensor.arange(size)).where(weights.reshape(outputs, -1, 1), 0.0).sum(1)
    return (x.transpose(axis, -1).contiguous() @ matrix.transpose().contiguous()).transpose(axis, -1).contiguous()
  shape = [-1 if a == axis else 1 for a in range(x.ndim)]
  first, *others = (x[(slice(None),) * axis + (places[:, k],)] * weights[:, k].reshape(shape) for k in range(2 * span))
  return sum(others, first).contiguous()


def _sizes(lengths: list[int], scales: Sequence[float] | None, sizes: Sequence[int] | None, policy: str) -> tuple[list[float], list[int]]:
  """Scales and sizes of the axes, of which one is given."""
  if sizes:
    factors = [size / length for size, length in zip(sizes, lengths, strict=True)]
    if policy == "stretch":
      return factors, list(sizes)
    common = min(factors) if policy == "not_larger" else max(factors)
    return [common] * len(lengths), [int(common * length + 0.5) for length in lengths]
  if not scales:
    raise ValueError("neither scales nor sizes")
  return list(scales), [int(np.float32(length) * np.float32(scale)) for length, scale in zip(lengths, scales, strict=True)]


def Resize(X: Tensor, roi: Sequence[float] | None = None, scales: Sequence[float] | None = None, sizes: Sequence[int] | None = None, *,
           antialias: int = 0, axes: Sequence[int] | None = None, coordinate_transformation_mode: str = "half_pixel",
           cubic_coeff_a: float = SLOPE, exclude_outside: int = 0, extrapolation_value: float = 0.0,
           keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest", nearest_mode: str = "round_prefer_floor") -> Tensor:
  """ONNX's Resize from version 11 on; one axis after the other."""
  chosen = [X._resolve_dim(a) for a in axes] if axes else list(range(X.ndim))
  lengths, crops = [int(X.shape[a]) for a in chosen], coordinate_transformation_mode == "tf_crop_and_resize"
  factors, afters = _sizes(lengths, scales, sizes, keep_aspect_ratio_policy)
  result, outside, nearest = X.float(), Tensor(False), dict[int, Tensor]()
  for i, (axis, length, factor, after) in enumerate(zip(chosen, lengths, factors, afters, strict=True)):
    at = Tensor.arange(after).float()
    if crops:
      assert roi is not None, "checked by ONNX"
      start, end = roi[i] * (length - 1), roi[i + len(chosen)] * (length - 1)
      at = start + at * ((end - start) / (after - 1)) if after > 1 else at * 0 + (start + end) / 2
      outside = outside | ((at < 0) | (at > length - 1)).reshape([-1 if a == axis else 1 for a in range(X.ndim)])
    elif (length, factor) == (after, 1):
      continue
    else:
      at = _COORDINATES[coordinate_transformation_mode](at, length, after, factor)
    if mode == "nearest":
      nearest[axis] = _NEAREST[nearest_mode](at).clip(0, length - 1).cast(dtypes.int32)
      continue
    weight, reach = (_triangle, 1) if mode == "linear" else (_cubic(cubic_coeff_a), 2)
    result = _means(result, axis, at, weight, reach, min(factor, 1) if antialias else 1, bool(exclude_outside))
  if nearest:
    first, last = min(nearest), max(nearest)
    numbers = [nearest.get(axis, Tensor.arange(int(X.shape[axis]))) for axis in range(first, last + 1)]
    result = X[(slice(None),) * first + tuple(Tensor.meshgrid(*numbers))]
  if crops:
    result = outside.where(extrapolation_value, result)
  if dtypes.is_int(X.dtype) and antialias:
    result = result.round().clip(X.dtype.min, X.dtype.max)
  return result.cast(X.dtype)


def Resize_10(X: Tensor, scales: Sequence[float], *, mode: str = "nearest") -> Tensor:
  """ONNX's Resize of version 10."""
  return Resize(X, None, scales, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor")


def Upsample(X: Tensor, scales: Sequence[float], *, mode: str = "nearest") -> Tensor:
  """ONNX's Upsample, which Resize has replaced; tinygrad's has other coordinates."""
  return Resize_10(X, scales, mode=mode)
