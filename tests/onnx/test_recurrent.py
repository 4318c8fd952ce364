"""LSTM, GRU and RNN against onnxruntime, in random combinations of all that they take."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

from tests.onnx.models import one
from tinytpu.onnx import RefusedError, run

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
ACTIVATIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}
OUTPUTS = {"LSTM": 3, "GRU": 2, "RNN": 2}
WITH_ALPHA = ("Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu")
WITH_BETA = ("Affine", "ScaledTanh", "HardSigmoid")
NAMES = (*WITH_ALPHA, "Relu", "Tanh", "Sigmoid", "Softsign", "Softplus")


def case(op: str, direction: str, seed: int) -> tuple[ModelProto, dict[str, np.ndarray]]:
  """A random model of one operator and its inputs: sizes, what is left out, attributes."""
  rng = np.random.default_rng([seed, len(direction), len(op)])
  directions, gates = 2 if direction == "bidirectional" else 1, GATES[op]
  steps, batch, width, hidden = (int(n) for n in rng.integers(1, 6, 4))

  def floats(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)

  def perhaps(array: np.ndarray) -> np.ndarray | None:
    return array if rng.random() < 0.5 else None

  arrays = [floats(steps, batch, width), floats(directions, gates * hidden, width), floats(directions, gates * hidden, hidden),
            perhaps(floats(directions, 2 * gates * hidden)), perhaps(rng.integers(1, steps + 1, batch).astype(np.int32)),
            perhaps(floats(directions, batch, hidden))]
  attributes: dict = {"hidden_size": hidden, "direction": direction}
  if op == "LSTM":
    arrays += [perhaps(floats(directions, batch, hidden)), perhaps(floats(directions, 3 * hidden))]
    attributes["input_forget"] = int(rng.integers(0, 2))
  if op == "GRU":
    attributes["linear_before_reset"] = int(rng.integers(0, 2))
  if rng.random() < 0.3:
    attributes["clip"] = float(rng.choice([0.1, 0.5, 2]))
  if rng.random() < 0.6:
    names = attributes["activations"] = [str(name) for name in rng.choice(NAMES, ACTIVATIONS[op] * directions)]
    for key, kinds in (("activation_alpha", WITH_ALPHA), ("activation_beta", WITH_BETA)):
      if count := sum(name in kinds for name in names):
        attributes[key] = rng.uniform(0.1, 1, count).tolist()
  kept = [i for i in range(OUTPUTS[op]) if rng.random() < 0.7] or [1]
  return one(op, arrays, OUTPUTS[op], constants=(1, 2, 3, 7), kept=kept, **attributes)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
def test_random_cases(agrees: Callable[..., None], op: str, direction: str, seed: int) -> None:
  agrees(*case(op, direction, seed))


def test_the_cases_cover_what_there_is() -> None:
  """So that the test above cannot go by: each input, attribute and activation comes in some case and is missing in another."""
  nodes = [case(op, direction, seed)[0].graph.node[0] for op in GATES for direction in ("forward", "reverse", "bidirectional")
           for seed in range(4)]
  for place in (3, 4, 5):
    assert {bool(node.input[place]) for node in nodes} == {True, False}
  for place in (6, 7):
    assert {bool(node.input[place]) for node in nodes if node.op_type == "LSTM"} == {True, False}
  used = {name.decode() for node in nodes for a in node.attribute if a.name == "activations" for name in a.strings}
  assert used == set(NAMES)
  for name in ("clip", "activations"):
    assert {any(a.name == name for a in node.attribute) for node in nodes} == {True, False}


def test_kernels_are_compiled_once_for_all_steps(saved: Callable[..., Path], floats: Callable[..., np.ndarray]) -> None:
  def kernels(steps: int) -> tuple[int, int]:
    proto, inputs = one("LSTM", [floats(steps, 2, 3), floats(1, 16, 3), floats(1, 16, 4)], 3, constants=(1, 2), hidden_size=4)
    result = run(saved(proto), inputs)
    assert result.within
    return len(result.kernels), sum(result.kernels.values())
  few, many = kernels(4), kernels(16)
  assert few[0] == many[0] < 10 and many[1] > few[1]


@pytest.mark.parametrize("op", GATES)
def test_batch_first(saved: Callable[..., Path], floats: Callable[..., np.ndarray], op: str) -> None:
  """layout 1, which onnxruntime refuses: the same numbers, transposed."""
  from tinytpu.onnx.execute import on_device
  from tinytpu.onnx.operators import OURS
  data, w, r = floats(3, 2, 4), floats(2, GATES[op] * 5, 4), floats(2, GATES[op] * 5, 5)
  h = floats(2, 2, 5)
  tensors = on_device({"x": data, "w": w, "r": r, "h": h, "xt": data.transpose(1, 0, 2), "ht": h.transpose(1, 0, 2)})
  steps_first = OURS[op](tensors["x"], tensors["w"], tensors["r"], initial_h=tensors["h"], direction="bidirectional")
  batch_first = OURS[op](tensors["xt"], tensors["w"], tensors["r"], initial_h=tensors["ht"], direction="bidirectional", layout=1)
  np.testing.assert_array_equal(steps_first[0].numpy().transpose(2, 0, 1, 3), batch_first[0].numpy())
  for a, b in zip(steps_first[1:], batch_first[1:], strict=True):
    np.testing.assert_array_equal(a.numpy().transpose(1, 0, 2), b.numpy())


def test_activations_without_what_they_need_are_refused(saved: Callable[..., Path], floats: Callable[..., np.ndarray]) -> None:
  for name, needs in (("Affine", "activation_alpha and activation_beta"), ("ThresholdedRelu", "activation_alpha")):
    proto, inputs = one("RNN", [floats(1, 1, 2), floats(1, 3, 2), floats(1, 3, 3)], 2, constants=(1, 2), hidden_size=3, activations=[name])
    with pytest.raises(RefusedError, match=f"'{name}' needs {needs}$"):
      run(saved(proto), inputs)
