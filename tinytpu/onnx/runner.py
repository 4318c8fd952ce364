"""tinygrad's front end with our operators, and a place to look at each operator as it runs."""
from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any

from onnx import ModelProto
from tinygrad import Tensor
from tinygrad.nn.onnx import Domain, OnnxNode, OnnxRunner, OpSetId

from ..machine.both import EngineMismatch
from .errors import OnnxError, RefusedError
from .model import first_line
from .operators import table

Observer = Callable[[int, OnnxNode, tuple[Any, ...]], None]
"""Called after each operator of the outermost graph with its number, itself and what it gave (tensors, not computed yet)."""


class Runner(OnnxRunner):
  """Runs a model on tinygrad's default device.

  Args:
    proto: as `rewrite.prepared` makes it. observe: see Observer.

  Raises:
    OnnxError: it cannot be read.
  """
  observe: Observer | None
  position: int
  """Number of the operator that comes next."""
  inner: list[Runner]
  """The graphs within."""

  def __init__(self, proto: ModelProto, observe: Observer | None = None):
    with tempfile.TemporaryDirectory(prefix="tinytpu-onnx-") as folder:  # the front end reads weights from a file
      path = Path(folder) / "model.onnx"
      path.write_bytes(proto.SerializeToString())
      try:
        super().__init__(path)
      except Exception as error:  # it checks little of what it reads
        raise OnnxError(f"tinygrad's front end cannot read the model: {type(error).__name__}: {first_line(error)}") from error
      versions = {Domain.from_onnx(entry.domain): entry.version for entry in proto.opset_import}
      self.adopt(self, versions, observe)
      weights = [value for value in self.constants() if value.numel()]
      if weights:
        Tensor.realize(*weights)

  def adopt(self, graph: OnnxRunner, versions: Mapping[Domain, int], observe: Observer | None = None) -> None:
    """Give a graph and those within it our operators, and the model's versions of them: the front end takes version 1 within."""
    graph.onnx_ops = table()
    graph.__class__ = Runner
    assert isinstance(graph, Runner)
    graph.observe, graph.position, graph.inner = observe, 0, []
    graph.graph_nodes = tuple(replace(node, opset_id=OpSetId(node.opset_id.domain, versions.get(node.opset_id.domain, 1)))
                              for node in graph.graph_nodes)
    for node in graph.graph_nodes:
      for value in node.opts.values():
        if isinstance(value, OnnxRunner):
          self.adopt(value, versions)
          assert isinstance(value, Runner)
          graph.inner.append(value)

  def constants(self) -> Iterable[Tensor]:
    """Initialisers and constant attributes of this graph and those within it."""
    yield from (value for value in self.graph_values.values() if isinstance(value, Tensor))
    yield from (value for node in self.graph_nodes for value in node.opts.values() if isinstance(value, Tensor))
    for graph in self.inner:
      yield from graph.constants()

  def __call__(self, inputs: dict[str, Any], debug: int = 0) -> dict[str, Any]:
    """Outputs by name (tensors, not all computed yet) for inputs by name.

    Raises:
      RefusedError: an operator cannot be run so; names it.
    """
    self.position = 0
    self._python_const_cache.clear()  # of other inputs
    return super().__call__(inputs, debug)

  def _get_python_const(self, name: str, op: str, idx: int) -> Any:
    return self.graph_values[name] if op == "Range" else super()._get_python_const(name, op, idx)  # whose numbers tell no dtype

  def _select_op(self, op: str, required_opset: OpSetId) -> FunctionType:
    function = super()._select_op(op, required_opset)
    number, self.position = self.position, self.position + 1
    node = self.graph_nodes[number]

    def run(*inputs: Any, **options: Any) -> Any:
      if op in ("If", "Loop", "Scan"):
        options["intermediate_tensors"] = dict(self.graph_values)
      try:
        result = function(*inputs, **options)
        if self.observe is not None:
          self.observe(number, node, result if isinstance(result, tuple) else (result,))
        return result
      except (RefusedError, EngineMismatch, MemoryError):
        raise
      except Exception as error:
        name = next((o for o in node.outputs if o), "")
        raise RefusedError(f"operator {number}, {op} (which gives {name!r}), cannot be run: {first_line(error)}") from error
    return run  # type: ignore[return-value]
