"""Triage names the operator that is wrong, or the one that is refused, and counts the cycles of each."""
from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from typer.testing import CliRunner

from tests.onnx.models import mlp, model, one, value
from tinytpu.cli import app
from tinytpu.onnx import RefusedError, load, run
from tinytpu.onnx.operators import OURS
from tinytpu.onnx.triage import triage, with_fused

Saved = Callable[..., Path]


def chain() -> tuple:
  """Five operators: x -> MatMul -> Tanh -> Softmax -> Split -> Add, all named."""
  rng = np.random.default_rng(3)
  weights = {"w": rng.standard_normal((6, 8)).astype(np.float32)}
  nodes = [helper.make_node("MatMul", ["x", "w"], ["product"], name="n0"), helper.make_node("Tanh", ["product"], ["bent"], name="n1"),
           helper.make_node("Softmax", ["bent"], ["shares"], name="n2"),
           helper.make_node("Split", ["shares"], ["l", "r"], name="n3", axis=1), helper.make_node("Add", ["l", "r"], ["y"], name="n4")]
  return model(nodes, [value("x", [4, 6])], [value("y", [4, 4])], weights)


def test_a_right_model(saved: Saved) -> None:
  found = triage(load(saved(chain())))
  assert found.first is None and found.alone is None and found.verdict == "all 5 operators agree with onnxruntime"
  assert [(s.number, s.op, s.name) for s in found.steps] == [
    (0, "MatMul", "n0"), (1, "Tanh", "n1"), (2, "Softmax", "n2"), (3, "Split", "n3"), (4, "Add", "n4")]
  assert [[c.name for c in s.comparisons] for s in found.steps] == [["product"], ["bent"], ["shares"], ["l", "r"], ["y"]]
  matmul, tanh, softmax, _, add = found.steps
  assert matmul.counters["mxu_steps"] > 0 and matmul.busy(found.config)["MXU"] > 0 and tanh.counters["mxu_steps"] == 0
  assert all(step.cycles > 0 and sum(step.kernels.values()) > 0 for step in (matmul, tanh, softmax, add))


BROKEN = {  # operator: a version of it that is wrong
  "Tanh": lambda x: x.tanh() * 1.01, "Split": lambda x, num_outputs=0, axis=0: tuple(part.flip(axis) for part in x.split(4, axis)),
  "Softmax": lambda x, axis=-1: x.softmax(0), "Add": lambda x, y: x - y}


@pytest.mark.parametrize("op", BROKEN)
def test_a_broken_operator_is_named(saved: Saved, monkeypatch: pytest.MonkeyPatch, op: str) -> None:
  monkeypatch.setitem(OURS, op, BROKEN[op])
  path = saved(chain())
  assert not run(path).within
  found = triage(load(path))
  assert found.first is not None and found.steps[found.first].op == op and found.alone is True
  assert f"operator {found.first}, {op} 'n{found.first}', is the first whose output differs" in found.verdict
  assert "the fault is in this operator" in found.verdict
  assert all(step.within for step in found.steps[:found.first])


def test_errors_that_grow_are_told_from_a_wrong_operator(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
  """An error within the budget, which the next operator makes larger."""
  monkeypatch.setitem(OURS, "Relu", lambda x: x.relu() * (1 + 5e-5))
  nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Exp", ["a"], ["y"])]
  path = saved(model(nodes, [value("x", [4])], [value("y", [4])]))
  found = triage(load(path), {"x": np.array([1, 20, 3, 4], np.float32)})
  assert found.first == 1 and found.alone is False and "errors of the operators before it have grown" in found.verdict


def test_a_wrong_fusion_is_told_from_a_wrong_operator(saved: Saved) -> None:
  path = saved(chain())
  found, result = triage(load(path)), run(path)
  assert with_fused(found, result).verdict.startswith("all 5 operators agree")
  result.comparisons = [run(path, budgets={"": 0.0}).comparisons[0]]
  assert not result.within
  assert "'y' differs when they are run together: the fault lies in how" in with_fused(found, result).verdict


def refuse(*_: object, **__: object) -> None:
  raise NotImplementedError("a thing is not implemented")


@pytest.mark.parametrize("op, hands", [("Tanh", "TinyTPU's own operator lacks it")])
def test_a_refused_operator_ends_the_list(saved: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, op: str, hands: str) -> None:
  monkeypatch.setitem(OURS, op, refuse)
  path = saved(chain())
  found = triage(load(path))
  assert found.refused == f"operator 1, {op} (which gives 'bent'), cannot be run: a thing is not implemented; {hands}"
  assert found.steps[0].comparisons and not any(step.comparisons for step in found.steps[1:]) and found.first is None
  result = CliRunner().invoke(app, ["onnx", str(path), "--triage", str(tmp_path / "t.json")])
  assert isinstance(result.exception, RefusedError)
  assert json.loads((tmp_path / "t.json").read_text())["refused"] == found.refused


def test_the_front_end_s_own_refusal(saved: Saved) -> None:
  proto, inputs = one("Pad", [np.zeros((2, 3), np.float32), np.array([2, 4, 2, 4])], constants=(1,), version=19, mode="wrap")
  refused = triage(load(saved(proto)), inputs).refused
  assert "wrapping around more than once" in refused and refused.endswith("tinygrad's front end lacks it")


class Rows(HTMLParser):
  """Counts a page's rows, and checks that its tags match."""

  def __init__(self) -> None:
    super().__init__()
    self.open: list[str] = []
    self.rows = 0

  def handle_starttag(self, tag: str, attrs: list) -> None:
    self.rows += tag == "tr"
    if tag != "meta":
      self.open.append(tag)

  def handle_endtag(self, tag: str) -> None:
    assert self.open.pop() == tag


def test_pages(saved: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
  proto = chain()
  proto.graph.node[1].name = "<b>&"
  path = saved(proto)
  output = CliRunner().invoke(app, ["onnx", str(path), "--triage", str(tmp_path / "pages")])
  assert output.exit_code == 0, output.output
  assert "triage: all 5 operators agree with onnxruntime" in output.stdout
  fields = json.loads((tmp_path / "pages" / "model.json").read_text())
  assert fields["first"] is None and len(fields["operators"]) == 5 and fields["cycles"] == sum(o["cycles"] for o in fields["operators"])
  assert fields["cycles_together"] == run(path).cycles
  page = (tmp_path / "pages" / "model.html").read_text()
  rows = Rows()
  rows.feed(page)
  assert rows.rows == 6 and not rows.open and "<b>&" not in page and "&lt;b&gt;&amp;" in page
  monkeypatch.setitem(OURS, "Tanh", BROKEN["Tanh"])
  output = CliRunner().invoke(app, ["onnx", str(path), "--triage", str(tmp_path / "t.html")])
  assert output.exit_code == 5 and "operator 1, Tanh" in output.stdout and "operator 1, Tanh" in (tmp_path / "t.html").read_text().replace(
    "Operator", "operator")
  output = CliRunner().invoke(app, ["onnx", str(path), "--triage", str(tmp_path / "t.txt")])
  assert output.exit_code == 1 and "expected FILE.html, FILE.json or a folder" in str(output.exception)


def test_cycles_of_operators_are_repeatable(saved: Saved) -> None:
  loaded = load(saved(mlp()))
  first, again = triage(loaded), triage(loaded)
  assert [s.cycles for s in first.steps] == [s.cycles for s in again.steps]


def test_conditions_are_looked_into(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
  """One within another; both branches use the same names, which a second condition uses again."""
  def graph(name: str, nodes: list, output: str) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, [], [value(output, None)], [numpy_helper.from_array(np.float32(2), "k")])

  inner = helper.make_node("If", ["d"], ["h"], name="inner", then_branch=graph("tt", [helper.make_node("Tanh", ["g"], ["i"])], "i"),
                           else_branch=graph("te", [helper.make_node("Mul", ["g", "k"], ["i"])], "i"))
  then = graph("t", [helper.make_node("Mul", ["x", "k"], ["g"]), inner], "h")
  other = graph("e", [helper.make_node("Neg", ["x"], ["h"])], "h")
  nodes = [helper.make_node("If", ["c"], ["y"], name="outer", then_branch=then, else_branch=other), helper.make_node("Not", ["d"], ["f"]),
           helper.make_node("If", ["f"], ["z"], name="last", then_branch=then.__class__.FromString(other.SerializeToString()),
                            else_branch=graph("l", [helper.make_node("Mul", ["y", "k"], ["h"])], "h"))]
  boolean = onnx.TensorProto.BOOL
  path = saved(model(nodes, [value("x", [3]), value("c", [], boolean), value("d", [], boolean)], [value("z", None)]))
  inputs = {"x": np.float32([1, 2, 3]), "c": np.array(True), "d": np.array(True)}
  assert run(path, inputs).within
  found = triage(load(path), inputs)
  assert [step.op for step in found.steps] == ["Mul", "Tanh", "Identity", "Identity", "Not", "Mul", "Identity"] and found.first is None
  assert [step.op for step in triage(load(path), inputs | {"c": np.array(False), "d": np.array(False)}).steps] == [
    "Neg", "Identity", "Not", "Neg", "Identity"]
  monkeypatch.setitem(OURS, "Tanh", BROKEN["Tanh"])
  found = triage(load(path), inputs)
  assert found.first == 1 and found.alone is True and "operator 1, Tanh 'i'" in found.verdict
