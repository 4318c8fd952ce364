"""pytest plugin of `bench.upstream`: writes what the device did in this process, and halves a file on request."""
from __future__ import annotations

import os
import sys
from pathlib import Path


def pytest_collection_modifyitems(config, items) -> None:  # type: ignore[no-untyped-def]
  """With TINYTPU_EVEN set keep tests 0, 2, 4, ... in order of their names."""
  if os.environ.get("TINYTPU_EVEN"):
    keep = set(sorted(item.nodeid for item in items)[::2])
    items[:] = [item for item in items if item.nodeid in keep]


def pytest_sessionfinish(session, exitstatus) -> None:  # type: ignore[no-untyped-def]
  """Write "cycles fallbacks" of this process into the folder TINYTPU_SUMS."""
  if (module := sys.modules.get("tinytpu.backend.stats")) is not None:
    (Path(os.environ["TINYTPU_SUMS"]) / str(os.getpid())).write_text(f"{module.stats.cycles} {module.host_fallbacks}")
