"""The training examples, a few steps each; `make train` takes them to their goals."""
from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tinygrad import Tensor, nn
from tinygrad.helpers import Context

from examples import accumulation, digits, files, gan, mixed_precision, resume, sorting
from examples.common import InputError, Report, options, run
from examples.files import fill, load_safetensors, save_safetensors
from tinytpu.backend.runtime.stats import stats

STEPS = 3
"""The third is the first that TinyJit replays."""
RUNS: dict[str, tuple[float, Callable[[], Callable[[], Tensor]]]] = {  # tolerance of losses, and what prepares a step
  "digits, SGD": (1e-4, lambda: digits.prepare(1, 2, 0.0, "sgd", lambda: digits.Net(2, 3))[0]),
  "bfloat16, Adam": (2e-2, lambda: mixed_precision.prepare(1, 2, 0.0, "adam", lambda: mixed_precision.Bfloat16Net(2, 3))[0]),
  "sorting": (1e-4, lambda: sorting.prepare(1, 2, 4e-3, STEPS)[0])}


@pytest.mark.parametrize("name", RUNS)
def test_losses_are_those_of_tinygrads_python_device(name, monkeypatch):
  """With nets that are small enough for that device."""
  for size, small in (("WIDTH", 4), ("LENGTH", 4), ("LAYERS", 1)):
    monkeypatch.setattr(sorting, size, small)
  tolerance, prepare = RUNS[name]
  losses, steady = {}, []
  for device in ("TINYTPU", "PYTHON"):
    with Context(DEV=device, TRAINING=1):
      step = prepare()
      for _ in range(STEPS):
        losses.setdefault(device, []).append(step().item())
      if device == "TINYTPU":
        for _ in range(2):
          before, programs = stats.cycles, stats.programs
          step().item()
          steady.append(stats.cycles - before)
          assert stats.programs == programs, "a captured step compiles nothing"
  np.testing.assert_allclose(losses["TINYTPU"], losses["PYTHON"], rtol=tolerance)
  assert len(set(losses["TINYTPU"])) == STEPS and abs(steady[0] - steady[1]) < 0.01 * steady[0]


def test_accumulated_gradients_are_those_of_the_large_batch(monkeypatch, capsys, tmp_path):
  files = ["--plot", str(tmp_path / "c.svg"), "--json", str(tmp_path / "n.json")]
  monkeypatch.setattr(sys, "argv", ["accumulation", "--steps", "3", "--batch", "8", *files])
  assert accumulation.main() == 0
  numbers = json.loads((tmp_path / "n.json").read_text())
  assert 0 < numbers["first_gradient"] < 1e-6 and 0 < numbers["weights"] < 1e-6 and numbers["cycles_a_step"] > 1000
  out = capsys.readouterr().out
  assert "cycles a step" in out and out.startswith("seed 1, 3 steps on TINYTPU\n")
  text = (tmp_path / "c.svg").read_text()
  assert ET.fromstring(text).tag.endswith("svg") and "whole batch" in text and len(text) < 60_000


def test_a_resumed_run_ends_with_the_same_bits(monkeypatch, capsys, tmp_path):
  """With a smaller net, and one process for what `make train` does in three."""
  def here(command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
    monkeypatch.setattr(sys, "argv", command[2:])
    return subprocess.CompletedProcess(command, resume.main())
  monkeypatch.setattr(resume.subprocess, "run", here)
  monkeypatch.setattr(resume, "Net", lambda: digits.Net(2, 3))
  monkeypatch.setattr(sys, "argv", ["resume", "--steps", "3", "--batch", "4", "--json", str(tmp_path / "n.json")])
  assert resume.main() == 0
  assert capsys.readouterr().out.splitlines()[-1] == "23 of 23 tensors (4,312 bytes) equal bit for bit"
  assert json.loads((tmp_path / "n.json").read_text())["steps"] == 6


def test_writing_that_fails_leaves_the_old_checkpoint(tmp_path, monkeypatch):
  path = tmp_path / "net.safetensors"
  save_safetensors({"x": Tensor([1.0, 2.0])}, path)

  def interrupted(tensors: dict[str, Tensor], name: str) -> None:
    Path(name).write_bytes(b"half")
    raise KeyboardInterrupt
  monkeypatch.setattr(files, "safe_save", interrupted)
  with pytest.raises(KeyboardInterrupt):
    save_safetensors({"x": Tensor([3.0, 4.0])}, path)
  assert list(tmp_path.iterdir()) == [path] and load_safetensors(path)["x"].tolist() == [1.0, 2.0]


def test_near_tells_clusters_apart():
  points = np.array([*gan.CENTRES, [0.0, 0.0], [gan.CENTRES[0][0] + 0.14, 0.0], [gan.CENTRES[0][0] + 0.16, 0.0]])
  np.testing.assert_allclose(gan.near(points), [2 / 11] + 7 * [1 / 11])


def test_what_does_not_fit_device_memory_is_one_sentence(monkeypatch, capsys):
  monkeypatch.setattr(sys, "argv", ["x.py"])
  with pytest.raises(SystemExit, match="2"):
    run(lambda: Tensor.zeros(1 << 31).contiguous().realize() and 0)
  err = capsys.readouterr().err
  assert "device memory" in err and err.startswith("x: ") and err.count("\n") == 1


def test_a_missed_goal_is_exit_code_1(capsys):
  report = Report(options("", steps=3, rate=0.1).parse_args([]), "held out")
  for loss in (3.0, 2.0, 1.5):
    report.step(loss)
  report.evaluated(0.96)
  assert report.finish(0.97) == 1 and report.finish(0.96) == 0
  assert "held out: 96.00%, goal 97%" in capsys.readouterr().out


# -- what cannot be used ------------------------------------------------------------------------------
@pytest.mark.parametrize(("module", "words", "says"), [
  (sorting, ["--steps", "2"], "2 steps: at least 3 are needed"), (sorting, ["--batch", "0"], "0: must be at least 1"),
  (gan, ["--rate", "nan"], "nan: must be above 0"), (gan, ["--seed", "-1"], "-1: must be from 0 to 2^32 - 1"),
  (digits, ["--json", "no/such/n.json"], "no/such/n.json: there is no folder no/such"), (digits, ["--plot", "/"], "/: is a folder"),
  (accumulation, ["--parts", "5"], "a batch of 64 cannot be cut into 5 parts"),
  (resume, ["--resume", "x", "--rate", "1"], "--rate and --seed are the checkpoint's")], ids=lambda v: v[0] if isinstance(v, list) else "")
def test_options_that_make_no_sense(module, words, says, monkeypatch, capsys):
  monkeypatch.setattr(sys, "argv", ["x", *words])
  with pytest.raises(SystemExit, match="2"):
    module.main()
  assert says in capsys.readouterr().err


def test_checkpoints_that_do_not_fit(tmp_path):
  net = nn.Linear(3, 2)
  path = tmp_path / "net.safetensors"
  save_safetensors(nn.state.get_state_dict(net), path)
  saved = load_safetensors(path)
  np.testing.assert_array_equal(saved["weight"].numpy(), net.weight.numpy())

  def refuse(model: dict[str, Tensor], match: str) -> None:
    with pytest.raises(InputError, match=match):
      fill(model, saved, path)
  weight, bias = Tensor.zeros(2, 3), Tensor.zeros(2)
  refuse({"weight": weight, "bias": bias, "gain": bias}, "net.safetensors has no tensor gain$")
  refuse({"weight": weight}, "has a tensor bias, for which the model has no place")
  refuse({"weight": Tensor.zeros(3, 2), "bias": bias}, "weight is 2x3, the model's is 3x2")
  refuse({"weight": weight, "bias": Tensor.zeros(2, dtype="int32")}, "bias is of float, the model's of int")


def test_a_checkpoint_that_is_none(example, tmp_path):
  (tmp_path / "bad").write_text("nothing of the kind")
  done = example("resume", "--resume", tmp_path / "bad", code=2)
  assert done.stderr == f"resume: {tmp_path / 'bad'} is no safetensors file, or is cut short or damaged\n"
  missing = Path(tmp_path / "missing")
  assert "missing cannot be read: No such file" in example("resume", "--resume", missing, code=2).stderr and not missing.exists()
