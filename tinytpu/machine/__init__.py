"""One API, two engines: `open_engine` gives the simulator or the RTL; see `base.Engine`."""
from __future__ import annotations

from .base import DEFAULT_LIMIT, KINDS, Engine, LaunchError, RunResult, open_engine

__all__ = ["DEFAULT_LIMIT", "KINDS", "Engine", "LaunchError", "RunResult", "open_engine"]
