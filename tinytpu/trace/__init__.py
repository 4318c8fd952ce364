"""What launches did, as either engine tells it: `events` keeps it, `spans` says when each unit was busy; docs/trace.md."""
from __future__ import annotations

from .events import EVENT, Launch, Trace, describe, write_csv, write_json
from .spans import SPAN, SPAN_UNITS, spans

__all__ = ["EVENT", "SPAN", "SPAN_UNITS", "Launch", "Trace", "describe", "spans", "write_csv", "write_json"]
