"""Settings of all tests."""
from __future__ import annotations

import os

import pytest
from hypothesis import settings

os.environ["TINYTPU_KERNELS"] = "0"  # tests change the compiler while it runs: what they compile is nobody else's

# No deadline: the machine may be busy with other tests. A failing case prints what reproduces it.
settings.register_profile("tinytpu", deadline=None, print_blob=True)
settings.load_profile("tinytpu")


def pytest_addoption(parser: pytest.Parser) -> None:
  parser.addoption("--full", action="store_true", help="run the tests marked `full` too, which take long on the largest preset")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
  """Leave out tests marked `full`, which pytest reports as deselected, unless asked for."""
  if config.getoption("--full"):
    return
  left_out = [item for item in items if item.get_closest_marker("full")]
  if left_out:
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]
