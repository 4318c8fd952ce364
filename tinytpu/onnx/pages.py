"""Triage as pages: HTML for people, JSON for programs."""
from __future__ import annotations

import json
from html import escape
from pathlib import Path

from ..isa.counters import UNITS
from ..isa.table import SLOTS
from .triage import Step, Triage

_STYLE = """body { font: 14px sans-serif; margin: 2em; max-width: 110em; } table { border-collapse: collapse; }
td, th { padding: 2px 10px; text-align: right; border-bottom: 1px solid #ddd; } td.t, th.t { text-align: left; }
tr.wrong { background: #fdd; } tr.never { color: #999; } .bar { display: inline-block; height: 9px; background: #48c; }
.verdict { font-size: 16px; padding: 8px; border-left: 5px solid #3a3; } .verdict.wrong { border-color: #c33; }"""


def write(found: Triage, target: Path) -> list[Path]:
  """Write FILE.html or FILE.json, or into a folder, which is made, both with the model's name. Returns what was written.

  Raises:
    OSError: it cannot be written.
  """
  if target.suffix in (".html", ".json"):
    paths = [target]
  else:
    target.mkdir(exist_ok=True)
    paths = [target / f"{Path(found.model).stem}{suffix}" for suffix in (".html", ".json")]
  for path in paths:
    path.write_text(html(found) if path.suffix == ".html" else json.dumps(found.json(), indent=2, allow_nan=False) + "\n", encoding="utf-8")
  return paths


def html(found: Triage) -> str:
  """The page, complete in itself."""
  total = max(1, sum(step.cycles for step in found.steps))
  heads = ("#", "operator", "name", "cycles", "share", "kernels", *UNITS, "largest relative error", "budget", "")
  mixed = {slot: sum(step.counters.get(f"slot_{slot}", 0) for step in found.steps) for slot in SLOTS}
  operations = max(1, sum(mixed.values()))
  names = {"C": "control", "S": "scalar", "V": "vector", "X": "cross-lane and matrix", "L": "loads", "T": "stores"}
  mix = ", ".join(f"{names[slot]} {count / operations:.0%}" for slot, count in mixed.items())
  wrong = found.first is not None or bool(found.refused)
  together = f", {found.together:,} fused by tinygrad" if found.together is not None else ""
  notes = "".join(f"<p>Note: {escape(note)}.</p>" for note in found.notes)
  return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(found.model)} on TinyTPU</title><style>{_STYLE}</style></head><body>
<h1>{escape(found.model)}</h1>
<p class="verdict{' wrong' if wrong else ''}">{escape(found.verdict[:1].upper() + found.verdict[1:])}.</p>{notes}
<p>TinyTPU {escape(found.config.name)}, engine {escape(found.kind)}: {total:,} cycles operator by operator{together}.
Operations issued: {mix}. Of an operator's cycles, {", ".join(UNITS[:-1])} and {UNITS[-1]} are the shares in which the
matrix unit, the vector unit, the scratchpad and the ports to device memory were busy.</p>
<table><tr>{''.join(f'<th{TEXT if i in (1, 2) else ""}>{h}</th>' for i, h in enumerate(heads))}</tr>
{chr(10).join(_row(step, found, total) for step in found.steps)}
</table></body></html>
"""


TEXT = ' class="t"'


def _row(step: Step, found: Triage, total: int) -> str:
  worst = max(step.comparisons, key=lambda c: (not c.within, c.relative), default=None)
  busy = step.busy(found.config)
  kernels = ", ".join(f"{name} x {n}" if n > 1 else name for name, n in step.kernels.items())
  state = "" if worst is None else "within" if worst.within else worst.wrong
  kind = "" if worst is None else "" if step.within else ' class="wrong"'
  if worst is None:
    kind, state = ' class="never"', "not run" if found.refused else "no tensor"
  cells = [f"<td>{step.number}</td><td{TEXT}>{escape(step.op)}</td><td{TEXT}>{escape(step.name)}</td><td>{step.cycles:,}</td>",
           f'<td><span class="bar" style="width: {round(100 * step.cycles / total)}px"></span> {step.cycles / total:.1%}</td>',
           f'<td title="{escape(kernels)}">{sum(step.kernels.values())}</td>',
           *(f"<td>{busy[unit]:.0%}</td>" for unit in UNITS),
           f"<td>{worst.relative:.1e}</td><td>{worst.budget:.0e}</td>" if worst else "<td></td><td></td>",
           f"<td{TEXT}>{escape(state)}</td>"]
  return f"<tr{kind}>{''.join(cells)}</tr>"
