"""Makes tinygrad know the device TINYTPU without an import by the user: `tinytpu_boot.pth` imports this module at start-up.

It only puts a finder on the import path: nothing of tinygrad or of the backend is loaded until a program asks for it.
The finder serves `tinygrad.runtime.ops_tinytpu`, where tinygrad looks for a device's class, and completes two modules of
tinygrad as they are imported (see `_AFTER_IMPORT`).
"""
from __future__ import annotations

import atexit
import os
import sys
import time

from tinytpu.environment import ORIGINS, PROFILE, flag

_DEVICE_MODULE = "tinygrad.runtime.ops_tinytpu"
_DEVICE = "TINYTPU"
COMPILE = "tinytpu_compile"
"""Where in tinygrad.engine.realize the backend says what compiles."""
BEGAN = time.time_ns()
"""When this process began: sources that were changed since may be others than those that run."""
MAX_KERNEL_BUFFERS = 24
"""Buffers that the scheduler may give one kernel; with grid sizes and variables they share the argument registers."""


def _read_on_device(module) -> None:  # type: ignore[no-untyped-def]
  """Let values without a device, and sharded ones, be read through TINYTPU when it is the device in use. tinygrad clones them to
  its CPU device, which wants clang."""
  from inspect import unwrap
  tensor = module.Tensor
  read = tensor._buffer
  assert "_buffer" in unwrap(tensor.numpy).__code__.co_names, "tinygrad's Tensor.numpy does not ask for _buffer"

  def _buffer(self):  # type: ignore[no-untyped-def]
    from tinygrad.device import Device
    device = Device.DEFAULT if self.uop.device is None else self.device[0] if isinstance(self.device, tuple) else ""
    return read(self.contiguous().clone(device) if device.split(":")[0] == _DEVICE else self)
  tensor._buffer = _buffer


def _note_calls(module) -> None:  # type: ignore[no-untyped-def]
  """Let Tensors' methods note where they are called, if programs are to tell where their operations come from, as for a profile."""
  if os.environ.get(PROFILE):
    os.environ.setdefault(ORIGINS, "1")  # processes that compile are asked too
  if flag(ORIGINS):
    import tinytpu.backend.origins  # noqa: F401


def _limit_buffers(module) -> None:  # type: ignore[no-untyped-def]
  """Tell the scheduler how many buffers a kernel can take."""
  assert "DEVICE_MAX_BUFS" in module._limit_bufs.__code__.co_names, "tinygrad's scheduler does not ask for DEVICE_MAX_BUFS"
  module.DEVICE_MAX_BUFS[_DEVICE] = MAX_KERNEL_BUFFERS


def _ask_before_compiling(module) -> None:  # type: ignore[no-untyped-def]
  """Let the backend look for compiled kernels (tinytpu.backend.kept) also before the first of a process is compiled: it is imported when
  tinygrad asks for the device's renderer, which is in the middle of that."""
  theirs = module.lower_and_compile
  assert "lower_and_compile" in module.compile_linear.__code__.co_names, "tinygrad's compile_linear does not ask for lower_and_compile"

  def lower_and_compile(linear):  # type: ignore[no-untyped-def]
    if not hasattr(module, COMPILE):
      for call in linear.toposort():
        if call.op is module.Ops.CALL:
          module._get_call_to_compile(call)
    return getattr(module, COMPILE, theirs)(linear)
  lower_and_compile.theirs, lower_and_compile.began = theirs, BEGAN  # type: ignore[attr-defined]
  module.lower_and_compile = lower_and_compile


_at_the_end = []  # type: ignore[var-annotated]


@atexit.register
def _close() -> None:
  """Close the devices. As this is registered when Python starts, it is run after every handler of the program, which may use them."""
  while _at_the_end:
    _at_the_end.pop()()


def _close_late(device) -> None:  # type: ignore[no-untyped-def]
  """Have a device class closed by the above. tinygrad's own handler, which calls `finalize`, comes before those handlers that were
  registered before tinygrad was imported."""
  finalize = device.finalize
  device.finalize = lambda self: _at_the_end.append(lambda: finalize(self))


def _tensor(module) -> None:  # type: ignore[no-untyped-def]
  _read_on_device(module)
  _note_calls(module)


_AFTER_IMPORT = {"tinygrad.tensor": _tensor, "tinygrad.schedule.rangeify": _limit_buffers,
                 "tinygrad.engine.realize": _ask_before_compiling}


class _DeviceLoader:
  """Loads the module in which tinygrad looks for the device's class."""

  def create_module(self, spec):  # type: ignore[no-untyped-def]
    return None

  def exec_module(self, module) -> None:  # type: ignore[no-untyped-def]
    from tinytpu.backend.device import TinyTPUDevice
    _close_late(TinyTPUDevice)
    if folder := os.environ.pop(PROFILE, ""):  # taken away: processes that this one starts would write to the same folder
      from tinytpu.profile.collect import begin
      _at_the_end.append(begin(folder))
    module.TinyTPUDevice = TinyTPUDevice


class _After:
  """A loader that completes a module after the real loader has run."""

  def __init__(self, loader, complete):  # type: ignore[no-untyped-def]
    self._loader, self._complete = loader, complete

  def __getattr__(self, name):  # type: ignore[no-untyped-def]
    return getattr(self._loader, name)

  def create_module(self, spec):  # type: ignore[no-untyped-def]
    return self._loader.create_module(spec)

  def exec_module(self, module) -> None:  # type: ignore[no-untyped-def]
    self._loader.exec_module(module)
    self._complete(module)


class _Finder:
  """A meta path finder for the modules above; everything else passes by at the cost of two dictionary look-ups."""

  def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
    if name == _DEVICE_MODULE:
      from importlib.machinery import ModuleSpec
      return ModuleSpec(name, _DeviceLoader(), origin=__file__)  # type: ignore[arg-type]
    if name in _AFTER_IMPORT:
      from importlib.machinery import PathFinder
      spec = PathFinder.find_spec(name, path, target)
      if spec is not None and spec.loader is not None:
        spec.loader = _After(spec.loader, _AFTER_IMPORT[name])  # type: ignore[assignment]
      return spec
    return None


def install() -> None:
  """Put the finder first on the import path, once, and complete what is imported already."""
  if folder := os.environ.get(PROFILE):  # the folder that is meant now: the program may go elsewhere
    os.environ[PROFILE] = os.path.abspath(folder)
  if not any(type(finder).__name__ == _Finder.__name__ and type(finder).__module__ == __name__ for finder in sys.meta_path):
    sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]
    for name, complete in _AFTER_IMPORT.items():
      if name in sys.modules:
        complete(sys.modules[name])


install()
