"""The report as one page that needs nothing else: HTML with the plotting library inside."""
from __future__ import annotations

from html import escape
from typing import Any

from ..isa.stalls import CAUSES
from .figures import causes, left_out, overview, short, spans, vmem
from .roofline import LIMITS
from .timeline import Timeline

ROWS, LISTED, LINES = 200, 200, 30
"""Kernels in the table; groups listed of a kernel, those with most cycles; lines of the program, and methods, likewise."""
_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1300px;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:.6em 0}th,td{padding:.15em .7em;text-align:right;border-bottom:1px solid #e4e4e4}
th{background:#f6f6f6}td.l,th.l{text-align:left}code{font:13px ui-monospace,monospace;white-space:pre-wrap}
.cards{display:flex;flex-wrap:wrap;gap:1em}.cards div{background:#f6f8fa;border-radius:8px;padding:.6em 1.1em}
.cards b{display:block;font-size:1.4em}.note{color:#666}summary{cursor:pointer;font-weight:600;margin:.4em 0}
.cards.plain div{background:none}td{vertical-align:top}.small,.small code{font-size:12px}
.heat{background:linear-gradient(90deg,#ffd9c7 var(--p),transparent 0)}
"""


def page(report: dict[str, Any], timeline: Timeline) -> str:
  """The page of a report, as `report.build` makes it, and of the timeline that belongs to it."""
  from plotly.offline import get_plotlyjs
  body = [_glance(report), "<h2>Kernels</h2>", causes(report["kernels"]), _rooflines(report), _sources(report), "<h2>Timeline</h2>",
          overview(timeline), spans(timeline), vmem(timeline), _cut(report, timeline), _hot(report)]
  return ('<!doctype html><html lang="en"><head><meta charset="utf-8"><title>TinyTPU profile</title>'
          f"<style>{_STYLE}</style><script>{get_plotlyjs()}</script></head><body><h1>TinyTPU profile</h1>{''.join(body)}</body></html>\n")


def _share(part: float, whole: float) -> str:
  return f"{part / whole:.1%}" if whole else "–"


def _note(text: str) -> str:
  return f'<p class="note">{escape(short(text, 1000))}</p>'


def _glance(report: dict[str, Any]) -> str:
  run, machine = report["run"], report["machine"]
  cards = [("launches", f"{run['launches']:,}"), ("cycles", f"{run['cycles']:,}"),
           (f"time at {machine['clock_hz'] / 1e9:g} GHz", f"{run['seconds'] * 1e3:,.3f} ms")]
  cards += [(f"{name} busy", f"{share:.1%}") for name, share in run["utilisation"].items()]
  text = "".join(f"<div>{escape(what)}<b>{escape(value)}</b></div>" for what, value in cards)
  notes = _note(f"preset {machine['preset']}, engine {machine['engine']}; {' '.join(report['command'])}")
  if run["faults"]:
    notes += _note(f"{run['faults']:,} launches ended in a fault")
  if dropped := run["events"]["dropped"]:
    notes += _note(f"{dropped:,} of {dropped + run['events']['kept']:,} events found no room: units' shares and groups leave them out, "
                   "cycles by cause hold for all")
  most_first = sorted(run["causes"].items(), key=lambda item: -item[1])
  rows = "".join(f'<tr><td class="l">{cause}</td><td>{n:,}</td><td>{_share(n, run["cycles"])}</td>'
                 f'<td class="l">{escape(CAUSES[cause].replace("`", ""))}</td></tr>' for cause, n in most_first if n)
  return (f'<div class="cards">{text}</div>{notes}<h2>Where the cycles went</h2><table><tr><th class="l">cause</th><th>cycles</th>'
          f'<th>share</th><th class="l">in a cycle of this cause</th></tr>{rows}</table>')


def _cut(report: dict[str, Any], timeline: Timeline) -> str:
  return _note(f"The timeline keeps the units of the first {timeline.launches:,} of {report['run']['launches']:,} launches, perhaps not "
               "all of the last of them; nothing else in this report is cut.") if timeline.cut else ""


def _rooflines(report: dict[str, Any]) -> str:
  kernels = report["kernels"]
  limits = [unit for unit in LIMITS if report["run"]["units"][unit]]
  rows = []
  for i, k in enumerate(kernels[:ROWS], 1):
    roof = k["roofline"]
    shares = "".join(f"<td>{_share(k['units'][unit], k['cycles'])}</td>" for unit in limits)
    rows.append(f'<tr><td>{i}</td><td class="l"><code>{escape(short(k["name"]))}</code></td><td class="l">{escape(k["kind"])}</td>'
                f'<td>{k["launches"]:,}</td><td>{k["cycles"]:,}</td><td>{_share(k["cycles"], report["run"]["cycles"])}</td>'
                f'<td class="l">{roof["unit"] or "–"}</td><td>{roof["limit"]:,}</td>'
                f'<td class="heat" style="--p:{roof["share"]:.0%}">{roof["share"]:.1%}</td>'
                f'<td class="l">{roof["cause"] or "–"}</td><td>{_share(roof["lost"], k["cycles"])}</td>{shares}</tr>')
  heads = ("<th></th><th class='l'>kernel</th><th class='l'>kind</th><th>launches</th><th>cycles</th><th>of the run</th>"
           "<th class='l'>limited by</th><th>limit</th><th>achieved</th><th class='l'>waits most for</th><th>share</th>"
           + "".join(f"<th>{unit}</th>" for unit in limits))
  return ("<h2>Rooflines</h2><p>The limit is the cycles that the busiest unit needs for the operations the kernel issued; achieved is that "
          "limit by the cycles it took. On the right, each unit's busy share.</p>"
          f'<div style="overflow-x:auto"><table><tr>{heads}</tr>{"".join(rows)}</table></div>'
          + left_out("kernels", len(rows), len(kernels)))


def _sources(report: dict[str, Any]) -> str:
  """Cycles by line and by method, if programs tell where they come from."""
  run = report["run"]
  if not run["lines"]:
    return ""
  tables = []
  for head, name, rows in (("line of the program", "where", run["lines"]), ("Tensor method", "method", run["methods"])):
    told = sum(row["cycles"] for row in rows)
    most = rows[0]["cycles"]
    text = "".join(f'<tr><td class="l heat" style="--p:{row["cycles"] / most:.0%}"><code>{escape(short(row[name]))}</code></td>'
                   f'<td>{row["cycles"]:,.0f}</td><td>{_share(row["cycles"], run["cycles"])}</td></tr>' for row in rows[:LINES])
    text += (f'<tr><td class="l">none: launching, draining, and what the compiler adds</td><td>{run["cycles"] - told:,.0f}</td>'
             f'<td>{_share(run["cycles"] - told, run["cycles"])}</td></tr>')
    tables.append(f'<div><table><tr><th class="l">{head}</th><th>cycles</th><th>share</th></tr>{text}</table>'
                  f'{left_out(head + "s", min(len(rows), LINES), len(rows))}</div>')
  return ('<h2>By line and method</h2><p>A group of operations counts to the lines that they come from, in equal parts.</p>'
          f'<div class="cards plain">{"".join(tables)}</div>')


def _origin(group: dict[str, Any]) -> str:
  """What a group comes from: lines, then UOps."""
  calls = "<br>".join(f"{escape(short(c['where']))} <b>{escape(short(c['method']))}</b>" for c in group["calls"][:3])
  uops = "<br>".join(f"<code>{escape(short(text))}</code>" for text in group["uops"][:6])
  return "<br>".join(filter(None, (calls, uops))) + ("<br>…" if len(group["calls"]) > 3 or len(group["uops"]) > 6 else "")


def _hot(report: dict[str, Any]) -> str:
  parts = []
  for i, k in enumerate(report["kernels"], 1):
    if not k["groups"]:
      continue
    name = escape(short(k["name"]))
    chosen = {id(g) for g in sorted(k["groups"], key=lambda g: -g["cycles"])[:LISTED]}
    rows, most = [], max(g["cycles"] for g in k["groups"])
    for g in (g for g in k["groups"] if id(g) in chosen):
      waits = ", ".join(f"{cause} {n:,}" for cause, n in sorted(g["waits"].items(), key=lambda item: -item[1]))
      rows.append(f'<tr><td>{g["code"]}:{g["pc"]}</td>'
                  f'<td class="l heat" style="--p:{g["cycles"] / most:.0%}"><code>{escape(g["text"])}</code></td>'
                  f'<td>{g["issued"]:,}</td><td>{g["cycles"]:,}</td><td>{_share(g["cycles"], k["cycles"])}</td><td>{g["fetch"]:,}</td>'
                  f'<td>{g["wait"]:,}</td><td class="l">{escape(waits)}</td><td class="l small">{_origin(g)}</td></tr>')
    parts.append(f'<details{" open" if i == 1 else ""}><summary>{i}. <code>{name}</code>, {k["cycles"]:,} cycles</summary>'
                 '<table><tr><th>word</th><th class="l">group</th><th>issued</th><th>cycles</th><th>share</th><th>fetch</th><th>waited</th>'
                 f'<th class="l">for</th><th class="l">from</th></tr>{"".join(rows)}</table>'
                 + left_out("groups", len(rows), len(k["groups"]) + k["groups_left_out"]) + "</details>")
  return "<h2>Groups of the hottest kernels</h2><p>In the order of the program, which the word tells.</p>" + "".join(parts)
