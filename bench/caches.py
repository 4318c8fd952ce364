"""`python -m bench.caches [--real]`: each file that the engines load from the cache is damaged in every way, and the engines are opened.

Each case is a process of its own, with a cache of its own. It must open the engine, see the damage, make the file again and compute;
or end in an error of one line. A crash, a traceback or a wrong number is a failure. What is made again is copied from an undamaged
cache, or with `--real` compiled, which takes some minutes.
"""
from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from tests.damage import DAMAGES, damage, drop_rights, open_folder, read_only, restore
from tinytpu import cache
from tinytpu.asm import assemble
from tinytpu.config import preset
from tinytpu.iss import build, core
from tinytpu.iss.jit import jit
from tinytpu.machine import open_engine, rtl
from tinytpu.rtl.verilate import RtlBuildError

ROOT = Path(__file__).parents[1]
CONFIG = preset("4x4")
PROGRAM = "hld.w v1, [s32 + s0]\nvadd v1, v1, v1\nhst.w v1, [s32 + s0]\nhalt"
DATA = 0x10000


def compute(kind: str) -> bool:
  """Open an engine as a new process would, and whether it adds."""
  core.run = jit(core.run.py_func)  # compiled or loaded once more
  engine = open_engine(CONFIG, kind)
  code = assemble(PROGRAM, CONFIG).code_bytes()
  engine.hbm[:len(code)] = memoryview(code)
  numbers = engine.hbm[DATA:DATA + 64].view(np.uint32)
  numbers[:] = np.arange(16)
  engine.launch(0, [DATA])
  right = bool((numbers == 2 * np.arange(16)).all())
  del numbers
  engine.close()
  return right


def copy(target: Path) -> dict[str, list[str]]:
  """Copy what the engines load into an empty cache at `target`, building it if need be; the files' names by engine."""
  source = cache.root()
  for kind in ("iss", "rtl"):
    compute(kind)
  index = f"rtl/chip-{rtl.source_key(CONFIG)}.name"
  files = {"iss": [str(path.relative_to(source)) for path in (source / build.folder()).glob("run-*.code")],
           "rtl": [index, f"rtl/{(cache.read(index) or b'').decode()}"]}
  for name in [*files["iss"], *files["rtl"], *(str(path.relative_to(source)) for path in source.glob("rtl/runtime/*.o"))]:
    restore(source / name, target / name)
  return files


def stand_in(good: Path) -> list[str]:
  """From now on, copy from the cache at `good` instead of compiling; the list of files made again, which grows."""
  made: list[str] = []
  load = build._Kept.load_overload

  def again(name: str) -> Path:
    made.append(name)
    return cache.keep(name, cache.contents(good / name) or b"")

  def load_or_make(self: Any, sig: Any, target_context: Any) -> Any:
    if (found := load(self, sig, target_context)) is None:
      again(self._name(sig, target_context.codegen()))
      found = load(self, sig, target_context)
    return found

  library = (cache.contents(good / f"rtl/chip-{rtl.source_key(CONFIG)}.name") or b"").decode()
  build._Kept.load_overload = load_or_make  # type: ignore[method-assign]
  rtl.to_verilog = lambda *_: ""  # type: ignore[assignment]
  rtl.build_library = lambda *_, **__: cache.find(f"rtl/{library}") or again(f"rtl/{library}")  # type: ignore[assignment]
  return made


def case(good: Path, bad: Path, kind: str, name: str, how: str) -> str:
  """Damage the file `name` of the cache at `bad`, equal to that at `good` before, open the engine: what happened, in a few words.
  "read-only" and "unreadable": this process is another user's afterwards."""
  os.environ["TINYTPU_CACHE"] = str(bad)
  if how in ("read-only", "unreadable"):
    compute(kind)  # imports what the other user may not read
    damage(bad / name, "noise") if how == "read-only" else (bad / name).chmod(0)
    read_only(bad)
    drop_rights()
    cache._scratch.clear()
  else:
    damage(bad / name, how)
  if not compute(kind):
    return "WRONG"
  rest = "" if cache.contents(bad / name) else " in a temporary folder"
  return "made again" + rest if cache.find(name) else "NOT MADE AGAIN"


WAYS = (*DAMAGES, "read-only", "unreadable")


def probe(good: Path, bad: Path, kind: str, name: str, how: str, real: bool) -> None:
  """A case in this process; prints its outcome."""
  try:
    made = [] if real else stand_in(good)
    outcome = case(good, bad, kind, name, how)
    print(outcome if real or made or name.endswith(".name") else "DAMAGE NOT SEEN")
  except Exception as error:
    lines = str(error).splitlines()
    print(f"error: {error}" if len(lines) == 1 and isinstance(error, RtlBuildError) else f"TRACEBACK {traceback.format_exc()}")


def walk(real: bool, tell: Callable[[str, str, str, str], None], kinds: tuple[str, ...] = ("iss", "rtl")) -> int:
  """Every file, every damage; the number of failures."""
  failures = 0
  with open_folder() as folder:
    files = copy(folder / "good")
    for kind in kinds:
      for name in files[kind]:
        for how in WAYS:
          with open_folder() as place:
            shutil.copytree(folder / "good", place / "bad")
            command = [sys.executable, "-m", "bench.caches", "--probe", str(folder / "good"), str(place / "bad"), kind, name, how]
            result = subprocess.run(command + ["--real"] * real, capture_output=True, text=True, check=False, cwd=ROOT)
          outcome = result.stdout.strip() if result.returncode == 0 else f"CRASH {result.returncode} {result.stderr[-300:]}"
          failures += not outcome.startswith(("made again", "error: "))
          tell(kind, name, how, outcome)
  return failures


def main() -> None:
  """The command."""
  parser = argparse.ArgumentParser(prog="python -m bench.caches", description=__doc__)
  parser.add_argument("--real", action="store_true", help="compile what is damaged")
  parser.add_argument("--probe", nargs=5, help=argparse.SUPPRESS)
  arguments = parser.parse_args()
  if arguments.probe:
    good, bad, *rest = arguments.probe
    return probe(Path(good), Path(bad), *rest, arguments.real)
  console, cases = Console(), [0]

  def tell(*row: str) -> None:
    cases[0] += 1
    console.print(f"{row[0]} {row[1]} {row[2]}: {row[3]}", markup=False, highlight=False, soft_wrap=True)

  failures = walk(arguments.real, tell)
  console.print(f"{cases[0]} cases, {failures} failures", highlight=False)
  sys.exit(failures > 0)


if __name__ == "__main__":
  main()
