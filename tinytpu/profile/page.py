"""The report as one page that needs nothing else: HTML with the plotting library inside."""
from __future__ import annotations

from html import escape
from typing import Any

from ..isa.stalls import CAUSES, NUMBER
from ..trace import SPAN_UNITS
from .roofline import LIMITS
from .timeline import Timeline

BARS, ROWS, LISTED = 30, 200, 200
"""Kernels with a bar of causes; kernels in the table; groups listed of a kernel, those with most cycles."""
SPANS, PIECES = 12_000, 1_000
"""Spans, and kernels, that the page's timeline shows."""
_TEXT = 90
"""Characters of a name or a group that labels show."""
_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1300px;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:.6em 0}th,td{padding:.15em .7em;text-align:right;border-bottom:1px solid #e4e4e4}
th{background:#f6f6f6}td.l,th.l{text-align:left}code{font:13px ui-monospace,monospace;white-space:pre-wrap}
.cards{display:flex;flex-wrap:wrap;gap:1em}.cards div{background:#f6f8fa;border-radius:8px;padding:.6em 1.1em}
.cards b{display:block;font-size:1.4em}
.note{color:#666}summary{cursor:pointer;font-weight:600;margin:.4em 0}
.heat{background:linear-gradient(90deg,#ffd9c7 var(--p),transparent 0)}
"""


def page(report: dict[str, Any], timeline: Timeline) -> str:
  """The page of a report, as `report.build` makes it, and of the timeline that belongs to it."""
  from plotly.offline import get_plotlyjs
  parts = [_glance(report), _causes(report), _timeline(report, timeline), _rooflines(report), _hot(report)]
  return ('<!doctype html><html lang="en"><head><meta charset="utf-8"><title>TinyTPU profile</title>'
          f"<style>{_STYLE}</style><script>{get_plotlyjs()}</script></head><body><h1>TinyTPU profile</h1>{''.join(parts)}</body></html>\n")


def _short(text: str) -> str:
  return text if len(text) <= _TEXT else text[:_TEXT - 1] + "…"


def label(text: str) -> str:
  """Text as a label of a figure, where the library would take tags for markup."""
  return escape(_short(text), quote=False)


def _percent(part: float, whole: float) -> str:
  return f"{part / whole:.1%}" if whole else "–"


def _figure(title: str, height: int, **layout: Any) -> Any:
  import plotly.graph_objects as go
  return go.Figure(layout={"title": title, "height": height, "template": "plotly_white", "hovermode": "closest",
                           "margin": {"l": 10, "r": 10, "t": 50, "b": 40}, **layout})


def _html(figure: Any) -> str:
  return figure.to_html(full_html=False, include_plotlyjs=False, config={"responsive": True, "scrollZoom": True})


def _colour(cause: str) -> str:
  from plotly.colors import qualitative
  return "#3a9d5d" if cause == "issue" else qualitative.Dark24[NUMBER[cause] % 24] if NUMBER[cause] < 24 else \
    qualitative.Light24[NUMBER[cause] % 24]


def _glance(report: dict[str, Any]) -> str:
  run, machine = report["run"], report["machine"]
  cards = [("launches", f"{run['launches']:,}"), ("cycles", f"{run['cycles']:,}"),
           (f"time at {machine['clock_hz'] / 1e9:g} GHz", f"{run['seconds'] * 1e3:,.3f} ms")]
  cards += [(f"{name} busy", f"{share:.1%}") for name, share in run["utilisation"].items()]
  text = "".join(f"<div>{escape(what)}<b>{escape(value)}</b></div>" for what, value in cards)
  notes = [f"preset {machine['preset']}, engine {machine['engine']}; {' '.join(report['command'])}"]
  if run["faults"]:
    notes.append(f"{run['faults']} launches ended in a fault")
  if dropped := run["events"]["dropped"]:
    notes.append(f"{dropped:,} of {dropped + run['events']['kept']:,} events found no room: units' shares and groups leave them out, "
                 "cycles by cause hold for all")
  most_first = sorted(run["causes"].items(), key=lambda item: -item[1])
  rows = "".join(f'<tr><td class="l">{cause}</td><td>{n:,}</td><td>{_percent(n, run["cycles"])}</td>'
                 f'<td class="l">{escape(CAUSES[cause])}</td></tr>' for cause, n in most_first if n)
  return (f'<div class="cards">{text}</div>{"".join(f"<p class=note>{escape(_short_line(note))}</p>" for note in notes)}'
          '<h2>Where the cycles went</h2><table><tr><th class="l">cause</th><th>cycles</th><th>share</th>'
          f'<th class="l">in a cycle of this cause</th></tr>{rows}</table>')


def _short_line(text: str) -> str:
  return text if len(text) <= 1000 else text[:999] + "…"


def _left_out(what: str, shown: int, all_of_them: int) -> str:
  return f'<p class="note">{all_of_them - shown:,} more {what} are left out.</p>' if shown < all_of_them else ""


def _causes(report: dict[str, Any]) -> str:
  kernels = report["kernels"][:BARS]
  names = [f"{i}. {label(k['name'])}" for i, k in enumerate(kernels, 1)]
  figure = _figure("Cycles by cause, kernels with most cycles", 160 + 26 * len(kernels), barmode="stack")
  for cause in CAUSES:
    if any(k["causes"][cause] for k in kernels):
      figure.add_bar(y=names, x=[k["causes"][cause] for k in kernels], name=cause, orientation="h", marker={"color": _colour(cause)},
                     hovertemplate=f"%{{y}}<br>{cause}: %{{x:,}} cycles<extra></extra>")
  figure.update_yaxes(autorange="reversed", automargin=True)
  figure.update_xaxes(title="cycles")
  return "<h2>Kernels</h2>" + _html(figure) + _left_out("kernels", len(kernels), len(report["kernels"]))


def _timeline(report: dict[str, Any], timeline: Timeline) -> str:
  figure = _figure("Drag to zoom, double click for all", 640, barmode="overlay")
  pieces = [piece for i, piece in enumerate(timeline.pieces)  # of a batch its kernels
            if piece.inner or not (i + 1 < len(timeline.pieces) and timeline.pieces[i + 1].inner)]
  shown = pieces[:PIECES]
  several = len({piece.device for piece in shown}) > 1

  def lane(device: str, name: str) -> str:
    return f"{device} {name}" if several else name
  figure.add_bar(y=[lane(p.device, "kernels") for p in shown], base=[p.start for p in shown], x=[p.stop - p.start for p in shown],
                 orientation="h", text=[label(p.name) for p in shown], textposition="inside", insidetextanchor="start", name="kernels",
                 marker={"color": ["#7aa6d8" if i % 2 else "#a9c7ea" for i in range(len(shown))]}, showlegend=False,
                 hovertemplate="%{text}<br>from cycle %{base:,}, %{x:,} cycles<extra></extra>")
  room, drawn, total = SPANS, 0, 0
  for device, _, found in timeline.spans:
    merged = _merged(found)
    total += len(merged)
    chosen = merged[:room] if not drawn else merged if len(merged) <= room else merged[:0]
    room = room - len(chosen) if len(chosen) == len(merged) else 0
    drawn += len(chosen)
    for number in sorted({number for number, *_ in chosen}):
      unit = number < len(SPAN_UNITS)
      name = SPAN_UNITS[number] if unit else list(CAUSES)[number - len(SPAN_UNITS)]
      x = [v for n, start, stop in chosen if n == number for v in (start, stop, None)]
      figure.add_scatter(x=x, y=[lane(device, name if unit else "waits")] * len(x), mode="lines", name=name, showlegend=False,
                         line={"width": 13, "color": "#3d6fb5" if unit else _colour(name)}, connectgaps=False,
                         hovertemplate=f"{name}: cycle %{{x:,}}<extra></extra>")
  order = list(dict.fromkeys(lane(p.device, name) for p in shown for name in ("kernels", "waits", *SPAN_UNITS)))
  used = {y for trace in figure.data for y in (trace.y or ())}
  figure.update_yaxes(categoryorder="array", categoryarray=[name for name in order if name in used], autorange="reversed", automargin=True,
                      fixedrange=True)
  figure.update_xaxes(title="cycles of launches, back to back")
  notes = _left_out("kernels", len(shown), len(pieces)) + _left_out("spans", drawn, total)
  if timeline.cut:
    notes += (f'<p class="note">The timeline keeps the units of the first {timeline.launches:,} of {report["run"]["launches"]:,} launches, '
              "the last of them perhaps in part; nothing else in this report is cut.</p>")
  return "<h2>Timeline</h2><p>Kernels, what groups waited for (coloured as above), when each unit was busy.</p>" + _html(figure) + notes


def _merged(found: Any) -> list[tuple[int, int, int]]:
  """Spans as (lane, start, stop) in order of their start; those of a lane that touch are one."""
  result: list[list[int]] = []
  last: dict[int, list[int]] = {}
  order = found["start"].argsort(kind="stable")
  for number, start, stop in zip(*(found[name][order].tolist() for name in ("lane", "start", "stop")), strict=True):
    if number in last and last[number][2] == start:
      last[number][2] = stop
    else:
      last[number] = [number, start, stop]
      result.append(last[number])
  return [(number, start, stop) for number, start, stop in result]


def _rooflines(report: dict[str, Any]) -> str:
  kernels = report["kernels"]
  rows = []
  for i, k in enumerate(kernels[:ROWS], 1):
    roof = k["roofline"]
    shares = "".join(f"<td>{_percent(k['units'][unit], k['cycles'])}</td>" for unit in LIMITS)
    rows.append(f'<tr><td>{i}</td><td class="l"><code>{escape(_short(k["name"]))}</code></td><td class="l">{escape(k["kind"])}</td>'
                f'<td>{k["launches"]:,}</td><td>{k["cycles"]:,}</td><td>{_percent(k["cycles"], report["run"]["cycles"])}</td>'
                f'<td class="l">{roof["unit"] or "–"}</td><td>{roof["limit"]:,}</td>'
                f'<td class="heat" style="--p:{roof["share"]:.0%}">{roof["share"]:.1%}</td>'
                f'<td class="l">{roof["cause"] or "–"}</td><td>{_percent(roof["lost"], k["cycles"])}</td>{shares}</tr>')
  heads = ("<th></th><th class='l'>kernel</th><th class='l'>kind</th><th>launches</th><th>cycles</th><th>of the run</th>"
           "<th class='l'>limited by</th><th>limit</th><th>achieved</th><th class='l'>loses most to</th><th>share</th>"
           + "".join(f"<th>{unit}</th>" for unit in LIMITS))
  return ("<h2>Rooflines</h2><p>The limit is the cycles that the busiest unit needs for the operations the kernel issued; achieved is that "
          "limit by the cycles it took. On the right, each unit's busy share.</p>"
          f'<div style="overflow-x:auto"><table><tr>{heads}</tr>{"".join(rows)}</table></div>'
          + _left_out("kernels", len(rows), len(kernels)))


def _hot(report: dict[str, Any]) -> str:
  parts = []
  for i, k in enumerate(report["kernels"], 1):
    if not k["groups"]:
      continue
    kept = {id(g) for g in sorted(k["groups"], key=lambda g: -g["cycles"])[:LISTED]}
    rows, most, name = [], max(g["cycles"] for g in k["groups"]), escape(_short(k["name"]))
    for g in (g for g in k["groups"] if id(g) in kept):
      waits = ", ".join(f"{cause} {n:,}" for cause, n in sorted(g["waits"].items(), key=lambda item: -item[1]))
      rows.append(f'<tr><td>{g["code"]}:{g["pc"]}</td>'
                  f'<td class="l heat" style="--p:{g["cycles"] / most:.0%}"><code>{escape(g["text"])}</code></td>'
                  f'<td>{g["issued"]:,}</td><td>{g["cycles"]:,}</td><td>{_percent(g["cycles"], k["cycles"])}</td><td>{g["fetch"]:,}</td>'
                  f'<td>{g["wait"]:,}</td><td class="l">{escape(waits)}</td></tr>')
    parts.append(f'<details{" open" if i == 1 else ""}><summary>{i}. <code>{name}</code>, {k["cycles"]:,} cycles</summary>'
                 '<table><tr><th>word</th><th class="l">group</th><th>issued</th><th>cycles</th><th>share</th><th>fetch</th><th>waited</th>'
                 f'<th class="l">for</th></tr>{"".join(rows)}</table>'
                 + _left_out("groups", len(rows), len(k["groups"]) + k["groups_left_out"]) + "</details>")
  return "<h2>Groups of the hottest kernels</h2>" + "".join(parts)
