"""Quantisation: numbers that lie half-way go to the even neighbour, as onnxruntime's do."""
from __future__ import annotations

from typing import Any

from tinygrad import Tensor, dtypes
from tinygrad.dtype import DType
from tinygrad.nn.onnx import OnnxDataType, onnx_ops


def QuantizeLinear(x: Tensor, y_scale: Tensor, y_zero_point: Tensor | None = None, *, axis: int = 1, block_size: int = 0,
                   output_dtype: int = 0, saturate: int = 1, precision: int = 0) -> Tensor:
  """ONNX's QuantizeLinear, per tensor, axis or block. To uint8 tinygrad's adds half and cuts off, which takes a half-way number up."""
  dtype = y_zero_point.dtype if y_zero_point is not None else OnnxDataType(output_dtype).to_dtype() if output_dtype else dtypes.uint8
  y_scale = y_scale.float().contiguous()  # a quotient itself, perhaps: tinygrad would divide by its parts, which rounds otherwise
  scale, zero = (spread(value.float(), x, axis, block_size) if value is not None else 0 for value in (y_scale, y_zero_point))
  return _quantised(x.float() / scale, zero, dtype)


def DynamicQuantizeLinear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
  """ONNX's DynamicQuantizeLinear: uint8, its scale and its zero. tinygrad's divides by the scale's own quotient, which rounds otherwise.
  The scale of nothing but zeros is 1."""
  low, high = x.min().minimum(0), x.max().maximum(0)
  scale = ((high - low) / 255).contiguous().realize()
  scale = (scale == 0).where(1, scale).contiguous().realize()
  zero = (-low / scale).round().clip(0, 255).contiguous().realize()
  return ((x / scale).round() + zero).clip(0, 255).cast(dtypes.uint8), scale, zero.cast(dtypes.uint8)


def QLinearConv(x: Tensor, x_scale: Tensor, x_zero_point: Tensor, w: Tensor, w_scale: Tensor, w_zero_point: Tensor, y_scale: Tensor,
                y_zero_point: Tensor, B: Tensor | None = None, **options: Any) -> Tensor:
  """ONNX's QLinearConv, of any number of dimensions; tinygrad's has two or more."""
  conv: Any = onnx_ops["Conv"]
  sums = conv(x.int() - x_zero_point, w.int() - spread(w_zero_point, w, 0), B, **options)
  return _quantised(sums * (x_scale * spread(w_scale, sums, 1)) / y_scale, y_zero_point, y_zero_point.dtype)


def spread(values: Tensor, x: Tensor, axis: int, block_size: int = 0) -> Tensor:
  """One value, one for each place on `axis`, or one for `block_size` of them, in a shape that goes with that of `x`."""
  if values.numel() == 1:
    return values.reshape(())
  axis = x._resolve_dim(axis)
  if block_size:
    return values.repeat_interleave(block_size, axis)[(slice(None),) * axis + (slice(x.shape[axis]),)]
  return values.reshape([-1 if a == axis else 1 for a in range(x.ndim)])


def _quantised(x: Tensor, zero: Tensor | float, dtype: DType) -> Tensor:
  return (x.round() + zero).clip(dtype.min, dtype.max).cast(dtype)
