"""What all commands share: the application, its consoles, reading of programs, choice of the machine."""
from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer
from rich.console import Console

from .. import __version__
from ..config import Config, preset

if TYPE_CHECKING:
  from ..asm import Program

app = typer.Typer(name="tinytpu", no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False,
                  help="TinyTPU: assemble, run and inspect programs; write out and build the hardware.")
console = Console()
errors = Console(stderr=True)


def say(text: str, style: str = "", end: str = "\n", to: Console = console) -> None:
  """Print text as it is, in a rich style: neither wrapped nor searched for markup, since it may hold file names or be piped."""
  to.print(text, style=style, end=end, highlight=False, soft_wrap=True, markup=False)


@dataclass
class Settings:
  """Global options. debug: show tracebacks."""
  debug: bool = False


settings = Settings()


class EngineChoice(StrEnum):
  """Engines to run on."""
  ISS = "iss"
  RTL = "rtl"
  BOTH = "both"

  @property
  def kinds(self) -> tuple[str, ...]:
    return ("iss", "rtl") if self is EngineChoice.BOTH else (self.value,)


Preset = Annotated[str, typer.Option("--preset", "--config", "-p", help="machine: a preset, perhaps with changes: 4x4,vector_lanes=8")]
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


def read_program(path: Path, config: Config | None = None) -> Program:
  """The program in a file: a container (recognised by its first bytes) or assembly text; "-" is standard input.

  Raises:
    TasmError, ContainerError: bad contents. OSError: no such file.
  """
  from ..asm import Program, assemble
  from ..asm.program import MAGIC
  data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
  name = "<stdin>" if str(path) == "-" else str(path)
  if data.startswith(MAGIC):
    return Program.from_bytes(data)
  try:
    text = data.decode()
  except UnicodeDecodeError:
    raise ValueError(f"{name} is neither a program container nor assembly text: not UTF-8") from None
  return assemble(text, config, file=name)


def machine_of(name: str) -> Config:
  """The Config of a preset. Raises ConfigError, listing the presets there are."""
  return preset(name)


class Report(Protocol):
  """What `progress` yields: sets the bar's text and, where known, the fraction done (0 to 1)."""

  def __call__(self, step: str, fraction: float | None = None, /) -> None: ...


@contextmanager
def progress(title: str) -> Iterator[Report]:
  """A progress bar on standard error, which is gone when the work is done."""
  from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
  with Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=errors, transient=True) as bar:
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
