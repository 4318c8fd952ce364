"""If, Loop and Scan: the branch that is taken, and as many passes as are made, with shapes that are known when they run."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tinygrad import Tensor, dtypes
from tinygrad.nn.onnx import OnnxRunner

_LIMIT = 100_000
"""Passes after which a loop without a count of its own is taken not to end."""


def call(graph: OnnxRunner, outer: Mapping[str, Any], given: Sequence[Tensor] = ()) -> list[Tensor]:
  """Run a subgraph.

  Args:
    outer: values of the graph around it, by name. given: values of its inputs, in order.

  Returns:
    its outputs, in order.
  """
  own = dict(graph.graph_values)
  inputs, graph.graph_inputs = graph.graph_inputs, {}  # what is declared of them is no more than a hint: values are put in directly
  graph.graph_values = {**outer, **own, **dict(zip(inputs, given, strict=True))}
  graph._python_const_cache.clear()  # values change from pass to pass
  try:
    return list(graph({}).values())
  finally:
    graph.graph_values, graph.graph_inputs = own, inputs


def If(condition: Tensor, *, then_branch: OnnxRunner, else_branch: OnnxRunner,
       intermediate_tensors: Mapping[str, Any]) -> tuple[Tensor, ...]:
  """ONNX's If: reads the condition and runs that branch alone. tinygrad's runs both, of which the other may not fit the shapes."""
  return tuple(call(then_branch if bool(condition.reshape(()).item()) else else_branch, intermediate_tensors))


def Loop(M: Tensor | None = None, cond: Tensor | None = None, *carried: Tensor, body: OnnxRunner, intermediate_tensors: Mapping[str, Any]
         ) -> tuple[Tensor, ...]:
  """ONNX's Loop: the values carried through the passes, then what each pass gave, stacked.

  Raises:
    NotImplementedError: no pass is made where something is to be stacked (its shape is not known), or there are too many.
  """
  values, stacks = list(carried), [[] for _ in range(len(body.graph_outputs) - 1 - len(carried))]  # type: list[Tensor], list[list[Tensor]]
  limit = None if M is None else int(M.reshape(()).item())
  go, number = cond is None or bool(cond.reshape(()).item()), 0
  while go and (limit is None or number < limit):
    if number >= _LIMIT:
      raise NotImplementedError(f"a loop of more than {_LIMIT} passes")
    again, *results = call(body, intermediate_tensors, [Tensor(number, dtype=dtypes.int64), Tensor(True), *values])
    values = [value.contiguous() for value in results[:len(carried)]]
    kept = [value.contiguous() for value in results[len(carried):]]
    if values or kept:
      Tensor.realize(*values, *kept)
    for stack, value in zip(stacks, kept, strict=True):
      stack.append(value)
    go, number = bool(again.reshape(()).item()), number + 1
  if stacks and not number:
    raise NotImplementedError("a loop without a pass, whose stacked outputs have no known shape")
  return (*values, *(Tensor.stack(*stack) for stack in stacks))


def Scan(*inputs: Tensor, body: OnnxRunner, num_scan_inputs: int, intermediate_tensors: Mapping[str, Any],
         scan_input_axes: Sequence[int] | None = None, scan_input_directions: Sequence[int] | None = None,
         scan_output_axes: Sequence[int] | None = None, scan_output_directions: Sequence[int] | None = None) -> tuple[Tensor, ...]:
  """ONNX's Scan from version 9 on: a pass for each slice of the scanned inputs; the last states, then what each pass gave, stacked.
  Directions of 1 go backwards."""
  count = len(inputs) - num_scan_inputs
  states, scanned = list(inputs[:count]), inputs[count:]
  outputs = len(body.graph_outputs) - count
  axes = [x._resolve_dim(a) for x, a in zip(scanned, scan_input_axes or [0] * num_scan_inputs, strict=True)]
  lengths = {int(x.shape[a]) for x, a in zip(scanned, axes, strict=True)}
  if len(lengths) != 1:
    raise ValueError(f"scanned inputs of lengths {sorted(lengths)}")
  length, = lengths
  if not length and outputs:
    raise NotImplementedError("a scan without a pass, whose stacked outputs have no known shape")
  backwards, stacks = scan_input_directions or [0] * num_scan_inputs, [list[Tensor]() for _ in range(outputs)]
  for number in range(length):
    places = [length - 1 - number if back else number for back in backwards]
    slices = [x[(slice(None),) * axis + (place,)] for x, axis, place in zip(scanned, axes, places, strict=True)]
    results = [value.contiguous() for value in call(body, intermediate_tensors, [*states, *slices])]
    Tensor.realize(*results)
    states = results[:count]
    for stack, value in zip(stacks, results[count:], strict=True):
      stack.append(value)
  joined = []
  for stack, axis, back in zip(stacks, scan_output_axes or [0] * outputs, scan_output_directions or [0] * outputs, strict=True):
    joined.append(Tensor.stack(*(reversed(stack) if back else stack), dim=axis))
  return (*states, *joined)
