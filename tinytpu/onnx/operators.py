"""The operators that the front end is run with: tinygrad's, and our own for those that it lacks or gets wrong."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np
from onnx import ModelProto
from tinygrad import Tensor, dtypes
from tinygrad.helpers import prod
from tinygrad.nn.onnx import Domain, OpSetId, onnx_ops

from .control import If, Loop, Scan
from .detection import NonMaxSuppression
from .model import graphs
from .quantize import DynamicQuantizeLinear, QLinearConv, QuantizeLinear
from .recurrent import GRU, LSTM, RNN
from .resize import Resize, Resize_10, Upsample
from .sampling import DeformConv, GridSample, RoiAlign
from .signals import DFT, DFT_17, STFT, MelWeightMatrix
from .windows import Col2Im, ConvTranspose, GlobalLpPool, LpPool, MaxPool, MaxUnpool

_FEW = 8
"""Constant indices up to which Gather takes slices and joins them; more are looked up."""


def Gather(x: Tensor, indices: Tensor | list | int, axis: int = 0) -> Tensor:
  """ONNX's Gather. tinygrad's takes constant indices of one dimension only."""
  axis = x._resolve_dim(axis)
  if isinstance(indices, Tensor):
    return x[(slice(None),) * axis + (indices,)]
  array = np.array(indices, np.int64)
  size = int(x.shape[axis])
  if ((array < -size) | (array >= size)).any():
    raise IndexError(f"index {array[(array < -size) | (array >= size)][0]} into an axis of size {size}")
  shape = x.shape[:axis] + array.shape + x.shape[axis + 1:]
  if array.size > _FEW:
    return x[(slice(None),) * axis + (Tensor((array % size).astype(np.int32)),)]
  bounds = [tuple((0, s) if a != axis else (i, i + 1) for a, s in enumerate(x.shape)) for i in (array.reshape(-1) % max(size, 1)).tolist()]
  if not bounds:
    return x.shrink(tuple((0, s) if a != axis else (0, 0) for a, s in enumerate(x.shape))).reshape(shape)
  first, *others = (x.shrink(b) for b in bounds)
  return first.cat(*others, dim=axis).reshape(shape)


def Squeeze(data: Tensor, axes: Sequence[int] | int | None = None) -> Tensor:
  """ONNX's Squeeze; tinygrad's gets several negative axes wrong."""
  axes = [axes] if isinstance(axes, int) else axes
  gone = [a for a, s in enumerate(data.shape) if s == 1] if axes is None else sorted({data._resolve_dim(a) for a in axes})
  if any(data.shape[a] != 1 for a in gone):
    raise ValueError(f"axes {gone} of shape {list(data.shape)} are not all of size 1")
  return data.reshape(tuple(s for a, s in enumerate(data.shape) if a not in gone))


def Unsqueeze(data: Tensor, axes: Sequence[int] | int) -> Tensor:
  """ONNX's Unsqueeze; tinygrad's gets several negative axes wrong."""
  axes = [axes] if isinstance(axes, int) else axes
  ndim = data.ndim + len(axes)
  new = {a + ndim if a < 0 else a for a in axes}
  if len(new) != len(axes) or not all(0 <= a < ndim for a in new):
    raise ValueError(f"axes {list(axes)} of {ndim} dimensions")
  sizes = iter(data.shape)
  return data.reshape(tuple(1 if a in new else next(sizes) for a in range(ndim)))


def Slice(data: Tensor, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None = None,
          steps: Sequence[int] | None = None) -> Tensor:
  """ONNX's Slice; tinygrad's wants a start for every axis where none are named."""
  bounds = [slice(None)] * data.ndim
  named = range(len(starts)) if axes is None else axes
  for axis, start, end, step in zip(named, starts, ends, steps or [1] * len(starts), strict=True):
    bounds[axis] = slice(start, end, step)
  return data[tuple(bounds)]


def Split(data: Tensor, split: Sequence[int] | None = None, *, num_outputs: int = 0, axis: int = 0) -> tuple[Tensor, ...]:
  """ONNX's Split; of parts that are not equal, tinygrad makes several shorter, and not only the last."""
  size = int(data.shape[axis])
  each = -(-size // max(num_outputs, 1))
  return data.split(list(split) if split is not None else [max(0, min(each, size - i * each)) for i in range(num_outputs)], axis)


def Range(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
  """ONNX's Range, of its inputs' dtype; tinygrad's integers are int32."""
  first, end, step = (value.reshape(()).item() for value in (start, limit, delta))
  return Tensor.arange(first, end, step, dtype=start.dtype)


def Pow(x: Tensor, y: Tensor) -> Tensor:
  """ONNX's Pow, of the dtype of `x`. Powers of integers are products, square roots exact; tinygrad's are of float32, and rounded where
  they should be cut. Other broken exponents are of float32: where a power is nearly whole, or above 2^24, it may differ."""
  if not dtypes.is_int(x.dtype):
    return x.pow(y)
  whole = y.cast(dtypes.int64) if dtypes.is_float(y.dtype) else y
  result, square = x.const_like(1), x
  for bit in range(6):  # 63 is the most that a number other than 0, 1 and -1 can be raised to
    result = ((whole >> bit) % 2 != 0).where(result * square, result)
    square = square * square
  odd = (whole % 2 != 0).where(x, 1)
  result = (whole < 0).where((x.abs() == 1).where(odd, 0), result).cast(x.dtype)
  if not dtypes.is_float(y.dtype):
    return result
  broken = x.float().pow(y.float())
  near = broken.round()  # a root that comes out even must not be cut because it is a rounding error short
  broken = ((broken - near).abs() < 1e-6 * near.abs()).where(near, broken.trunc())
  # Newton's step makes the root in float32 one of integers or one more: of int64, too, which has more digits than float32.
  root = x.float().sqrt().round().cast(x.dtype).maximum(1)
  root = (root + x // root) // 2
  root = root - (root > x // root.maximum(1)).cast(x.dtype)
  return (whole == y).where(result, ((y == 0.5) & (x > 0)).where(root, broken.cast(x.dtype)))


def LpNormalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
  """ONNX's LpNormalization; where all are 0 the result is, and tinygrad's is NaN."""
  norm = x.abs().sum(axis, keepdim=True) if p == 1 else x.square().sum(axis, keepdim=True).sqrt()
  return x / (norm == 0).where(1, norm)


def BatchNormalization(X: Tensor, *inputs: Tensor, training_mode: int = 0, **options: Any) -> Any:
  """ONNX's BatchNormalization. In training tinygrad's wants four dimensions: all behind the second become one, and a last one of size 1."""
  function: Any = onnx_ops["BatchNormalization"]
  if not training_mode:
    return function(X, *inputs, **options)
  y, *running = function(X.reshape(*X.shape[:2], -1, 1), *inputs, training_mode=1, **options)
  return (y.reshape(X.shape), *running)


def ReduceMean(data: Tensor, *inputs: Any, **options: Any) -> Tensor:
  """ONNX's ReduceMean; tinygrad's mean of integers is a float."""
  mean: Any = onnx_ops["ReduceMean"]
  if not dtypes.is_int(data.dtype):
    return mean(data, *inputs, **options)
  total: Any = onnx_ops["ReduceSum"]
  sums = total(data, *inputs, **options).cast(data.dtype)
  return sums.div(data.numel() // max(int(sums.numel()), 1), rounding_mode="trunc").cast(data.dtype)


def CenterCropPad(input_data: Tensor, shape: Sequence[int], *, axes: Sequence[int] | None = None) -> Tensor:
  """ONNX's CenterCropPad; tinygrad's cuts odd sizes off one element too early."""
  sizes = dict(zip([input_data._resolve_dim(a) for a in axes] if axes else range(input_data.ndim), shape, strict=True))
  for axis, size in sizes.items():
    before = int(input_data.shape[axis])
    cut = max(0, before - size) // 2
    input_data = input_data[(slice(None),) * axis + (slice(cut, cut + min(size, before)),)]
    more = max(0, size - before)
    input_data = input_data.pad(tuple((more // 2, more - more // 2) if a == axis else (0, 0) for a in range(input_data.ndim)))
  return input_data


def MeanVarianceNormalization(X: Tensor, *, axes: Sequence[int] = (0, 2, 3)) -> Tensor:
  """ONNX's MeanVarianceNormalization; tinygrad's cannot be given axes."""
  centred = X - X.mean(tuple(axes), keepdim=True)
  return centred / ((centred * centred).mean(tuple(axes), keepdim=True).sqrt() + 1e-9)


def Attention(Q: Tensor, K: Tensor, V: Tensor, attn_mask: Tensor | None = None, *inputs: Any, q_num_heads: int | None = None,
              kv_num_heads: int | None = None, **options: Any) -> tuple[Tensor, ...]:
  """ONNX's Attention. Of several heads of queries for one of keys, those that follow each other belong together, as onnxruntime has it; for
  tinygrad's they are those with the same rest, so heads are put in that order and back."""
  heads, groups = (int(Q.shape[1]), int(K.shape[1])) if Q.ndim == 4 else (q_num_heads or 1, kv_num_heads or 1)
  axis, each = (1 if Q.ndim == 4 else 2), heads // groups

  def reordered(x: Tensor, axis: int, rows: int) -> Tensor:
    shape = (*x.shape[:axis], rows, heads // rows, int(x.shape[axis]) // heads, *x.shape[axis + 1:])
    return x.reshape(shape).transpose(axis, axis + 1).reshape(x.shape)
  if attn_mask is not None and attn_mask.ndim == 4 and attn_mask.shape[1] == heads:
    attn_mask = reordered(attn_mask, 1, groups)
  function: Any = _ATTENTION
  result, *present, products = function(reordered(Q, axis, groups), K, V, attn_mask, *inputs, q_num_heads=q_num_heads,
                                        kv_num_heads=kv_num_heads, **options)
  return (reordered(result, axis, each), *present, reordered(products, 1, each))


def Size(data: Tensor) -> Tensor:
  """ONNX's Size, as a tensor; tinygrad's is a number of Python."""
  return Tensor(data.numel(), dtype=dtypes.int64)


def BitShift(X: Tensor, Y: Tensor, *, direction: str) -> Tensor:
  """ONNX's BitShift of unsigned integers; by as many bits as there are, or more, it gives 0."""
  bits = X.dtype.itemsize * 8
  by = Y.clip(0, bits - 1)
  return (Y < bits).where(X.lshift(by) if direction == "LEFT" else X.rshift(by), 0)


def ReverseSequence(input: Tensor, sequence_lens: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
  """ONNX's ReverseSequence: of each sequence the first elements in opposite order, as many as it has."""
  step = Tensor.arange(int(input.shape[time_axis])).reshape([-1 if a == time_axis else 1 for a in range(input.ndim)])
  length = sequence_lens.reshape([-1 if a == batch_axis else 1 for a in range(input.ndim)])
  return input.gather(time_axis, (step < length).where(length - 1 - step, step).expand(*input.shape))


def _copied(name: str) -> FunctionType:
  """tinygrad's operator of that name on copies of its inputs, which it changes in place while others may need them."""
  def on_copies(*inputs: Any, **options: Any) -> Any:
    function: Any = onnx_ops[name]
    return function(*(value.clone() if isinstance(value, Tensor) else value for value in inputs), **options)
  return on_copies  # type: ignore[return-value]


def _alone(function: Any) -> FunctionType:
  """A product as kernels of its own: what it takes and gives goes through memory. Fused with what makes its operand
  or sums up its result, a product may be kept off the matrix unit, or be made anew for each sum (`make models` tells the cycles)."""
  def alone(x: Tensor, *inputs: Any, **options: Any) -> Tensor:
    return function(x.contiguous(), *inputs, **options).contiguous()
  return alone  # type: ignore[return-value]


def _flattened(function: Callable[[Tensor], Tensor]) -> FunctionType:
  """Softmax and the like before version 13: over all axes from `axis` on, as if they were one. tinygrad takes that one axis."""
  def over(x: Tensor, axis: int = 1) -> Tensor:
    axis = axis + x.ndim if axis < 0 else axis
    return function(x.reshape(prod(x.shape[:axis]), -1)).reshape(x.shape)
  return over  # type: ignore[return-value]


def _hardmax(x: Tensor) -> Tensor:
  return (Tensor.arange(int(x.shape[-1])) == x.argmax(-1, keepdim=True)).cast(x.dtype)


def _last(function: Callable[[Tensor, int], Tensor]) -> FunctionType:
  return lambda x, axis=-1: function(x, axis)  # type: ignore[return-value]


def _versions(old: Callable, new: Callable) -> dict[OpSetId, Callable]:
  return {OpSetId(Domain.ONNX, 1): old, OpSetId(Domain.ONNX, 13): new}


_ATTENTION = onnx_ops["Attention"][OpSetId(Domain.ONNX, 1)]  # type: ignore[index]

OURS: dict[str, Any] = {
  "LSTM": LSTM, "GRU": GRU, "RNN": RNN, "If": If, "Loop": Loop, "Scan": {OpSetId(Domain.ONNX, 9): Scan},
  "GridSample": GridSample, "RoiAlign": RoiAlign, "DeformConv": DeformConv, "NonMaxSuppression": NonMaxSuppression,
  "DFT": {OpSetId(Domain.ONNX, 17): DFT_17, OpSetId(Domain.ONNX, 20): DFT}, "STFT": STFT, "MelWeightMatrix": MelWeightMatrix,
  "LpPool": LpPool, "GlobalLpPool": GlobalLpPool, "Col2Im": Col2Im, "BitShift": BitShift, "ReverseSequence": ReverseSequence,
  "Gather": Gather, "Squeeze": Squeeze, "Unsqueeze": Unsqueeze, "Slice": Slice, "Size": Size,
  "Pow": Pow, "LpNormalization": LpNormalization, "BatchNormalization": BatchNormalization,
  "QuantizeLinear": QuantizeLinear, "DynamicQuantizeLinear": DynamicQuantizeLinear, "QLinearConv": QLinearConv,
  "Resize": {OpSetId(Domain.ONNX, 10): Resize_10, OpSetId(Domain.ONNX, 11): Resize},
  "Conv": _alone(onnx_ops["Conv"]), "ConvTranspose": _alone(ConvTranspose), "MatMul": _alone(onnx_ops["MatMul"]),
  "Gemm": _alone(onnx_ops["Gemm"]), "MaxPool": MaxPool, "MaxUnpool": MaxUnpool, "Split": Split, "CenterCropPad": CenterCropPad,
  "Attention": {**onnx_ops["Attention"], OpSetId(Domain.ONNX, 1): Attention},  # type: ignore[dict-item]
  "Range": Range, "ReduceMean": ReduceMean, "MeanVarianceNormalization": MeanVarianceNormalization, "Upsample": Upsample,
  "ScatterND": _copied("ScatterND"), "TensorScatter": _copied("TensorScatter"),
  "Softmax": _versions(_flattened(lambda x: x.softmax(-1)), _last(lambda x, axis: x.softmax(axis))),
  "LogSoftmax": _versions(_flattened(lambda x: x.log_softmax(-1)), _last(lambda x, axis: x.log_softmax(axis))),
  "Hardmax": _versions(_flattened(_hardmax), _last(lambda x, axis: _hardmax(x.transpose(axis, -1)).transpose(axis, -1))),
}
"""Our own operators, by ONNX's name: a function, or functions by operator set and the version from which on they hold."""


def table() -> dict[str, Any]:
  """All operators, by ONNX's name, in the form of tinygrad's own table."""
  return {**onnx_ops, **OURS}


def missing(proto: ModelProto) -> list[str]:
  """Operators that a model uses and the table lacks, each once, with how often it is used, subgraphs included."""
  operators = table()
  versions = {entry.domain if entry.domain != "ai.onnx" else "": entry.version for entry in proto.opset_import}
  found: dict[str, int] = {}
  for graph in graphs(proto.graph):
    for node in graph.node:
      domain = node.domain if node.domain != "ai.onnx" else ""
      if not _has(operators, node.op_type, domain, versions.get(domain, 1)):
        name = f"{domain}.{node.op_type}" if domain else node.op_type
        found[name] = found.get(name, 0) + 1
  return [f"{name} ({times} times)" if times > 1 else name for name, times in found.items()]


def _has(operators: dict[str, Any], name: str, domain: str, version: int) -> bool:
  entry = operators.get(name)
  if not isinstance(entry, dict):
    return entry is not None
  return any(known.domain == Domain.from_onnx(domain) and known.version <= version for known in entry)
