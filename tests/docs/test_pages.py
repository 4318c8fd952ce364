"""Pages of docs/: what is made in them is as it is made now, numbers in their text are on the page, and the change that one shows works."""
from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tinytpu.docs import pages
from tinytpu.docs.blocks import BLOCKS
from tinytpu.docs.page import Page, table
from tinytpu.docs.pages import DOCS, DocsError, renew, stale, tour

ROOT = DOCS.parent
TOUR = {str(path.relative_to(ROOT)): path for path in tour()}
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
MADE = re.compile(r"^<!-- made by.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", TOUR)
def test_what_is_made_has_not_drifted(name):
  for path, text in renew(TOUR[name]).items():
    assert path.read_text("utf-8") == text, f"{path.relative_to(ROOT)} has drifted: run `tinytpu docs`"


def test_every_picture_is_shown():
  assert list((DOCS / "pictures").glob("*.svg")) and not stale(TOUR.values())


@pytest.mark.parametrize("name", TOUR)
def test_numbers_in_the_text_stand_in_what_is_made(name):
  """Of two digits and more: what is measured is made on the page, or stands in its code, so that text cannot stay behind."""
  text = TOUR[name].read_text("utf-8").split("\n## How to read it")[0]  # of docs/profiling.md; a reference follows
  pictures = [(TOUR[name].parent / target).read_text("utf-8") for target in re.findall(r"\]\(([^)]+\.svg)\)", text)]
  made = " ".join([*MADE.findall(text), *FENCE.findall(text), *pictures])
  known = set(re.findall(r"\d+(?:\.\d+)?", made.replace(",", "")))
  prose = re.sub(r"\]\([^)]*\)|`[^`]*`|\d+(?:x\d+)+", "", FENCE.sub("", MADE.sub("", text)))
  prose = "\n".join(line for line in prose.splitlines() if not line.startswith("#"))
  wrong = [number for number in re.findall(r"(?<![\w.])\d[\d,]*\d(?:\.\d+)?(?!\w)", prose) if number.replace(",", "") not in known]
  assert wrong == [], "these numbers are made nowhere on the page"


def test_the_site_has_every_page():
  known = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text())
  assert sorted(known) == sorted(["index.md", *(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))])


# -- making pages ----------------------------------------------------------------------------------------
def page_of(folder: Path, text: str) -> Path:
  path = folder / "docs" / "page.md"
  path.parent.mkdir(exist_ok=True)
  path.write_text(text)
  return path


ADD = "```asm\n# add.tasm\n  vlid v1\n  vadd v1, v1, 100\n  hst.w v1, [s0 + 64]\n  halt\n```\n"


def test_output_of_commands(tmp_path):
  old = ADD + "```console\n$ tinytpu run add.tasm --show 256:4\nold\n$ grep -c vadd add.tasm > count\n$ cat count\n2\n```\nand text\n"
  path = page_of(tmp_path, old)
  text, = renew(path, tmp_path / "docs").values()
  assert text.startswith(ADD + "```console\n$ tinytpu run add.tasm --show 256:4\nkernel on 4x4\n") and "\nold\n" not in text
  assert "│ cycles             │       58 │" in text and "\n256:4: [100 101 102 103]\n" in text
  assert "simulated cycles/s" not in text, "the speed of this computer"
  assert text.endswith("$ grep -c vadd add.tasm > count\n$ cat count\n1\n```\nand text\n")
  path.write_text(text)
  assert renew(path, tmp_path / "docs") == {path: text}, "the same again"


def test_blocks_and_pictures(tmp_path):
  path = page_of(tmp_path, ADD + "<!-- made by tinytpu docs: gantt add.tasm -->\nold\n<!-- end -->\ntext\n"
                           "<!-- made by tinytpu docs: cycles add.tasm -->\n<!-- end -->\n")
  first, second = renew(path, tmp_path / "docs"), renew(path, tmp_path / "docs")
  assert first == second and list(first) == [path, tmp_path / "docs" / "pictures" / "add-gantt.svg"]
  text, svg = first.values()
  assert "![The 58 cycles of add.tasm" in text and "](pictures/add-gantt.svg)" in text and "old" not in text and "\ntext\n" in text
  assert "| 1 to 50 | 50 | `fetch` | `vlid` | the group is not present: its block is fetched |" in text
  assert svg.startswith("<?xml") and "add.tasm: 58 cycles on 4x4" in svg


def test_a_change_of_the_program_changes_the_page(tmp_path):
  """The check can fail: a slower program on the page gives other numbers."""
  block = "<!-- made by tinytpu docs: causes add.tasm -->\n<!-- end -->\n"
  fast, slow = (renew(page_of(tmp_path, text + block), tmp_path / "docs") for text in (ADD, ADD.replace("vadd", "vdiv")))
  assert "| all | 58 |" in next(iter(fast.values())) and "| all | 93 |" in next(iter(slow.values()))


@pytest.mark.parametrize("text, message", [
  ("```console\n$ false\n```\n", "`false` ended with exit code 1"),
  ("```console\n$ tinytpu run none.tasm | cat\n```\n", "none.tasm"),
  ("<!-- made by tinytpu docs: nonsense -->\n<!-- end -->\n", "no block 'nonsense'; blocks: gantt")])
def test_what_cannot_be_made_is_told(text, message, tmp_path):
  with pytest.raises(DocsError, match=re.escape(message)):
    renew(page_of(tmp_path, text), tmp_path / "docs")


def test_a_missing_package_is_told(tmp_path, monkeypatch):
  def missing(page: Page) -> str:
    raise ModuleNotFoundError("No module named 'drawsvg'")
  monkeypatch.setitem(BLOCKS, "nothing", missing)
  with pytest.raises(DocsError, match=re.escape("pip install 'tinytpu[docs]'")):
    renew(page_of(tmp_path, "<!-- made by tinytpu docs: nothing -->\n<!-- end -->\n"), tmp_path / "docs")


def test_pictures_that_no_page_shows(tmp_path):
  path = page_of(tmp_path, "![a picture](pictures/shown.svg)\n")
  (tmp_path / "docs" / "pictures").mkdir()
  for name in ("shown.svg", "left.svg"):
    (tmp_path / "docs" / "pictures" / name).touch()
  assert stale([path], tmp_path / "docs") == [tmp_path / "docs" / "pictures" / "left.svg"]


def test_commands_do_not_see_the_environment(tmp_path, monkeypatch):
  for name in ("DEV", "DEBUG", "TINYTPU_DUMP", "TINYTPU_PROFILE"):
    monkeypatch.setenv(name, "1")
  assert pages.run("echo $DEV$DEBUG$TINYTPU_DUMP$TINYTPU_PROFILE.$COLUMNS", tmp_path) == f".{pages.WIDTH}\n"


def test_tables():
  assert table(("a", "b"), [("x|y", 1234), ("z", "–")]) == "\n| a | b |\n| --- | ---: |\n| x\\|y | 1,234 |\n| z | – |\n"


# -- the change that docs/tour/add-operation.md shows ------------------------------------------------------
@pytest.fixture
def changed(tmp_path: Path) -> Path:
  """A copy of the project with the change."""
  for name in ("tinytpu", "tests", "docs"):
    shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "build"))
  for name in ("README.md", "CHANGELOG.md", "pyproject.toml"):
    shutil.copy(ROOT / name, tmp_path)
  done = subprocess.run(["git", "apply", "--verbose", str(ROOT / "docs" / "tour" / "vandn.diff")], cwd=tmp_path, capture_output=True,
                        text=True, check=False)
  assert done.returncode == 0, f"docs/tour/vandn.diff does not apply any more: make it again\n{done.stderr}"
  return tmp_path


def in_copy(folder: Path, *tests: str) -> None:
  done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], cwd=folder, capture_output=True,
                        text=True, env=pages.environment(folder), check=False)
  assert done.returncode == 0, done.stdout + done.stderr


def test_the_operation_is_added(changed):
  code = """if True:
    from amaranth.hdl import Signal
    import numpy
    from tinytpu.asm import assemble
    from tinytpu.isa.table import OPS
    from tinytpu.rtl.vpu_lane import integer_results
    assert len(assemble("vandn v1, v2, 5").words) == 1
    assert OPS["vandn"].ref(numpy.uint32(13), numpy.uint32(5)) == 8
    assert "vandn" in integer_results(*map(Signal, (32, 32, 32)))"""
  done = subprocess.run([sys.executable, "-c", code], cwd=changed, env=pages.environment(changed), capture_output=True, text=True,
                        check=False)
  assert done.returncode == 0, done.stderr
  rules = "tests/backend/test_rules_exhaustive.py::test_"
  in_copy(changed, "tests/isa/test_table.py", "tests/isa/test_ledger.py", "tests/asm/test_roundtrip.py", f"{rules}rule[peephole.and_not]",
          f"{rules}every_rule_has_a_check", "tests/test_package.py::test_generated_pages_are_up_to_date[isa.md]")


@pytest.mark.full
def test_the_operation_runs(changed):
  """On the copy's simulator, which is compiled for it."""
  in_copy(changed, "tests/iss/test_lanes.py", "-k", "vandn")
  in_copy(changed, "tests/backend/test_fused.py", "-k", "and_not")
