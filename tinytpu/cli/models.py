"""The command `onnx`."""
from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .common import Engine, EngineChoice, Exit, Preset, Report, UsageError, app, console, errors, machine_of, progress, say

if TYPE_CHECKING:
  from ..onnx import Result

_DEVICES = {EngineChoice.ISS: "TINYTPU", EngineChoice.RTL: "RTL+TINYTPU", EngineChoice.BOTH: "BOTH+TINYTPU"}


@app.command()
def onnx(
    file: Annotated[Path, typer.Argument(help="the model, FILE.onnx", metavar="MODEL")],
    inputs: Annotated[list[str] | None, typer.Option("--input", "-i", help="FILE.npz, FILE.npy, NAME=FILE.npy, NAME=photo.png or "
                                                     "NAME=1,2,3; inputs that are not given are random")] = None,
    fit: Annotated[str, typer.Option("--fit", help="how images come to the declared size: stretch, crop or pad")] = "stretch",
    mean: Annotated[str, typer.Option("--mean", help="of images: (pixel / 255 - mean) / std; one number, or one a channel: 0.5,0.5,0.5"
                                      )] = "0",
    std: Annotated[str, typer.Option("--std", help="see --mean")] = "1",
    bgr: Annotated[bool, typer.Option("--bgr", help="of images: channels in the order blue, green, red")] = False,
    dim: Annotated[list[str] | None, typer.Option("--dim", help="size of a free dimension: batch=1")] = None,
    seed: Annotated[int, typer.Option("--seed", "-s", min=0, help="seed of random inputs")] = 0,
    engine: Engine = EngineChoice.ISS,
    preset: Preset = "4x4",
    budget: Annotated[list[str] | None, typer.Option("--budget", help="largest relative error: 1e-3, or of a dtype: float16=1e-2")] = None,
    save: Annotated[Path | None, typer.Option("--save", help="write the outputs to this file, FILE.npz")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the report as JSON")] = False,
    triage: Annotated[Path | None, typer.Option("--triage", help="run operator by operator, compare each with onnxruntime's, and write the "
                                                "page to FILE.html or FILE.json, or both to a folder")] = None,
    profile: Annotated[Path | None, typer.Option("--profile", help="write to this folder where the cycles went, as `tinytpu profile` does"
                                                 )] = None) -> None:
  """Run an ONNX model on the device and compare its outputs with onnxruntime's.

  Exit code 4 if the engines differ, 5 if an output is outside the error budget.
  """
  config = machine_of(preset)
  if save is not None and save.suffix != ".npz":
    raise UsageError(f"--save {save}: outputs are written as FILE.npz")
  if triage is not None and triage.suffix not in (".html", ".json", ""):
    raise UsageError(f"--triage {triage}: expected FILE.html, FILE.json or a folder")
  for path in (save, triage, profile):
    if path is not None and not path.parent.is_dir():
      raise UsageError(f"{path}: there is no folder {path.parent}")
  if profile is not None and (triage is not None or (profile.exists() and not profile.is_dir())):
    raise UsageError("--profile is of the model as it runs, --triage of operators one by one: take two runs" if triage is not None
                     else f"--profile {profile}: expected a folder")
  try:
    from .. import onnx as models
  except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] not in ("onnx", "onnxruntime", "google"):
      raise
    raise ValueError(f"{error.name} is missing: pip install 'tinytpu[onnx]'") from None
  from tinygrad.helpers import Context

  from ..machine.both import EngineMismatch
  from ..onnx.compare import read_budgets
  from ..onnx.images import SUFFIXES, Fit, Pixels
  from ..onnx.inputs import dimensions, numbers, read
  if fit not in list(Fit):
    raise UsageError(f"--fit {fit}: expected {', '.join(Fit)}")
  collector = None
  if profile is not None:
    from ..profile.collect import Collector, need_packages
    need_packages()
    collector = Collector()
  try:
    pixels = Pixels(Fit(fit), numbers(mean, "--mean"), numbers(std, "--std", positive=True), bgr)
    if pixels != Pixels() and not any(text.lower().endswith(SUFFIXES) for text in inputs or []):
      raise UsageError("--fit, --mean, --std and --bgr are of images: give one with --input")
    with Context(DEV=f"{_DEVICES[engine]}::{config.name}"), progress(file.name) as report, _watched(report) as tell:
      model = models.load(file)
      dims, budgets = dimensions(dim or []), read_budgets(budget or [])
      given = read(inputs or [], model, dims, pixels)
      page = result = None
      if triage is not None:
        from ..onnx.triage import triage as look
        from ..onnx.triage import with_fused
        page = look(model, given, dims=dims, seed=seed, budgets=budgets, tell=tell)
      if page is None or not page.refused:
        result = models.run(model, given, dims=dims, seed=seed, budgets=budgets, tell=tell, watcher=collector)
        page = with_fused(page, result) if page is not None else None
  except models.OnnxError as error:
    raise UsageError(str(error)) from error
  except EngineMismatch as error:
    say(str(error), "bold red", to=errors)
    raise typer.Exit(Exit.MISMATCH) from error
  written = list[Path]()
  if page is not None and triage is not None:
    from ..onnx.pages import write
    written += write(page, triage)
  if profile is not None and collector is not None and collector.launches:
    from ..profile.report import FILES
    from ..profile.report import write as write_profile
    profile.mkdir(exist_ok=True)
    write_profile(collector, profile)
    written += [profile / name for name in FILES]
  if save is not None and result is not None:
    _save(save, result)
  if as_json:
    fields = (result.json() if result is not None else {}) | ({"triage": page.json()} if page is not None else {})
    typer.echo(json.dumps(fields, indent=2, allow_nan=False))
  elif result is not None:
    _show(file.name, result)
  if page is not None and not as_json:
    say(f"triage: {page.verdict}", "green" if page.first is None and result is not None and result.within else "bold red")
  if written and not as_json:
    say(f"written: {', '.join(map(str, written))}")
  if page is not None and page.refused:
    raise models.RefusedError(page.refused)
  if (result is not None and not result.within) or (page is not None and page.first is not None):
    raise typer.Exit(Exit.BUDGET)


@contextmanager
def _watched(report: Report) -> Iterator[Report]:
  """Tells of steps, and on a terminal of the launches within them."""
  if not errors.is_terminal:
    yield report
    return
  from ..backend.runtime.stats import stats
  step, done = "", threading.Event()

  def tell(text: str, fraction: float | None = None, /) -> None:
    nonlocal step
    step = text
    report(text, fraction)

  def watch() -> None:
    while not done.wait(0.2):
      if step:
        report(f"{step}, {stats.launches:,} launches, {stats.cycles:,} cycles")

  thread = threading.Thread(target=watch, daemon=True)
  thread.start()
  try:
    yield tell
  finally:
    done.set()
    thread.join()


def _save(path: Path, result: Result) -> None:
  """All outputs or, if writing fails, no file."""
  import zipfile

  import numpy as np
  try:
    with zipfile.ZipFile(path, "w") as archive:  # what np.savez writes, which takes no array called "file"
      for name, array in result.outputs.items():
        with archive.open(f"{name}.npy", "w") as entry:
          np.lib.format.write_array(entry, array, allow_pickle=False)
  except BaseException:
    path.unlink(missing_ok=True)
    raise


def _show(name: str, result: Result) -> None:
  from rich.table import Table
  from rich.text import Text
  config = result.config
  table = Table(title=Text(f"{name} on {config.name}, {result.kind}"), title_justify="left")
  for column in ("output", "shape", "dtype"):
    table.add_column(column)
  for column in ("largest error", "relative", "budget"):
    table.add_column(column, justify="right")
  table.add_column("")
  for c in result.comparisons:
    table.add_row(Text(c.name), Text("x".join(map(str, c.shape)) or "scalar"), c.dtype, f"{c.absolute:.2e}", f"{c.relative:.2e}",
                  f"{c.budget:.0e}" if c.budget else "equal", Text("within" if c.within else "wrong", "green" if c.within else "bold red"))
  console.print(table)
  for c in result.comparisons:
    if not c.within:
      say(f"output {c.name}: {c.wrong}", "bold red")
  launches = sum(result.kernels.values())
  useful = result.useful_share
  micro = "us" if console.options.ascii_only else "µs"
  say(f"cycles {result.cycles:,}, {result.cycles / config.clock_hz * 1e6:,.3f} {micro} at {config.clock_hz / 1e9:g} GHz; "
      f"matrix unit busy {result.matrix_share:.1%} of them" + (f", useful {useful:.1%}" if useful is not None else ""))
  say(f"kernels {len(result.kernels):,}, launched {launches:,} times; host fallbacks {result.fallbacks}")
  say(f"compilation {result.compilation:.2f} s, simulation {result.simulation:.2f} s")
  for note in result.notes:
    say(f"note: {note}", "yellow")
