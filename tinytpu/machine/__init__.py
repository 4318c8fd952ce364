"""One API, two engines: `open_engine` gives the simulator or the RTL; see `base.Engine`."""
from __future__ import annotations

from .allow import AccessError, Allow, Mode
from .base import DEFAULT_LIMIT, KINDS, Engine, LaunchError, RunResult, open_engine
from .guard import EngineError

__all__ = ["AccessError", "Allow", "DEFAULT_LIMIT", "KINDS", "Engine", "EngineError", "LaunchError", "Mode", "RunResult", "open_engine"]
