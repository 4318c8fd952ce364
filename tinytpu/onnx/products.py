"""How many multiplications a model's products need, which tells how much of the matrix unit's work was useful."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from onnx import AttributeProto, ModelProto, NodeProto, shape_inference

from ..config import Config
from ..isa import timing

Shape = tuple[int, ...]
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def peak(config: Config) -> float:
  """Multiplications of float32 that the matrix unit can make in a cycle."""
  return config.sublanes * config.lanes * config.lanes / timing.interval(config, "MM")


def multiplications(proto: ModelProto) -> int | None:
  """Those of all matrix products, convolutions and recurrent operators of a model whose inputs have fixed shapes. None: it has operators
  of which they are not known (subgraphs, attention, Einsum, custom ones), or a shape that cannot be inferred."""
  shapes = _shapes(proto)
  total = 0
  for node in proto.graph.node:
    if node.op_type in _UNKNOWN or node.domain not in ("", "ai.onnx") or any(a.type == AttributeProto.GRAPH for a in node.attribute):
      return None
    if (count := _COUNTS.get(node.op_type)) is None:
      continue
    recurrent = node.op_type in _GATES  # their first output may be left out, and is not needed
    needed = [shapes.get(name) for name in (node.input[:3] if recurrent else [*node.input[:2], node.output[0]])]
    known = [shape for shape in needed if shape is not None]
    if len(known) < len(needed):
      return None
    total += count(node, known)
  return total


def _shapes(proto: ModelProto) -> Mapping[str, Shape]:
  """Fixed shapes by name, as far as they can be inferred."""
  inferred = shape_inference.infer_shapes(proto, data_prop=True).graph
  found: dict[str, Shape] = {tensor.name: tuple(tensor.dims) for tensor in inferred.initializer}
  for value in [*inferred.input, *inferred.output, *inferred.value_info]:
    tensor = value.type.tensor_type
    if tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim):
      found[value.name] = tuple(dim.dim_value for dim in tensor.shape.dim)
  return found


def _size(shape: Sequence[int]) -> int:
  total = 1
  for size in shape:
    total *= size
  return total


def _matmul(node: NodeProto, shapes: list[Shape]) -> int:
  return _size(shapes[-1]) * shapes[0][-1]


def _gemm(node: NodeProto, shapes: list[Shape]) -> int:
  transposed = any(a.name == "transA" and a.i for a in node.attribute)
  return _size(shapes[-1]) * shapes[0][0 if transposed else 1]


def _conv(node: NodeProto, shapes: list[Shape]) -> int:
  return _size(shapes[-1]) * _size(shapes[1][1:])  # a weight is (outputs, inputs of a group, kernel)


def _conv_transpose(node: NodeProto, shapes: list[Shape]) -> int:
  return _size(shapes[0]) * _size(shapes[1][1:])  # (inputs, outputs of a group, kernel)


def _recurrent(node: NodeProto, shapes: list[Shape]) -> int:
  x, w, r = shapes[:3]
  return x[0] * x[1] * w[0] * _GATES[node.op_type] * r[2] * (w[2] + r[2])


_COUNTS: dict[str, Callable[[NodeProto, list[Shape]], int]] = {
  "MatMul": _matmul, "MatMulInteger": _matmul, "Gemm": _gemm, "Conv": _conv, "ConvInteger": _conv, "ConvTranspose": _conv_transpose,
  **dict.fromkeys(_GATES, _recurrent)}
_UNKNOWN = ("Attention", "Einsum", "QLinearConv", "QLinearMatMul")
