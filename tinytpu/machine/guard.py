"""What keeps an engine whole: one use at a time, none once it is closed, rest after an interrupt, and forks."""
from __future__ import annotations

import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from ..trace import Trace

P = ParamSpec("P")
R = TypeVar("R")


class EngineError(RuntimeError):
  """The engine cannot be used: it is closed, in the middle of a launch, or lost in a fork; the message says which."""


def step(where: str) -> None:
  """Does nothing: the engines pass here between the steps of a launch ("start", "run", "result"), so that tests can interrupt them."""


class Guarded:
  """What engines have in common. Public methods are wrapped in `exclusive`; subclasses give `_rest`, `_free` and memory.

  Attributes:
    hbm: all of device memory, trace: where launches are added to, as `base.Engine`.
  """

  trace: Trace | None = None
  _hbm: np.ndarray

  def __init__(self) -> None:
    self._lock = threading.RLock()
    self._closed = False
    self._user: FrameType | None = None
    self._lost = ""
    _engines.add(self)

  @property
  def hbm(self) -> np.ndarray:
    self._check()
    return self._hbm

  def close(self) -> None:
    """As `base.Engine.close`.

    Raises:
      EngineError: called in the middle of a launch, from a signal handler.
    """
    if self._lost or self._closed:
      return
    with self._lock:
      if _running(self._user):
        raise EngineError("the engine is in the middle of a launch, and cannot be closed from within")
      if not self._closed:
        self._closed = True
        self._free()

  def _check(self) -> None:
    if self._lost:
      raise EngineError(self._lost)
    if self._closed:
      raise EngineError("the engine is closed: open another one")

  def _rest(self) -> None:
    """Bring a launch that was interrupted to its end, or abandon it. Nothing to do when none is under way."""

  def _free(self) -> None:
    """Give memory back."""

  def _forked(self) -> None:
    """Called in a child process as it begins."""
    if self._lock.acquire(blocking=False):
      self._lock.release()
    else:
      self._lost = f"process {os.getpid()} was forked while another thread used the engine: open another one here"


def _running(user: FrameType | None) -> bool:
  """Whether a call is under way in this thread. A flag would stay set if an interrupt came just before it is cleared."""
  frame = sys._getframe() if user is not None else None
  while frame is not None and frame is not user:
    frame = frame.f_back
  return frame is not None


Self = TypeVar("Self", bound=Guarded)


def exclusive(method: Callable[Concatenate[Self, P], R]) -> Callable[Concatenate[Self, P], R]:
  """A method that has the engine to itself, at rest as it begins and as it ends, also when it is interrupted.

  Raises (what it makes of the method):
    EngineError: the engine is closed or lost, or this thread is in the middle of another use (a signal handler's).
  """
  @functools.wraps(method)
  def call(self: Self, *args: P.args, **kwargs: P.kwargs) -> R:
    self._check()
    with self._lock:
      self._check()  # another thread may have closed it
      if _running(self._user):
        raise EngineError(f"{method.__name__} in the middle of another use of the engine: a signal handler must not use it")
      try:
        self._user = sys._getframe()
        self._rest()  # an interrupt may have come while the one before was dealt with
        return method(self, *args, **kwargs)
      except BaseException:
        self._rest()
        raise
      finally:
        self._user = None
  return call


_engines: weakref.WeakSet[Any] = weakref.WeakSet()


def _in_child() -> None:
  for engine in list(_engines):
    engine._forked()


if hasattr(os, "register_at_fork"):
  os.register_at_fork(after_in_child=_in_child)
