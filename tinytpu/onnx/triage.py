"""A model operator by operator: kernels and cycles of each, and the first whose output is not onnxruntime's."""
from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto
from tinygrad import Tensor
from tinygrad.device import CompileError
from tinygrad.nn.onnx import OnnxNode

from ..backend.runtime.stats import stats
from ..config import Config
from ..isa.counters import shares
from . import reference
from .compare import Comparison, compare
from .errors import OnnxError, RefusedError
from .execute import Result, Tell, check_memory, cold, on_device, refusals, silent, tensor, the_device
from .flatten import flattened
from .inputs import complete
from .model import Model, first_line
from .operators import OURS
from .rewrite import prepared, with_all_outputs
from .runner import Runner


@dataclass
class Step:
  """An operator of the outermost graph, run by itself. If is replaced by the branch that is taken; what is in a loop counts as the loop's.

  Attributes:
    number: from 0, in the file's order. op: its type. name: its name, or its first output's. kernels: launches by name of kernel.
    cycles, counters: of them. comparisons: one for each output that is a tensor; empty if it has not run.
  """
  number: int
  op: str
  name: str
  cycles: int = 0
  kernels: Counter[str] = field(default_factory=Counter)
  counters: dict[str, int] = field(default_factory=dict)
  comparisons: list[Comparison] = field(default_factory=list)

  @property
  def within(self) -> bool:
    """Whether all outputs are within the budget."""
    return all(comparison.within for comparison in self.comparisons)

  def busy(self, config: Config) -> dict[str, float]:
    """How busy the machine was, as `isa.counters.shares` has it. If all are low, the operator waits for latencies."""
    return shares(config, self.counters, self.cycles)


@dataclass
class Triage:
  """What was found.

  Attributes:
    model: name of the file. steps: all operators. first: number of the first whose output differs, or None. alone: whether that one differs
    on onnxruntime's own inputs too; None: not tried, as it has subgraphs. refused: why the operator after the last that has run cannot be
    run, or "". verdict: all this in a sentence. notes: what a user should know. together: cycles of the model as a whole, if that was run.
  """
  model: str
  config: Config
  kind: str
  steps: list[Step]
  first: int | None
  alone: bool | None
  refused: str
  verdict: str
  notes: list[str]
  together: int | None = None

  def json(self) -> dict[str, Any]:
    """Everything, for JSON."""
    return {
      "model": self.model, "preset": self.config.name, "engine": self.kind, "verdict": self.verdict, "first": self.first,
      "alone": self.alone, "refused": self.refused, "notes": self.notes, "cycles": sum(step.cycles for step in self.steps),
      "cycles_together": self.together,
      "operators": [{"number": s.number, "op": s.op, "name": s.name, "cycles": s.cycles, "kernels": dict(s.kernels), "counters": s.counters,
                     "busy": s.busy(self.config), "outputs": [c.json() for c in s.comparisons]} for s in self.steps]}


def triage(model: Model, inputs: Mapping[str, np.ndarray] | None = None, *, dims: Mapping[str, int] | None = None, seed: int = 0,
           budgets: Mapping[str, float] | None = None, tell: Tell = silent) -> Triage:
  """Run a model operator by operator and compare what each gives with onnxruntime's. Arguments and errors as those of `run`, but that an
  operator which is refused ends the list and is told in it."""
  arrays = complete(model, inputs or {}, dims, seed)
  check_memory(model, arrays)
  device = the_device()
  tell("onnxruntime, all values")
  model = flattened(model, arrays)
  expected = reference.outputs(with_all_outputs(model), arrays)
  proto, notes = prepared(model, arrays)
  steps = [Step(i, node.op_type, node.name or next((o for o in node.output if o), "")) for i, node in enumerate(proto.graph.node)]
  refused = ""

  def observe(number: int, node: OnnxNode, values: tuple[Any, ...]) -> None:
    step = steps[number]
    tell(f"operator {number} of {len(steps)}, {step.op}", number / len(steps))
    results = {name: tensor(value) for name, value in zip(node.outputs, values, strict=False) if name in expected}
    if pending := [value for value in results.values() if value.numel()]:
      Tensor.realize(*pending)
    step.cycles, step.kernels, step.counters = stats.cycles, Counter(stats.kernels), dict(stats.counters)
    step.comparisons = [compare(name, value.numpy(), expected[name], budgets) for name, value in results.items()]
    stats.reset()  # reading may have launched copies

  try:
    with refusals():
      runner = Runner(proto, observe)
      given = on_device(arrays)
      cold(device)
      stats.reset()
      runner(given)
  except RefusedError as error:
    refused = f"{error}; {_hands(error, steps)}"
  first = next((step.number for step in steps if not step.within), None)
  alone = None if first is None else _differs_alone(proto, first, {**expected, **arrays}, expected, budgets)
  return Triage(model.path.name, device.config, device.kind, steps, first, alone, refused, _verdict(steps, first, alone, refused), notes)


def with_fused(found: Triage, result: Result) -> Triage:
  """The same, with what the run as a whole gave: its cycles, and if that differs and no operator does, the verdict says so."""
  found.together = result.cycles
  wrong = [comparison.name for comparison in result.comparisons if not comparison.within]
  if wrong and found.first is None and not found.refused:
    found.verdict = (f"every operator agrees with onnxruntime when it is run by itself, and {', '.join(map(repr, wrong))} differs when "
                     "they are run together: the fault lies in how tinygrad or the compiler fuses them")
  return found


def _hands(error: RefusedError, steps: list[Step]) -> str:
  """In whose hands it lies."""
  if isinstance(error.__cause__, CompileError):
    return "the device's compiler lacks it"
  op = next((step.op for step in steps if not step.comparisons and not step.kernels and f", {step.op} (" in str(error)), "")
  return "TinyTPU's own operator lacks it" if op in OURS else "tinygrad's front end lacks it"


def _verdict(steps: list[Step], first: int | None, alone: bool | None, refused: str) -> str:
  if first is None:
    ran = sum(bool(step.comparisons) for step in steps)
    return refused or f"all {ran} operators agree with onnxruntime"
  step = steps[first]
  worst = next(comparison for comparison in step.comparisons if not comparison.within)
  said = f"{worst.wrong}: {worst.relative:.1e}, budget {worst.budget:.0e}" if np.isfinite(worst.relative) else worst.wrong
  cause = {None: "", True: "; on onnxruntime's own inputs it differs too, so the fault is in this operator",
           False: "; on onnxruntime's own inputs it agrees, so errors of the operators before it have grown"}[alone]
  return f"operator {first}, {step.op} {step.name!r}, is the first whose output differs from onnxruntime's ({worst.name!r}, {said}){cause}"


def _differs_alone(proto: ModelProto, number: int, values: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray],
                   budgets: Mapping[str, float] | None) -> bool | None:
  """Whether an operator differs on onnxruntime's own inputs; None: it has subgraphs, which take more than its inputs."""
  single = ModelProto()
  single.CopyFrom(proto)
  node = single.graph.node[number]
  if any(attribute.type == AttributeProto.GRAPH for attribute in node.attribute):
    return None
  constants = {constant.name for constant in proto.graph.initializer}
  names = list(dict.fromkeys(name for name in node.input if name and name not in constants))
  arrays = {name: values[name].astype(np.float32) if values[name].dtype == np.float64 else values[name] for name in names}
  kept = [name for name in node.output if name in expected]
  del single.graph.node[number + 1:], single.graph.node[:number], single.graph.input[:], single.graph.output[:]
  single.graph.input.extend(onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                            for name, array in arrays.items())
  single.graph.output.extend(onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(expected[name].dtype), None)
                             for name in kept)
  try:
    results = Runner(single)(on_device(arrays))
    return not all(compare(name, tensor(results[name]).numpy(), expected[name], budgets).within for name in kept)
  except (RefusedError, CompileError, KeyError, OnnxError) as error:
    raise RefusedError(f"operator {number} cannot be run by itself: {first_line(error)}") from error
