"""Commands about programs: asm, disasm, dump, fuzz, demo, docs."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from .common import Engine, EngineChoice, Exit, File, Machine, Preset, UsageError, app, machine_of, read_program, say


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
