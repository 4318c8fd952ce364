"""`tinytpu onnx` and its Python API on models that run."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner

from tests.onnx.models import mlp, model, one, value
from tinytpu.cli import app
from tinytpu.machine.both import EngineMismatch
from tinytpu.onnx import Comparison, load, reference, run
from tinytpu.onnx.compare import compare
from tinytpu.onnx.inputs import complete

Saved = Callable[..., Path]


def command(*args: object, code: int = 0) -> str:
  result = CliRunner().invoke(app, ["onnx", *map(str, args)])
  assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
  return result.stdout


def report(*args: object, code: int = 0) -> dict:
  return json.loads(command(*args, "--json", code=code))


def test_the_report(saved: Saved) -> None:
  text = command(saved(mlp()))
  for part in ("y", "2x3", "float32", "1e-04", "within", "cycles", "kernels", "host fallbacks 0", "matrix unit busy", "simulation"):
    assert part in text


def test_the_report_as_json(saved: Saved) -> None:
  fields = report(saved(mlp("n")), "--dim", "n=4")
  output, = fields["outputs"]
  assert (output["name"], output["shape"], output["dtype"], output["within"]) == ("y", [4, 3], "float32", True)
  assert 0 <= output["relative"] <= output["budget"] == 1e-4
  assert fields["cycles"] > 50 and fields["launches"] >= fields["kernels"] >= 2 and fields["counters"]["mxu_steps"] > 0
  assert 0 < fields["matrix_share"] < 1 and fields["host_fallbacks"] == 0 and fields["within"]
  assert fields["compilation_seconds"] >= 0 < fields["simulation_seconds"]
  assert report(saved(mlp("n")), "--dim", "n=4")["cycles"] == fields["cycles"]


def test_putting_an_output_into_place_counts(saved: Saved) -> None:
  proto, inputs = one("Transpose", [np.arange(32, dtype=np.float32).reshape(4, 8)])
  result = run(saved(proto), inputs)
  assert result.within and sum(result.kernels.values()) == 1 and result.cycles > 16


def test_inputs_come_from_files_and_values(saved: Saved, tmp_path: Path, floats: Callable[..., np.ndarray]) -> None:
  path, x = saved(mlp("n")), floats(3, 8)
  np.save(tmp_path / "x.npy", x)
  np.savez(tmp_path / "x.npz", x=x)
  expected = reference.outputs(load(path).proto, {"x": x})["y"]
  for given in (tmp_path / "x.npy", tmp_path / "x.npz", f"x={tmp_path / 'x.npy'}"):
    command(path, "-i", given, "--save", tmp_path / "y.npz")
    np.testing.assert_allclose(np.load(tmp_path / "y.npz")["y"], expected, rtol=1e-5, atol=1e-6)
  one_row = saved(mlp(1))
  command(one_row, "-i", "x=1,2,3,4,5,6,7,-0.5", "--save", tmp_path / "y.npz")
  expected = reference.outputs(load(one_row).proto, {"x": np.array([[1, 2, 3, 4, 5, 6, 7, -0.5]], np.float32)})["y"]
  np.testing.assert_allclose(np.load(tmp_path / "y.npz")["y"], expected, rtol=1e-5)


def test_outputs_of_any_name_are_saved(saved: Saved, tmp_path: Path) -> None:
  names = ["file", "a/b:0", "y"]
  path = saved(model([helper.make_node("Mul", ["x", f"k{i}"], [name]) for i, name in enumerate(names)], [value("x", [2])],
                     [value(name, [2]) for name in names], {f"k{i}": np.float32([i + 1]) for i in range(3)}))
  command(path, "-i", "x=1,-2", "--save", tmp_path / "y.npz")
  with np.load(tmp_path / "y.npz") as arrays:
    assert {name: arrays[name].tolist() for name in arrays} == {"file": [1, -2], "a/b:0": [2, -4], "y": [3, -6]}


def test_random_inputs_come_from_the_seed(saved: Saved) -> None:
  infos = [value("x", ["n", 3]), value("i", ["n"], TensorProto.INT64), value("b", [2], TensorProto.BOOL), value("s", [])]
  loaded = load(saved(model([helper.make_node("Identity", [v.name], [f"{v.name}_"]) for v in infos], infos,
                            [value(f"{v.name}_", None, v.type.tensor_type.elem_type) for v in infos])))
  first, again, other = (complete(loaded, {}, {"n": 50}, seed) for seed in (1, 1, 2))
  assert {name: (a.shape, str(a.dtype)) for name, a in first.items()} == {
    "x": ((50, 3), "float32"), "i": ((50,), "int64"), "b": ((2,), "bool"), "s": ((), "float32")}
  assert all(np.array_equal(first[name], again[name]) for name in first) and not np.array_equal(first["x"], other["x"])
  assert set(first["i"]) == {0, 1}
  bound = complete(loaded, {"i": np.zeros(4, np.int64)})
  assert bound["x"].shape == (4, 3)  # the size of n comes from the array that is given
  assert run(loaded, dims={"n": 5}).within


def test_free_dimensions_without_a_name(saved: Saved) -> None:
  """Each has its own, also where a file calls all of them "?"."""
  info = value("x", ["?", "?", None, 3])
  loaded = load(saved(model([helper.make_node("Neg", ["x"], ["y"])], [info], [value("y", None)])))
  assert loaded.inputs[0].shape == ("x:0", "x:1", "x:2", 3)
  assert report(loaded.path, "--dim", "x:0=2", "--dim", "x:1=4", "--dim", "x:2=1")["outputs"][0]["shape"] == [2, 4, 1, 3]


def test_an_output_outside_the_budget(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
  path = saved(mlp())
  real = reference.outputs
  monkeypatch.setattr(reference, "outputs", lambda *args: {name: a * (1 + 1e-3) for name, a in real(*args).items()})
  text = command(path, code=5)
  assert "outside the budget" in text
  assert not report(path, code=5)["within"]
  assert report(path, "--budget", "float32=1e-2")["within"] and report(path, "--budget", "1e-2")["within"]
  assert not report(path, "--budget", "1e-2", "--budget", "float32=1e-4", code=5)["within"]


def test_differing_engines_have_their_own_code(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
  def differ(*_: object, **__: object) -> None:
    raise EngineMismatch("engines differ in the program at 0x0")
  monkeypatch.setattr("tinytpu.onnx.execute.Runner.__call__", differ)
  command(saved(mlp()), code=4)


def test_both_engines(saved: Saved) -> None:
  """In a process of its own: the engine is chosen once for a process."""
  script = "import sys; from tinytpu.cli import main; sys.argv[0] = 'tinytpu'; main()"
  environment = {key: v for key, v in os.environ.items() if key != "DEV"} | {"PYTHONPATH": str(Path(__file__).parents[2])}
  result = subprocess.run([sys.executable, "-c", script, "onnx", str(saved(mlp())), "--engine", "both", "--json"], env=environment,
                          capture_output=True, text=True, check=False)
  assert result.returncode == 0, result.stderr
  fields = json.loads(result.stdout)
  assert fields["engine"] == "both" and fields["within"]
  assert fields["cycles"] == run(saved(mlp())).cycles


@pytest.mark.parametrize("name", ["onnx", "onnxruntime"])
def test_without_the_extra(saved: Saved, name: str) -> None:
  script = f"import sys; sys.modules[{name!r}] = None; from tinytpu.cli import main; sys.argv[0] = 'tinytpu'; main()"
  result = subprocess.run([sys.executable, "-c", script, "onnx", str(saved(mlp()))], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])})
  assert result.returncode == 1 and result.stderr.startswith(f"error: {name} is missing: pip install 'tinytpu[onnx]'\n")


def test_float64_is_run_as_float32(saved: Saved, rng: np.random.Generator) -> None:
  double = TensorProto.DOUBLE
  nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Cast", ["i"], ["j"], to=double),
           helper.make_node("Constant", [], ["c"], value=helper.make_tensor("c", double, [1], [0.1])),
           helper.make_node("Sum", ["h", "j", "c"], ["y"])]
  proto = model(nodes, [value("x", [2, 4], double), value("i", [2, 3], TensorProto.INT32)], [value("y", [2, 3], double)],
                {"w": rng.standard_normal((4, 3))})
  result = run(saved(proto))
  assert result.within and result.notes == ["float64 is run as float32"]
  assert result.outputs["y"].dtype == np.float32 and result.comparisons[0].dtype == "float64"
  assert "note: float64 is run as float32" in command(saved(proto))


@pytest.mark.parametrize("dtype", ["float16", "int32", "int64", "uint8", "bool"])
def test_other_dtypes(saved: Saved, dtype: str) -> None:
  kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
  nodes = [helper.make_node("Where", ["c", "x", "z"], ["y"]) if dtype != "bool" else helper.make_node("Xor", ["x", "z"], ["y"])]
  proto = model(nodes, [value("c", [3, 5], TensorProto.BOOL), value("x", [3, 5], kind), value("z", [5], kind)], [value("y", [3, 5], kind)])
  result = run(saved(proto), seed=3)
  assert result.within and result.comparisons[0].dtype == dtype and result.comparisons[0].budget == (1e-2 if dtype == "float16" else 0)


def test_local_functions_are_put_in_line(agrees: Callable[..., None]) -> None:
  function = helper.make_function("my", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])],
                                  [helper.make_opsetid("", 17)])
  proto = model([helper.make_node("Twice", ["x"], ["y"], domain="my")], [value("x", [3])], [value("y", [3])], functions=[function])
  proto.opset_import.append(helper.make_opsetid("my", 1))
  agrees(proto)


def test_a_run_does_not_remember_the_one_before(saved: Saved) -> None:
  """The front end keeps shapes that it has read, by name."""
  proto, _ = one("Reshape", [np.zeros((2, 6), np.float32), np.array([3, 4])])
  path, x = saved(proto), np.arange(12, dtype=np.float32).reshape(2, 6)
  for shape in ([3, 4], [4, 3]):
    result = run(path, {"x0": x, "x1": np.array(shape)})
    assert result.within and result.outputs["y0"].shape == tuple(shape)


@pytest.mark.parametrize("got, reference, wrong", [
  ([1.0, 2.0], [1.0, 2.0], ""), ([1.0, 2.00019], [1.0, 2.0], ""), ([1.0, 2.0003], [1.0, 2.0], "outside the budget"),
  ([np.nan, 1], [np.nan, 1], ""), ([np.nan, 1], [0, 1], "infinities"), ([0, 1], [np.nan, 1], "infinities"),
  ([np.inf, 1], [np.inf, 1], ""), ([-np.inf, 1], [np.inf, 1], "infinities"), ([1e30, 1], [np.inf, 1], "infinities"),
  ([0, 0], [0, 0], ""), ([1e-7, 0], [0, 0], ""), ([3e-7, 0], [0, 0], "outside"),
  ([1.1e-6, 3e-6], [1e-6, 3e-6], ""), ([1.3e-6, 3e-6], [1e-6, 3e-6], "outside"), ([1, 2, 3], [1, 2], "shape"), ([], [], "")])
def test_comparison_of_floats(got: list, reference: list, wrong: str) -> None:
  result = compare("y", np.array(got, np.float32), np.array(reference, np.float32))
  assert result.wrong.startswith(wrong) and result.within == (not wrong) and result.budget == 1e-4
  json.dumps(result.json(), allow_nan=False)


def test_comparison_of_other_dtypes() -> None:
  def of(got: np.ndarray, reference: np.ndarray) -> Comparison:
    return compare("y", got, reference)
  big = np.array([2**62, 5])
  assert of(big, big).within and not of(big + 1, big).within and not of(big.astype(np.int32), big).within
  assert of(np.array([True]), np.array([True])).within and not of(np.array([True]), np.array([False])).within
  assert of(np.float32([1]), np.array([1.00001])).within and not of(np.float16([1]), np.float32([1])).within
  assert compare("y", np.int8([7]), np.int8([8]), {"int8": 0.2}).within


def test_profile(saved: Saved, tmp_path: Path) -> None:
  """The report is of the cycles that the command prints; in a process of its own, in which the device is opened for it."""
  script = "import sys; from tinytpu.cli import main; sys.argv[0] = 'tinytpu'; main()"
  environment = {key: v for key, v in os.environ.items() if key != "DEV"} | {"PYTHONPATH": str(Path(__file__).parents[2])}
  command_line = [sys.executable, "-c", script, "onnx", str(saved(mlp())), "--profile", str(tmp_path / "p")]
  result = subprocess.run([*command_line, "--json"], env=environment, capture_output=True, text=True, check=False)
  assert result.returncode == 0, result.stderr
  fields, found = json.loads(result.stdout), json.loads((tmp_path / "p" / "report.json").read_text())
  assert found["run"]["cycles"] == fields["cycles"] and found["run"]["launches"] == fields["launches"]
  assert (tmp_path / "p" / "report.html").exists() and (tmp_path / "p" / "trace.pftrace").exists()


def test_a_profile_takes_a_process_of_its_own(saved: Saved, tmp_path: Path) -> None:
  path = saved(mlp())
  run(path)
  result = CliRunner().invoke(app, ["onnx", str(path), "--profile", str(tmp_path / "p")])
  assert "has opened TINYTPU without a trace: a profile takes a process of its own" in str(result.exception)
  result = CliRunner().invoke(app, ["onnx", str(path), "--profile", str(tmp_path / "p"), "--triage", str(tmp_path / "t")])
  assert "take two runs" in str(result.exception)
  result = CliRunner().invoke(app, ["onnx", str(path), "--profile", str(path)])
  assert "expected a folder" in str(result.exception)
  assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]
