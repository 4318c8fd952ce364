"""The report: what a profile says, as plain data. docs/profiling.md has its fields."""
from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..isa.counters import COUNTERS
from ..isa.stalls import CAUSES
from ..trace import SPAN_UNITS
from .collect import Collector, Tally
from .roofline import roofline
from .sources import by_call, origins, ranked
from .timeline import Texts

FORMAT, VERSION = "tinytpu profile", 1
REPORT, PAGE, TRACE = "report.json", "report.html", "trace.pftrace"
"""Files of a profile."""
FILES = (REPORT, PAGE, TRACE)
HOTTEST, GROUPS = 8, 400
"""Kernels of which groups are listed, those with most cycles; and groups of each, likewise."""
UTILISATION = {"MXU": ("array",), "VPU": ("vector_alu",), "VMEM": ("vmem",), "HBM": ("hbm", "dma_in", "dma_out")}
"""Shares of a run at a glance, and the units that are meant: of several, the mean."""


DEPTH = 50
"""Levels of nesting that a report may have; it has fewer than ten."""


class ReportError(ValueError):
  """A file that is no report, or another version's; the message names it."""


def build(collector: Collector) -> dict[str, Any]:
  """The report of what a collector has gathered: at least one launch."""
  assert collector.config is not None
  config, clock = collector.config, collector.config.clock_hz
  tallies = sorted(collector.tallies.values(), key=lambda t: -t.cycles)
  causes = _named(CAUSES, (t.causes for t in tallies))
  units = _named(SPAN_UNITS, (t.units for t in tallies))
  texts = Texts()
  kernels = [_kernel(t, texts, i < HOTTEST) for i, t in enumerate(tallies)]
  timeline = collector.timeline
  return {
    "format": FORMAT, "version": VERSION, "tinytpu": __version__, "command": sys.argv,
    "machine": {"preset": config.name, "engine": collector.engine, "clock_hz": clock},
    "run": {
      "launches": collector.launches, "faults": collector.faults, "cycles": collector.cycles, "seconds": collector.cycles / clock,
      "causes": causes, "counters": _named(COUNTERS, (t.counters for t in tallies)), "units": units,
      "utilisation": {name: round(sum(units[unit] for unit in of) / len(of) / collector.cycles, 6) for name, of in UTILISATION.items()},
      "lines": ranked(((c["where"], c["cycles"]) for k in kernels for c in k["calls"]), "where"),
      "methods": ranked(((c["method"], c["cycles"]) for k in kernels for c in k["calls"]), "method"),
      "events": {"kept": collector.kept, "dropped": collector.dropped}},
    "kernels": kernels,
    "timeline": {"launches": timeline.launches, "complete": not timeline.cut, "units": timeline.busy}}


def _named(names: Iterable[str], rows: Iterable[np.ndarray]) -> dict[str, int]:
  return {name: int(n) for name, n in zip(names, np.sum(list(rows), axis=0), strict=True)}


def _kernel(tally: Tally, texts: Texts, hot: bool) -> dict[str, Any]:
  causes, units = _named(CAUSES, [tally.causes]), _named(SPAN_UNITS, [tally.units])
  return {
    "name": tally.name, "kind": tally.kind, "launches": tally.launches, "faults": tally.faults, "cycles": tally.cycles, "causes": causes,
    "counters": _named(COUNTERS, [tally.counters]), "units": units, "roofline": roofline(tally.cycles, units, causes),
    "calls": [{"method": call.method, "where": call.where, "cycles": round(float(n), 1)} for call, n in by_call(tally).most_common()],
    **(_groups(tally, texts) if hot else {"groups": [], "groups_left_out": None})}


def _groups(tally: Tally, texts: Texts) -> dict[str, Any]:
  """The groups of a kernel that took most cycles, in the order of the program."""
  found: list[dict[str, Any]] = []
  for number, (code, part) in enumerate(tally.codes.values()):
    starts = [start for start, _ in code.parts] + [len(code.words)]
    for pc in range(starts[part], starts[part + 1]):
      waits = {cause: int(cycles[pc]) for cause, cycles in code.waits.items() if cycles[pc]}
      issued, fetch, wait = int(code.issued[pc]), int(code.fetch[pc]), sum(waits.values())
      if issued or fetch or wait:
        uops = origins(code, pc)
        calls = dict.fromkeys(call for uop in uops for call in uop.calls)
        found.append({"code": number, "pc": pc, "text": texts(code, pc), "issued": issued, "cycles": issued + fetch + wait, "fetch": fetch,
                      "wait": wait, "cause": max(waits, key=lambda c: waits[c]) if waits else "", "waits": waits,
                      "uops": [uop.text for uop in uops], "calls": [{"method": call.method, "where": call.where} for call in calls]})
  kept = sorted(found, key=lambda g: -g["cycles"])[:GROUPS]
  return {"groups": sorted(kept, key=lambda g: (g["code"], g["pc"])), "groups_left_out": len(found) - len(kept)}


def write(collector: Collector, folder: Path) -> None:
  """Write the report, the page and the Perfetto trace into a folder, which is made if it does not exist.

  Raises:
    OSError: a file cannot be written.
  """
  from .page import page
  from .perfetto import trace
  report = build(collector)
  folder.mkdir(parents=True, exist_ok=True)  # the program may have removed it
  put(folder / REPORT, json.dumps(report, indent=1).encode())
  put(folder / PAGE, page(report, collector.timeline).encode())
  put(folder / TRACE, trace(collector.timeline))


def put(path: Path, data: bytes) -> None:
  """Write a file, whole or not at all."""
  part = path.with_name(path.name + ".part")
  try:
    part.write_bytes(data)
    os.replace(part, path)
  finally:
    part.unlink(missing_ok=True)


def _depth(data: bytes) -> int:
  """How deep JSON is nested. Python's reader would overflow the stack where a program has raised the limit of recursion."""
  bare = np.frombuffer(re.sub(rb'"(?:[^"\\]|\\.)*"', b"", data), np.uint8)
  return int(np.cumsum(np.isin(bare, list(b"[{")).astype(np.int64) - np.isin(bare, list(b"]}"))).max(initial=0))


def load(path: Path) -> dict[str, Any]:
  """A report: a file, or a folder that has one.

  Raises:
    OSError: it cannot be read. ReportError: it is none, or another version's.
  """
  file = path / REPORT if path.is_dir() else path
  data = file.read_bytes()
  try:
    report = json.loads(data) if _depth(data) <= DEPTH else None
  except ValueError:
    raise ReportError(f"{file} is no report of `tinytpu profile`: not JSON") from None
  if not isinstance(report, dict) or report.get("format") != FORMAT:
    raise ReportError(f"{file} is no report of `tinytpu profile`")
  if report.get("version") != VERSION:
    raise ReportError(f"{file} is a report of version {report.get('version')!r}, this TinyTPU reads {VERSION}: make it again")
  try:
    if not isinstance(report["machine"]["preset"], str) or min(report["machine"]["clock_hz"], report["run"]["cycles"]) < 1:
      raise ReportError(f"{file}: it names no machine, or no cycle: the file is damaged")
    for kernel in report["kernels"]:
      good = isinstance(kernel["name"], str) and isinstance(kernel["kind"], str) and set(kernel["causes"]) == set(CAUSES)
      if not good or sum(kernel["causes"].values()) != kernel["cycles"]:
        raise ReportError(f"{file}: causes of kernel {kernel['name']!r} do not add up to its cycles: the file is damaged")
    if sum(kernel["cycles"] for kernel in report["kernels"]) != report["run"]["cycles"]:
      raise ReportError(f"{file}: the kernels' cycles do not add up to the run's: the file is damaged")
  except (KeyError, TypeError, AttributeError) as error:
    raise ReportError(f"{file}: a field is missing or of another kind ({error}): the file is damaged") from None
  return report
