"""Commands about programs: asm, disasm, dump, run, fuzz, demo, docs."""
from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from ..config import Config
from .common import Engine, EngineChoice, Exit, Preset, UsageError, app, console, errors, machine_of, progress, read_program, say

if TYPE_CHECKING:
  from ..asm import Program
  from ..isa.faults import FaultRecord
  from ..trace import Trace

_ARG_BASE = Config.ARG_BASE
Machine = Annotated[str | None, typer.Option("--preset", "--config", "-p", help="machine: a preset, perhaps with changes: "
                                             "4x4,hbm_latency=200 (default: what a container or the text's .config says, else 4x4)")]
File = Annotated[Path, typer.Argument(help="assembly text or program container; - reads standard input")]


@app.command()
def asm(
    file: Annotated[Path, typer.Argument(help="assembly text; - reads standard input")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="container to write (default: the text's name with .tpu); "
                                                "- writes to standard output")] = None,
    strip: Annotated[bool, typer.Option("--strip", help="leave the source text out of the container")] = False,
    preset: Machine = None) -> None:
  """Assemble TASM text into a program container."""
  from dataclasses import replace
  program = read_program(file, preset)
  output = output or (Path("program.tpu") if str(file) == "-" else file.with_suffix(".tpu"))
  data = (replace(program, source=None) if strip else program).to_bytes()
  if str(output) == "-":
    typer.echo(data, nl=False)
    return
  if output == file:
    raise UsageError(f"{output} would overwrite the text it is made from; name another file with --output")
  output.write_bytes(data)
  say(f"{output}: {program.name}, {len(program.words)} words, {len(program.args)} arguments")


@app.command()
def disasm(
    file: File,
    addresses: Annotated[bool, typer.Option("--addresses", "-a", help="add word indices as comments")] = False) -> None:
  """Print a program as TASM text (UTF-8) that assembles to the same container, but for the source text in it."""
  from ..asm import disassemble
  typer.echo(disassemble(read_program(file), addresses=addresses).encode(), nl=False)


@app.command()
def dump(file: File) -> None:
  """Print every record of a program container."""
  typer.echo(read_program(file).dump(), nl=False)


@app.command()
def run(
    file: File,
    engine: Engine = EngineChoice.ISS,
    preset: Machine = None,
    arg: Annotated[list[str] | None, typer.Option("--arg", help=f"argument: N=VALUE (N from 0, which is register s{_ARG_BASE}), "
                                                  f"s{_ARG_BASE}=VALUE or VARIABLE=VALUE")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1 << 36, help="watchdog: most cycles")] = 100_000_000,
    set_memory: Annotated[list[str] | None, typer.Option(help="before: ADDRESS=1,2,3[:TYPE] (i32, f32, u8, ...) or ADDRESS=@FILE")] = None,
    show: Annotated[list[str] | None, typer.Option(help="after: device memory ADDRESS:COUNT[:TYPE], or vmem:ADDRESS:COUNT[:TYPE]")] = None,
    at: Annotated[str | None, typer.Option(help="device address of the program (default: the end of memory)")] = None,
    registers: Annotated[bool, typer.Option("--registers", "-r", help="show registers that are not zero")] = False,
    vcd: Annotated[Path | None, typer.Option(help="write the hardware's signals to this file, FILE.vcd (engines rtl and both)")] = None,
    fst: Annotated[Path | None, typer.Option(help="the same in a format that takes less space, FILE.fst")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="show where the cycles went, by cause")] = False,
    events: Annotated[Path | None, typer.Option(help="trace, and write what every group waited for, to FILE.json or FILE.csv")] = None,
    most: Annotated[int, typer.Option("--most-events", min=0, max=1 << 26, help="events kept; later ones are dropped")] = 1 << 20) -> None:
  """Run a program; print cycles, time at the machine's clock, counters and any fault.

  Exit code 3 after a fault, 4 if the engines differ.
  """
  from ..machine import open_engine
  from ..machine.compare import compare
  from ..trace import Trace, write_csv, write_json
  from . import memory
  from .report import cause_table, counter_table, print_registers
  program = read_program(file, preset)
  waveform = vcd or fst
  if waveform and "rtl" not in engine.kinds:
    raise UsageError("a waveform shows the hardware's signals, and the simulator has none: add --engine rtl")
  if vcd and fst:
    raise UsageError("--vcd and --fst both: a run writes one waveform")
  if waveform and waveform.suffix != (suffix := ".vcd" if vcd else ".fst"):
    raise UsageError(f"{waveform}: the file's name must end in {suffix}")
  writers = {".json": write_json, ".csv": write_csv}
  if events and events.suffix not in writers:
    raise UsageError(f"{events}: the file's name must end in {' or '.join(writers)}")
  traces = {kind: Trace(most) for kind in engine.kinds} if trace or events else {}
  config = machine_of(program.config)
  args = memory.arguments(program, arg or [])
  address = _program_address(program, config, at)
  before = [memory.setting(text, config) for text in set_memory or []]
  after = [memory.shown(text, config) for text in show or []]
  outcomes: dict[str, Any] = {}
  engines: dict[str, Any] = {}
  try:
    for kind in engine.kinds:
      with progress(f"opening {kind}") as report:
        engines[kind] = machine = open_engine(config, kind, progress=report, waveform=waveform if kind == "rtl" else None,
                                                   trace=traces.get(kind))
      for start, data in before:
        machine.hbm[start:start + len(data)] = data
      code = program.code_bytes()
      machine.hbm[address:address + len(code)] = memoryview(code)
      started = time.perf_counter()
      result = machine.launch(address, args, limit=limit, invalidate=True)
      outcomes[kind] = (result, time.perf_counter() - started)
    console.print(counter_table(program.name, outcomes, config))
    if traces:
      console.print(cause_table({kind: found.launches[0] for kind, found in traces.items()}))
      _tell_events(traces[engine.kinds[0]], events, writers)
    for kind, (result, _) in outcomes.items():
      if result.fault:
        say(f"{kind}: fault {result.fault}", "bold red")
        say(f"  group: {_group(program, result.fault)}")
    first = engines[engine.kinds[0]]
    state = first.state() if registers or any(item.memory == "vmem" for item in after) else {}
    if registers:
      print_registers(state)
    for item in after:
      say(f"{item.text}: {item.of(state['vmem'] if item.memory == 'vmem' else first.hbm)}")
    if len(engines) == 2 and (differences := compare(engines, {kind: result for kind, (result, _) in outcomes.items()})):
      for line in differences:
        say(f"engines differ: {line}", "bold red", to=errors)
      raise typer.Exit(Exit.MISMATCH)
    if len(engines) == 2:
      say("engines agree: memory, registers, cycles, counters" + ", trace" * bool(traces), "green")
    if any(result.fault for result, _ in outcomes.values()):
      raise typer.Exit(Exit.FAULT)
  finally:
    for machine in engines.values():
      machine.close()


def _tell_events(trace: Trace, path: Path | None, writers: Mapping[str, Callable[[Trace, TextIO], None]]) -> None:
  """Write the events to a file, if there is one to write, and say how many were dropped."""
  launch = trace.launches[0]
  if path:
    with path.open("w", encoding="utf-8") as file:
      writers[path.suffix](trace, file)
    say(f"{path}: {len(launch.events):,} events")
  if launch.dropped:
    say(f"{launch.dropped:,} events found no room (--most-events); the table holds for all")


def _program_address(program: Program, config: Config, at: str | None) -> int:
  from .memory import integer
  block, size = config.ibuf_block_bytes, len(program.code_bytes())
  if size > config.hbm_bytes:
    raise ValueError(f"the program has {size} bytes, device memory {config.hbm_bytes}")
  if at is None:
    return (config.hbm_bytes - size) // block * block
  address = integer(at, "a byte address", f"--at {at}")
  if address % block or not 0 <= address <= config.hbm_bytes - size:
    raise UsageError(f"--at {at}: a program lies at a multiple of {block} bytes within the {config.hbm_bytes} of device memory")
  return address


def _group(program: Program, fault: FaultRecord) -> str:
  """The group that a fault stopped at, or a guess where there is none."""
  from ..asm.disassembler import group_at
  if fault.pc < len(program.words):
    return group_at(program, fault.pc)
  return "none, the program ran past its end: is a `halt` missing?"


@app.command()
def fuzz(
    count: Annotated[int, typer.Option("--count", "--n", "-n", min=1, help="random programs")] = 200,
    seed: Annotated[int, typer.Option("--seed", "-s", min=0, help="seed of the first")] = 0,
    engine: Engine = EngineChoice.BOTH,
    preset: Preset = "4x4",
    trace: Annotated[bool, typer.Option("--trace", help="compare what every group waited for, too")] = False) -> None:
  """Run random programs on the engines and compare memory, registers and cycles. Exit code 4 on a difference."""
  from ..fuzz import run_fuzz
  if run_fuzz(count, seed, machine_of(preset), engines=engine.kinds, tell=say, trace=trace):
    raise typer.Exit(Exit.MISMATCH)


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
    check: Annotated[bool, typer.Option("--check", help="write nothing; exit code 1 if a page or picture is out of date")] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="folder of the pages; README.md beside it is one too")] = Path("docs"),
    page: Annotated[list[Path] | None, typer.Argument(help="these pages only")] = None) -> None:
  """Write the reference pages from their tables, and renew what commands and programs have made in the others, pictures too."""
  from ..docs.pages import renew, stale, tour
  from ..docs.reference import PAGES
  wanted = {path.resolve() for path in page or []}
  makers: dict[Path, Callable[[], dict[Path, str]]] = {output / name: lambda n=name: {output / n: PAGES[n]()} for name in PAGES}  # type: ignore[misc]
  makers |= {path: lambda p=path: renew(p, output) for path in tour(output)}  # type: ignore[misc]
  if unknown := wanted - {path.resolve() for path in makers}:
    raise UsageError(f"{min(unknown)}: nothing is made in that page of {output}")
  for name, make in makers.items():
    if wanted and name.resolve() not in wanted:
      continue
    for path, text in make().items():
      old = path.read_text(encoding="utf-8") if path.exists() else None
      if check and old != text:
        raise ValueError(f"{path} is not what its tables and commands say: run `tinytpu docs`")
      if old != text:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
      say(f"{path}: {len(text.splitlines())} lines" + (", changed" if old != text else ""))
  if not wanted:
    for path in stale(makers, output):
      if check:
        raise ValueError(f"{path}: no page shows this picture: run `tinytpu docs`")
      path.unlink()
      say(f"{path}: no page shows it, deleted")
