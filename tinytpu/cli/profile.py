"""The command profile: where the cycles of a user's program went, and two such reports compared."""
from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from .common import Exit, UsageError, app, console, say

_MOST = 12
"""Kernels that are shown."""


@app.command(context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False})
def profile(
    script: Annotated[str, typer.Argument(help="program to run; with --compare the first report")],
    args: Annotated[list[str] | None, typer.Argument(help="its arguments; with --compare the second report")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="folder to write report.json, report.html and trace.pftrace to")
                   ] = Path("tinytpu-profile"),
    module: Annotated[bool, typer.Option("--module", "-m", help="SCRIPT is a module's name, as of `python -m`")] = False,
    compare: Annotated[bool, typer.Option("--compare", help="compare two reports (files, or their folders) instead")] = False,
    fail_above: Annotated[str | None, typer.Option(help="with --compare: exit code 6 if the second run takes so much longer: 2%")] = None,
    ) -> None:
  """Run a Python program and write where the device's cycles went; options come before the program.

  The exit code is the program's own, also where it fails: what ran until then is reported. DEV is TINYTPU unless it is set.
  """
  if compare:
    return _compare(script, args or [], fail_above)
  if fail_above is not None:
    raise UsageError("--fail-above compares two runs: add --compare and name their reports")
  from ..environment import PROFILE
  from ..profile.collect import need_packages
  from ..profile.report import FILES, REPORT, load
  need_packages()
  if not module and not Path(script).is_file():
    raise UsageError(f"{script}: no such program")
  out.mkdir(parents=True, exist_ok=True)
  for name in FILES:  # of a run before
    (out / name).unlink(missing_ok=True)
  environment = {"DEV": "TINYTPU", **os.environ, PROFILE: str(out.absolute())}
  code = _wait(subprocess.Popen([sys.executable, *(["-m"] if module else []), script, *(args or [])], env=environment))
  if (out / REPORT).exists():
    _show(load(out))
    say(f"{out}: {', '.join(name for name in FILES if (out / name).exists())}")
  elif not code:
    raise RuntimeError(f"{script} left no report: it launched nothing on TINYTPU (DEV={environment['DEV']}), or ended by os._exit, or the "
                       "report could not be written (then see above)")
  if code:
    say(f"{script} ended with exit code {code}", "bold red")
    raise typer.Exit(code)
  if (out / REPORT).exists() and not all((out / name).exists() for name in FILES):
    raise RuntimeError(f"{out}: the report was not written whole, see above")


def _wait(process: subprocess.Popen[bytes]) -> int:
  """Wait for a program's end; returns its exit code, 128 + the signal's number if one ended it. An interrupt is the program's: the
  terminal has told it too, and it writes its report; SIGTERM is passed on."""
  def passed_on(*_: object) -> None:
    process.send_signal(signal.SIGTERM)
  before = signal.signal(signal.SIGTERM, passed_on)
  try:
    while True:
      try:
        code = process.wait()
        return code if code >= 0 else 128 - code
      except KeyboardInterrupt:
        continue
  finally:
    signal.signal(signal.SIGTERM, before)


def _show(report: dict[str, Any]) -> None:
  """The run, and its hottest kernels."""
  run, machine = report["run"], report["machine"]
  busy = ", ".join(f"{name} {share:.1%}" for name, share in run["utilisation"].items())
  say(f"{run['launches']:,} launches, {run['cycles']:,} cycles, {run['seconds'] * 1e3:,.3f} ms at {machine['clock_hz'] / 1e9:g} GHz on "
      f"{machine['preset']}; busy: {busy}")
  table = Table(title=Text("kernels with most cycles"), title_justify="left")
  for name, right in (("kernel", False), ("launches", True), ("cycles", True), ("limit, achieved", True), ("waits most for", True)):
    table.add_column(name, justify="right" if right else "left")
  for k in report["kernels"][:_MOST]:
    roof = k["roofline"]
    table.add_row(Text(k["name"]), f"{k['launches']:,}", f"{k['cycles']:,}", f"{roof['unit']} {roof['share']:.1%}",
                  f"{roof['cause']} {roof['lost'] / k['cycles']:.1%}")
  console.print(table)
  if len(report["kernels"]) > _MOST:
    say(f"{len(report['kernels']) - _MOST} more in the report")


def _compare(first: str, rest: list[str], fail_above: str | None) -> None:
  from ..profile.compare import compare, slower
  from ..profile.report import load
  if len(rest) != 1:
    raise UsageError("--compare takes two reports: files, or the folders they are in")
  limit = None
  if fail_above is not None:
    if not (match := re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)%", fail_above)):
      raise UsageError(f"--fail-above {fail_above}: expected a percentage like 2% or 0.5%")
    limit = Decimal(match[1])
  before, after = load(Path(first)), load(Path(rest[0]))
  table = Table(title=Text("cycles, the largest loss first"), title_justify="left")
  for name, right in (("kernel", False), ("before", True), ("after", True), ("change", True), ("share", True), ("by cause", False)):
    table.add_column(name, justify="right" if right else "left")
  changes = [change for change in compare(before, after) if change.lost or change.causes]
  for change in changes:
    relative = f"{change.lost / change.before:+.1%}" if change.before else "new"
    causes = ", ".join(f"{cause} {cycles:+,}" for cause, cycles in list(change.causes.items())[:4])
    table.add_row(Text(change.name), f"{change.before:,}", f"{change.after:,}", f"{change.lost:+,}", relative, causes)
  if changes:
    console.print(table)
  a, b, share = before["run"]["cycles"], after["run"]["cycles"], slower(before, after)
  say(f"{a:,} cycles before, {b:,} after: {share:+.2%}")
  if limit is not None and 100 * (b - a) > limit * a:
    say(f"slower by more than {fail_above}", "bold red")
    raise typer.Exit(Exit.SLOWER)
