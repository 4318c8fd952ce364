"""pytest plugin of `bench.upstream`: writes what the device did in this process, and halves a file on request."""
from __future__ import annotations

import json
import os
from pathlib import Path

from tinytpu.backend import stats

from .kernels import Kernels

kernels = Kernels()


def pytest_configure(config) -> None:  # type: ignore[no-untyped-def]
  """Watch what is compiled."""
  kernels.watch()


def pytest_collection_modifyitems(config, items) -> None:  # type: ignore[no-untyped-def]
  """With TINYTPU_EVEN set keep tests 0, 2, 4, ... in order of their names."""
  if os.environ.get("TINYTPU_EVEN"):
    keep = set(sorted(item.nodeid for item in items)[::2])
    items[:] = [item for item in items if item.nodeid in keep]


def pytest_sessionfinish(session, exitstatus) -> None:  # type: ignore[no-untyped-def]
  """Write the sums of this process, as JSON, into the folder TINYTPU_SUMS."""
  record = {"cycles": stats.stats.cycles, "fallbacks": stats.host_fallbacks, "lanes": kernels.lanes, "seconds": kernels.seconds}
  (Path(os.environ["TINYTPU_SUMS"]) / str(os.getpid())).write_text(json.dumps(record))
