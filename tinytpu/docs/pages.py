"""Pages whose figures are made: the output of console blocks, and blocks between markers, which a function of `blocks` writes.

A page is Markdown. A code block whose first line is `# NAME` is a file; a block of kind `console` holds commands, `$ command`, each with
its standard output; the page's commands run in order in one folder that has its files. A line

    <!-- made by tinytpu docs: NAME ARGUMENTS -->

begins a block that ends before `<!-- end -->`; `blocks.BLOCKS` has the functions.
"""
from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from .page import Page
from .reference import PAGES

DOCS = Path(__file__).parents[2] / "docs"
"""The repository's pages; README.md lies beside the folder."""
PICTURES = "pictures"
"""Folder in docs/ of the pictures."""
WIDTH = 100
"""Columns of a terminal that the commands see."""
SECONDS = 120
"""Longest that a command may take."""

_FILE = re.compile(r"^```\w+\n(?:# |// )([\w.-]+\.\w+)\n.*?^```$", re.MULTILINE | re.DOTALL)
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MADE = re.compile(r"^(<!-- made by tinytpu docs: ([^\n]+?) -->\n).*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_HOST = re.compile(r"^.*simulated cycles/s.*\n", re.MULTILINE)
"""What tells how fast this computer is, not the machine."""


class DocsError(RuntimeError):
  """A page that cannot be made; the message says which command or block failed."""


def tour(docs: Path = DOCS) -> list[Path]:
  """The pages in a folder, and README.md beside it, in which something is made; without those of `reference.PAGES`."""
  pages = [page for page in (docs.parent / "README.md", *sorted(docs.rglob("*.md"))) if page.exists() and page.name not in PAGES]
  return [page for page in pages if _CONSOLE.search(text := page.read_text("utf-8")) or _MADE.search(text)]


def renew(path: Path, docs: Path = DOCS) -> dict[Path, str]:
  """A page made anew, and its pictures, which lie in `docs`/pictures.

  Returns:
    the contents of all files that the page consists of, itself first.

  Raises:
    DocsError: a command failed, or there is no such block.
  """
  text = path.read_text("utf-8")
  page = Page(path, docs / PICTURES, {match[1]: match[0].split("\n", 1)[1].removesuffix("```") for match in _FILE.finditer(text)})
  if _CONSOLE.search(text):
    with tempfile.TemporaryDirectory() as folder:
      for name, contents in page.files.items():
        (Path(folder) / name).write_text(contents, "utf-8")
      text = _CONSOLE.sub(lambda match: f"```console\n{console(_commands(match[1]), Path(folder))}```", text)
  text = _MADE.sub(lambda match: f"{match[1]}{_block(page, match[2])}\n<!-- end -->", text)
  return {path: text} | {page.folder / name: svg for name, svg in page.pictures.items()}


def _commands(block: str) -> list[str]:
  return [line[2:] for line in block.splitlines() if line.startswith("$ ")]


def console(commands: Iterable[str], folder: Path) -> str:
  """Run commands of a console block in a folder.

  Returns:
    the commands, each with what it wrote to standard output: without colours and lines about the speed of this computer.

  Raises:
    DocsError: a command failed; has what it wrote to standard error.
  """
  return "".join(f"$ {command}\n{run(command, folder)}" for command in commands)


def environment(package: Path = DOCS.parent) -> dict[str, str]:
  """Environment variables of the commands: those of this process without what changes the device, and the package of a folder first."""
  clean = {name: value for name, value in os.environ.items()
           if name not in ("DEV", "DEBUG", "VIZ", "PROFILE", "BEAM", "JIT")
           and (not name.startswith("TINYTPU_") or name in ("TINYTPU_CACHE", "TINYTPU_KERNELS"))}
  path = os.pathsep.join([str(package), *filter(None, [clean.get("PYTHONPATH")])])
  search = os.pathsep.join([str(Path(sys.executable).parent), clean.get("PATH", os.defpath)])
  return clean | {"PYTHONPATH": path, "PATH": search, "COLUMNS": str(WIDTH), "TERM": "dumb", "PYTHONHASHSEED": "0"}


def run(command: str, folder: Path) -> str:
  """Standard output of a command of the shell in a folder; otherwise as `console`."""
  done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=environment(), capture_output=True,
                        text=True, check=False, timeout=SECONDS)
  if done.returncode:
    raise DocsError(f"`{command}` ended with exit code {done.returncode}:\n{done.stdout}{done.stderr}")
  lines = _HOST.sub("", _ESCAPE.sub("", done.stdout)).splitlines()
  return "".join(line.rstrip() + "\n" for line in lines)


def _block(page: Page, call: str) -> str:
  name, *arguments = call.split()
  try:
    from .blocks import BLOCKS
    if name not in BLOCKS:
      raise DocsError(f"{page.path}: no block {name!r}; blocks: {', '.join(BLOCKS)}")
    return BLOCKS[name](page, *arguments)
  except ModuleNotFoundError as error:
    raise DocsError(f"{page.path}: {error}: pip install 'tinytpu[docs]'") from None


def stale(pages: Iterable[Path], docs: Path = DOCS) -> list[Path]:
  """Pictures that none of the pages shows."""
  shown = {(page.parent / target).resolve() for page in pages for target in re.findall(r"\]\(([^)#:]+\.svg)\)", page.read_text("utf-8"))}
  return [picture for picture in sorted((docs / PICTURES).glob("*")) if picture.resolve() not in shown]
