"""Compiled kernels, kept between processes: what one has compiled, the next loads, in a tenth of the time or less.

A kernel is known by its AST, the machine, tinygrad's settings for programs, and the sources of tinygrad and of this package as they lie on
disk. Files are those of `tinytpu.cache`: sealed, and made again if they do not fit; several processes may write them at once.
"""
from __future__ import annotations

import hashlib
import os
import pickle
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache as once
from functools import wraps
from pathlib import Path
from typing import Any

import tinygrad
from tinygrad.codegen import to_program_cache, to_program_key
from tinygrad.engine import realize
from tinygrad.helpers import CACHELEVEL, DEBUG, TUPLE_ORDER, VIZ
from tinygrad.uop.ops import Ops, UOp

from .. import cache
from ..config import Config
from . import origins
from .mir import dump
from .runtime.stats import stats

NAME = "TINYTPU_KERNELS"
"""Environment variable: 0, if kernels should be compiled anew in each process. For whoever changes the compiler while it runs."""
FOLDER, MOST = "kernels", 20_000
"""Where in the cache they lie, and how many: of more, the older half is removed."""
_OTHER = ("DMC", "ALLOW_HALF8")
"""Environment variables that change programs, beside the settings of tinygrad's own key, which need only hold for a process."""
_PACKAGE = Path(__file__).parents[1]


def install() -> None:
  """Let tinygrad look here before it compiles for one of our renderers, by way of `tinytpu.boot`; without that nothing is kept."""
  theirs: Callable[[UOp], UOp] | None = getattr(realize.lower_and_compile, "theirs", None)
  if theirs is None:
    return

  @wraps(theirs)
  def lower_and_compile(linear: UOp) -> UOp:
    missing, keep = {}, wanted()
    for key, name in _wanting(linear):
      if keep and (program := load(name)) is not None:
        to_program_cache[key] = program
        stats.loaded += 1
      else:
        missing[key] = name
    linear = theirs(linear)
    stats.compiled += len(missing)
    if keep:
      for key, name in missing.items():
        save(name, to_program_cache[key])
    return linear
  realize.tinytpu_compile = lower_and_compile  # type: ignore[attr-defined]


def wanted() -> bool:
  """Whether kernels are kept: not if the user wants to see them being compiled, or each to tell the lines it comes from."""
  return (os.environ.get(NAME, "1") != "0" and CACHELEVEL >= 1 and DEBUG < 3 and not VIZ and not origins.asked() and dump.folder() is None
          and sources() != "")


def _wanting(linear: UOp) -> Iterator[tuple[tuple[Any, ...], str]]:
  """The kernels of ours that are still to be compiled: tinygrad's key for each, and the name of its file."""
  for call in linear.toposort():
    if call.op is not Ops.CALL or (found := realize._get_call_to_compile(call)) is None:
      continue
    ast, renderer = found
    key = to_program_key(ast, renderer)
    if ast.op is Ops.SINK and not ast.arg.beam and isinstance(getattr(renderer, "config", None), Config) and key not in to_program_cache:
      settings = *key[3:], TUPLE_ORDER.value, *map(os.environ.get, _OTHER)
      digest = hashlib.sha256(repr((sources(), ast.key, ast.tag, renderer.target, settings)).encode()).hexdigest()
      yield key, f"{FOLDER}/{digest[:40]}"


@once
def sources() -> str:
  """A hash over names, sizes and times of all source files of tinygrad and of this package; "" if one was changed since this process began:
  what runs may be what it was before."""
  digest, newest = hashlib.sha256(tinygrad.__file__.encode()), 0
  for root in (Path(tinygrad.__file__).parent, _PACKAGE):
    for folder, _, files in sorted(os.walk(root)):
      for file in sorted(files):
        if file.endswith(".py"):
          status = os.stat(os.path.join(folder, file))
          digest.update(f"{folder}/{file} {status.st_size} {status.st_mtime_ns}\n".encode())
          newest = max(newest, status.st_ctime_ns)
  return digest.hexdigest() if newest < realize.lower_and_compile.began else ""  # type: ignore[attr-defined]


def load(name: str) -> UOp | None:
  """A compiled kernel, tinygrad's PROGRAM; None if there is none that may be trusted."""
  if (data := cache.read(name)) is None:
    return None
  program = pickle.loads(zlib.decompress(data))
  assert isinstance(program, UOp) and program.op is Ops.PROGRAM
  return program


def save(name: str, program: UOp) -> None:
  """Keep a compiled kernel; if no file can be written there is none."""
  _make_room()
  with suppress(OSError):
    cache.keep(name, zlib.compress(pickle.dumps(program), 1))


@once
def _make_room() -> None:
  """Remove the older half, if there are too many; once in a process."""
  folder = cache.root() / FOLDER
  with suppress(OSError):
    files = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
    if len(files) > MOST:
      for path in files[:len(files) // 2]:
        path.unlink(missing_ok=True)
