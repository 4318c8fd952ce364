"""A model without conditions: each If replaced by the branch that it takes on given inputs, so that what is within can be looked at."""
from __future__ import annotations

from collections.abc import Mapping
from itertools import count

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, helper

from . import reference
from .model import Model, graphs

Conditions = Mapping[str, np.ndarray]


def flattened(model: Model, inputs: Mapping[str, np.ndarray]) -> Model:
  """The model with each If of the outermost graph replaced by the operators of the branch that onnxruntime takes on `inputs`, until none is
  left. Those within loops stay: another branch may be taken in each pass.

  Raises:
    OnnxError: onnxruntime cannot run it.
  """
  proto = ModelProto()
  proto.CopyFrom(model.proto)
  while conditions := [node.input[0] for node in proto.graph.node if node.op_type == "If"]:
    values = reference.outputs(_with_outputs(proto, conditions), inputs)
    _replace(proto.graph, values)
  return Model(model.path, proto, model.inputs, model.outputs)


def _with_outputs(proto: ModelProto, names: list[str]) -> ModelProto:
  """A copy that gives bools of these names, and nothing else."""
  asked = ModelProto()
  asked.CopyFrom(proto)
  del asked.graph.output[:]
  asked.graph.output.extend(helper.make_tensor_value_info(name, 9, None) for name in dict.fromkeys(names))
  for output in asked.graph.output:  # a graph's output may not be its input or constant
    fresh = _condition(output.name)
    asked.graph.node.append(helper.make_node("Identity", [output.name], [fresh]))
    output.name = fresh
  return asked


def _condition(name: str) -> str:
  return f"{name} (condition)"  # no exporter makes such names


def _replace(graph: GraphProto, values: Conditions) -> None:
  nodes = list(graph.node)
  taken = {value.name for value in [*graph.input, *graph.initializer]} | {name for node in nodes for name in node.output}
  rest = GraphProto()
  rest.node.extend(node for node in nodes if node.op_type != "If")
  taken |= {name for inner in graphs(rest) for node in inner.node for name in node.output}
  del graph.node[:]
  for node in nodes:
    if node.op_type != "If":
      graph.node.append(node)
      continue
    key = "then_branch" if values[_condition(node.input[0])].reshape(()) else "else_branch"
    branch = GraphProto()
    branch.CopyFrom(next(attribute.g for attribute in node.attribute if attribute.name == key))
    own = [tensor.name for tensor in branch.initializer] + [name for inner in branch.node for name in inner.output if name]
    names = {}
    for name in own:  # branches of different conditions may use a name twice
      names[name] = next(new for n in count() if (new := name if not n else f"{name}_{n}") not in taken)
      taken.add(names[name])
    _rename(branch, names)
    graph.initializer.extend(branch.initializer)
    graph.node.extend(branch.node)
    graph.node.extend(_passed_on(inner.name, outer) for inner, outer in zip(branch.output, node.output, strict=True) if outer)


def _passed_on(inner: str, outer: str) -> NodeProto:
  return helper.make_node("Identity", [inner], [outer], name=f"{outer} of a condition")


def _rename(graph: GraphProto, names: Mapping[str, str]) -> None:
  """Give values their new names, also where graphs within use them. (Names within do not hide those around them.)"""
  for inner in graphs(graph):
    for node in inner.node:
      for names_of in (node.input, node.output):
        for i, name in enumerate(names_of):
          names_of[i] = names.get(name, name)
      assert all(attribute.type != AttributeProto.GRAPHS for attribute in node.attribute), "no operator has a list of graphs"
    for value in [*inner.initializer, *inner.output]:
      value.name = names.get(value.name, value.name)
