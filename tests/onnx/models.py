"""Small models, made of onnx's helpers."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
INT64 = TensorProto.INT64


def value(name: str, shape: Sequence[int | str] | None, dtype: int = FLOAT) -> ValueInfoProto:
  return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes: Sequence[NodeProto], inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto],
          weights: dict[str, np.ndarray] | None = None, version: int = 17, **fields: Any) -> ModelProto:
  tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
  graph = helper.make_graph(nodes, "graph", inputs, outputs, tensors)
  return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8, **fields)


def one(op: str, arrays: Sequence[np.ndarray | None], outputs: int = 1, version: int = 17, constants: Sequence[int] = (),
        kept: Sequence[int] | None = None, types: dict[int, int] | None = None,
        **attributes: Any) -> tuple[ModelProto, dict[str, np.ndarray]]:
  """A model of one operator, and its inputs. arrays: what it takes, None for what is left out; those at places `constants` are
  initialisers. kept: outputs that are asked for (all); types: those that are not of float."""
  names = ["" if array is None else f"x{i}" for i, array in enumerate(arrays)]
  results = [f"y{i}" if kept is None or i in kept else "" for i in range(outputs)]
  given = {f"x{i}": array for i, array in enumerate(arrays) if array is not None and i not in constants}
  weights = {f"x{i}": array for i, array in enumerate(arrays) if array is not None and i in constants}
  infos = [value(name, array.shape, helper.np_dtype_to_tensor_dtype(array.dtype)) for name, array in given.items()]
  node = helper.make_node(op, names, results, name="node", **attributes)
  wanted = [value(name, None, (types or {}).get(i, FLOAT)) for i, name in enumerate(results) if name]
  return model([node], infos, wanted, weights, version), given


def mlp(batch: int | str = 2) -> ModelProto:
  """x[batch, 8] to y[batch, 3], two layers."""
  rng = np.random.default_rng(1)
  weights = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in {"w1": (8, 6), "b1": (6,), "w2": (6, 3)}.items()}
  nodes = [helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], name="first"), helper.make_node("Relu", ["h"], ["a"], name="act"),
           helper.make_node("MatMul", ["a", "w2"], ["y"], name="second")]
  return model(nodes, [value("x", [batch, 8])], [value("y", [batch, 3])], weights)
