"""Compiles the simulator, and keeps the compiled code on disk between processes.

Numba alone would notice a change of the file that holds the compiled function, not of those that it uses; the cache
directory is therefore named by the contents of all sources that go into it, and by the versions of the tools.
"""
from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from platformdirs import user_cache_dir

_PACKAGE = Path(__file__).resolve().parent.parent
_UNUSED = ("__init__.py", "instruction.py")
_SOURCES = (*(path for path in sorted((_PACKAGE / "isa").glob("*.py")) if path.name not in _UNUSED),
            *sorted((_PACKAGE / "iss").glob("*.py")), _PACKAGE / "config.py")


def cache_directory() -> Path:
  """Where the compiled simulator of these sources is kept; not created here."""
  digest = hashlib.sha256(repr((sys.version, numba.__version__, llvmlite.__version__, np.__version__)).encode())
  for source in _SOURCES:
    digest.update(source.read_bytes())
  return Path(user_cache_dir("tinytpu")) / "iss" / digest.hexdigest()[:16]


_LOADED = cache_directory()
"""Of the sources as they were when this process read them."""


def is_cached() -> bool:
  """Whether the compiled simulator is on disk already."""
  return any(_LOADED.rglob("*.nbc"))


def engine() -> Callable[..., None]:
  """The function `core.run`, compiled when first called, or loaded from disk. It is not kept on disk if sources have changed
  since this process started."""
  from .core import run
  if not isinstance(run._cache, numba.core.caching.NullCache) or cache_directory() != _LOADED:
    return run
  settings: Any = numba.config  # its attributes appear at run time
  before, settings.CACHE_DIR = settings.CACHE_DIR, str(_LOADED)
  try:
    run.enable_caching()
  finally:
    settings.CACHE_DIR = before
  return run
