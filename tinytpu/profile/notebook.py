"""Profiles in a notebook: recorded in this process and shown in a cell, or shown as they were written."""
from __future__ import annotations

import os
from html import escape
from pathlib import Path
from typing import Any

from ..backend import origins
from ..backend.runtime import watch
from ..environment import ORIGINS
from .collect import Collector, need_packages
from .page import page
from .report import PAGE, build, load, write

_HEIGHT = 900
"""Pixels of the frame in which a page is shown."""


class Recording:
  """What the device does in this process from now on. As the last value of a cell it shows itself: the page of docs/profiling.md.

  Raises:
    RuntimeError: a package is missing, the device is in use already, or another profile is being made.
  """

  def __init__(self) -> None:
    from tinygrad import Device
    need_packages()
    if used := sorted(name for name in Device._opened_devices if name.split(":")[0] == "TINYTPU"):
      raise RuntimeError(f"{used[0]} has been used before the recording: restart the notebook's kernel, and begin with Recording()")
    if watch.watcher is not None:
      raise RuntimeError("another profile is being made in this process: stop() it first, or unset TINYTPU_PROFILE")
    os.environ.setdefault(ORIGINS, "1")  # compile workers read it
    if origins.asked():
      origins.install()
    self.collector = watch.watcher = Collector()

  def stop(self) -> None:
    """Record no more. Another recording needs another process."""
    if watch.watcher is self.collector:
      watch.watcher = None

  @property
  def report(self) -> dict[str, Any]:
    """The report so far, as in report.json.

    Raises:
      RuntimeError: nothing was launched.
    """
    if not self.collector.launches:
      raise RuntimeError("nothing was launched on the device since the recording began: is DEV=TINYTPU, and was a result asked for?")
    return build(self.collector)

  def write(self, folder: str | Path) -> None:
    """Write the files of a profile into a folder, which is made if it does not exist."""
    self.report  # noqa: B018  (raises if there is none)
    write(self.collector, Path(folder))

  def _repr_html_(self) -> str:
    return _frame(page(self.report, self.collector.timeline)) if self.collector.launches else "<i>nothing was launched yet</i>"


class Saved:
  """A profile that was written, shown in a cell.

  Raises:
    OSError: it cannot be read. report.ReportError: it is none, or another version's.
  """

  def __init__(self, folder: str | Path):
    self.folder = Path(folder)
    self.report = load(self.folder)

  def _repr_html_(self) -> str:
    return _frame((self.folder / PAGE).read_text(encoding="utf-8"))


def _frame(text: str) -> str:
  """A page within another."""
  return f'<iframe srcdoc="{escape(text)}" style="width:100%;height:{_HEIGHT}px;border:0"></iframe>'
