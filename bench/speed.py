"""Simulator speed: cycles per second of both engines on the busy loops, and the RTL's cold build time.

Wall-clock figures of a shared machine: compare them within one run.
"""
from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tinytpu.asm import assemble
from tinytpu.config import Config
from tinytpu.machine import open_engine
from tinytpu.trace import Trace

from .loops import loops

PASSES = {"iss": 64_000_000, "rtl": 960_000}
"""Passes of the loops, divided by the elements of a tile."""


def cycles_per_second(config: Config, kind: str, progress: Callable[[str], None] | None = None,
                      trace: Trace | None = None) -> dict[str, dict[str, float]]:
  """Per loop: cycles, cycles per second, and the shares of cycles in which vector ALU and matrix unit were busy.
  With `trace` of an engine that traces, all events that find room in it."""
  from tinytpu.isa.counters import shares
  engine = open_engine(config, kind, progress=progress, trace=trace)
  results = {}
  for name, text in loops(config).items():
    code = assemble(text, config).code_bytes()
    engine.hbm[:len(code)] = memoryview(code)
    engine.launch(0, [100], invalidate=True)
    if trace is not None:
      trace.clear()
    start = time.perf_counter()
    run = engine.launch(0, [PASSES[kind] // config.width])
    seconds = time.perf_counter() - start
    if run.fault:
      raise RuntimeError(f"{name} on {kind}: {run.fault}")
    busy = shares(config, run.counters, run.cycles)
    results[name] = {"cycles": run.cycles, "per_second": round(run.cycles / seconds),
                     "vpu": round(busy["VPU"], 4), "mxu": round(busy["MXU"], 4)}
  engine.close()
  return results


def cold_build(config: Config, progress: Callable[[str], None] | None = None) -> float:
  """Seconds from nothing to a loaded RTL engine: Verilog, Verilator, C++."""
  old = os.environ.get("TINYTPU_CACHE")
  with tempfile.TemporaryDirectory() as folder:
    os.environ["TINYTPU_CACHE"] = folder
    try:
      start = time.perf_counter()
      open_engine(config, "rtl", progress=progress).close()
      return time.perf_counter() - start
    finally:
      if old is None:
        del os.environ["TINYTPU_CACHE"]
      else:
        os.environ["TINYTPU_CACHE"] = old


def run(config: Config, console: Console) -> dict[str, object]:
  """Measure, print a table, return the numbers."""
  with console.status("RTL build, cold") as status:
    build = cold_build(config, lambda line: status.update(Text(f"RTL build, cold: {line}")))
    engines = {}
    for kind in PASSES:
      status.update(f"loops on {kind}")
      engines[kind] = cycles_per_second(config, kind)
      engines[f"{kind}, tracing"] = cycles_per_second(config, kind, trace=Trace())
  table = Table(title=f"Simulator speed, {config.name}", caption=f"cold RTL build {build:.1f} s")
  for column in ("engine", "loop", "cycles", "cycles/s", "VPU", "MXU"):
    table.add_column(column, justify="left" if column in ("engine", "loop") else "right")
  for kind, measured in engines.items():
    for name, r in measured.items():
      table.add_row(kind, name, f"{r['cycles']:,}", f"{r['per_second']:,}", f"{r['vpu']:.0%}", f"{r['mxu']:.0%}")
  console.print(table)
  return {"config": config.name, "rtl_build_seconds": round(build, 1), "engines": engines}
