"""Operators on windows of a picture. tinygrad's front end lacks LpPool, GlobalLpPool and Col2Im; of the others it gets some uses wrong."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygrad import Tensor, dtypes
from tinygrad.helpers import prod
from tinygrad.nn.onnx import onnx_ops


def _planes(x: Tensor, size: int) -> Tensor:
  """Where each channel of each picture of (batch, channels, ...) begins, for channels of `size` elements."""
  return (Tensor.arange(int(x.shape[0]) * int(x.shape[1])) * size).reshape(*x.shape[:2], *[1] * (x.ndim - 2))


def MaxPool(X: Tensor, *, storage_order: int = 0, **options: Any) -> tuple[Tensor, Tensor]:
  """ONNX's MaxPool. Its indices are those of the whole tensor; tinygrad's begin anew in each channel, and it transposes them for
  storage order 1, in which columns are counted first."""
  pool: Any = onnx_ops["MaxPool"]
  values, index = pool(X, **options)
  sizes = [int(s) for s in X.shape[2:]]
  if storage_order:
    if len(sizes) != 2:
      raise NotImplementedError(f"storage order 1 with {len(sizes)} axes of windows")
    index = index // sizes[1] + index % sizes[1] * sizes[0]
  return values, (index + _planes(X, prod(sizes))).cast(dtypes.int64)


def MaxUnpool(X: Tensor, I: Tensor, output_shape: Sequence[int] | None = None, *, kernel_shape: Sequence[int],
              pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Tensor:
  """ONNX's MaxUnpool, with indices as `MaxPool` gives them; tinygrad's takes those of each channel."""
  ndim = len(kernel_shape)
  steps, around = list(strides or [1] * ndim), list(pads or [0] * 2 * ndim)
  sizes = list(output_shape)[2:] if output_shape else [
    (int(X.shape[2 + d]) - 1) * steps[d] + kernel_shape[d] - around[d] - around[d + ndim] for d in range(ndim)]
  unpool: Any = onnx_ops["MaxUnpool"]
  return unpool(X, I % prod(sizes), [*map(int, X.shape[:2]), *sizes], list(kernel_shape), around, steps)


def ConvTranspose(X: Tensor, W: Tensor, B: Tensor | None = None, *, auto_pad: str = "NOTSET", **options: Any) -> Tensor:
  """ONNX's ConvTranspose. tinygrad's takes VALID and strides longer than the kernel for something else."""
  transposed: Any = onnx_ops["ConvTranspose"]
  if auto_pad == "NOTSET" or "output_shape" in options:
    return transposed(X, W, B, auto_pad=auto_pad, **options)
  ndim = X.ndim - 2
  around, steps, spread = [0] * 2 * ndim, options.get("strides", [1] * ndim), options.get("dilations", [1] * ndim)
  if auto_pad != "VALID":
    for d, kernel in enumerate(map(int, W.shape[2:])):
      total = max(0, spread[d] * (kernel - 1) + 1 - steps[d] + options.get("output_padding", [0] * ndim)[d])
      around[d], around[d + ndim] = (total // 2, total - total // 2) if auto_pad == "SAME_UPPER" else (total - total // 2, total // 2)
  return transposed(X, W, B, **{**options, "pads": around})


def LpPool(X: Tensor, *, kernel_shape: Sequence[int], p: int = 2, auto_pad: str = "NOTSET", ceil_mode: int = 0,
           dilations: Sequence[int] | None = None, pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Tensor:
  """ONNX's LpPool: the p-norm of each window. X: (batch, channels, *sizes)."""
  ndim = len(kernel_shape)
  steps, spread = list(strides or [1] * ndim), list(dilations or [1] * ndim)
  sizes, spans = [int(s) for s in X.shape[2:]], [d * (k - 1) + 1 for k, d in zip(kernel_shape, spread, strict=True)]
  if auto_pad.startswith("SAME"):
    total = [max(0, (-(-size // step) - 1) * step + span - size) for size, step, span in zip(sizes, steps, spans, strict=True)]
    around = [(t // 2, t - t // 2) if auto_pad == "SAME_UPPER" else (t - t // 2, t // 2) for t in total]
  else:
    given = list(pads or [0] * 2 * ndim) if auto_pad == "NOTSET" else [0] * 2 * ndim
    around = list(zip(given[:ndim], given[ndim:], strict=True))
  if ceil_mode:  # a window more, unless it would begin behind the picture
    for d, (before, after) in enumerate(around):
      room = sizes[d] + before + after - spans[d]
      more = -room % steps[d] if (-(-room // steps[d])) * steps[d] < sizes[d] + before else 0
      around[d] = before, after + more
  padded = _powers(X, p).reshape(-1, 1, *sizes).pad(((0, 0), (0, 0), *around))
  sums = padded.conv2d(Tensor.ones(1, 1, *kernel_shape, dtype=X.dtype), stride=tuple(steps), dilation=tuple(spread))
  return _root(sums, p).reshape(*X.shape[:2], *sums.shape[2:])


def GlobalLpPool(X: Tensor, *, p: int = 2) -> Tensor:
  """ONNX's GlobalLpPool: the p-norm of each channel."""
  return _root(_powers(X, p).sum(tuple(range(2, X.ndim)), keepdim=True), p)


def _powers(x: Tensor, p: int) -> Tensor:
  return x.abs() if p == 1 else x * x if p == 2 else x.abs().pow(p)


def _root(sums: Tensor, p: int) -> Tensor:
  return sums if p == 1 else sums.sqrt() if p == 2 else sums.pow(1 / p)


def Col2Im(input: Tensor, image_shape: Tensor, block_shape: Tensor, *, dilations: Sequence[int] | None = None,
           pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Tensor:
  """ONNX's Col2Im: windows (batch, channels * window, windows) added up to pictures (batch, channels, *image_shape). It is a transposed
  convolution in which each element of a window has a channel of its own."""
  sizes, kernel = image_shape.numpy().tolist(), block_shape.numpy().tolist()
  ndim, each = len(sizes), prod(kernel)
  steps, spread, around = list(strides or [1] * ndim), list(dilations or [1] * ndim), list(pads or [0] * 2 * ndim)
  spans = [d * (k - 1) + 1 for k, d in zip(kernel, spread, strict=True)]
  places = [(size + around[d] + around[d + ndim] - spans[d]) // steps[d] + 1 for d, size in enumerate(sizes)]
  batch, channels = int(input.shape[0]), int(input.shape[1]) // each
  if prod(places) != input.shape[2] or channels * each != input.shape[1]:
    raise ValueError(f"columns of shape {list(input.shape)} for images of {sizes} and blocks of {kernel}")
  weight = Tensor.eye(each, dtype=input.dtype).reshape(each, 1, *kernel)
  whole = input.reshape(batch * channels, each, *places).conv_transpose2d(weight, stride=tuple(steps), dilation=tuple(spread))
  short = [max(0, around[d] + size - int(whole.shape[2 + d])) for d, size in enumerate(sizes)]  # where no window reaches
  whole = whole.pad(((0, 0), (0, 0), *((0, s) for s in short)))
  inside = whole[(slice(None), slice(None), *(slice(around[d], around[d] + size) for d, size in enumerate(sizes)))]
  return inside.reshape(batch, channels, *sizes)
