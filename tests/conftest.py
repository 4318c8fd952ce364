"""Settings of all tests."""
from __future__ import annotations

from hypothesis import settings

# No deadline: the machine may be busy with other tests. A failing case prints what reproduces it.
settings.register_profile("tinytpu", deadline=None, print_blob=True)
settings.load_profile("tinytpu")
