"""Operators that read between the elements of a picture: GridSample, RoiAlign, DeformConv. tinygrad's front end has none of them."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from tinygrad import Tensor, dtypes
from tinygrad.helpers import prod

from .cubic import far, near

Axis = list[tuple[Tensor, Tensor]]
"""Of one axis of a picture, the elements that a place is made of: their numbers (int32, may be outside) and their weights (float32)."""
Place = Callable[[Tensor, int], tuple[Tensor, Tensor]]
"""What stands for an element, given its number and the size of the axis: a number inside, and whether it counts."""
_FAR = 2.0**30
"""Places are held within this, which int32 has too."""


def _nearest(at: Tensor) -> Axis:
  return [(at.round().cast(dtypes.int32), Tensor.ones_like(at))]


def _linear(at: Tensor) -> Axis:
  base = at.floor()
  return [(base.cast(dtypes.int32), 1 - (at - base)), (base.cast(dtypes.int32) + 1, at - base)]


def _cubic(at: Tensor) -> Axis:
  base = at.floor()
  t = at - base
  return [(base.cast(dtypes.int32) + i - 1, weight) for i, weight in enumerate((far(t + 1), near(t), near(1 - t), far(2 - t)))]


def _zeros(index: Tensor, size: int) -> tuple[Tensor, Tensor]:
  return index.clip(0, size - 1), (index >= 0) & (index < size)


def _border(index: Tensor, size: int) -> tuple[Tensor, Tensor]:
  return index.clip(0, size - 1), Tensor.ones_like(index, dtype=dtypes.bool)


def _reflection(at_edges: bool) -> Place:
  """Mirrored at the first and last element, or half an element outside of them."""
  def place(index: Tensor, size: int) -> tuple[Tensor, Tensor]:
    period, turn = (2 * size - 2, 2 * size - 2) if at_edges else (2 * size, 2 * size - 1)
    rest = index % period if period else index * 0
    return (rest < size).where(rest, turn - rest), Tensor.ones_like(index, dtype=dtypes.bool)
  return place


def _elements(x: Tensor, axes: Sequence[Axis], place: Place) -> tuple[Tensor, Tensor]:
  """The elements that places are made of.

  Args:
    x: (batch, channels, *sizes). axes: of each of the sizes, tensors of shape (batch, places).

  Returns:
    values (batch, channels, elements of a place, places), 0 where they do not count, and their weights (batch, 1, elements, places).
  """
  batch, channels, *sizes = map(int, x.shape)
  indices, weights, counts = [], [], []
  for taps in product(*axes):
    placed = [place(index, size) for (index, _), size in zip(taps, sizes, strict=True)]
    index, count, weight = *placed[0], taps[0][1]
    for size, (other, counted), (_, factor) in zip(sizes[1:], placed[1:], taps[1:], strict=True):
      index, count, weight = index * size + other, count & counted, weight * factor
    indices.append(index)
    weights.append(weight)
    counts.append(count)
  index = Tensor.stack(*indices, dim=1).contiguous()
  each = index.shape[1:]
  values = x.reshape(batch, channels, prod(sizes)).gather(2, index.reshape(batch, 1, prod(each)).expand(batch, channels, prod(each)))
  counted = Tensor.stack(*counts, dim=1).unsqueeze(1)
  return counted.where(values.reshape(batch, channels, *each), 0), Tensor.stack(*weights, dim=1).unsqueeze(1)


def _sampled(x: Tensor, axes: Sequence[Axis], place: Place) -> Tensor:
  """(batch, channels, places), the weighted sums of their elements. Arguments as of `_elements`."""
  values, weights = _elements(x, axes, place)
  return (values * weights).sum(2).cast(x.dtype)


_MODES = {"nearest": _nearest, "linear": _linear, "bilinear": _linear, "cubic": _cubic, "bicubic": _cubic}


def GridSample(X: Tensor, grid: Tensor, *, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0) -> Tensor:
  """ONNX's GridSample. X: (batch, channels, *sizes); grid: (batch, *places, axes), the last axis of X first, from -1 to 1 across it."""
  places = grid.shape[1:-1]
  place = {"zeros": _zeros, "border": _border, "reflection": _reflection(bool(align_corners))}[padding_mode]
  axes = []
  for axis, size in enumerate(map(int, X.shape[2:])):
    at = grid[..., X.ndim - 3 - axis].reshape(int(grid.shape[0]), prod(places)).float()
    at = (at + 1) / 2 * (size - 1) if align_corners else ((at + 1) * size - 1) / 2
    axes.append(_MODES[mode](at.clip(-_FAR, _FAR)))
  return _sampled(X, axes, place).reshape(*X.shape[:2], *places)


def RoiAlign(X: Tensor, rois: Tensor, batch_indices: Tensor, *, mode: str = "avg", output_height: int = 1, output_width: int = 1,
             sampling_ratio: int = 0, spatial_scale: float = 1.0, coordinate_transformation_mode: str = "half_pixel") -> Tensor:
  """ONNX's RoiAlign. X: (batch, channels, height, width); rois: (n, 4), x1, y1, x2, y2 each; gives (n, channels, output_height,
  output_width).

  Raises:
    NotImplementedError: the number of samples is left to the size of each region (sampling_ratio 0).
  """
  if sampling_ratio < 1:
    raise NotImplementedError("sampling_ratio 0, with which every region has its own number of samples")
  half = coordinate_transformation_mode == "half_pixel"
  n, samples = int(rois.shape[0]), []
  edges = rois.float() * spatial_scale - (0.5 if half else 0.0)
  for axis, outputs in ((1, output_height), (0, output_width)):
    size = int(X.shape[3 - axis])
    start, length = edges[:, axis:axis + 1], edges[:, axis + 2:axis + 3] - edges[:, axis:axis + 1]
    length = length if half else length.maximum(1)
    at = start + (Tensor.arange(outputs * sampling_ratio).reshape(1, -1) + 0.5) * (length / (outputs * sampling_ratio))
    samples.append((at, (at >= -1) & (at <= size), at.clip(0, size - 1)))
  (y, y_counts, inside_y), (x, x_counts, inside_x) = samples
  shape = (n, int(y.shape[1]), int(x.shape[1]))
  inside = inside_y.reshape(n, -1, 1), inside_x.reshape(n, 1, -1)
  axes = [_linear(at.expand(shape).reshape(n, shape[1] * shape[2])) for at in inside]
  values, weights = _elements(X[batch_indices], axes, _border)
  counts = (y_counts.reshape(n, -1, 1) & x_counts.reshape(n, 1, -1)).reshape(n, 1, 1, -1)
  parts = counts.where(values * weights, 0)
  grid = (n, int(X.shape[1]), output_height, sampling_ratio, output_width, sampling_ratio)
  if mode == "max":  # of all elements with their weights, as onnxruntime and ONNX's reference have it
    return parts.max(2).reshape(grid).max((3, 5)).cast(X.dtype)
  return parts.sum(2).reshape(grid).mean((3, 5)).cast(X.dtype)


def DeformConv(X: Tensor, W: Tensor, offset: Tensor, B: Tensor | None = None, mask: Tensor | None = None, *,
               dilations: Sequence[int] | None = None, group: int = 1, kernel_shape: Sequence[int] | None = None, offset_group: int = 1,
               pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Tensor:
  """ONNX's DeformConv: a convolution whose elements lie off their places by `offset` and are weighted by `mask`.

  X: (batch, channels, *sizes); W: (outputs, channels / group, *kernel); offset: (batch, offset_group * kernel * axes, *places);
  mask: (batch, offset_group * kernel, *places).
  """
  batch, channels, *sizes = map(int, X.shape)
  kernel, places, ndim = [int(k) for k in W.shape[2:]], [int(o) for o in offset.shape[2:]], len(sizes)
  steps, spread, before = list(strides or [1] * ndim), list(dilations or [1] * ndim), list(pads or [0] * 2 * ndim)[:ndim]
  shape = (batch * offset_group, *kernel, *places)
  moved = offset.reshape(batch * offset_group, *kernel, ndim, *places).float()
  axes = []
  for d in range(ndim):
    taps = (Tensor.arange(kernel[d]) * spread[d]).reshape([-1 if a == 1 + d else 1 for a in range(len(shape))])
    centres = (Tensor.arange(places[d]) * steps[d] - before[d]).reshape([-1 if a == 1 + ndim + d else 1 for a in range(len(shape))])
    at = moved[(slice(None),) * (1 + ndim) + (d,)] + taps + centres
    axes.append(_linear(at.clip(-_FAR, _FAR).reshape(shape[0], prod(shape[1:]))))
  values = _sampled(X.reshape(batch * offset_group, channels // offset_group, *sizes), axes, _zeros)
  if mask is not None:
    values = values * mask.reshape(batch * offset_group, 1, -1)
  values = values.reshape(batch, group, channels // group * prod(kernel), prod(places))
  result = (W.reshape(group, int(W.shape[0]) // group, channels // group * prod(kernel)) @ values).reshape(batch, int(W.shape[0]), *places)
  return result if B is None else result + B.reshape(1, -1, *[1] * ndim)
