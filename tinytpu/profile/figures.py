"""Figures of the page."""
from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from ..isa.stalls import CAUSES, NUMBER
from ..trace import SPAN_UNITS
from .timeline import LANE_SPAN, LANES, Piece, Timeline

BARS = 30
"""Kernels with a bar of causes."""
STAYS = 3_000
"""Ranges in VMEM that are drawn."""
SPANS, PIECES, BINS = 12_000, 1_000, 400
"""Spans, and kernels, of the timelines; intervals in which the overview tells how busy units were."""
_PASTEL = ("#8fb7e3", "#f3b88a", "#9fd3a6", "#d9a5c7", "#c9c28a", "#a9b0e0", "#e9a3a0", "#8fd0cf", "#cdb59a")
_WAITS, _KERNELS = "waits", "kernels"
_TEXT = 90
"""Characters of a name or a group that labels show."""


def short(text: str, most: int = _TEXT) -> str:
  """The beginning of a text."""
  return text if len(text) <= most else text[:most - 1] + "…"


def label(text: str) -> str:
  """Text as a label of a figure, where the library would take tags for markup."""
  return escape(short(text), quote=False)


def left_out(what: str, shown: int, all_of_them: int) -> str:
  """A note where not all is shown."""
  return f'<p class="note">{all_of_them - shown:,} more {what} are left out.</p>' if shown < all_of_them else ""


def causes(kernels: list[dict[str, Any]]) -> str:
  """The first kernels of a report, each a bar of its cycles by cause."""
  chosen = kernels[:BARS]
  names = [f"{i}. {label(k['name'])}" for i, k in enumerate(chosen, 1)]
  figure = _figure("Cycles by cause, kernels with most cycles", 160 + 26 * len(chosen), barmode="stack")
  for cause in CAUSES:
    if any(k["causes"][cause] for k in chosen):
      figure.add_bar(y=names, x=[k["causes"][cause] for k in chosen], name=cause, orientation="h", marker={"color": _colour(cause)},
                     hovertemplate=f"%{{y}}<br>{cause}: %{{x:,}} cycles<extra></extra>")
  figure.update_yaxes(autorange="reversed", automargin=True)
  figure.update_xaxes(title="cycles")
  return _html(figure) + left_out("kernels", len(chosen), len(kernels))


def overview(timeline: Timeline) -> str:
  """Kernels of the whole timeline, and how busy each unit was in each of `BINS` intervals of it. Of a launch whose spans are not all there
  units are taken to be busy evenly."""
  figure = _figure("Kernels, and how busy units were", 560)
  figure.set_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.12, 0.88], vertical_spacing=0.02)
  shown, total = _kernels(figure, timeline)
  devices = dict.fromkeys(piece.device for piece in timeline.pieces)
  rows, names = [], []
  edges = np.linspace(0, max((piece.stop for piece in timeline.pieces), default=1), BINS + 1)
  for device in devices:
    loads = [(start, stop, units) for d, start, stop, units in timeline.loads if d == device]
    parts = [part for d, _, part in timeline.spans if d == device and (not loads or loads[0][0] > 0)]  # not of a first launch that is cut
    found = np.concatenate([np.zeros(0, LANE_SPAN), *parts])
    for number, name in enumerate(SPAN_UNITS):
      mine = found[found["lane"] == number]
      share = _shares(mine["start"], mine["stop"], edges)
      for start, stop, units in loads:
        overlap = np.maximum(0, np.minimum(edges[1:], stop) - np.maximum(edges[:-1], start))
        share += units[number] / (stop - start) * overlap / np.diff(edges)
      if share.any():
        rows.append(share)
        names.append(_lane(device, name, len(devices) > 1))
  if rows:
    middles = ((edges[1:] + edges[:-1]) / 2).round().astype(int).tolist()
    figure.add_heatmap(x=middles, y=names, z=[[round(float(v), 3) for v in row] for row in rows], colorscale="Blues", zmin=0, zmax=1,
                       colorbar={"title": "busy", "tickformat": ".0%"}, hovertemplate="%{y} at cycle %{x:,}: %{z:.0%}<extra></extra>",
                       row=2, col=1)
  figure.update_yaxes(autorange="reversed", automargin=True, fixedrange=True)
  figure.update_xaxes(title="cycles of launches, back to back", row=2)
  return _html(figure) + left_out("kernels", shown, total)


def spans(timeline: Timeline) -> str:
  """The first spans one by one: kernels, what groups waited for, units."""
  figure = _figure("The first cycles one by one: drag to zoom, double click for all", 640)
  several = len({piece.device for piece in timeline.pieces}) > 1
  drawn, total, end = 0, 0, 1
  for device, _, found in timeline.spans:
    chosen = np.sort(found, order="start", kind="stable")[:max(0, SPANS - drawn)]
    drawn, total = drawn + len(chosen), total + len(found)
    end = max(end, int(chosen["stop"].max(initial=0)))
    for number in np.unique(chosen["lane"]):
      unit, mine = number < len(SPAN_UNITS), chosen[chosen["lane"] == number]
      x = [v for start, stop in zip(mine["start"].tolist(), mine["stop"].tolist(), strict=True) for v in (start, stop, None)]
      figure.add_scatter(x=x, y=[_lane(device, LANES[number] if unit else _WAITS, several)] * len(x), mode="lines", name=LANES[number],
                         showlegend=False, connectgaps=False,
                         line={"width": 13, "simplify": False, "color": "#3d6fb5" if unit else _colour(LANES[number])},
                         hovertemplate=f"{LANES[number]}: cycle %{{x:,}}<extra></extra>")
  _kernels(figure, timeline, end)
  order = [_lane(device, name, several) for device in dict.fromkeys(piece.device for piece in timeline.pieces)
           for name in (_KERNELS, _WAITS, *SPAN_UNITS)]
  used = {y for trace in figure.data for y in (trace.y if trace.y is not None else ())}
  figure.update_yaxes(categoryorder="array", categoryarray=[name for name in order if name in used], autorange="reversed", automargin=True,
                      fixedrange=True)
  figure.update_xaxes(title="cycles of launches, back to back", range=[0, end])
  return _html(figure) + left_out("spans", drawn, total)


def vmem(timeline: Timeline) -> str:
  """What lay in VMEM when, of the first device; nothing if nothing did."""
  stays = timeline.held
  mine = [stay for stay in stays if stay.device == stays[0].device][:STAYS] if stays else []
  if not mine:
    return ""
  figure = _figure("What lay in VMEM when", 420)
  figure.add_bar(y=[(s.at + s.end) / 2 for s in mine], width=[s.end - s.at for s in mine], base=[s.start for s in mine],
                 x=[s.stop - s.start for s in mine], orientation="h", showlegend=False,
                 marker={"color": [_PASTEL[s.low // 256 % len(_PASTEL)] for s in mine], "line": {"color": "#fff", "width": 0.5}},
                 text=[f"{s.end - s.at:,} bytes of device memory at {s.low:#x}, in VMEM at {s.at:#x}" for s in mine], textposition="none",
                 hovertemplate="%{text}<br>from cycle %{base:,}, %{x:,} cycles<extra></extra>")
  figure.update_xaxes(title="cycles of launches, back to back")
  figure.update_yaxes(title="byte of VMEM", rangemode="tozero")
  return _html(figure) + left_out("ranges in VMEM", len(mine), len(stays))


def _kernels(figure: Any, timeline: Timeline, end: int | None = None) -> tuple[int, int]:
  """Add a row of kernels, of batches those within, that begin before a cycle; returns how many are shown, and how many there are."""
  inner = [*(piece.inner for piece in timeline.pieces[1:]), False]
  pieces: list[Piece] = [piece for piece, batch in zip(timeline.pieces, inner, strict=True) if (piece.inner or not batch)
                         and (end is None or piece.start < end)]
  several = len({piece.device for piece in timeline.pieces}) > 1
  chosen = pieces[:PIECES]
  figure.add_bar(y=[_lane(p.device, _KERNELS, several) for p in chosen], base=[p.start for p in chosen],
                 x=[p.stop - p.start for p in chosen], orientation="h", text=[label(p.name) for p in chosen],
                 textposition="inside", insidetextanchor="start", textangle=0,
                 marker={"color": ["#8fb7e3" if i % 2 else "#bcd5f0" for i in range(len(chosen))]}, showlegend=False,
                 hovertemplate="%{text}<br>from cycle %{base:,}, %{x:,} cycles<extra></extra>")
  return len(chosen), len(pieces)


def _lane(device: str, name: str, several: bool) -> str:
  return f"{device} {name}" if several else name


def _shares(start: np.ndarray, stop: np.ndarray, edges: np.ndarray) -> np.ndarray:
  """Shares, 0 to 1, of the intervals between `edges` that spans cover; those do not overlap and are in order."""
  covered = np.concatenate([[0], np.cumsum(stop - start)])
  before = np.searchsorted(stop, edges, "right")  # spans that end by then
  begun = np.append(start, np.iinfo(np.int64).max)[before]
  total = covered[before] + np.maximum(0, edges - begun)
  return np.diff(total) / np.diff(edges)


def _figure(title: str, height: int, **layout: Any) -> Any:
  import plotly.graph_objects as go
  return go.Figure(layout={"title": title, "height": height, "template": "plotly_white", "hovermode": "closest", "barmode": "overlay",
                           "uniformtext": {"minsize": 9, "mode": "hide"}, "margin": {"l": 10, "r": 10, "t": 50, "b": 40}, **layout})


def _html(figure: Any) -> str:
  return figure.to_html(full_html=False, include_plotlyjs=False, config={"responsive": True, "displaylogo": False})


def _colour(cause: str) -> str:
  from plotly.colors import qualitative
  number = NUMBER[cause]
  return "#3a9d5d" if cause == "issue" else qualitative.Dark24[number] if number < 24 else qualitative.Light24[number % 24]
