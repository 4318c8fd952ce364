"""Who is told of devices and launches: nobody, unless `watcher` is set. A profile is (tinytpu.profile)."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ...machine import RunResult

if TYPE_CHECKING:
  from ..device import TinyTPUDevice


class Watcher(Protocol):
  """What is told. What it raises ends the launch, or the opening of the device, with an error."""

  def opened(self, device: TinyTPUDevice) -> None:
    """A device, before its first use."""

  def launched(self, device: TinyTPUDevice, name: str, address: int, result: RunResult, parts: Sequence[tuple[int, str]]) -> None:
    """A launch that ended, perhaps in a fault, of the code at `address`. parts: of linked kernels the word from which on each lies,
    ascending from 0, and its name; else nothing."""


watcher: Watcher | None = None
"""Told of all devices of this process that are opened, and of all their launches."""
