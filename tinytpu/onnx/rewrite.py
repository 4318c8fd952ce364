"""The model as tinygrad's front end is given it: a copy that means the same, without what the front end misreads."""
from __future__ import annotations

from collections.abc import Mapping
from itertools import count

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, numpy_helper

from .errors import OnnxError
from .model import DOMAINS, DTYPES, Model, graphs, label, tensors

_TYPE_ATTRIBUTES = ("to", "dtype", "output_datatype", "output_dtype", "stash_type")


def prepared(model: Model, inputs: Mapping[str, np.ndarray]) -> tuple[ModelProto, list[str]]:
  """A copy of the model for the front end, and notes of what a user should know.

  - float64 becomes float32 (the machine has no float64), with a note;
  - values of subgraphs have some type; the front end wants one, and does not look at it;
  - inputs have the shapes of the arrays in `inputs`; what is declared of inner values is left out;
  - constants hold their elements as plain bytes: of the forms that ONNX has for them the front end takes some only;
  - outputs that are left out get names: the front end keeps the value of "", which stands for an input that is left out;
  - operator sets that are named and not used are left out, of which it knows some only.
  """
  proto = ModelProto()
  proto.CopyFrom(model.proto)
  notes = []
  if _narrow(proto):
    notes.append("float64 is run as float32")
  _name_outputs(proto)
  for graph in graphs(proto.graph):
    del graph.value_info[:]
    for value in [*graph.input, *graph.output]:
      if not value.type.WhichOneof("value"):  # of a subgraph's values it may be left out, and the front end wants one
        value.type.tensor_type.elem_type = TensorProto.FLOAT
  sets = [entry for entry in proto.opset_import if entry.domain in DOMAINS]
  del proto.opset_import[:]
  proto.opset_import.extend(sets)
  for tensor in tensors(proto.graph):
    _plain(tensor)
  for value in proto.graph.input:
    if value.name in inputs:
      shape = value.type.tensor_type.shape
      shape.Clear()
      for size in inputs[value.name].shape:
        shape.dim.add().dim_value = size
  return proto, notes


def _narrow(proto: ModelProto) -> bool:
  """float64 to float32 everywhere; whether there was any."""
  double, single = int(TensorProto.DOUBLE), int(TensorProto.FLOAT)
  found = False
  for tensor in tensors(proto.graph):
    if tensor.data_type == double:
      found = True
      with np.errstate(over="ignore"):  # beyond float32: infinity, as a conversion on the machine gives
        narrow = numpy_helper.to_array(tensor).astype(np.float32)
      tensor.CopyFrom(numpy_helper.from_array(narrow, tensor.name))
  for graph in graphs(proto.graph):
    for value in [*graph.input, *graph.output]:
      if value.type.tensor_type.elem_type == double:
        found, value.type.tensor_type.elem_type = True, single
    for node in graph.node:
      for attribute in node.attribute:
        if attribute.name in _TYPE_ATTRIBUTES and attribute.type == AttributeProto.INT and attribute.i == double:
          found, attribute.i = True, single
  return found


def _name_outputs(proto: ModelProto) -> None:
  nodes = [node for graph in graphs(proto.graph) for node in graph.node]
  taken = {name for node in nodes for name in [*node.input, *node.output]}
  fresh = (name for n in count() if (name := f"unused_{n}") not in taken)
  for node in nodes:
    while node.output and not node.output[-1]:
      del node.output[-1]
    for i, name in enumerate(node.output):
      if not name:
        node.output[i] = next(fresh)


def _plain(tensor: TensorProto) -> None:
  if not tensor.HasField("raw_data"):
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))


def intermediates(model: Model) -> list[tuple[int, NodeProto, list[str]]]:
  """Operators of the outermost graph with their number and the names of what they give. Subgraphs count as part of their operator."""
  return [(number, node, [name for name in node.output if name]) for number, node in enumerate(model.nodes)]


def with_all_outputs(model: Model) -> ModelProto:
  """A copy whose outputs are every value of the outermost graph, for the reference.

  Raises:
    OnnxError: the types of inner values cannot be inferred.
  """
  from onnx import shape_inference
  proto = ModelProto()
  proto.CopyFrom(shape_inference.infer_shapes(model.proto))
  types = {value.name: value for value in proto.graph.value_info}
  present = {value.name for value in proto.graph.output}
  for number, node, names in intermediates(model):
    for name in names:
      if name in present:
        continue
      if name not in types:
        raise OnnxError(f"the type of what {label(node, number)} gives cannot be inferred")
      if types[name].type.tensor_type.elem_type in DTYPES:  # sequences and the like are no tensors: not compared
        proto.graph.output.add().CopyFrom(types[name])
  return proto
