"""pytest plugin of `bench.upstream`: writes what the device did in this process."""
from __future__ import annotations

import json
import os
from pathlib import Path

from tinytpu.backend.runtime import stats

from .kernels import Kernels

kernels = Kernels()


def pytest_configure(config) -> None:  # type: ignore[no-untyped-def]
  """Watch what is compiled."""
  kernels.watch()


def pytest_sessionfinish(session, exitstatus) -> None:  # type: ignore[no-untyped-def]
  """Write the sums of this process, as JSON, into the folder TINYTPU_SUMS."""
  record = {"cycles": stats.stats.cycles, "fallbacks": stats.host_fallbacks, "lanes": kernels.lanes, "seconds": kernels.seconds}
  (Path(os.environ["TINYTPU_SUMS"]) / str(os.getpid())).write_text(json.dumps(record))
