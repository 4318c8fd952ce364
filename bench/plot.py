"""The history as one page: `python -m bench plot [--out history.html]`, with everything that it needs inside, readable offline."""
from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .history import HISTORY

Row = dict[str, Any]


class Chart(NamedTuple):
  """title; axis: of the numbers; log: whether it is logarithmic; points: of a row of its kind, what to draw: name of line, number."""
  kind: str
  title: str
  axis: str
  log: bool
  points: Callable[[Row], Iterator[tuple[str, float]]]


def _suite(row: Row) -> Iterator[tuple[str, float]]:
  yield from row["cycles"].items()


def _mean(row: Row) -> Iterator[tuple[str, float]]:
  yield "geometric mean", row["geomean_elements_per_cycle"]


def _gemm(row: Row) -> Iterator[tuple[str, float]]:
  yield from ((name, 100 * numbers["mxu"]) for name, numbers in row["gemm"].items())


def _speed(row: Row) -> Iterator[tuple[str, float]]:
  for engine, loads in row["engines"].items():
    yield from ((f"{row.get('config', '4x4')} {engine} {load}", numbers["per_second"]) for load, numbers in loads.items())


def _passed(row: Row) -> Iterator[tuple[str, float]]:
  yield from ((name, numbers["passed"]) for name, numbers in row["files"].items() if "passed" in numbers)


def _simulated(row: Row) -> Iterator[tuple[str, float]]:
  yield from ((name, numbers["cycles"]) for name, numbers in row["files"].items() if numbers.get("cycles"))


def _models(row: Row) -> Iterator[tuple[str, float]]:
  yield from ((name, numbers["cycles"]) for name, numbers in row["models"].items())


def _training(row: Row) -> Iterator[tuple[str, float]]:
  yield from ((name, numbers["cycles_a_step"]) for name, numbers in row["training"].items())


def _generation(row: Row) -> Iterator[tuple[str, float]]:
  yield from ((name, numbers["cycles_a_token"]) for name, numbers in row["generation"].items())


CHARTS = (
  Chart("suite", "Eleven kernels", "cycles", True, _suite),
  Chart("suite", "Eleven kernels together", "elements per cycle", False, _mean),
  Chart("gemm", "Matrix products: share of the matrix unit's peak", "%", False, _gemm),
  Chart("speed", "Speed of the engines (on whatever machine it was)", "simulated cycles per second", True, _speed),
  Chart("models", "Models that others have trained", "cycles", True, _models),
  Chart("upstream", "tinygrad's own tests", "passed", False, _passed),
  Chart("upstream", "tinygrad's own tests: simulated cycles", "cycles", True, _simulated),
  Chart("training", "Training", "cycles a step", True, _training),
  Chart("generation", "Generation", "cycles a token", True, _generation))


def load(path: Path = HISTORY) -> list[Row]:
  """The measurements of a history, oldest first.

  Raises:
    ValueError: a line is no measurement; names it.
  """
  rows = []
  for number, line in enumerate(path.read_text().splitlines(), 1):
    try:
      row = json.loads(line)
      assert row["kind"] and row["date"] and row["commit"]
    except (ValueError, AssertionError, KeyError, TypeError) as e:
      raise ValueError(f"{path}:{number} is no measurement, which is a JSON object with kind, date and commit") from e
    rows.append(row)
  return sorted(rows, key=lambda row: row["date"])


def lines(chart: Chart, rows: list[Row]) -> dict[str, list[tuple[str, float]]]:
  """What a chart shows: by name of line, where it was measured (date and commit) and the number."""
  found: dict[str, list[tuple[str, float]]] = {}
  for row in rows:
    if row["kind"] == chart.kind:
      for name, number in chart.points(row):
        found.setdefault(name, []).append((f"{row['date']} {row['commit']}", number))
  return found


def page(rows: list[Row]) -> str:
  """The page, HTML with the plotting library inside (about 5 MB)."""
  import plotly.graph_objects as go
  from plotly.offline import get_plotlyjs
  parts = []
  for chart in CHARTS:
    figure = go.Figure(layout={"title": chart.title, "height": 480, "template": "plotly_white", "hovermode": "closest"})
    for name, points in lines(chart, rows).items():
      where, numbers = zip(*points, strict=True)
      figure.add_scatter(x=where, y=numbers, name=name, mode="lines+markers")
    order = [f"{row['date']} {row['commit']}" for row in rows if row["kind"] == chart.kind]
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=order)
    figure.update_yaxes(title=chart.axis, type="log" if chart.log else "linear")
    parts.append(figure.to_html(full_html=False, include_plotlyjs=False))
  count = html.escape(f"{len(rows)} measurements, {rows[0]['date']} to {rows[-1]['date']}" if rows else "no measurements")
  return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>TinyTPU benchmarks</title><script>{get_plotlyjs()}</script>'
          f'</head><body style="font-family: sans-serif"><h1>TinyTPU benchmarks</h1><p>{count}</p>{"".join(parts)}</body></html>')


def run(out: Path) -> None:
  """Write the page.

  Raises:
    ImportError: plotly is not installed. ValueError: see `load`. OSError: the file cannot be written.
  """
  out.write_text(page(load()))
