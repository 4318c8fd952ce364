"""The command line as tests use it: in this process, and in one of its own."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from tinytpu.cli import app

ADD = """.kernel add
.arg 0 buf 0
.arg 1 var n
  hld.w v1, [s32]
  vadd v1, v1, s33
  hst.w v1, [s32]
  fence
  halt
"""


def cli(*args: str, code: int = 0) -> str:
  """Output of a command that must end with exit code `code`."""
  result = CliRunner().invoke(app, args)
  assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
  return result.output


SCRIPT = "import sys; from tinytpu.cli import main; sys.argv[0] = 'tinytpu'; main()"


def shell(*args: str, text: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
  """The command in a process of its own: what a user sees of errors."""
  return subprocess.run([sys.executable, "-c", SCRIPT, *args], input=text, capture_output=True, text=True, check=False,
                        cwd=Path(__file__).parents[2], env={**os.environ, **environment})
