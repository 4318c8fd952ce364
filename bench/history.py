"""The history of measurements: one JSON object a line, appended, kept in the repository."""
from __future__ import annotations

import json
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from tinytpu import __version__

HISTORY = Path(__file__).with_name("history.jsonl")


def commit() -> str:
  """Abbreviated hash of HEAD, with "+" if the tree has changes; "unknown" outside a checkout."""
  def git(*args: str) -> str:
    return subprocess.run(["git", *args], cwd=HISTORY.parent, capture_output=True, text=True, check=True).stdout.strip()
  try:
    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "-uno") else "")
  except (OSError, subprocess.CalledProcessError):
    return "unknown"


def append(kind: str, results: dict[str, object]) -> None:
  """Append one measurement: kind ("suite", "speed", ...) and its numbers, stamped with date, commit and machine."""
  row = {"date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"), "commit": commit(), "version": __version__,
         "cpu": platform.processor() or platform.machine(), "kind": kind, **results}
  with HISTORY.open("a") as f:
    f.write(json.dumps(row) + "\n")
