"""A training curve as a small SVG. matplotlib draws it, which writes SVG by itself; plotly, as in the project's pages, needs a browser."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from .common import InputError

POINTS = 300
"""Of a line at most; longer ones are means of neighbours."""


def need_matplotlib() -> None:
  """Raises InputError: matplotlib is missing."""
  if find_spec("matplotlib") is None:
    raise InputError("drawing takes matplotlib: pip install 'tinytpu[train]'")


def draw(path: Path, losses: Mapping[str, Sequence[float]], score: tuple[str, Sequence[tuple[int, float]]] | None = None) -> None:
  """Write losses by step, on a logarithmic axis, and a score beside them.

  Args:
    path: FILE.svg. losses: of each step, by name of line. score: its name, and (step, share from 0 to 1) of each evaluation.

  Raises:
    InputError: matplotlib is missing.
  """
  need_matplotlib()
  import matplotlib
  matplotlib.use("svg")
  matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "tinytpu", "axes.spines.top": False, "font.size": 9})
  from matplotlib import pyplot
  figure, axis = pyplot.subplots(figsize=(6, 3), layout="constrained")
  for name, values in losses.items():
    axis.plot(*_thin(values), linewidth=1, label=name)
  axis.set(xlabel="step", ylabel="loss", yscale="log")
  if score:
    right = axis.twinx()
    right.plot(*zip(*score[1], strict=True), "o-", color="tab:orange", markersize=3, linewidth=1, label=score[0])
    right.set(ylabel=score[0], ylim=(0, 1.02))
  figure.legend(loc="outside upper right", ncols=3, frameon=False)
  figure.savefig(path, metadata={"Date": None})
  pyplot.close(figure)


def _thin(values: Sequence[float]) -> tuple[list[float], list[float]]:
  """Steps, counted from 1, and values: means of as many neighbours as leave POINTS of them."""
  width = -(-len(values) // POINTS)
  groups = [values[at:at + width] for at in range(0, len(values), width)]
  return [1 + n * width + (len(g) - 1) / 2 for n, g in enumerate(groups)], [sum(g) / len(g) for g in groups]
