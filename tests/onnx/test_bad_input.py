"""What cannot be run is refused before anything runs: one clear sentence, exit code 2, nothing left behind."""
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner

from tests.onnx.models import mlp, model, one, value
from tinytpu.backend.runtime.stats import stats
from tinytpu.cli import app
from tinytpu.cli.common import UsageError
from tinytpu.onnx import OnnxError, RefusedError, load, run

Saved = Callable[..., Path]


def refused(*args: object) -> str:
  """The message of `tinytpu onnx` with arguments that it refuses before it has launched anything."""
  stats.reset()
  result = CliRunner().invoke(app, ["onnx", *map(str, args)])
  assert isinstance(result.exception, UsageError), f"{result.output}\n{result.exception!r}"
  assert stats.launches == 0
  message = str(result.exception)
  assert "\n" not in message and len(message) < 500
  return message


# -- files ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("data", [b"PK\x03\x04" + bytes(100), b"import numpy\n" * 20, bytes(64), b"\x08\x07"])
def test_a_file_that_is_no_model(tmp_path: Path, data: bytes) -> None:
  (tmp_path / "x.onnx").write_bytes(data)
  assert "is no ONNX model" in refused(tmp_path / "x.onnx")


def test_an_empty_file(tmp_path: Path) -> None:
  (tmp_path / "x.onnx").touch()
  assert "x.onnx is empty" in refused(tmp_path / "x.onnx")


def test_a_truncated_file_at_any_length(tmp_path: Path) -> None:
  data = mlp().SerializeToString()
  path = tmp_path / "x.onnx"
  for size in range(1, len(data), 7):
    path.write_bytes(data[:size])
    with pytest.raises(OnnxError, match=r"x\.onnx"):
      load(path)
  path.write_bytes(data[:len(data) // 2])
  assert "cut short or damaged" in refused(path)


def test_a_file_with_damaged_bytes_runs_or_is_refused(tmp_path: Path) -> None:
  """Never another error, whatever the bytes."""
  data = mlp().SerializeToString()
  path, rng, refusals = tmp_path / "x.onnx", np.random.default_rng(0), 0
  for _ in range(300):
    damaged = bytearray(data)
    damaged[int(rng.integers(len(data)))] = int(rng.integers(256))
    path.write_bytes(damaged)
    try:
      load(path)
    except OnnxError as error:
      refusals += 1
      assert "\n" not in str(error)
  assert 30 < refusals < 300


def test_names_that_are_no_text(tmp_path: Path) -> None:
  path = tmp_path / "x.onnx"
  path.write_bytes(mlp().SerializeToString().replace(b"second", b"sec\xffnd"))
  assert "is damaged: the name b'sec\\xffnd' is no UTF-8" in refused(path)


def test_an_unknown_version_of_the_operators(saved: Saved) -> None:
  proto = mlp()
  proto.opset_import[0].version = 999
  assert "uses version 999 of ONNX's operators; versions 1 to" in refused(saved(proto))


def test_an_unknown_operator_set(saved: Saved) -> None:
  proto = mlp()
  proto.opset_import.append(helper.make_opsetid("my.company", 1))
  proto.graph.node[1].domain = "my.company"
  assert "uses operators of the set 'my.company', which cannot be run" in refused(saved(proto))


def test_unknown_operators_are_all_named(saved: Saved) -> None:
  proto = mlp()
  proto.graph.node[0].op_type, proto.graph.node[1].op_type, proto.graph.node[2].op_type = "Foo", "Bar", "Foo"
  assert "operators that the front end does not have: Foo (2 times), Bar" in refused(saved(proto))


def test_an_operator_of_onnx_that_the_front_end_lacks(saved: Saved) -> None:
  proto = model([helper.make_node("Det", ["x"], ["y"])], [value("x", [4, 4])], [value("y", [])])
  assert "an operator that the front end does not have: Det" in refused(saved(proto))


def test_a_graph_that_does_not_hang_together(saved: Saved) -> None:
  proto = mlp()
  proto.graph.node[1].input[0] = "nowhere"
  assert "is no valid ONNX model" in refused(saved(proto))


@pytest.mark.parametrize("damage, message", [("missing", "which does not exist"), ("short", "is too short for the data of 'w1'")])
def test_external_data(tmp_path: Path, damage: str, message: str) -> None:
  path = tmp_path / "x.onnx"
  onnx.save(mlp(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
  assert run(path).within
  weights = tmp_path / "weights.bin"
  if damage == "missing":
    weights.unlink()
  else:
    weights.write_bytes(weights.read_bytes()[:40])
  assert message in refused(path)


def test_types_that_cannot_be_run(saved: Saved) -> None:
  for dtype, name in ((TensorProto.STRING, "string"), (TensorProto.COMPLEX64, "complex64"), (TensorProto.BFLOAT16, "bfloat16")):
    proto = model([helper.make_node("Identity", ["x"], ["y"])], [value("x", [1], dtype)], [value("y", [1], dtype)])
    assert f"is of type {name}" in refused(saved(proto))


def test_sparse_constants(saved: Saved) -> None:
  proto = model([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [4])], [value("y", [4])])
  values, places = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0]), helper.make_tensor("at", TensorProto.INT64, [2], [0, 3])
  sparse = helper.make_sparse_tensor(values, places, [4])
  proto.graph.sparse_initializer.append(sparse)
  assert "constant 'w' is sparse, which cannot be run" in refused(saved(proto))
  node = helper.make_node("Constant", [], ["w"], sparse_value=sparse)
  proto = model([node, helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [4])], [value("y", [4])])
  assert "constant 'w' is sparse, which cannot be run" in refused(saved(proto))


def test_a_sequence_as_input(saved: Saved) -> None:
  sequence = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, [1])
  proto = model([helper.make_node("Identity", ["x"], ["y"])], [sequence], [value("y", [1])])
  assert "'x' is no tensor but a sequence" in refused(saved(proto))


def test_a_missing_file(tmp_path: Path) -> None:
  result = CliRunner().invoke(app, ["onnx", str(tmp_path / "missing.onnx")])
  assert isinstance(result.exception, FileNotFoundError)


def test_a_model_larger_than_device_memory(saved: Saved) -> None:
  weight = np.zeros((600, 600), np.float32)
  path = saved(one("MatMul", [np.zeros((1, 600), np.float32), weight], constants=(1,))[0])
  message = refused(path, "--preset", f"4x4,hbm_bytes={1 << 20}")
  assert "needs 1,442,400 bytes for weights and inputs alone, and device memory has 1,048,576" in message


# -- inputs -----------------------------------------------------------------------------------------

@pytest.fixture
def path(saved: Saved) -> Path:
  return saved(mlp("batch"))


def array(tmp_path: Path, data: np.ndarray, name: str = "x.npy") -> Path:
  np.save(tmp_path / name, data)
  return tmp_path / name


def test_wrong_names(path: Path, tmp_path: Path) -> None:
  np.savez(tmp_path / "in.npz", image=np.zeros((1, 8), np.float32))
  assert "the model has no input 'image'; its inputs: x" in refused(path, "-i", tmp_path / "in.npz")
  assert "the model has no input 'image'; its inputs: x" in refused(path, "-i", "image=1,2")
  assert "the model has no free dimension 'n'; its free dimensions: batch" in refused(path, "--dim", "n=2")


def test_wrong_shapes(path: Path, tmp_path: Path) -> None:
  says = "input 'x' is float32[batch, 8]"
  assert f"{says}, and the array given has shape [8]" in refused(path, "-i", array(tmp_path, np.zeros(8, np.float32)))
  assert f"{says}, and the array given has shape [2, 7]" in refused(path, "-i", array(tmp_path, np.zeros((2, 7), np.float32)))
  two = array(tmp_path, np.zeros((2, 8), np.float32))
  assert f"{says} with batch=3, and the array given has shape [2, 8]" in refused(path, "-i", two, "--dim", "batch=3")


def test_wrong_dtypes(path: Path, tmp_path: Path) -> None:
  message = refused(path, "-i", array(tmp_path, np.zeros((2, 8))))
  assert "input 'x' is float32[batch, 8], and the array given is of type float64" in message
  assert "expected numbers of type float32" in refused(path, "-i", "x=1,two")
  assert "'x=1,2': 2 numbers for float32[batch, 8]" in refused(path, "-i", "x=1,2", "--dim", "batch=2")


def test_files_that_hold_no_arrays(path: Path, tmp_path: Path) -> None:
  (tmp_path / "x.npz").write_bytes(b"no archive")
  (tmp_path / "x.npy").write_bytes(b"")
  np.save(tmp_path / "o.npy", np.array([object()]), allow_pickle=True)
  for name in ("x.npz", "x.npy", "o.npy"):
    assert "holds no arrays of numpy" in refused(path, "-i", tmp_path / name)
  result = CliRunner().invoke(app, ["onnx", str(path), "-i", str(tmp_path / "missing.npy")])
  assert isinstance(result.exception, FileNotFoundError)


def test_dimensions_and_budgets_that_are_none(path: Path) -> None:
  assert "input 'x' has the free dimension 'batch': add --dim batch=SIZE" in refused(path)
  for text in ("batch", "batch=", "=1", "batch=-1", "batch=x", "batch=1.5"):
    assert "expected NAME=SIZE" in refused(path, "--dim", text)
  assert "cannot have size 0" in refused(path, "--dim", "batch=0")
  assert "cannot have size 0" in refused(path, "--dim", "batch=0", "-i", "x=1")
  assert "dimension 'batch' is given twice" in refused(path, "--dim", "batch=1", "--dim", "batch=2")
  for text in ("x", "-1", "nan", "inf", "string=1", "float33=1", "float16="):
    assert "expected a budget such as 1e-3" in refused(path, "--dim", "batch=1", "--budget", text)


def test_inputs_given_twice(path: Path, tmp_path: Path) -> None:
  file = array(tmp_path, np.zeros((2, 8), np.float32))
  assert "input 'x' is given twice" in refused(path, "-i", file, "-i", f"x={file}")


def test_targets_that_cannot_be_written(path: Path, tmp_path: Path) -> None:
  assert "outputs are written as FILE.npz" in refused(path, "--save", tmp_path / "y.txt")
  assert "there is no folder" in refused(path, "--save", tmp_path / "no" / "y.npz")


# -- beyond the checks ------------------------------------------------------------------------------

def test_what_onnxruntime_refuses_is_told(saved: Saved) -> None:
  proto, inputs = one("Reshape", [np.zeros((2, 3), np.float32), np.array([4, 4])], constants=(1,))
  path = saved(proto)
  with pytest.raises(OnnxError, match="onnxruntime cannot run the model on these inputs"):
    run(path, inputs)


def test_an_operator_that_the_front_end_refuses_is_named(saved: Saved) -> None:
  proto, inputs = one("RoiAlign", [np.zeros((1, 1, 4, 4), np.float32), np.zeros((1, 4), np.float32), np.array([0])])
  with pytest.raises(RefusedError, match=r"operator 0, RoiAlign \(which gives 'y0'\), cannot be run: sampling_ratio 0"):
    run(saved(proto), inputs)


def test_the_device_must_be_a_tinytpu(path: Path) -> None:
  from tinygrad.helpers import Context
  with Context(DEV="PYTHON"), pytest.raises(OnnxError, match="tinygrad's device is PYTHON: choose DEV=TINYTPU"):
    run(path, dims={"batch": 1})
  run(path, dims={"batch": 1})
  with Context(DEV="TINYTPU::8x8"), pytest.raises(OnnxError, match="opened TINYTPU as iss 4x4 and cannot change to iss 8x8"):
    run(path, dims={"batch": 1})


@pytest.mark.parametrize("what", ["input", "memory"])
def test_as_a_user_sees_it_and_nothing_is_left_behind(path: Path, saved: Saved, tmp_path: Path, what: str) -> None:
  """Refused before anything runs, or when a value within the model, which the inputs do not tell, is too large."""
  options, message = [], "input 'x' has the free dimension 'batch': add --dim batch=SIZE"
  if what == "memory":
    path = saved(one("MatMul", [np.zeros((1000, 1), np.float32), np.zeros((1, 1000), np.float32)])[0])
    options, message = ["--preset", f"4x4,hbm_bytes={1 << 20}", "--triage", "t"], "does not fit device memory"
  work, temporary = tmp_path / "work", tmp_path / "temporary"
  work.mkdir()
  temporary.mkdir()
  script = "import sys; from tinytpu.cli import main; sys.argv[0] = 'tinytpu'; main()"
  environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(Path(__file__).parents[2])}
  result = subprocess.run([sys.executable, "-c", script, "onnx", str(path), "--save", "y.npz", *options], cwd=work, env=environment,
                          capture_output=True, text=True, check=False)
  assert result.returncode == 2 and result.stdout == ""
  assert message in result.stderr and "Traceback" not in result.stderr
  assert not list(work.iterdir()) and not list(temporary.iterdir())
