"""If and Loop: the branch that is taken, and as many passes as are made, with shapes that are known when they run."""
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
