"""`tinytpu profile` as a user runs it, with programs that end badly; and reports that are none."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tinytpu.isa.stalls import CAUSES
from tinytpu.profile import collect, compare, perfetto, roofline
from tinytpu.profile.report import FILES, REPORT, VERSION, ReportError, load
from tinytpu.trace import SPAN_UNITS

MAIN = "import sys; from tinytpu.cli import main; sys.argv[0] = 'tinytpu'; main()"
ROOT = Path(__file__).parents[2]


def environment() -> dict[str, str]:
  return {key: value for key, value in os.environ.items() if key not in ("DEV", "TINYTPU_PROFILE")} | {"PYTHONPATH": str(ROOT)}


def command(*args: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
  return subprocess.run([sys.executable, "-c", MAIN, "profile", *map(str, args)], capture_output=True, text=True, check=False, cwd=cwd,
                        env=environment())


PROGRAM = """
import os, subprocess, sys
from tinygrad import Device, Tensor
assert __name__ == "__main__" and Device.DEFAULT == "TINYTPU"
print((Tensor([1.0, 2.0]) + 1).tolist(), sys.argv[1:])
assert "TINYTPU_PROFILE" not in os.environ
"""


def test_a_program_that_exits(tmp_path: Path) -> None:
  """With arguments, a forked child that computes too and ends in peace, and code 7 in the end."""
  program = tmp_path / "program.py"
  program.write_text(PROGRAM + """
if (child := os.fork()) == 0:
  Tensor([1.0, 2.0, 3.0]).exp().tolist()
  sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
sys.exit(7)
""")
  out = tmp_path / "a folder" / "below"
  (tmp_path / "a folder").mkdir()
  result = command("--out", out, program, "--out", "x y", "-m", cwd=tmp_path)
  assert result.returncode == 7, result.stdout + result.stderr
  assert "[2.0, 3.0] ['--out', 'x y', '-m']" in result.stdout and "ended with exit code 7" in result.stdout
  report = load(out)
  assert report["command"][1:] == ["--out", "x y", "-m"]
  assert sorted(path.name for path in out.iterdir()) == sorted(FILES)
  assert perfetto.busy((out / FILES[2]).read_bytes())["vector_alu"] == report["run"]["units"]["vector_alu"] > 0
  assert [(k["name"], k["launches"]) for k in report["kernels"]] == [("E_2", 1), ("spill", 1)]  # nothing of the child's


def test_a_program_that_raises_and_one_that_launches_nothing(tmp_path: Path) -> None:
  program = tmp_path / "program.py"
  program.write_text(PROGRAM + "raise ValueError('mine')")
  result = command(program, cwd=tmp_path)
  assert result.returncode == 1 and "ValueError: mine" in result.stderr
  assert load(tmp_path / "tinytpu-profile")["run"]["launches"] == 2
  program.write_text("print('idle')")
  result = command(program, cwd=tmp_path)  # the report of before is gone
  assert result.returncode == 1 and "left no report: it launched nothing on TINYTPU (DEV=TINYTPU)" in result.stderr
  assert not list((tmp_path / "tinytpu-profile").iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_program_that_is_interrupted(tmp_path: Path, number: int) -> None:
  """An interrupt of all, as a terminal sends it; SIGTERM to the command alone."""
  program = tmp_path / "endless.py"
  program.write_text("import time\nfrom tinygrad import Tensor\nprint((Tensor([1.0]) + 1).tolist(), flush=True)\ntime.sleep(60)")
  process = subprocess.Popen([sys.executable, "-c", MAIN, "profile", str(program)], cwd=tmp_path, env=environment(),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
  assert process.stdout is not None and process.stdout.readline()
  time.sleep(0.1)  # not to meet it in a destructor, which swallows it
  (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
  _, said = process.communicate(timeout=30)
  assert process.returncode == 128 + number, said.decode()
  assert load(tmp_path / "tinytpu-profile")["run"]["launches"] == 2


def test_a_program_that_removes_its_folders_and_is_ended_twice(tmp_path: Path) -> None:
  """SIGTERM to the whole group, as `timeout` and `docker stop` may send it, comes to the program from the command as well."""
  program = tmp_path / "endless.py"
  program.write_text("""
import os, shutil, time
from tinygrad import Tensor
os.mkdir("below")
os.chdir("below")
os.rmdir("../below")
print((Tensor([1.0]) + 1).tolist(), flush=True)
shutil.rmtree(os.path.dirname(__file__) + "/tinytpu-profile")
time.sleep(60)
""")
  process = subprocess.Popen([sys.executable, "-c", MAIN, "profile", str(program)], cwd=tmp_path, env=environment(),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
  assert process.stdout is not None and process.stdout.readline() == b"[2.0]\n"
  while (tmp_path / "tinytpu-profile").exists():
    time.sleep(0.01)
  os.killpg(process.pid, signal.SIGTERM)
  time.sleep(0.3)
  os.killpg(process.pid, signal.SIGTERM)
  _, said = process.communicate(timeout=30)
  assert process.returncode == 128 + signal.SIGTERM, said.decode()
  assert [row["where"] for row in load(tmp_path / "tinytpu-profile")["run"]["lines"]] == ["endless.py:7"]
  assert sorted(path.name for path in (tmp_path / "tinytpu-profile").iterdir()) == sorted(FILES)


def test_a_report_that_cannot_be_written(tmp_path: Path) -> None:
  program = tmp_path / "program.py"
  program.write_text(PROGRAM + "import shutil\nshutil.rmtree('out')\nopen('out', 'w').close()")
  result = command("--out", "out", program, cwd=tmp_path)
  assert result.returncode == 1 and "the report could not be written: " in result.stderr and "left no report" in result.stderr
  assert "Traceback" not in result.stderr


def test_a_program_that_we_do_not_start(tmp_path: Path) -> None:
  """The folder is the one that was meant when it began."""
  elsewhere = "import os, tinytpu.boot\nos.mkdir('below')\nos.chdir('below')\n"
  result = subprocess.run([sys.executable, "-c", elsewhere + PROGRAM], capture_output=True, text=True, cwd=tmp_path,
                          check=False, env={**environment(), "DEV": "TINYTPU::8x8", "TINYTPU_PROFILE": "here"})
  assert result.returncode == 0, result.stderr
  assert load(tmp_path / "here")["machine"] == {"preset": "8x8", "engine": "iss", "clock_hz": 10**9}


def test_packages_that_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setattr(collect, "NEEDED", ("plotly", "no_such_package"))
  with pytest.raises(RuntimeError, match=r"a profile needs no_such_package: pip install 'tinytpu\[profile\]'"):
    collect.begin(tmp_path / "out")
  assert not list(tmp_path.iterdir())


# -- reports ----------------------------------------------------------------------------------------

def report(**cycles: int) -> dict[str, Any]:
  kernels = [{"name": name, "kind": "kernel", "cycles": n, "causes": dict.fromkeys(CAUSES, 0) | {"issue": n}} for name, n in cycles.items()]
  return {"format": "tinytpu profile", "version": VERSION, "machine": {"preset": "4x4", "engine": "iss", "clock_hz": 10**9},
          "run": {"cycles": sum(cycles.values())}, "kernels": kernels}


def test_compare_and_its_exit_codes(tmp_path: Path) -> None:
  for name, cycles in (("a", {"x": 900, "y": 100}), ("b", {"x": 890, "y": 131, "[z]": 9})):
    (tmp_path / name).mkdir()
    (tmp_path / name / REPORT).write_text(json.dumps(report(**cycles)))
  result = command("--compare", "a", f"b/{REPORT}", "--fail-above", "3%", cwd=tmp_path)
  assert result.returncode == 2  # options come first
  result = command("--compare", "--fail-above", "3%", "a", f"b/{REPORT}", cwd=tmp_path)
  assert result.returncode == 0 and "1,000 cycles before, 1,030 after: +3.00%" in result.stdout, result.stderr
  rows = [line for line in result.stdout.splitlines() if line.startswith("│")]
  assert [row.split("│")[1].strip() for row in rows] == ["y", "[z]", "x"] and "+31.0%" in rows[0] and "new" in rows[1]
  result = command("--compare", "--fail-above", "2.9%", "a", "b", cwd=tmp_path)
  assert result.returncode == 6 and "slower by more than 2.9%" in result.stdout
  assert command("--compare", "--fail-above", "2.9%", "b", "a", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(("args", "message"), [
  (("--compare", "a"), "--compare takes two reports"), (("--compare", "--fail-above", "2", "a", "a"), "expected a percentage like 2%"),
  (("--fail-above", "2%", "p.py"), "add --compare"), (("none.py",), "none.py: no such program")])
def test_wrong_usage(tmp_path: Path, args: tuple[str, ...], message: str) -> None:
  result = command(*args, cwd=tmp_path)
  assert result.returncode == 2 and message in result.stderr and "Traceback" not in result.stderr


@pytest.mark.parametrize(("change", "message"), [
  ({"version": VERSION + 1}, f"is a report of version {VERSION + 1}, this TinyTPU reads {VERSION}: make it again"),
  ({"format": "other"}, "is no report of `tinytpu profile`"), ({"run": {"cycles": 1}}, "cycles do not add up to the run's"),
  ({"run": {"cycles": 0}, "kernels": []}, "it names no machine, or no cycle"), ({"machine": {"preset": 4, "clock_hz": 1}}, "no machine"),
  ({"machine": 3}, "of another kind"), ({"machine": {"preset": "4x4"}}, "a field is missing"),
  ({"kernels": [{"name": "k"}]}, "a field is missing"), ({"kernels": 3}, "of another kind")])
def test_reports_that_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
  path = tmp_path / REPORT
  path.write_text(json.dumps(report(x=5) | change))
  with pytest.raises(ReportError, match=message) as raised:
    load(tmp_path)
  assert str(path) in str(raised.value)
  for text in ("{", "[]", "\0", "[" * 100_000):
    path.write_text(text)
    with pytest.raises(ReportError, match="is no report"):
      load(path)


def test_a_kernel_whose_causes_do_not_add_up(tmp_path: Path) -> None:
  broken = report(x=5, y=6)
  broken["kernels"][1]["causes"]["issue"] = 7
  (tmp_path / REPORT).write_text(json.dumps(broken))
  with pytest.raises(ReportError, match="causes of kernel 'y' do not add up to its cycles"):
    load(tmp_path)


def test_changes_are_in_order() -> None:
  changes = compare.compare(report(a=10, b=20, c=30), report(c=30, b=50, d=1))
  assert [(c.name, c.before, c.after) for c in changes] == [("b", 20, 50), ("d", 0, 1), ("c", 30, 30), ("a", 10, 0)]
  assert compare.slower(report(a=200), report(b=150)) == -0.25


def test_roofline() -> None:
  units = dict.fromkeys(SPAN_UNITS, 0) | {"array": 40, "vmem": 60, "scalar_alu": 90, "fetch": 95}
  causes = dict.fromkeys(CAUSES, 0) | {"issue": 70, "bucket": 30}
  assert roofline.roofline(100, units, causes) == {"unit": "vmem", "limit": 60, "share": 0.6, "cause": "bucket", "lost": 30}
  nothing = roofline.roofline(70, dict.fromkeys(SPAN_UNITS, 0), dict.fromkeys(CAUSES, 0) | {"issue": 70})
  assert nothing == {"unit": "", "limit": 0, "share": 0.0, "cause": "", "lost": 0}
