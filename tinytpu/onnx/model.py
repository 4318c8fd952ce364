"""A model as it is in its file: read, checked, and what it takes and gives."""
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from .errors import OnnxError

DTYPES = {getattr(TensorProto, name): name.lower() for name in (
  "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "BOOL", "FLOAT16", "DOUBLE", "UINT32", "UINT64", "BFLOAT16")}
"""Element types that can be run, by ONNX's number; names as ONNX has them in lower case."""
NUMPY = {"float": "float32", "double": "float64"}
"""numpy's names of element types where they are not ONNX's."""
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")
"""Operator sets that are run. tinygrad's front end knows those for training too, and gets them wrong."""


@dataclass(frozen=True)
class Value:
  """An input or output. dtype: numpy's name; shape: sizes, or names of free dimensions (NAME:AXIS for those without a name, or called "?");
  None: not declared."""
  name: str
  dtype: str
  shape: tuple[int | str, ...] | None

  def __str__(self) -> str:
    return f"{self.dtype}[{', '.join(map(str, self.shape))}]" if self.shape is not None else self.dtype


@dataclass
class Model:
  """A checked model.

  Attributes:
    path: where it was read from. proto: all of it, external data included. inputs: those that have no initialiser, in order.
    outputs: in order.
  """
  path: Path
  proto: ModelProto
  inputs: list[Value]
  outputs: list[Value]

  @property
  def nodes(self) -> list[NodeProto]:
    """The operators of the outermost graph, in order."""
    return list(self.proto.graph.node)

  @property
  def weight_bytes(self) -> int:
    """Bytes of all constant tensors, those of subgraphs included."""
    return sum(tensor_bytes(tensor) for tensor in tensors(self.proto.graph))


def load(path: str | Path) -> Model:
  """Read and check a model.

  Raises:
    OnnxError: no ONNX file, damaged, of an unknown operator set or operator, with external data missing, or with element types that
      cannot be run. OSError: the file cannot be read.
  """
  path = Path(path)
  proto = _parse(path.read_bytes(), path)
  _check_names(proto, path)
  _check_sets(proto, path)
  _check_external(proto, path)
  try:
    onnx.load_external_data_for_model(proto, str(path.parent))
  except (ValueError, OSError, onnx.checker.ValidationError) as error:
    raise OnnxError(f"{path}: its external data cannot be read: {first_line(error)}") from error
  if proto.functions:
    from onnx.inliner import inline_local_functions
    proto = inline_local_functions(proto)
  _check_types(proto, path)
  _check_operators(proto, path)
  _name_outputs(proto)
  checked = ModelProto()
  checked.CopyFrom(proto)
  for value in [*checked.graph.input, *checked.graph.output]:
    value.type.tensor_type.shape.SetInParent()  # the checker wants a shape, which nobody else needs
  try:
    onnx.checker.check_model(checked)
  except onnx.checker.ValidationError as error:
    raise OnnxError(f"{path} is no valid ONNX model: {first_line(error)}") from error
  except ValueError as error:  # beyond the 2 GB that a message may have
    raise OnnxError(f"{path} cannot be checked: {first_line(error)}") from error
  given = {tensor.name for tensor in proto.graph.initializer}
  return Model(path, proto, [_value(v) for v in proto.graph.input if v.name not in given], [_value(v) for v in proto.graph.output])


def first_line(error: BaseException) -> str:
  """What an error says, on one line and without the noise that libraries put around it."""
  lines = [line.strip() for line in str(error).splitlines() if line.strip()]
  text = lines[0] if lines else type(error).__name__
  return text.removeprefix("[ONNXRuntimeError] : ").rstrip(".")[:400]


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
  """A graph and all graphs within it."""
  yield graph
  for node in graph.node:
    for attribute in node.attribute:
      for inner in [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs:
        yield from graphs(inner)


def tensors(graph: GraphProto) -> Iterator[TensorProto]:
  """All constant tensors: initialisers and attributes, of subgraphs too."""
  for inner in graphs(graph):
    yield from inner.initializer
    for node in inner.node:
      for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
          yield attribute.t
        yield from attribute.tensors


def tensor_bytes(tensor: TensorProto) -> int:
  """Bytes of a tensor's elements."""
  import numpy as np
  size = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)).itemsize if tensor.data_type in DTYPES else 1
  return math.prod(tensor.dims) * size


def label(node: NodeProto, number: int) -> str:
  """How a message names an operator: its type, name or first output, and number from 0."""
  name = node.name or next((o for o in node.output if o), "")
  return f"{node.op_type} (operator {number}, {name!r})"


def _parse(data: bytes, path: Path) -> ModelProto:
  if not data:
    raise OnnxError(f"{path} is empty")
  try:
    proto = onnx.load_model_from_string(data)
  except DecodeError:
    raise OnnxError(f"{path} is no ONNX model, or is cut short or damaged: its bytes are no message of ONNX") from None
  if not proto.ir_version or not proto.HasField("graph"):
    raise OnnxError(f"{path} is no ONNX model: it has no {'graph' if proto.ir_version else 'format version'}")
  return proto


def _check_names(proto: ModelProto, path: Path) -> None:
  """Names that are no UTF-8 come as bytes, and would fail anywhere later."""
  names: list[object] = [entry.domain for entry in proto.opset_import]
  for graph in graphs(proto.graph):
    names += [graph.name, *(value.name for value in [*graph.input, *graph.output, *graph.initializer])]
    names += [dim.dim_param for value in [*graph.input, *graph.output, *graph.value_info] for dim in value.type.tensor_type.shape.dim]
    for node in graph.node:
      names += [node.op_type, node.name, node.domain, *node.input, *node.output, *(attribute.name for attribute in node.attribute)]
  if wrong := next((name for name in names if not isinstance(name, str)), None):
    raise OnnxError(f"{path} is damaged: the name {wrong!r} is no UTF-8")


def _check_sets(proto: ModelProto, path: Path) -> None:
  known = onnx.defs.onnx_opset_version()
  own = {function.domain for function in proto.functions}
  for entry in proto.opset_import:
    if entry.domain in ("", "ai.onnx") and not 1 <= entry.version <= known:
      raise OnnxError(f"{path} uses version {entry.version} of ONNX's operators; versions 1 to {known} are known")
  used = {node.domain for graph in graphs(proto.graph) for node in graph.node} - own
  if unknown := sorted(used - set(DOMAINS)):
    raise OnnxError(f"{path} uses operators of the set {unknown[0]!r}, which cannot be run")


def _check_external(proto: ModelProto, path: Path) -> None:
  for tensor in tensors(proto.graph):
    if tensor.data_location != TensorProto.EXTERNAL:
      continue
    entries = {entry.key: entry.value for entry in tensor.external_data}
    file = path.parent / entries.get("location", "")
    if not file.is_file():
      raise OnnxError(f"{path}: the data of {tensor.name!r} should be in {file}, which does not exist")
    try:
      start, size = int(entries.get("offset", 0)), int(entries.get("length", tensor_bytes(tensor)))
    except ValueError:
      raise OnnxError(f"{path}: where the data of {tensor.name!r} lies in {file} is no number") from None
    if start + size > file.stat().st_size or size < tensor_bytes(tensor):
      raise OnnxError(f"{path}: {file} is too short for the data of {tensor.name!r}")


def _check_types(proto: ModelProto, path: Path) -> None:
  for graph in graphs(proto.graph):
    sparse = [tensor.values for tensor in graph.sparse_initializer]
    sparse += [attribute.sparse_tensor.values for node in graph.node for attribute in node.attribute if attribute.HasField("sparse_tensor")]
    if sparse:
      raise OnnxError(f"{path}: constant {sparse[0].name!r} is sparse, which cannot be run: store it with all its elements")
  for tensor in tensors(proto.graph):
    if tensor.data_type not in DTYPES:
      raise OnnxError(f"{path}: constant {tensor.name!r} is of type {_name(tensor.data_type)}, which cannot be run")
  for value in [*proto.graph.input, *proto.graph.output]:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
      raise OnnxError(f"{path}: {value.name!r} is no tensor but a {(kind or 'value without a type').removesuffix('_type')}")
    if value.type.tensor_type.elem_type not in DTYPES:
      raise OnnxError(f"{path}: {value.name!r} is of type {_name(value.type.tensor_type.elem_type)}, which cannot be run")
    if value.type.tensor_type.elem_type == TensorProto.BFLOAT16:
      raise OnnxError(f"{path}: {value.name!r} is of type bfloat16, which numpy lacks: let the model convert from and to float32")


def _check_operators(proto: ModelProto, path: Path) -> None:
  from .operators import missing
  if names := missing(proto):
    raise OnnxError(f"{path} uses {'operators' if len(names) > 1 else 'an operator'} that the front end does not have: {', '.join(names)}")


def _name_outputs(proto: ModelProto) -> None:
  """Name the outputs that are left out of operators with any number of them: onnxruntime crashes on those."""
  nodes = [node for graph in graphs(proto.graph) for node in graph.node]
  taken = {name for node in nodes for name in [*node.input, *node.output]}
  fresh = (name for n in count() if (name := f"left_out_{n}") not in taken)
  for node in nodes:
    if node.op_type in ("If", "Loop", "Scan", "Split"):
      node.output[:] = [name or next(fresh) for name in node.output]


def _name(data_type: int) -> str:
  return TensorProto.DataType.Name(data_type).lower() if data_type in TensorProto.DataType.values() else str(data_type)


def _value(value: onnx.ValueInfoProto) -> Value:
  tensor = value.type.tensor_type
  dtype = DTYPES[tensor.elem_type]
  shape: tuple[int | str, ...] | None = None
  if tensor.HasField("shape"):
    shape = tuple(d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param.strip("?") or f"{value.name}:{axis}"
                  for axis, d in enumerate(tensor.shape.dim))
  return Value(value.name, NUMPY.get(dtype, dtype), shape)
