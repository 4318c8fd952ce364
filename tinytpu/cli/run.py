"""The command `tinytpu run`: a program on one engine or both, what it left, where its cycles went, and stops on the way."""
from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from ..config import Config
from .common import Engine, EngineChoice, Exit, File, Machine, UsageError, app, console, errors, machine_of, progress, read_program, say

if TYPE_CHECKING:
  from ..asm import Program
  from ..isa.faults import FaultRecord
  from ..machine import Engine as Opened
  from ..machine import RunResult
  from ..machine.replay import Replay
  from ..trace import Trace

_ARG_BASE = Config.ARG_BASE


@app.command()
def run(
    file: File,
    engine: Engine = EngineChoice.ISS,
    preset: Machine = None,
    arg: Annotated[list[str] | None, typer.Option("--arg", help=f"argument: N=VALUE (N from 0, which is register s{_ARG_BASE}), "
                                                  f"s{_ARG_BASE}=VALUE or VARIABLE=VALUE")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1 << 36, help="watchdog: most cycles")] = 100_000_000,
    set_memory: Annotated[list[str] | None, typer.Option(help="before: ADDRESS=1,2,3[:TYPE] (i32, f32, u8, ...) or ADDRESS=@FILE")] = None,
    show: Annotated[list[str] | None, typer.Option(help="after: device memory ADDRESS:COUNT[:TYPE], vmem:ADDRESS:COUNT[:TYPE], or "
                                                   "registers: s5, v3:f32, p0-p3:f32")] = None,
    at: Annotated[str | None, typer.Option(help="device address of the program (default: the end of memory)")] = None,
    registers: Annotated[bool, typer.Option("--registers", "-r", help="show registers that are not zero")] = False,
    vcd: Annotated[Path | None, typer.Option(help="write the hardware's signals to this file, FILE.vcd (engines rtl and both)")] = None,
    fst: Annotated[Path | None, typer.Option(help="the same in a format that takes less space, FILE.fst")] = None,
    trace: Annotated[bool | None, typer.Option("--trace/--no-trace", help="show where the cycles went, by cause (default: on the "
                                               "simulator; the hardware is built once more for it)")] = None,
    events: Annotated[Path | None, typer.Option(help="trace, and write what every group waited for, to FILE.json or FILE.csv")] = None,
    most: Annotated[int, typer.Option("--most-events", min=0, max=1 << 26, help="events kept, and groups that "
                                                    "--break and --watch look at; later ones are dropped")] = 1 << 20,
    stop_at: Annotated[list[str] | None, typer.Option("--break", help="stop before each group at this word (`tinytpu dump` shows them), "
                                                      "and show the registers that it reads")] = None,
    watch: Annotated[list[str] | None, typer.Option(help="stop after each group that changes it: s5, v3, p2, vmem:ADDRESS[:WORDS], "
                                                    "hbm:ADDRESS[:WORDS]")] = None,
    stops: Annotated[int, typer.Option(min=1, help="stops that are shown")] = 10) -> None:
  """Run a program; print cycles, time at the machine's clock, counters, where the cycles went, and any fault.

  With --break or --watch, stops are shown first, each with what --show and --registers ask for. Exit code 3 after a fault, 4 if the
  engines differ.
  """
  from ..machine import open_engine
  from ..machine.compare import compare
  from ..machine.replay import Replay
  from ..trace import Trace, write_csv, write_json
  from . import memory
  from . import stops as stopping
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
  traced = trace if trace is not None else engine is EngineChoice.ISS
  traces = {kind: Trace(most) for kind in engine.kinds} if traced or events else {}
  config = machine_of(program.config)
  args = memory.arguments(program, arg or [])
  address = _program_address(program, config, at)
  before = [memory.setting(text, config) for text in set_memory or []]
  after = [memory.shown(text, config) for text in show or []]
  points = stopping.Points([stopping.word(text, program.words) for text in stop_at or []],
                           [stopping.place(text, config) for text in watch or []], stops)

  def opened(kind: str, trace: Trace | None, waveform: Path | None = None) -> Opened:
    """An engine with everything in memory."""
    with progress(f"opening {kind}") as report:
      machine = open_engine(config, kind, progress=report, waveform=waveform, trace=trace)
    for start, data in before:
      machine.hbm[start:start + len(data)] = data
    code = program.code_bytes()
    machine.hbm[address:address + len(code)] = memoryview(code)
    return machine

  def launched(machine: Opened, most: int) -> RunResult:
    return machine.launch(address, args, limit=most, invalidate=True)

  def replay(kind: str) -> Replay:
    return Replay(lambda trace: opened(kind, trace), launched, program.words, limit, most)

  outcomes: dict[str, Any] = {}
  engines: dict[str, Any] = {}
  differences: list[str] = []
  try:
    if points.breaks or points.places:
      differences += stopping.tell({kind: replay(kind) for kind in engine.kinds}, points, after,
                                   (lambda machine: print_registers(machine.state())) if registers else None)
    for kind in engine.kinds:
      engines[kind] = machine = opened(kind, traces.get(kind), waveform if kind == "rtl" else None)
      started = time.perf_counter()
      result = launched(machine, limit)
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
    if registers:
      print_registers(first.state())
    for item in after:
      say(f"{item.text}: {item.of(first)}")
    code = program.code_bytes()
    if (points.breaks or points.places) and first.hbm[address:address + len(code)].tobytes() != code:
      say("the program wrote over its own code: groups that it made so are shown as they were, and what they change is not watched",
          "bold red")
    if len(engines) == 2:
      differences += compare(engines, {kind: result for kind, (result, _) in outcomes.items()})
    for line in differences:
      say(f"engines differ: {line}", "bold red", to=errors)
    if differences:
      raise typer.Exit(Exit.MISMATCH)
    if len(engines) == 2:
      say("engines agree: memory, registers, cycles, counters" + ", trace" * bool(traces), "green")
    if any(result.fault for result, _ in outcomes.values()):
      raise typer.Exit(Exit.FAULT)
  finally:
    for machine in engines.values():
      machine.close()


def _tell_events(trace: Trace, path: Path | None, writers: Mapping[str, Callable[[Trace, TextIO], None]]) -> None:
  """Write the events to a file, if there is one to write, and say how many of them were dropped."""
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
