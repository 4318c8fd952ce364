"""C++ side of the RTL build: find a compiler, compile translation units in parallel, link one shared library.

Verilator writes many small C++ files that all parse the same headers, so they are merged into as many translation
units as there are cores, or more where they are large (the compiler's memory grows with them); the parts that run once
(constructors, settle loops) are compiled without optimisation. The
Verilator runtime is compiled once per compiler and kept in the cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from tinytpu import cache

Progress = Callable[[str, float], None]

BASE_FLAGS = (
  "-std=c++17",
  "-fPIC",
  "-fvisibility=hidden",  # one process loads many models: keep their symbols apart (and template statics, below)
  "-fno-math-errno",
  "-w",  # generated code
  "-DVERILATOR=1",
  "-DVL_TIME_CONTEXT",
  '-DEXPORT=extern "C" __attribute__((visibility("default")))',
)


SMALL, LARGE = 200_000, 4_000_000
"""Bytes of C++: of less, a second parse of the headers would cost more than a second core saves; a translation unit's at most, about."""


class RtlBuildError(RuntimeError):
  """The RTL simulation could not be built; the message says what failed or what to install."""


def find_compiler() -> list[str]:
  """The C++ compiler as a command: $CXX unless it is blank, else g++, clang++, else `python -m ziglang c++` (PyPI ziglang)."""
  if command := (cxx := os.environ.get("CXX", "")).split():
    if shutil.which(command[0]) is None:
      raise RtlBuildError(f"CXX={cxx!r} names a compiler that is not on PATH; correct it or unset it")
    return command
  for name in ("g++", "clang++"):
    if shutil.which(name):
      return [name]
  if find_spec("ziglang"):
    return [sys.executable, "-m", "ziglang", "c++"]
  raise RtlBuildError(
    "the RTL engine needs a C++ compiler and found none: install g++ or clang++ with your system's packages, "
    "or run `pip install ziglang`, or set CXX"
  )


@lru_cache
def compiler_identity(command: tuple[str, ...]) -> str:
  """First line of the compiler's version report, for cache keys."""
  result = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
  return " ".join(command[-2:]) + " " + result.stdout.partition("\n")[0]


def base_flags(command: Sequence[str]) -> list[str]:
  """Flags for every translation unit, as this compiler takes them."""
  if "ziglang" in command:  # it would build for this very processor, and -O0 with a sanitizer
    return [*BASE_FLAGS, "-mcpu=baseline", "-fno-sanitize=undefined"]
  return [*BASE_FLAGS, "-fno-gnu-unique"] if "clang" not in Path(command[0]).name else [*BASE_FLAGS]


def run(command: Sequence[str], what: str, **kwargs) -> str:
  """Run a tool; its output on success, an RtlBuildError that carries it on failure."""
  result = subprocess.run(command, capture_output=True, text=True, check=False, **kwargs)
  if result.returncode:
    raise RtlBuildError(f"{what} failed (exit {result.returncode}):\n{(result.stdout + result.stderr)[-4000:]}")
  return result.stdout + result.stderr


def merge(sources: Sequence[Path], parts: int, folder: Path, stem: str) -> list[Path]:
  """Write at most `parts` files that #include all the sources, balanced by size (largest first)."""
  bins: list[list[Path]] = [[] for _ in range(max(1, min(parts, len(sources))))]
  sizes = [0] * len(bins)
  for source in sorted(sources, key=lambda path: (-path.stat().st_size, path.name)):
    smallest = sizes.index(min(sizes))
    bins[smallest].append(source)
    sizes[smallest] += source.stat().st_size
  merged = []
  for index, members in enumerate(bins):
    path = folder / f"{stem}{index}.cpp"
    path.write_text("".join(f'#include "{member.name}"\n' for member in members))
    merged.append(path)
  return merged


def runtime_object(source: Path, command: Sequence[str], include: Sequence[str], key: str, folder: Path) -> Path:
  """The object file in `folder` of one Verilator runtime source, compiled at most once per compiler and version."""
  flags = [*base_flags(command), "-O2"]
  text = "\0".join([key, compiler_identity(tuple(command)), *flags, source.name])
  name = f"rtl/runtime/{source.stem}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.o"
  out = folder / f"{source.stem}.o"
  if (kept := cache.read(name)) is not None:
    out.write_bytes(kept)
  else:
    run([*command, *flags, *include, "-c", str(source), "-o", str(out)], f"compiling {source.name}")
    cache.keep(name, out.read_bytes())
  return out


def compile_library(
  fast: Sequence[Path],
  slow: Sequence[Path],
  runtime: Sequence[Path],
  folder: Path,
  include: Sequence[Path],
  *,
  opt: Sequence[str],
  key: str,
  progress: Progress | None = None,
) -> Path:
  """Compile and link into `folder`/library.so. `fast` gets the optimisation flags `opt`, `slow` none.

  Args:
      fast, slow: generated sources (all in `folder`), by how often they run.
      runtime: Verilator's own sources, shared by all models and kept in the cache under `key`.
  """
  command = find_compiler()
  includes = [f"-I{folder}", *(f"-I{path}" for path in include)]
  jobs = os.cpu_count() or 1
  common = [*command, *base_flags(command), *includes]
  objects: list[Path] = []

  def compile_one(source: Path, flags: Sequence[str]) -> Path:
    out = source.with_suffix(".o")
    run([*common, *flags, "-c", str(source), "-o", str(out)], f"compiling {source.name}")
    return out

  def units(sources: Sequence[Path]) -> int:
    """How many translation units to make of them."""
    size = sum(path.stat().st_size for path in sources)
    return 1 if size < SMALL else max(jobs, size // LARGE)

  with ThreadPoolExecutor(jobs) as pool:
    tasks = [pool.submit(compile_one, part, opt) for part in merge(fast, units(fast), folder, "fast")]
    tasks += [pool.submit(compile_one, part, ["-O0"]) for part in merge(slow, units(slow), folder, "slow")]
    tasks += [pool.submit(runtime_object, source, command, includes, key, folder) for source in runtime]
    for done, task in enumerate(as_completed(tasks), 1):
      objects.append(task.result())
      if progress:
        progress("compile C++", done / len(tasks))
  library = folder / "library.so"
  run([*command, "-shared", *map(str, sorted(objects)), "-o", str(library), "-pthread"], "linking")
  return library
