"""One thread at a time on a device, and what must wait until nobody is."""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock


class Exclusive:
  """A device's lock, which its holder may take again.

  Python frees objects whenever it likes, in the middle of anything, in any thread: what frees device memory is put off until the device is
  used next.
  """

  def __init__(self) -> None:
    self._lock = RLock()
    self._waiting: deque[Callable[[], None]] = deque()

  @contextmanager
  def held(self) -> Iterator[None]:
    """Hold the device."""
    inner = self._lock._is_owned()  # type: ignore[attr-defined]
    with self._lock:
      while self._waiting and not inner:
        self._waiting.popleft()()
      yield

  def soon(self, action: Callable[[], None]) -> None:
    """Do `action` before the device is used next."""
    self._waiting.append(action)
