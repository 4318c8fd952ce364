"""What holds from Python's start to its end, and where the package can be."""
from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "tinytpu"


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
  """Run code in a process of its own, away from the sources."""
  return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd="/",
                        env={**os.environ, "DEV": "TINYTPU", **environment})


@pytest.mark.parametrize("before", ["", "from tinygrad import Tensor"])
def test_exit_handlers_may_compute(before: str) -> None:
  """Handlers run last come first: those registered before tinygrad's own run after it."""
  result = python(f"""
{before}
import atexit
atexit.register(lambda: print((x + 1).tolist(), (Tensor([7]) * 2).tolist()))
from tinygrad import Tensor
x = Tensor([1, 2]).realize()
print("end")
""")
  assert (result.stdout, result.stderr) == ("end\n[2, 3] [14]\n", ""), result.stderr


def test_the_device_is_closed_after_them() -> None:
  result = python("""
import atexit, sys
from tinytpu import boot
def register():
  from tinytpu.machine.iss import IssEngine
  close = IssEngine.close
  IssEngine.close = lambda self: (print("closed"), close(self))
atexit.register(lambda: print("handler"))
register()
from tinygrad import Tensor
print((Tensor([1, 2]) + 1).tolist())
""")
  assert (result.stdout, result.stderr) == ("[2, 3]\nhandler\nclosed\n", ""), result.stderr


def test_a_package_in_an_archive_says_that_it_cannot_run(tmp_path: Path) -> None:
  archive = tmp_path / "tinytpu.zip"
  with zipfile.ZipFile(archive, "w") as target:
    for path in PACKAGE.rglob("*.py"):
      target.write(path, path.relative_to(PACKAGE.parent))
  for code in ("import tinytpu", "from tinytpu.cli import main; main()", "import tinytpu.boot"):
    result = python(code, PYTHONPATH=str(archive))
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == ("ImportError: TinyTPU compiles the sources that it is made of and cannot run from an "
                                              f"archive ({archive}/tinytpu): unpack it, or install it with pip")
