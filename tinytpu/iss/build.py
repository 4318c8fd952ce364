"""Compiles the simulator, and keeps the compiled code on disk between processes.

Numba's own cache would notice a change of the file that holds the compiled function, not of those that it uses, would believe whatever
it reads, and would go into the package where it cannot write. Here the folder is named by the contents of all sources that go into
it and by the versions of the tools, and `tinytpu.cache` looks after the files.
"""
from __future__ import annotations

import contextlib
import hashlib
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from .. import cache

_PACKAGE = Path(__file__).resolve().parent.parent
_UNUSED = ("__init__.py", "instruction.py")
_SOURCES = (*(path for path in sorted((_PACKAGE / "isa").glob("*.py")) if path.name not in _UNUSED),
            *sorted((_PACKAGE / "iss").glob("*.py")), _PACKAGE / "config.py")


def folder() -> str:
  """Folder of the cache in which the compiled simulator of these sources is kept."""
  digest = hashlib.sha256(repr((sys.version, numba.__version__, llvmlite.__version__, np.__version__)).encode())
  for source in _SOURCES:
    digest.update(source.read_bytes())
  return f"iss/{digest.hexdigest()[:16]}"


_LOADED = folder()
"""Of the sources as they were when this process read them."""


def is_cached(traced: bool = False) -> bool:
  """Whether the compiled simulator, or the one that traces, is on disk already."""
  return any(cache.find(f"{_LOADED}/{path.name}") for path in (cache.root() / _LOADED).glob(f"{_VARIANTS[traced]}-*.code"))


_VARIANTS = ("run", "trace")
"""How the files begin of the simulator, and of the one that traces."""


class _Kept(NullCache):
  """Where Numba looks for compiled code, and puts it: by signature and processor in the folder `_LOADED`."""

  @staticmethod
  def _name(signature: Any, codegen: Any) -> str:
    key = repr((signature, codegen.magic_tuple()))
    traced = signature[-2] != numba.types.none  # the argument `trace` of core.run
    return f"{_LOADED}/{_VARIANTS[traced]}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.code"

  def load_overload(self, sig: Any, target_context: Any) -> Any:
    target_context.refresh()
    data = cache.read(self._name(sig, target_context.codegen()))
    return None if data is None else CompileResult._rebuild(target_context, *pickle.loads(data))

  def save_overload(self, sig: Any, data: Any) -> None:
    with contextlib.suppress(OSError):  # not even in a temporary folder: this process has it anyway
      cache.keep(self._name(sig, data.codegen), dumps(data._reduce()))


def engine() -> Callable[..., None]:
  """The function `core.run`, compiled when first called, or loaded from disk. It is not kept on disk if sources have changed
  since this process started."""
  from .core import run
  if folder() == _LOADED:
    run._cache = _Kept()
  return run
