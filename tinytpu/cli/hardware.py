"""Commands about the hardware and this installation: verilog, build, doctor."""
from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from .common import Preset, app, console, machine_of, progress


@app.command()
def verilog(
    output: Annotated[Path, typer.Option("--output", "-o", help="file to write; - writes to standard output")] = Path("tinytpu.v"),
    preset: Preset = "4x4") -> None:
  """Write the chip as Verilog."""
  from ..rtl.chip import Chip
  from ..rtl.verilate import to_verilog
  config = machine_of(preset)
  text = to_verilog(Chip(config), "tinytpu")
  if str(output) == "-":
    typer.echo(text, nl=False)
    return
  output.write_text(text)
  console.print(f"{output}: module tinytpu, preset {config.name}, {len(text.splitlines())} lines", highlight=False)


@app.command()
def build(preset: Preset = "4x4") -> None:
  """Build the engines of a preset, so that the first run need not: the Verilated hardware and the compiled simulator."""
  from ..machine import open_engine
  config = machine_of(preset)
  for kind in ("iss", "rtl"):
    started = time.perf_counter()
    with progress(f"building {kind} {config.name}") as report:
      open_engine(config, kind, progress=report).close()
    console.print(f"{kind} {config.name}: ready after {time.perf_counter() - started:.1f} s", highlight=False)


@app.command()
def doctor() -> None:
  """Tell what is installed, which C++ compiler and caches there are, and whether tinygrad finds the device.

  Exit code 1 if something that TinyTPU needs is missing.
  """
  from .checks import all_checks
  failed = 0
  for check in all_checks():
    mark = {True: "[green]ok  [/]", False: "[bold red]FAIL[/]", None: "[yellow]note[/]"}[check.ok]
    console.print(f"{mark} {check.name:<16} {check.found}", highlight=False, soft_wrap=True)
    if check.ok is not True and check.advice:
      console.print(f"     {'':<16} [dim]{check.advice}[/]", highlight=False, soft_wrap=True)
    failed += check.ok is False
  if failed:
    raise typer.Exit(1)
