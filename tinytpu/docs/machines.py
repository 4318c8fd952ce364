"""What each field of `Config` does to a few small kernels."""
from __future__ import annotations

from ..config import PRESETS, parameters, preset
from ..isa import timing
from . import measure
from .page import Page, table

KERNELS = ("add:4096", "product:64", "softmax:32")
"""The fixed set."""
CHANGES = {
  "sublanes": ("8x8", "16x16"), "lanes": (), "vector_lanes": ("4x4,vector_lanes=8",),
  "vmem_bytes": ("4x4,vmem_bytes=65536",), "hbm_bytes": (), "hbm_latency": ("4x4,hbm_latency=200",),
  "ibuf_blocks": ("4x4,ibuf_blocks=1",), "ibuf_block_lines": ("4x4,ibuf_block_lines=4",), "clock_hz": ()}
"""Machines that show the effect of each field; those without have their reason in the page's text."""
assert list(CHANGES) == [f.name for f in parameters()]


def kernels(page: Page) -> str:
  """`kernels`: the fixed set, in words."""
  return "\n" + "\n".join(f"- {measure.what(name)}" for name in KERNELS) + "\n"


def fields(page: Page) -> str:
  """`fields`: a table of all fields of `Config` with range and presets."""
  rows = []
  for f in parameters():
    low, high = f.metadata["low"], f.metadata["high"]
    rows.append((f"`{f.name}`", f"{low:,} to {high:,}{', a power of two' if f.metadata['power'] else ''}",
                 ", ".join(dict.fromkeys(f"{getattr(c, f.name):,}" for c in PRESETS.values()))))
  return table(("field", "range", f"presets {', '.join(PRESETS)}"), rows)


_SPECIAL = {
  "REFILL": ("fetch of a block of code that is not in the buffer", timing.refill, lambda c: 0),
  "HLD": ("direct load of a tile from HBM, in one line for each beat",
          lambda c: timing.latency(c, "HBM_ISSUE") + c.beats + c.hbm_latency, lambda c: c.beats)}
"""What is no latency class: what it is, latency and interval."""


def latencies(page: Page, *names: str) -> str:
  """`latencies CLASSES...`: a table of latencies, and of intervals where there are any; classes, REFILL and HLD."""
  rows = []
  for name in names:
    what, latency, interval = _SPECIAL.get(name) or (timing.CLASSES[name].doc, timing.CLASSES[name].latency, timing.CLASSES[name].interval)
    cells = [f"{latency(c)}" + (f" / {interval(c)}" if interval(c) else "") for c in PRESETS.values()]
    rows.append((f"`{name}`" if name in timing.CLASSES else "", what, *cells))
  return table(("class", "latency / initiation interval, cycles", *PRESETS), rows)


def effects(page: Page) -> str:
  """`effects`: a table of the kernels' cycles on each machine of `CHANGES`, first run and again, with the change to its preset."""
  rows = [_row(name, "") for name in PRESETS]
  for name, machines in CHANGES.items():
    rows += [_row(machine, name) for machine in machines if machine not in PRESETS]
  return table(("machine", *(cell for name in KERNELS for cell in (f"{name.replace(':', ' ')}: first", "again"))), rows)


def _row(machine: str, field: str) -> list[object]:
  base = measure.cycles(machine.split(",")[0], *KERNELS)
  row: list[object] = [f"`{machine}`" if field else f"**{preset(machine).name}**"]
  for name, took in measure.cycles(machine, *KERNELS).items():
    for mine, before in ((took.first, base[name].first), (took.again, base[name].again)):
      row.append(f"{mine:,}" + (f" ({mine / before - 1:+.0%})" if field and mine != before else ""))
  return row


def sizes(page: Page, kernel: str, field: str, *values: str) -> str:
  """`sizes KERNEL:SIZE FIELD VALUES...`: a table of a kernel of the set on preset 4x4 with the field at each value, the preset's first."""
  took = [measure.cycles(*([f"4x4,{field}={value}"] if i else ["4x4"]), *KERNELS)[kernel] for i, value in enumerate(values)]
  assert int(values[0]) == getattr(preset("4x4"), field)
  return table((f"`{field}`", "cycles, first run", "more", "cycles, again", "more", "HBM lines, again"), (
    (int(value), t.first, t.first - took[0].first or "", t.again, t.again - took[0].again or "", t.lines)
    for value, t in zip(values, took, strict=True)))
