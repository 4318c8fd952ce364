"""Interrupts at every step: a KeyboardInterrupt before any chosen line, as Ctrl-C would raise it there."""
from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from linecache import getline
from pathlib import Path
from types import FrameType
from typing import Any


class Lines:
  """Lines run so far in the files that are watched, and whether the interrupt has come."""

  def __init__(self, files: set[str], at: int) -> None:
    self.files, self.at, self.count, self.raised = files, at, 0, False

  def trace(self, frame: FrameType, event: str, argument: object) -> Any:
    if event == "call":
      return self.trace if frame.f_code.co_filename in self.files else None
    if event == "line" and not getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with "):
      self.count += 1  # a signal is not dealt with between leaving a block and what its `with` does then
      if self.count == self.at:
        self.raised = True
        raise KeyboardInterrupt
    return self.trace


@contextlib.contextmanager
def interrupt(at: int, *files: Path) -> Iterator[Lines]:
  """Raise KeyboardInterrupt before the line that is run as number `at` (from 1) in `files` by this thread; 0: only count."""
  lines, before = Lines({str(file) for file in files}, at), sys.gettrace()
  sys.settrace(lines.trace)
  try:
    yield lines
  finally:
    sys.settrace(before)
