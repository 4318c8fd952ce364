"""How the simulator's functions are compiled."""
from __future__ import annotations

from typing import Any

from numba import njit

_OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}
jit = njit(**_OPTIONS)
"""Division like numpy's (no ZeroDivisionError), and no reference counting: nothing allocates, and counting references of the arrays
that are passed around would take most of the time."""
