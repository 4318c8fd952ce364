"""A change of the code that a page shows, from a file in the form of `git diff`."""
from __future__ import annotations

import re

from .page import Page, table


def _parts(page: Page, name: str) -> dict[str, str]:
  """What a diff beside the page does to each file, by path."""
  text = (page.path.parent / name).read_text("utf-8")
  return {re.match(r"a/(\S+)", part)[1]: part for part in text.split("diff --git ")[1:]}  # type: ignore[index]


def changed(page: Page, name: str) -> str:
  """`changed DIFF`: a table of the files that a diff changes, with the number of lines."""
  rows = []
  for path, part in _parts(page, name).items():
    lines = part.split("\n@@", 1)[1].splitlines()
    rows.append((f"`{path}`", sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)))
  return table(("file", "lines more", "lines less"), rows)


def hunk(page: Page, name: str, *paths: str) -> str:
  """`hunk DIFF PATHS...`: what a diff does to some files."""
  parts = _parts(page, name)
  return "\n```diff\n" + "".join(f"--- {path}\n" + re.sub(r"^@@.*?@@ ?", "@@ ", part[part.index("\n@@") + 1:], flags=re.MULTILINE)
                                 for path, part in ((path, parts[path]) for path in paths)) + "```\n"
