"""Environment variables that more than one part of the package reads. It imports little, since every start of Python does."""
from __future__ import annotations

import os

PROFILE = "TINYTPU_PROFILE"
"""The folder to which this process writes a profile of what the device did (docs/profiling.md)."""
ORIGINS = "TINYTPU_ORIGINS"
"""1, if programs should tell which UOps and lines their operations come from (docs/profiling.md); profiles set it."""


def flag(name: str) -> bool:
  """Whether a variable asks for something: it is set, and not to 0."""
  return os.environ.get(name, "") not in ("", "0")
