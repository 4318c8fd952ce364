"""A profile in a notebook: recorded, shown, written, shown again."""
from __future__ import annotations

import os
import subprocess
import sys
from html import unescape
from pathlib import Path

PROGRAM = """
import re, sys
from html import unescape
import tinytpu.boot
from tinygrad import Tensor
from tinytpu.profile.notebook import Recording, Saved

r = Recording()
assert "nothing was launched" in r._repr_html_()
try:
  r.report
except RuntimeError as error:
  assert "is DEV=TINYTPU" in str(error)
try:
  Recording()
except RuntimeError as error:
  assert "another profile" in str(error)
(Tensor([[1.0, 2.0]]).realize() + 1).exp().realize()
cycles = r.report["run"]["cycles"]
assert cycles > 0 and {row["method"] for row in r.report["run"]["methods"]} >= {"add", "exp"}
shown = r._repr_html_()
page = re.fullmatch(r'<iframe srcdoc="([^"]*)" style="[^"]*"></iframe>', shown)[1]
assert "<h1>TinyTPU profile</h1>" in unescape(page) and f"{cycles:,}" in unescape(page)
r.write(sys.argv[1])
saved = Saved(sys.argv[1])
assert saved.report["run"]["cycles"] == cycles and "<h1>TinyTPU profile</h1>" in unescape(saved._repr_html_())
r.stop()
(Tensor([3.0]).realize() * 2).realize()
assert r.report["run"]["cycles"] == cycles
try:
  Recording()
except RuntimeError as error:
  assert "TINYTPU has been used before the recording" in str(error)
  print("ok")
"""


def test_recorded_and_shown(tmp_path: Path) -> None:
  environment = {name: value for name, value in os.environ.items() if not name.startswith("TINYTPU_")} | {"DEV": "TINYTPU"}
  (tmp_path / "p.py").write_text(PROGRAM)
  done = subprocess.run([sys.executable, str(tmp_path / "p.py"), str(tmp_path / "out")], capture_output=True, text=True, check=False,
                        env=environment | {"PYTHONPATH": str(Path(__file__).parents[2])}, timeout=600)
  assert done.returncode == 0 and done.stdout.endswith("ok\n"), unescape(done.stderr[-3000:])
  assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["report.html", "report.json", "trace.pftrace"]
