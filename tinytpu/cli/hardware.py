"""Commands about the hardware and this installation: verilog, build, doctor."""
from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from .common import Exit, Preset, app, machine_of, progress, say


@app.command()
def verilog(
    output: Annotated[Path, typer.Option("--output", "-o", help="file to write; - writes to standard output")] = Path("tinytpu.v"),
    axi: Annotated[bool, typer.Option("--axi", help="with AXI4-Lite registers and AXI4 memory, as module tinytpu_axi")] = False,
    axi_bits: Annotated[int | None, typer.Option("--axi-bits", help="with --axi: bits of the memory bus; if not given a line's, or 512")
                        ] = None,
    preset: Preset = "4x4") -> None:
  """Write the chip as Verilog: module tinytpu, or with standard buses tinytpu_axi (docs/rtl/axi.md)."""
  from ..rtl.axi import AxiChip
  from ..rtl.chip import Chip
  from ..rtl.verilate import to_verilog
  config = machine_of(preset)
  if axi_bits is not None and not axi:
    raise typer.BadParameter("--axi-bits is the width of a bus that only --axi has")
  name = "tinytpu_axi" if axi else "tinytpu"
  text = to_verilog(AxiChip(config, axi_bits) if axi else Chip(config), name)
  if str(output) == "-":
    typer.echo(text, nl=False)
    return
  output.write_text(text, encoding="utf-8")
  say(f"{output}: module {name}, preset {config.name}, {len(text.splitlines())} lines")


@app.command()
def build(preset: Preset = "4x4") -> None:
  """Build the engines of a preset, so that the first run need not: the Verilated hardware and the compiled simulator."""
  from ..machine import open_engine
  config = machine_of(preset)
  for kind in ("iss", "rtl"):
    started = time.perf_counter()
    with progress(f"building {kind} {config.name}") as report:
      open_engine(config, kind, progress=report).close()
    say(f"{kind} {config.name}: ready after {time.perf_counter() - started:.1f} s")


@app.command()
def doctor() -> None:
  """Tell what is installed, which C++ compiler and caches there are, and whether tinygrad finds the device.

  Exit code 1 if something that TinyTPU needs is missing.
  """
  from .checks import all_checks
  failed = 0
  for check in all_checks():
    mark, style = {True: ("ok  ", "green"), False: ("FAIL", "bold red"), None: ("note", "yellow")}[check.ok]
    say(mark, style, end="")
    say(f" {check.name:<16} {check.found}")
    if check.ok is not True and check.advice:
      say(f"{'':<21} {check.advice}", "dim")
    failed += check.ok is False
  if failed:
    raise typer.Exit(Exit.ERROR)
