"""A page while it is made."""
from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Page:
  """A page while it is made.

  Attributes:
    path: of its file. folder: where pictures lie. files: contents of the files that it holds as code blocks, by name.
    pictures: SVG of those made so far, by file name.
  """
  path: Path
  folder: Path
  files: dict[str, str] = field(default_factory=dict)
  pictures: dict[str, str] = field(default_factory=dict)

  def show(self, name: str, svg: str, what: str) -> str:
    """Add a picture. what: it shows, for who cannot see it. Returns the Markdown that shows it."""
    self.pictures[name] = svg
    return f"\n![{what}]({os.path.relpath(self.folder / name, self.path.parent)})\n"


def table(header: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
  """A Markdown table between empty lines; numbers stand to the right."""
  cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
  right = [all(_number(row[i]) for row in cells) and any(row[i] for row in cells) for i in range(len(header))]
  lines = [[str(cell) for cell in header], ["---:" if r else "---" for r in right], *cells]
  return "\n" + "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines) + "\n"


def _number(cell: str) -> bool:
  return cell.strip("+-−%").replace(",", "").replace(".", "").isdecimal() or cell in ("", "–")
