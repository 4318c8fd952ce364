"""When a program's operations ran: a chart of slots and units, and a table of all cycles with their causes."""
from __future__ import annotations

from ..isa import timing
from ..isa.stalls import CAUSES, DRAINS
from ..isa.table import SLOTS
from ..trace import describe
from .page import Page, table
from .run import Traced, traced
from .svg import BLUE, GREEN, GREY, INK, ORANGE, RED, SOFT, TEAL, VIOLET, Canvas, Rows

SLOT_COLOURS = dict(zip(SLOTS, (SOFT, TEAL, BLUE, VIOLET, GREEN, ORANGE), strict=True))


def _why(run: Traced) -> list[tuple[int, int, str, str]]:
  """Every cycle of a run in order: first, the one behind the last, cause, and the group."""
  found = [(0, 1, "launch", "")]
  for event in run.launch.events:
    named = describe(event)
    start = named["cycle"] - named["wait"] - named["fetch"]
    group = run.text(named["pc"]) if named["kind"] == "group" else "fault"
    parts = [("fetch", named["fetch"]), (named["cause"], named["wait"]), ("issue" if named["kind"] == "group" else "fault", 1)]
    for cause, cycles in parts:
      if cycles:
        found.append((start, start + cycles, cause, group))
        start += cycles
  for cause in DRAINS:
    if cycles := run.launch.causes[cause]:
      found.append((found[-1][1], found[-1][1] + cycles, cause, ""))
  assert found[-1][1] == run.launch.cycles and all(a[1] == b[0] for a, b in zip(found, found[1:], strict=False))
  return found


def cycles(page: Page, name: str) -> str:
  """`cycles FILE`: a table of a program's cycles, each with its cause; groups of the same operations that issue one after the other share
  a row."""
  run = traced(page.files[name])
  spans: list[tuple[int, int, str, str]] = []
  for start, stop, cause, group in _why(run):
    names = " ; ".join(op.split()[0] for op in group.split(" ; ") if op)
    if spans and cause == spans[-1][2] == "issue" and names == spans[-1][3]:
      start = spans.pop()[0]
    spans.append((start, stop, cause, names))
  return table(("cycles", "how many", "cause", "group", "which means"), (
    (f"{start} to {stop - 1}" if stop > start + 1 else f"{start}", stop - start, f"`{cause}`", f"`{names}`" if names else "", CAUSES[cause])
    for start, stop, cause, names in spans))


def causes(page: Page, *names: str) -> str:
  """`causes FILES...`: a table of programs' cycles by cause; of `FILE:again` those of a second launch."""
  runs = [traced(page.files[name.removesuffix(":again")], warm=name.endswith(":again")) for name in names]
  rows = [(f"`{cause}`", *(run.launch.causes[cause] for run in runs)) for cause in CAUSES if any(run.launch.causes[cause] for run in runs)]
  titles = (f"`{name.removesuffix(':again')}`" + ", again" * name.endswith(":again") for name in names)
  return table(("cause", *titles), [*rows, ("all", *(run.launch.cycles for run in runs))])


def gantt(page: Page, name: str, first: str = "0", last: str = "") -> str:
  """`gantt FILE [FIRST LAST]`: a chart of the slots and memories in the cycles of a run."""
  run = traced(page.files[name])
  begin, end = int(first), int(last or run.launch.cycles)
  groups = [event for event in map(describe, run.launch.events) if event["kind"] == "group"]
  slots = [slot for slot in SLOTS if any(slot in event["slots"] for event in groups)]
  units = [(unit, row) for unit, row in (("array", "matrix array"), ("vmem", "VMEM"), ("dma_in", "DMA in")) if run.spans(unit)]
  loads, stores = ([event for event in groups if event["lines"] and name in run.text(event["pc"])] for name in ("hld", "hst"))
  rows = ["why", *(f"slot {slot}" for slot in slots), *(row for _, row in units), *["HBM: on its way"] * bool(loads or stores)]
  tall = max(0, 18 * max(len(loads), len(stores)) - 30)
  canvas = Canvas(1000, 128 + 34 * len(rows) + tall)
  canvas.text(24, 28, f"{name}: {run.launch.cycles} cycles on {run.config.name}", 17, bold=True)
  step = next(s for s in (1, 2, 5, 10, 20, 50, 100) if (end - begin) / s <= 14)
  chart = Rows(canvas, rows, begin, end, top=56, height=34, extra=tall, step=step)
  fetches = any(cause == "fetch" and start >= begin for start, _, cause, _ in _why(run))
  shades = {"issue": BLUE, "fetch": GREY, "launch": SOFT}
  for start, stop, cause, _ in _why(run):
    if begin <= start and stop <= end:
      chart.bar("why", start, stop, shades.get(cause, RED), f"{cause}, {stop - start}", INK if cause == "fetch" else "#ffffff")
  for event in groups:
    for slot in event["slots"] if begin <= event["cycle"] < end else ():
      chart.bar(f"slot {slot}", event["cycle"], event["cycle"] + 1, SLOT_COLOURS[slot])
  for unit, row in units:
    for start, stop, _ in run.spans(unit):
      if start < end and stop > begin:
        chart.bar(row, max(begin, start), min(end, stop), VIOLET if unit == "array" else GREEN)
  for of, colour, until in ((loads, ORANGE, timing.HBM_ISSUE + run.config.hbm_latency), (stores, "#b86a15", timing.HBM_ISSUE)):
    for n, event in enumerate(of):
      x, y = chart.x(event["cycle"]), chart.y(rows[-1]) + 3 + 18 * n
      ready = event["cycle"] + event["lines"] + until
      canvas.box(x, y, (ready - event["cycle"]) * chart.scale, 13, colour, radius=2)
      if of is loads:
        canvas.text(x + 6, y + 7, f"{run.text(event['pc']).split(' ; ')[-1]}  ready in {ready}", 11, "#ffffff", mono=True)
  canvas.legend(150, canvas.height - 24, [(BLUE, "a group issues"), (RED, "a group waits"), *[(GREY, "fetch")] * fetches,
                                         *[(ORANGE, "loads and stores of HBM, until done")] * bool(loads or stores)])
  return page.show(f"{name.split('.')[0]}-gantt.svg", canvas.svg(),
                   f"The {run.launch.cycles} cycles of {name}: when its groups issue, and what they wait for")
