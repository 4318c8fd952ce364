"""docs/profiling.md: its programs do what it says, to the cycle."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tinytpu.profile.report import load

ROOT = Path(__file__).parents[2]
MAIN = "import sys; from tinytpu.cli import main; sys.argv[0] = 'tinytpu'; main()"


def squeezed(text: str) -> str:
  return re.sub(r"\s+", " ", text)


def test_the_question_is_answered_so(tmp_path: Path) -> None:
  text = (ROOT / "docs" / "profiling.md").read_text()
  for name, program in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", text, re.S):
    (tmp_path / name).write_text(program)
  environment = {key: value for key, value in os.environ.items() if key not in ("DEV", "TINYTPU_PROFILE")}
  environment |= {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
  commands = 0
  for block in re.findall(r"```\n(\$ .*?)```", text, re.S):
    said, lines = "", block.splitlines()
    for line in lines:
      if line.startswith("$ tinytpu "):
        result = subprocess.run([sys.executable, "-c", MAIN, *line.split()[2:]], capture_output=True, text=True, cwd=tmp_path, check=False,
                                env=environment)
        assert result.returncode == 0, result.stderr
        said, commands = said + squeezed(result.stdout), commands + 1
    for line in lines:
      if not line.startswith("$"):
        assert squeezed(line).removesuffix("...") in said, line
  assert commands == 3
  report = load(tmp_path / "before")
  quotients = report["kernels"][0]
  divisions = [g for g in quotients["groups"] if "vfdiv" in g["text"]]
  assert len(divisions) == 16 and {g["issued"] for g in divisions} == {256}
  assert f"{quotients['roofline']['limit']:,}" == "151,552" == f"{16 * 256 * 37:,}" and "151,552" in text
  row = re.search(r"\| `(vfdiv[^`]*)` \| ([\d,]+) \| ([\d,]+) \| (\w+) ([\d,]+) \|", text)
  assert row is not None
  group, = (g for g in divisions if g["text"] == row[1])
  assert [f"{group['issued']:,}", f"{group['cycles']:,}", group["cause"], f"{group['wait']:,}"] == list(row.groups()[1:])
  assert load(tmp_path / "after")["kernels"][1]["roofline"]["unit"] == "transcendental"
