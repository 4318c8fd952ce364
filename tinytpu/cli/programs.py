"""Commands about programs: asm, disasm, dump, run, fuzz, demo, docs."""
from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .common import Engine, EngineChoice, Preset, app, console, errors, machine_of, progress, read_program, say

if TYPE_CHECKING:
  from ..asm import Program
  from ..config import Config

File = Annotated[Path, typer.Argument(help="assembly text or program container; - reads standard input")]


@app.command()
def asm(
    file: Annotated[Path, typer.Argument(help="assembly text; - reads standard input")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="container to write (default: the text's name with .tpu)")] = None,
    strip: Annotated[bool, typer.Option("--strip", help="leave the source text out of the container")] = False,
    preset: Preset = "4x4") -> None:
  """Assemble TASM text into a program container."""
  from dataclasses import replace
  program = read_program(file, machine_of(preset))
  output = output or (Path("program.tpu") if str(file) == "-" else file.with_suffix(".tpu"))
  if output == file:
    raise ValueError(f"{output} would overwrite the text it is made from; name another file with --output")
  output.write_bytes((replace(program, source=None) if strip else program).to_bytes())
  say(f"{output}: {program.name}, {len(program.words)} words, {len(program.args)} arguments")


@app.command()
def disasm(
    file: File,
    addresses: Annotated[bool, typer.Option("--addresses", "-a", help="add word indices as comments")] = False) -> None:
  """Print a program as TASM text that assembles to the same words."""
  from ..asm import disassemble
  typer.echo(disassemble(read_program(file), addresses=addresses), nl=False)


@app.command()
def dump(file: File) -> None:
  """Print every record of a program container."""
  typer.echo(read_program(file).dump(), nl=False)


@app.command()
def run(
    file: File,
    engine: Engine = EngineChoice.ISS,
    preset: Annotated[str | None, typer.Option("--preset", "-p", help="machine (default: what a container is for, else 4x4)")] = None,
    arg: Annotated[list[str] | None, typer.Option("--arg", help="argument register: N=VALUE or VARIABLE=VALUE")] = None,
    limit: Annotated[int, typer.Option(min=1, help="watchdog: most cycles")] = 100_000_000,
    set_memory: Annotated[list[str] | None, typer.Option(help="before: ADDRESS=1,2,3[:TYPE] or ADDRESS=@FILE")] = None,
    show: Annotated[list[str] | None, typer.Option(help="after: memory ADDRESS:COUNT[:TYPE]")] = None,
    at: Annotated[str | None, typer.Option(help="device address of the program (default: the end of memory)")] = None,
    registers: Annotated[bool, typer.Option("--registers", "-r", help="show registers that are not zero")] = False,
    vcd: Annotated[Path | None, typer.Option(help="write the hardware's signals to this file, FILE.vcd (engines rtl and both)")] = None,
    fst: Annotated[Path | None, typer.Option(help="the same in a format that takes less space, FILE.fst")] = None) -> None:
  """Run a program; print cycles, counters and any fault.

  Exit code 1 after a fault, 2 if the engines differ.
  """
  from ..machine import open_engine
  from ..machine.compare import compare
  from . import memory
  from .report import counter_table, print_registers
  program = read_program(file, machine_of(preset) if preset else None)
  if preset and program.config != preset:
    raise ValueError(f"{file} was assembled for preset {program.config}, not {preset}; assemble its text again with --preset {preset}")
  waveform = vcd or fst
  if waveform and "rtl" not in engine.kinds:
    raise ValueError("a waveform shows the hardware's signals, and the simulator has none: add --engine rtl")
  if vcd and fst:
    raise ValueError("--vcd and --fst both: a run writes one waveform")
  if waveform and waveform.suffix != (suffix := ".vcd" if vcd else ".fst"):
    raise ValueError(f"{waveform}: the file's name must end in {suffix}")
  config = machine_of(program.config)
  args = memory.arguments(program, arg or [])
  address = _program_address(program, config, at)
  outcomes: dict[str, Any] = {}
  engines: dict[str, Any] = {}
  try:
    for kind in engine.kinds:
      with progress(f"opening {kind}") as report:
        engines[kind] = machine = open_engine(config, kind, progress=report, waveform=waveform if kind == "rtl" else None)
      for text in set_memory or []:
        memory.set_memory(machine.hbm, text)
      code = program.code_bytes()
      machine.hbm[address:address + len(code)] = memoryview(code)
      started = time.perf_counter()
      result = machine.launch(address, args, limit=limit, invalidate=True)
      outcomes[kind] = (result, time.perf_counter() - started)
    console.print(counter_table(program.name, outcomes, config))
    for kind, (result, _) in outcomes.items():
      if result.fault:
        say(f"{kind}: fault {result.fault}", "bold red")
        say(f"  group: {_group(program, result.fault.pc)}")
    first = engines[engine.kinds[0]]
    if registers:
      print_registers(first.state())
    for text in show or []:
      say(f"{text}: {memory.show_memory(first.hbm, text)}")
    if len(engines) == 2 and (differences := compare(engines, {kind: result for kind, (result, _) in outcomes.items()})):
      for line in differences:
        say(f"engines differ: {line}", "bold red", to=errors)
      raise typer.Exit(2)
    if len(engines) == 2:
      say("engines agree: memory, registers, cycles, counters", "green")
    if any(result.fault for result, _ in outcomes.values()):
      raise typer.Exit(1)
  finally:
    for machine in engines.values():
      machine.close()


def _program_address(program: Program, config: Config, at: str | None) -> int:
  block, size = config.ibuf_block_bytes, len(program.code_bytes())
  if at is None:
    return (config.hbm_bytes - max(size, 1)) // block * block
  address = int(at, 0)
  if address % block or not 0 <= address <= config.hbm_bytes - size:
    raise ValueError(f"--at {at}: a program lies at a multiple of {block} bytes within the {config.hbm_bytes} of device memory")
  return address


def _group(program: Program, word: int) -> str:
  from ..asm.disassembler import group_at
  return group_at(program, word) or "beyond the program's end"


@app.command()
def fuzz(
    count: Annotated[int, typer.Option("--count", "--n", "-n", min=1, help="random programs")] = 200,
    seed: Annotated[int, typer.Option("--seed", "-s", help="seed of the first")] = 0,
    engine: Engine = EngineChoice.BOTH,
    preset: Preset = "4x4") -> None:
  """Run random programs on the engines and compare memory, registers and cycles. Exit code 1 on a difference."""
  from ..fuzz import run_fuzz
  if run_fuzz(count, seed, machine_of(preset), engines=engine.kinds):
    raise typer.Exit(1)


@app.command()
def demo(
    engine: Engine = EngineChoice.ISS,
    preset: Preset = "4x4",
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="digits to classify (default: all held out)")] = None) -> None:
  """Classify handwritten digits with a tinygrad network on the TinyTPU."""
  from ..demo.digits import HELD_OUT
  from ..demo.main import main
  main(engine.kinds, machine_of(preset).name, count or HELD_OUT)


@app.command()
def docs(
    check: Annotated[bool, typer.Option("--check", help="write nothing; exit code 1 if the page is out of date")] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="page to write")] = Path("docs/isa.md")) -> None:
  """Write the reference page of the instruction set from its table."""
  from ..docs_gen import isa_page
  page = isa_page()
  if not check:
    output.write_text(page)
    say(f"{output}: {len(page.splitlines())} lines")
  elif not output.exists() or output.read_text() != page:
    raise ValueError(f"{output} is not what the table says: run `tinytpu docs`")
