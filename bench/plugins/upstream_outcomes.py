"""pytest plugin of `bench.upstream_other`, in a folder of its own: where it is loaded, the package may be out of reach."""
from __future__ import annotations

import json
import os
from pathlib import Path

found: dict[str, str] = {}


def pytest_configure(config) -> None:  # type: ignore[no-untyped-def]
  """Use a device before the tests, if USE_FIRST names one."""
  if device := os.environ["USE_FIRST"]:
    from tinygrad import Tensor, dtypes

    import tinytpu.boot  # noqa: F401
    assert (Tensor([1.0, 2.0], device=device).max() + 1).item() == 3
    assert Tensor([1, 2, 3], dtype=dtypes.int32, device=device).cast(dtypes.float32).pad((1, 1), value=0.5).sum().item() == 7
    assert (Tensor([1.0, 2.0], device=device).softmax().argmax()).item() == 1


def pytest_runtest_logreport(report) -> None:  # type: ignore[no-untyped-def]
  """Note how a test ends: its own outcome, or that of its setup if it is skipped or fails there."""
  if report.when == "call" or report.outcome != "passed":
    found[report.nodeid] = "xfailed" if hasattr(report, "wasxfail") else report.outcome


def pytest_sessionfinish(session, exitstatus) -> None:  # type: ignore[no-untyped-def]
  """Write them, as JSON, to the file OUTCOMES."""
  Path(os.environ["OUTCOMES"]).write_text(json.dumps(found))
