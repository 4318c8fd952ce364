"""One thread at a time on a device, and what must wait until nobody is."""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock


class Exclusive:
  """A device's lock, which its holder may take again.

  Python frees objects whenever it likes, in the middle of anything, in any thread: what frees device memory is put off until whoever
  holds the device lets go of it.
  """

  def __init__(self) -> None:
    self._lock = RLock()
    self._depth = 0
    self._waiting: deque[Callable[[], None]] = deque()

  @contextmanager
  def held(self) -> Iterator[None]:
    """Hold the device."""
    with self._lock:
      self._catch_up()
      self._depth += 1
      try:
        yield
      finally:
        self._depth -= 1
        self._catch_up()

  def soon(self, action: Callable[[], None]) -> None:
    """Do `action` now if nobody holds the device, else when it is let go."""
    self._waiting.append(action)
    if self._lock.acquire(blocking=False):
      try:
        self._catch_up()
      finally:
        self._lock.release()

  def _catch_up(self) -> None:
    while self._waiting and not self._depth:
      self._depth += 1
      try:
        self._waiting.popleft()()
      finally:
        self._depth -= 1
