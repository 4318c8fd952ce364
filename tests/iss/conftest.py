from __future__ import annotations

import pytest

from tests.iss.support import Machine


@pytest.fixture(scope="session")
def iss() -> Machine:
  """The simulator of the default preset."""
  return Machine()
