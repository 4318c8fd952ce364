"""Our own operators, and the copy of the model that the front end is given, against onnxruntime and onnx's own cases."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.onnx.models import INT64, model, one, value
from tinytpu.onnx import OnnxError, RefusedError, load, run
from tinytpu.onnx.compare import compare
from tinytpu.onnx.execute import on_device, tensor
from tinytpu.onnx.operators import OURS
from tinytpu.onnx.rewrite import prepared
from tinytpu.onnx.runner import Runner

Agrees = Callable[..., None]
Saved = Callable[..., Path]


def x(*shape: int) -> np.ndarray:
  return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


def ints(*values: Any) -> np.ndarray:
  return np.array(values, np.int64)


# -- one operator -----------------------------------------------------------------------------------
BOOL = TensorProto.BOOL
CASES: dict[str, tuple] = {  # name: operator, arrays, and options of `one`
  "gather 2-D": ("Gather", [x(5, 3), ints([0, -1], [2, 2])], {"constants": (1,)}),
  "gather 2-D of many": ("Gather", [x(5, 3), ints(*np.arange(-5, 5).reshape(2, 5).tolist())], {"constants": (1,)}),
  "gather axis -1": ("Gather", [x(2, 5), ints([[0, 4], [-2, 1]])], {"constants": (1,), "axis": -1}),
  "gather scalar": ("Gather", [x(2, 5), np.array(-1)], {"constants": (1,), "axis": 1}),
  "gather none": ("Gather", [x(2, 5), np.zeros((2, 0), np.int64)], {"constants": (1,), "axis": 1}),
  "gather by input": ("Gather", [x(4, 5), ints([1, -1], [3, 0])], {"axis": 1}),
  "squeeze": ("Squeeze", [x(1, 3, 1, 1), ints(-1, -2)], {"constants": (1,)}),
  "squeeze 0 and -1": ("Squeeze", [x(1, 3, 1), ints(0, -1)], {"constants": (1,)}),
  "squeeze all": ("Squeeze", [x(1, 3, 1)], {}),
  "squeeze of version 11": ("Squeeze", [x(1, 3, 1)], {"version": 11, "axes": [-1, 0]}),
  "unsqueeze": ("Unsqueeze", [x(3, 2), ints(-1, -2)], {"constants": (1,)}),
  "unsqueeze 0 and -1": ("Unsqueeze", [x(3, 2), ints(-1, 0, 2)], {"constants": (1,)}),
  "unsqueeze of version 11": ("Unsqueeze", [x(3, 2)], {"version": 11, "axes": [1, -1]}),
  **{f"{op} of version {version}, axis {axis}": (op, [x(2, 3, 4)], {"version": version} | ({} if axis is None else {"axis": axis}))
     for op in ("Softmax", "LogSoftmax", "Hardmax")
     for version, axis in ((11, None), (11, 0), (11, 2), (11, -2), (13, None), (13, 1), (13, -2))},
  "size": ("Size", [x(3, 4)], {"types": {0: INT64}}),
  "resize with empty region": ("Resize", [x(1, 2, 4, 4), np.zeros(0, np.float32), np.float32([1, 1, 2, 2])],
                               {"constants": (1, 2), "version": 11, "mode": "nearest"}),
  "resize with empty scales": ("Resize", [x(1, 2, 4, 4), np.zeros(0, np.float32), np.zeros(0, np.float32), ints(1, 2, 8, 6)],
                               {"constants": (1, 2, 3), "version": 13, "mode": "linear"}),
  "resize of negative axes": ("Resize", [x(1, 2, 4, 4), None, np.float32([2, 3])], {"constants": (2,), "version": 18, "axes": [-2, -1]}),
  "scatter": ("ScatterND", [x(4, 3), ints([0], [2]), x(2, 3)], {"constants": (1,)}),
  "concat on axis -1": ("Concat", [x(2, 3), x(2, 1)], {"axis": -1}),
  "split on axis -1": ("Split", [x(2, 6), ints(1, 5)], {"constants": (1,), "axis": -1, "outputs": 2}),
  "flatten on axis -1": ("Flatten", [x(2, 3, 4)], {"axis": -1}),
  "argmax on axis -1": ("ArgMax", [x(3, 5)], {"axis": -1, "types": {0: INT64}}),
  "slice of axis -1": ("Slice", [x(3, 6), ints(1), ints(-1), ints(-1), ints(2)], {"constants": (1, 2, 3, 4)}),
  "slice without axes": ("Slice", [x(3, 6), ints(1), ints(2**40)], {"constants": (1, 2)}),
  "slice backwards": ("Slice", [x(3, 6), ints(-1), ints(-2**62), ints(1), ints(-2)], {"constants": (1, 2, 3, 4)}),
  "slice of version 9": ("Slice", [x(3, 6)], {"version": 9, "starts": [1], "ends": [-1], "axes": [-1]}),
  "dynamic quantisation": ("DynamicQuantizeLinear", [np.float32([0, 2, -3, -2.5, 1.34, 0.5])],
                           {"outputs": 3, "types": {0: TensorProto.UINT8, 2: TensorProto.UINT8}}),
  **{f"dynamic quantisation {shift}": ("DynamicQuantizeLinear", [x(500) + np.float32(shift)],
                                       {"outputs": 3, "types": {0: TensorProto.UINT8, 2: TensorProto.UINT8}}) for shift in (-5, 0, 0.5, 5)},
  "gather elements on axis -1": ("GatherElements", [x(2, 3), ints([0, -1], [2, 1])], {"axis": -1}),
  "one-hot on axis -1": ("OneHot", [ints(0, 2, -1), ints(3), np.float32([0.5, 2])], {"constants": (1,), "axis": -1}),
  "layer norm on axis -1": ("LayerNormalization", [x(2, 6), x(6), x(6)], {"axis": -1}),
  "top 2 on axis -1": ("TopK", [x(3, 5), ints(2)], {"constants": (1,), "axis": -1, "outputs": 2, "types": {1: INT64}}),
  **{f"shift of {dtype} {direction}": ("BitShift", [np.array([200, 1, 255, 7], dtype), np.array([1, 7, 3, 0], dtype)],
                                       {"direction": direction, "types": {0: helper.np_dtype_to_tensor_dtype(np.dtype(dtype))}})
     for dtype in ("uint8", "uint32", "uint64") for direction in ("LEFT", "RIGHT")},
  "split unevenly": ("Split", [x(7, 2)], {"outputs": 3, "version": 18, "num_outputs": 3}),
  "split unevenly on axis -1": ("Split", [x(2, 7)], {"outputs": 4, "version": 18, "num_outputs": 4, "axis": -1}),
  **{f"crop or pad to {size}": ("CenterCropPad", [x(5, 4), ints(*size)], {"constants": (1,), "version": 18})
     for size in ((3, 7), (2, 6), (8, 1), (5, 3))},
  "crop one axis": ("CenterCropPad", [x(5, 4), ints(1)], {"constants": (1,), "version": 18, "axes": [-1]}),
  **{f"range of {dtype}": ("Range", [np.array(v, dtype) for v in (5, -4, -3)],
                           {"constants": (0, 1, 2), "types": {0: helper.np_dtype_to_tensor_dtype(np.dtype(dtype))}})
     for dtype in ("int64", "int32", "float32")},
  "range by inputs": ("Range", [np.array(v) for v in (2, 2**33 + 1, 2**32)], {"types": {0: INT64}}),
  "mean of integers": ("ReduceMean", [np.int32([[1, -7, 4], [2, -4, 0]]), ints(0)],
                       {"constants": (1,), "version": 18, "types": {0: TensorProto.INT32}}),
  "mean of all integers": ("ReduceMean", [np.int64([[2**40, -7, 4]])], {"version": 18, "types": {0: INT64}}),
  "mean and variance": ("MeanVarianceNormalization", [x(2, 3, 4, 5)], {}),
  "mean and variance of some": ("MeanVarianceNormalization", [x(2, 3, 4)], {"axes": [0, -1]}),
  **{f"upsample {mode}": ("Upsample", [x(1, 2, 3, 4), np.float32([1, 1, 2, 3])], {"constants": (1,), "version": 9, "mode": mode})
     for mode in ("nearest", "linear")},
  "reverse sequences": ("ReverseSequence", [x(5, 3, 2), ints(5, 1, 3)], {}),
  "reverse sequences of rows": ("ReverseSequence", [x(3, 5, 2), ints(2, 5, 1)], {"batch_axis": 0, "time_axis": 1}),
  "cumulative sum on axis -1": ("CumSum", [x(2, 5), np.array(-1)], {"constants": (1,)}),
  **{f"{len(power)} powers of {dtype} to {power.dtype}": ("Pow", [np.array(numbers, dtype), power],
                                            {"types": {0: helper.np_dtype_to_tensor_dtype(np.dtype(dtype))}})
     for dtype, numbers, power in (
       ("int64", [7, 3, -3, 2, 2, -1], ints(11, 30, 21, 62, -1, -3)), ("int32", [7, -3, 1, 0], np.int32([11, 19, -3, 0])),
       ("int32", [9, 3, 27, 1000, -2, 2], np.float32([0.5, 0.5, 0.6666667, 3, 3, -1])),
       ("int32", [0, 1, 2, 999999, 1000000, 2147395599, 2147395600, 2**31 - 1], np.float32([0.5] * 8)),
       ("int64", [2**52 - 1, 2**52, 2**32 - 1, 10**12 - 1, 10**12], np.float32([0.5] * 5)))},
  **{f"quantisation of half-way numbers to {dtype}": (
       "QuantizeLinear", [np.float32([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1e6, -1e6]), np.float32(1), np.array(7, dtype)],
       {"types": {0: helper.np_dtype_to_tensor_dtype(np.dtype(dtype))}, "version": 21}) for dtype in ("uint8", "int8", "uint16", "int16")},
  "quantisation on axis -2": ("QuantizeLinear", [20 * x(2, 3, 4), np.float32([0.5, 0.1, 0.2]), np.uint8([1, 2, 3])],
                              {"axis": -2, "types": {0: TensorProto.UINT8}}),
  "quantisation in blocks": ("QuantizeLinear", [20 * x(5, 3), np.abs(x(3, 3)) + 1], {
    "axis": 0, "block_size": 2, "output_dtype": TensorProto.INT8, "types": {0: TensorProto.INT8}, "version": 21}),
  "quantised convolution of one dimension": ("QLinearConv", [
    np.arange(24, dtype=np.uint8).reshape(1, 2, 12), np.float32(0.1), np.uint8(9), np.arange(-9, 9, dtype=np.int8).reshape(3, 2, 3),
    np.float32([0.2, 0.3, 0.1]), np.int8([0, 0, 0]), np.float32(0.5), np.uint8(100), np.int32([5, -60, 7])],
    {"types": {0: TensorProto.UINT8}, "pads": [1, 0], "strides": [2]}),
  "dynamic quantisation of zeros": ("DynamicQuantizeLinear", [np.zeros(3, np.float32)],
                                    {"outputs": 3, "types": {0: TensorProto.UINT8, 2: TensorProto.UINT8}}),
  **{f"unit norm {p} of zeros": ("LpNormalization", [x(2, 3) * np.float32([[0], [1]])], {"p": p}) for p in (1, 2)},
  **{f"batch norm in training, {len(shape)} dimensions": ("BatchNormalization", [x(*shape), x(3), x(3), x(3), np.abs(x(3))],
                                                          {"outputs": 3, "training_mode": 1, "momentum": 0.7})
     for shape in ((4, 3), (2, 3, 4), (2, 3, 2, 2))},
}


@pytest.mark.parametrize("name", CASES)
def test_operator(agrees: Agrees, name: str) -> None:
  op, arrays, options = CASES[name]
  agrees(*one(op, arrays, **options))


def test_a_shift_by_all_bits_gives_nothing() -> None:
  from tinygrad import Tensor, dtypes
  numbers = Tensor([255, 255, 128], dtype=dtypes.uint8)
  for direction in ("LEFT", "RIGHT"):
    assert OURS["BitShift"](numbers, Tensor([8, 200, 9], dtype=dtypes.uint8), direction=direction).tolist() == [0, 0, 0]


def test_an_index_out_of_range_is_refused(saved: Saved) -> None:
  proto, inputs = one("Gather", [x(3, 2), ints(0, 3)], constants=(1,))
  with pytest.raises((OnnxError, RefusedError)):
    run(saved(proto), inputs)
  arrays = dict(inputs)
  with pytest.raises(RefusedError, match="index 3 into an axis of size 3"):
    Runner(prepared(load(saved(proto)), arrays)[0])(on_device(arrays))


def test_an_operator_does_not_change_its_input(saved: Saved) -> None:
  """ScatterND in tinygrad's front end writes into the tensor that it is given."""
  nodes = [helper.make_node("ScatterND", ["w", "i", "u"], ["y"]), helper.make_node("Neg", ["w"], ["z"]),
           helper.make_node("ScatterND", ["x", "i", "u"], ["a"]), helper.make_node("Neg", ["x"], ["b"])]
  proto = model(nodes, [value("x", [3, 2]), value("u", [1, 2])], [value(n, [3, 2]) for n in "yzab"], {"w": x(3, 2), "i": ints([1])})
  assert run(saved(proto)).within


@pytest.mark.parametrize("op, place", [("LSTM", 1), ("LayerNormalization", 0)])
def test_an_output_that_is_left_out_is_no_input(agrees: Agrees, op: str, place: int) -> None:
  """In tinygrad's front end its value would stand for every input that is left out after it."""
  if op == "LSTM":
    nodes = [helper.make_node("LSTM", ["x", "w", "r"], ["", "h"], hidden_size=2), helper.make_node("Clip", ["h", "", "top"], ["y"])]
    proto = model(nodes, [value("x", [3, 1, 2])], [value("y", [1, 1, 2])], {"w": x(1, 8, 2), "r": x(1, 8, 2), "top": np.float32(0.05)})
  else:
    nodes = [helper.make_node(op, ["x", "s"], ["n", "", "d"]), helper.make_node("Clip", ["n", "", "top"], ["y"])]
    proto = model(nodes, [value("x", [3, 4])], [value("y", [3, 4]), value("d", [3, 1])], {"s": x(4), "top": np.float32(0.05)})
  agrees(proto)


def test_outputs_that_are_left_out_of_many(agrees: Agrees) -> None:
  """onnxruntime crashes on them."""
  agrees(model([helper.make_node("Split", ["x"], ["a", ""], num_outputs=2)], [value("x", [4])], [value("a", [2])], version=18))
  nodes = [helper.make_node("Identity", ["go"], ["again"]), helper.make_node("Add", ["a", "a"], ["twice"]),
           helper.make_node("Neg", ["b"], ["minus"])]
  body = helper.make_graph(nodes, "body", [value("i", [], INT64), value("go", [], BOOL), value("a", [2]), value("b", [2])],
                           [value("again", [], BOOL), value("twice", [2]), value("minus", [2])])
  loop = helper.make_node("Loop", ["n", "", "x", "x"], ["", "y"], body=body)
  agrees(model([loop], [value("x", [2])], [value("y", [2])], {"n": np.array(3)}))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint8", "bool", "int64", "double", "uint32", "uint64", "int8", "float"])
def test_constants_in_every_form(saved: Saved, dtype: str) -> None:
  """Elements as bytes, or in the field that their type has."""
  kind = TensorProto.DataType.Value(dtype.upper())
  numbers = [0, 1, 1, 0] if dtype == "bool" else [0, 1, 3, 7]
  listed = helper.make_tensor("listed", kind, [4], numbers)
  as_bytes = numpy_helper.from_array(numpy_helper.to_array(listed), "as_bytes")
  assert as_bytes.HasField("raw_data") and not listed.HasField("raw_data")
  nodes = [helper.make_node("Cast", [name], [f"{name}_f"], to=TensorProto.FLOAT) for name in ("listed", "as_bytes")]
  nodes.append(helper.make_node("Concat", ["x", "listed_f", "as_bytes_f"], ["y"], axis=0))
  proto = model(nodes, [value("x", [1])], [value("y", [9])])
  proto.graph.initializer.extend([listed, as_bytes])
  assert run(saved(proto), {"x": np.float32([5])}).outputs["y"].tolist() == [5.0, *numbers, *numbers]


def test_a_constant_without_elements_and_without_bytes(agrees: Agrees) -> None:
  proto, inputs = one("Resize", [x(1, 2, 4, 4), None, np.float32([1, 1, 2, 2])], constants=(2,), version=11, mode="nearest")
  proto.graph.initializer.append(helper.make_tensor("region", TensorProto.FLOAT, [0], []))
  proto.graph.node[0].input[1] = "region"
  assert not proto.graph.initializer[-1].HasField("raw_data")
  agrees(proto, inputs)


# -- subgraphs --------------------------------------------------------------------------------------

def branch(name: str, nodes: list, output: str, shape: list | None, weights: dict | None = None) -> onnx.GraphProto:
  return helper.make_graph(nodes, name, [], [value(output, shape)],
                           [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()])


@pytest.mark.parametrize("taken", [True, False])
def test_if_runs_the_branch_that_is_taken_only(agrees: Agrees, taken: bool) -> None:
  """The branches take values of the graph around them, one has a constant, and their shapes differ."""
  then = branch("t", [helper.make_node("Add", ["x", "k"], ["t_"]), helper.make_node("Mul", ["t_", "w"], ["t"])], "t", ["a", "b"],
                {"k": x(3)})
  other = branch("e", [helper.make_node("Reshape", ["x", "flat"], ["e"])], "e", ["c"], {"flat": ints(6)})
  nodes = [helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other), helper.make_node("Neg", ["y"], ["z"])]
  proto = model(nodes, [value("x", [2, 3]), value("c", [], BOOL)], [value("z", None)], {"w": x(2, 3)})
  agrees(proto, {"x": x(2, 3), "c": np.array(taken)})


@pytest.mark.parametrize("version", [11, 13])
def test_operators_of_a_branch_are_of_the_models_version(agrees: Agrees, version: int) -> None:
  """Softmax before 13 is over all axes from `axis` on."""
  branches = [helper.make_graph([helper.make_node("Softmax", ["x"], [name], axis=1)], name, [], [value(name, [2, 3, 4])]) for name in "ab"]
  agrees(model([helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])], [value("x", [2, 3, 4])],
               [value("y", [2, 3, 4])], {"c": np.array(True)}, version))


def test_a_branch_that_is_not_taken_need_not_fit(agrees: Agrees) -> None:
  nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branch("t", [helper.make_node("Neg", ["x"], ["t"])], "t", None),
                            else_branch=branch("e", [helper.make_node("Reshape", ["x", "six"], ["e"])], "e", None, {"six": ints(6)}))]
  proto = model(nodes, [value("x", ["n", "m"]), value("c", [], BOOL)], [value("y", None)])
  for attribute in proto.graph.node[0].attribute:
    attribute.g.output[0].ClearField("type")  # as some exporters leave it
  agrees(proto, {"x": x(2, 4), "c": np.array(True)})


def loop(body: list, carried: list[str], stacked: list[str], inputs: list, outputs: list, weights: dict | None = None,
         count: int | None = 3, body_weights: dict | None = None, cond: bool | None = None) -> onnx.ModelProto:
  """A model of one loop. Names in `carried` are NAME:SHAPE of what is carried: NAME_in to NAME_out in the body, from NAME to NAME_last."""
  names = [name.split(":")[0] for name in carried]
  shapes = [[int(s) for s in name.split(":")[1].split("x") if s] for name in carried]
  if not any("go" in node.output for node in body):
    body = [*body, helper.make_node("Identity", ["on"], ["go"])]
  graph = helper.make_graph(
    body, "body", [value("n", [], INT64), value("on", [], BOOL), *(value(f"{n}_in", s) for n, s in zip(names, shapes, strict=True))],
    [value("go", [], BOOL), *(value(f"{n}_out", s) for n, s in zip(names, shapes, strict=True)), *(value(s, None) for s in stacked)],
    [numpy_helper.from_array(a, n) for n, a in (body_weights or {}).items()])
  constants = dict(weights or {})
  if count is not None:
    constants["M"] = np.array(count)
  if cond is not None:
    constants["C"] = np.array(cond)
  node = helper.make_node("Loop", ["M" if count is not None else "", "C" if cond is not None else "", *names],
                          [*(f"{n}_last" for n in names), *(f"{s}_all" for s in stacked)], body=graph)
  return model([node], inputs, outputs, constants)


def test_loop_carries_and_stacks(agrees: Agrees) -> None:
  body = [helper.make_node("Mul", ["a_in", "w"], ["a_out"]), helper.make_node("Sub", ["a_in", "k"], ["s"])]
  agrees(loop(body, ["a:2x3"], ["s"], [value("a", [2, 3])], [value("a_last", [2, 3]), value("s_all", [3, 2, 3])],
              {"w": x(3)}, body_weights={"k": x(1)}))


def test_loop_reads_shapes_anew_in_each_pass(agrees: Agrees) -> None:
  """The front end keeps what it has read of a name: the start of a slice is another in each pass."""
  body = [helper.make_node("Unsqueeze", ["n", "zero"], ["start"]), helper.make_node("Add", ["start", "one"], ["end"]),
          helper.make_node("Slice", ["x", "start", "end"], ["row"]), helper.make_node("Add", ["a_in", "row"], ["a_out"]),
          helper.make_node("Identity", ["row"], ["s"])]
  agrees(loop(body, ["a:1x4"], ["s"], [value("x", [5, 4]), value("a", [1, 4])], [value("a_last", [1, 4]), value("s_all", None)],
              {"zero": ints(0), "one": ints(1)}))


@pytest.mark.parametrize("count, cond", [(10, None), (None, True), (2, True), (10, False), (0, None)])
def test_loop_ends_by_its_condition_or_count(agrees: Agrees, count: int | None, cond: bool | None) -> None:
  body = [helper.make_node("Add", ["a_in", "step"], ["a_out"]), helper.make_node("ReduceMax", ["a_out"], ["most"], keepdims=0),
          helper.make_node("Less", ["most", "top"], ["go"])]
  proto = loop(body, ["a:3"], [], [value("a", [3])], [value("a_last", [3])], {"step": np.float32([0.75]), "top": np.float32(2.5)}, count,
               cond=cond)
  agrees(proto, {"a": np.float32([0, -1, 0.5])})


def test_a_condition_within_a_loop(agrees: Agrees) -> None:
  then = branch("t", [helper.make_node("Neg", ["a_in"], ["t"])], "t", [3])
  other = branch("e", [helper.make_node("Mul", ["a_in", "w"], ["e"])], "e", [3])
  body = [helper.make_node("Mod", ["n", "two"], ["odd"]), helper.make_node("Cast", ["odd"], ["odd_b"], to=BOOL),
          helper.make_node("If", ["odd_b"], ["a_out"], then_branch=then, else_branch=other)]
  agrees(loop(body, ["a:3"], [], [value("a", [3])], [value("a_last", [3])], {"w": x(3), "two": np.array(2)}, 5))


def test_a_loop_without_a_pass_has_no_shape_to_stack(saved: Saved) -> None:
  body = [helper.make_node("Neg", ["a_in"], ["a_out"]), helper.make_node("Neg", ["a_in"], ["s"])]
  proto = loop(body, ["a:3"], ["s"], [value("a", [3])], [value("a_last", [3]), value("s_all", None)], count=0)
  with pytest.raises(RefusedError, match="operator 0, Loop .* a loop without a pass"):
    run(saved(proto))


@pytest.mark.parametrize("axes, directions, out_axis, out_direction", [([0, 0], [0, 0], 0, 0), ([1, -1], [1, 0], 1, 1)])
def test_scan(agrees: Agrees, axes: list, directions: list, out_axis: int, out_direction: int) -> None:
  """A running sum of products, over first axes forwards and over last ones, of which one goes backwards; `w` is of the graph around it."""
  body = helper.make_graph(
    [helper.make_node("Mul", ["a", "b"], ["ab"]), helper.make_node("Mul", ["ab", "w"], ["abw"]),
     helper.make_node("Add", ["s", "abw"], ["s_out"]), helper.make_node("Neg", ["s_out"], ["row"])], "body",
    [value(name, [3]) for name in ("s", "a", "b")], [value(name, [3]) for name in ("s_out", "row")])
  node = helper.make_node("Scan", ["s0", "x", "z"], ["last", "rows"], body=body, num_scan_inputs=2, scan_input_axes=axes,
                          scan_input_directions=directions, scan_output_axes=[out_axis], scan_output_directions=[out_direction])
  shape = [4, 3] if axes[0] == 0 else [3, 4]
  agrees(model([node], [value("s0", [3]), value("x", shape), value("z", shape)], [value("last", [3]), value("rows", None)], {"w": x(3)}))


def test_a_scan_that_gives_nothing_to_stack_has_no_shape(saved: Saved) -> None:
  body = helper.make_graph([helper.make_node("Neg", ["a"], ["row"])], "body", [value("a", [3])], [value("row", [3])])
  proto = model([helper.make_node("Scan", ["x"], ["rows"], body=body, num_scan_inputs=1)], [value("x", ["n", 3])], [value("rows", None)])
  with pytest.raises((RefusedError, OnnxError), match="a scan without a pass|onnxruntime cannot run"):
    run(saved(proto), {"x": np.zeros((0, 3), np.float32)})


# -- onnx's own cases -------------------------------------------------------------------------------

@cache
def node_cases() -> dict[str, Any]:
  """onnx's cases of operators that are ours, but for those of sequences and those that front ends refuse."""
  from onnx.backend.test.case.node import collect_testcases
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of how its references compute
    cases = collect_testcases(None)
  ours = {op for op in OURS if op not in ("Resize", "Gather", "ScatterND", "Conv", "ConvTranspose", "MatMul", "Gemm")}
  return {case.name: case for case in cases if case.model.graph.node[0].op_type in ours and len(case.model.graph.node) == 1
          and all(v.type.HasField("tensor_type") for v in [*case.model.graph.input, *case.model.graph.output])}


WITH_CASES = ["LSTM", "GRU", "RNN", "If", "Loop", "Squeeze", "Unsqueeze", "Softmax", "LogSoftmax", "Hardmax", "Size", "DeformConv",
              "NonMaxSuppression", "RoiAlign", "MelWeightMatrix", "BitShift", "ReverseSequence"]


def test_onnx_has_cases_of_our_operators() -> None:
  assert {case.model.graph.node[0].op_type for case in node_cases().values()} >= set(WITH_CASES)


@pytest.mark.parametrize("op", WITH_CASES)
def test_onnx_s_cases(saved: Saved, op: str) -> None:
  """With the outputs that come with them, not those of onnxruntime."""
  tried = 0
  for name, case in node_cases().items():
    if case.model.graph.node[0].op_type != op:
      continue
    loaded = load(saved(case.model))
    for inputs, outputs in case.data_sets:
      arrays = dict(zip((v.name for v in case.model.graph.input), map(np.asarray, inputs), strict=True))
      values = Runner(prepared(loaded, arrays)[0])(on_device(arrays))
      for wanted, expected in zip(loaded.outputs, outputs, strict=True):
        found = compare(wanted.name, tensor(values[wanted.name]).numpy(), np.asarray(expected))
        assert found.within, f"{name}: {found}"
      tried += 1
  assert tried


# -- attention --------------------------------------------------------------------------------------

@pytest.mark.parametrize("mask", [None, (5, 6), (1, 4, 5, 6), (1, 1, 5, 6)])
def test_heads_of_queries_that_share_keys(agrees: Agrees, mask: tuple | None) -> None:
  """Four to two, as onnxruntime pairs them, with four axes and with three."""
  arrays = [x(1, 4, 5, 8), x(1, 2, 6, 8), x(1, 2, 6, 8)[:, ::-1].copy()] + ([x(*mask)] if mask else [])
  agrees(*one("Attention", arrays, version=23))
  arrays = [x(1, 5, 32), x(1, 6, 16), -x(1, 6, 16)] + ([x(*mask)] if mask else [])
  agrees(*one("Attention", arrays, version=23, q_num_heads=4, kv_num_heads=2))


def test_attention_to_what_came_before(agrees: Agrees) -> None:
  arrays = [x(1, 4, 5, 8), x(1, 2, 5, 8), -x(1, 2, 5, 8), None, x(1, 2, 3, 8), 2 * x(1, 2, 3, 8)]
  agrees(*one("Attention", arrays, 3, version=23))
