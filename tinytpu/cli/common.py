"""What all commands share: the application, its consoles, reading of programs, choice of the machine."""
from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer
from rich.console import Console

from .. import __version__
from ..config import Config, ConfigError, preset

if TYPE_CHECKING:
  from ..asm import Program



class Exit(IntEnum):
  """Exit codes, as docs/cli.md has them."""
  ERROR = 1
  USAGE = 2
  FAULT = 3
  MISMATCH = 4
  BUDGET = 5
  SLOWER = 6


_CODES = ("Exit codes: 0 done; 1 an error (a bad file, a check that failed); 2 wrong usage; 3 the program ended in a fault; "
          "4 the engines differ; 5 a model's outputs are outside the error budget; "
          "6 slower than --fail-above.")
app = typer.Typer(name="tinytpu", no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False, epilog=_CODES,
                  help="TinyTPU: assemble, run and inspect programs; write out and build the hardware.")
console = Console()
errors = Console(stderr=True)


def say(text: str, style: str = "", end: str = "\n", to: Console = console) -> None:
  """Print text as it is, in a rich style: neither wrapped nor searched for markup and emoji, since it may hold file names or be piped."""
  to.print(text, style=style, end=end, highlight=False, soft_wrap=True, markup=False, emoji=False)


@dataclass
class Settings:
  """Global options. debug: show tracebacks."""
  debug: bool = False


settings = Settings()


class UsageError(ValueError):
  """What an option says makes no sense; the message quotes it."""


class EngineChoice(StrEnum):
  """Engines to run on."""
  ISS = "iss"
  RTL = "rtl"
  BOTH = "both"

  @property
  def kinds(self) -> tuple[str, ...]:
    return ("iss", "rtl") if self is EngineChoice.BOTH else (self.value,)


Preset = Annotated[str, typer.Option("--preset", "--config", "-p", help="machine: a preset, perhaps with changes: 4x4,vector_lanes=8")]
Machine = Annotated[str | None, typer.Option("--preset", "--config", "-p", help="machine: a preset, perhaps with changes: "
                                             "4x4,hbm_latency=200 (default: what a container or the text's .config says, else 4x4)")]
File = Annotated[Path, typer.Argument(help="assembly text or program container; - reads standard input")]
Engine = Annotated[EngineChoice, typer.Option("--engine", "-e", help="simulator (iss), Verilated hardware (rtl), or both compared")]


def _version(wanted: bool) -> None:
  if wanted:
    say(f"tinytpu {__version__}")
    raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="show tracebacks of errors")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="show the version")] = False) -> None:
  """TinyTPU: assemble, run and inspect programs; write out and build the hardware."""
  settings.debug = debug


def read_program(path: Path, preset_name: str | None = None) -> Program:
  """The program in a file: a container (recognised by its first bytes) or assembly text; "-" is standard input.

  Args:
    preset_name: the machine it must be for; None: what a container or the text's `.config` says, else 4x4.

  Raises:
    TasmError, ContainerError: bad contents. OSError: no such file. UsageError: a container for another machine.
  """
  from ..asm import Program, assemble
  from ..asm.program import MAGIC
  config = machine_of(preset_name) if preset_name else None
  name = "<stdin>" if str(path) == "-" else str(path)
  if str(path) != "-":
    data = path.read_bytes()
  elif sys.stdin is None:
    raise OSError("standard input is closed: name a file, or pipe the text in")
  else:
    data = sys.stdin.buffer.read()
  if data.startswith(MAGIC):
    program = Program.from_bytes(data, name)
    if config and program.config != config.name:
      raise UsageError(f"{name} was assembled for preset {program.config}, not {config.name}; assemble its text again with "
                       f"--preset {config.name}")
    return program
  try:
    text = data.decode()
  except UnicodeDecodeError:
    raise ValueError(f"{name} is neither a program container nor assembly text: not UTF-8") from None
  return assemble(text, config, file=name)


def machine_of(name: str) -> Config:
  """The Config of a preset. Raises UsageError, listing the presets there are."""
  try:
    return preset(name)
  except ConfigError as error:
    raise UsageError(str(error)) from None


class Report(Protocol):
  """What `progress` yields: sets the bar's text and, where known, the fraction done (0 to 1)."""

  def __call__(self, step: str, fraction: float | None = None, /) -> None: ...


@contextmanager
def progress(title: str) -> Iterator[Report]:
  """A progress bar on standard error, which is gone when the work is done."""
  from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
  with Progress(TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), console=errors, transient=True,
                disable=not errors.is_terminal) as bar:
    task = bar.add_task(title, total=None)
    said = ""

    def report(step: str, fraction: float | None = None, /) -> None:
      nonlocal said
      bar.update(task, description=f"{title}: {step}")
      if fraction is not None:
        bar.update(task, total=1.0, completed=fraction)
      if not errors.is_terminal and step != said:  # a log shows no bars: say each step once
        say(f"{title}: {step}", to=errors)
      said = step
    yield report
