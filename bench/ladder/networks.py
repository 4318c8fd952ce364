"""Networks whose packages hold parameters only, as ONNX models: the demo's classifier of digits, and MTCNN's three."""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

OPSET, FORMAT = 17, 8
"""Version of ONNX's operators, and of its files."""


class Layers:
  """A network, layer by layer, each of which takes what the one before gives. weights: parameters by name, float32."""

  def __init__(self, weights: dict[str, np.ndarray]):
    self.weights, self.nodes, self.value, self.used = weights, list[NodeProto](), "x", list[str]()

  def add(self, op: str, *parameters: str, **attributes: object) -> str:
    """Add an operator; returns the name of its output."""
    name = f"{op.lower()}{len(self.nodes)}"
    self.nodes.append(helper.make_node(op, [self.value, *parameters], [name], **attributes))
    self.used += parameters
    self.value = name
    return name

  def convolution(self, name: str, slope: str | None = None) -> str:
    """A convolution, perhaps with a leaky part whose slope for each channel is a parameter."""
    self.add("Conv", f"{name}.weight", f"{name}.bias")
    return self.leaky(slope, 3) if slope else self.value

  def dense(self, name: str, slope: str | None = None) -> str:
    """A layer of all inputs; weights are (outputs, inputs)."""
    self.add("Gemm", f"{name}.weight", f"{name}.bias", transB=1)
    return self.leaky(slope, 1) if slope else self.value

  def leaky(self, name: str, ndim: int) -> str:
    """PRelu with a slope for each channel, whose axis comes before the last `ndim` - 1."""
    self.weights[f"{name}.weight"] = self.weights[f"{name}.weight"].reshape(-1, *[1] * (ndim - 1))
    return self.add("PRelu", f"{name}.weight")

  def pool(self, size: int) -> str:
    """The largest of size x size, at every second place, the last ones perhaps of fewer."""
    return self.add("MaxPool", kernel_shape=[size, size], strides=[2, 2], ceil_mode=1)

  def model(self, shape: Sequence[int | str], outputs: dict[str, str]) -> ModelProto:
    """The model of x with the given shape; outputs: public names, by name of value."""
    self.nodes += [helper.make_node("Identity", [value], [name]) for value, name in outputs.items()]
    tensors = [numpy_helper.from_array(self.weights[name], name) for name in dict.fromkeys(self.used)]
    graph = helper.make_graph(self.nodes, "network", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs.values()], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=FORMAT)


def digits() -> ModelProto:
  """The demo's classifier: x[batch, 64] to logits[batch, 10]."""
  from tinytpu.demo.digits import weights
  w = weights()
  net = Layers({"1.weight": w["w1"].T.copy(), "1.bias": w["b1"], "2.weight": w["w2"].T.copy(), "2.bias": w["b2"]})
  net.dense("1")
  net.add("Relu")
  return net.model(["batch", 64], {net.dense("2"): "logits"})


def state_dict(path: Path) -> dict[str, np.ndarray]:
  """Parameters by name, from a file that torch wrote; tinygrad reads it."""
  from tinygrad.nn.state import torch_load
  return {name: value.numpy() for name, value in torch_load(path).items()}


def p_net(weights: dict[str, np.ndarray]) -> ModelProto:
  """x[batch, 3, height, width], at least 12 x 12, to face[batch, 2, h, w] (no, yes) and box[batch, 4, h, w]: of a window of 12 x 12 at
  every second place."""
  net = Layers(weights)
  net.convolution("conv1", "prelu1")
  net.pool(2)
  net.convolution("conv2", "prelu2")
  return _with_heads(net, net.convolution("conv3", "prelu3"), ["height", "width"], Layers.convolution, "conv4")


def r_net(weights: dict[str, np.ndarray]) -> ModelProto:
  """x[batch, 3, 24, 24] to face[batch, 2] and box[batch, 4]."""
  net = Layers(weights)
  for i, size in (1, 3), (2, 3), (3, 0):
    net.convolution(f"conv{i}", f"prelu{i}")
    if size:
      net.pool(size)
  return _with_heads(net, _flat(net, "4"), [24, 24], Layers.dense, "dense5")


def o_net(weights: dict[str, np.ndarray]) -> ModelProto:
  """x[batch, 3, 48, 48] to face[batch, 2], box[batch, 4] and landmarks[batch, 10]: five x, then five y, as shares of the picture:
  eyes, nose, corners of the mouth."""
  net = Layers(weights)
  for i, size in (1, 3), (2, 3), (3, 2), (4, 0):
    net.convolution(f"conv{i}", f"prelu{i}")
    if size:
      net.pool(size)
  return _with_heads(net, _flat(net, "5"), [48, 48], Layers.dense, "dense6", "landmarks")


def _flat(net: Layers, number: str) -> str:
  """All numbers of a picture in a row, columns first, and a layer of them."""
  net.add("Transpose", perm=[0, 3, 2, 1])
  net.add("Flatten")
  return net.dense(f"dense{number}", f"prelu{number}")


def _with_heads(net: Layers, shared: str, size: Sequence[int | str], layer: object, name: str, *more: str) -> ModelProto:
  """Add what all three end in: face or not, box, and perhaps more."""
  outputs = {}
  for i, head in enumerate(("face", "box", *more), 1):
    net.value = shared
    layer(net, f"{name}_{i}")  # type: ignore[operator]
    outputs[net.add("Softmax", axis=1) if head == "face" else net.value] = head
  return net.model(["batch", 3, *size], outputs)
