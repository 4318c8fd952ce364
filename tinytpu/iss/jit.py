"""How the simulator's functions are compiled."""
from __future__ import annotations

from numba import njit

jit = njit(error_model="numpy", _nrt=False)
"""Division like numpy's (no ZeroDivisionError), and no reference counting: nothing allocates, and counting references of the arrays
that are passed around would take most of the time."""
