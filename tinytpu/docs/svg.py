"""What all pictures share: colours, fonts, rows of time. Drawn with drawsvg; the same input gives the same bytes."""
from __future__ import annotations

from collections.abc import Iterable, Sequence

import drawsvg

BACK, PANEL, INK, SOFT, LINE = "#ffffff", "#f3f5f8", "#1c2733", "#5b6875", "#ccd4dd"
BLUE, GREEN, ORANGE, RED, VIOLET, GREY, TEAL = "#3b76c4", "#3a9a62", "#e08a2c", "#cf4b4b", "#8458b3", "#a9b4c0", "#2c9aa0"
"""Colours. The background is solid: pages are read on white and on black."""
FONT, MONO = "Helvetica, Arial, sans-serif", "Menlo, Consolas, 'DejaVu Sans Mono', monospace"


class Canvas:
  """A picture of `width` x `height` pixels."""

  def __init__(self, width: int, height: int):
    self.width, self.height = width, height
    self._drawing = drawsvg.Drawing(width, height)
    self.box(0, 0, width, height, BACK, radius=10)

  def box(self, x: float, y: float, width: float, height: float, fill: str = PANEL, edge: str = "none", radius: float = 3,
          dash: bool = False) -> None:
    """A rectangle."""
    more = {"stroke_dasharray": "4 3"} if dash else {}
    self._drawing.append(drawsvg.Rectangle(_n(x), _n(y), _n(width), _n(height), rx=radius, fill=fill, stroke=edge, **more))

  def text(self, x: float, y: float, text: str, size: int = 14, fill: str = INK, anchor: str = "start", mono: bool = False,
           bold: bool = False) -> None:
    """A line of text around height y. anchor: "start", "middle" or "end" is at x."""
    self._drawing.append(drawsvg.Text(text, size, _n(x), _n(y), fill=fill, text_anchor=anchor, dominant_baseline="central",
                                      font_family=MONO if mono else FONT, font_weight="bold" if bold else "normal"))

  def line(self, *points: tuple[float, float], edge: str = SOFT, width: float = 1.5, arrow: bool = False, dash: bool = False) -> None:
    """A line through points, perhaps with an arrow's head at its end."""
    more = {"stroke_dasharray": "4 3"} if dash else {}
    flat = [_n(value) for point in points for value in point]
    self._drawing.append(drawsvg.Lines(*flat, fill="none", stroke=edge, stroke_width=width, **more))
    if arrow:
      (x0, y0), (x, y) = points[-2:]
      length = ((x - x0) ** 2 + (y - y0) ** 2) ** 0.5
      dx, dy = (x - x0) / length, (y - y0) / length
      left, right = (x - 9 * dx - 4 * dy, y - 9 * dy + 4 * dx), (x - 9 * dx + 4 * dy, y - 9 * dy - 4 * dx)
      self._drawing.append(drawsvg.Lines(*(_n(v) for p in ((x, y), left, right) for v in p), close=True, fill=edge))

  def label(self, x: float, y: float, width: float, height: float, text: str, fill: str = PANEL, ink: str = INK, size: int = 14,
            edge: str = "none", below: str = "", mono: bool = False, bold: bool = False) -> None:
    """A box with text in its middle, and perhaps smaller text below that."""
    self.box(x, y, width, height, fill, edge)
    self.text(x + width / 2, y + height / 2 - (9 if below else 0), text, size, ink, "middle", mono, bold)
    if below:
      self.text(x + width / 2, y + height / 2 + 10, below, 12, SOFT if ink == INK else ink, "middle")

  def legend(self, x: float, y: float, items: Iterable[tuple[str, str]]) -> None:
    """Colours and what they mean, side by side."""
    for colour, name in items:
      self.box(x, y - 7, 14, 14, colour)
      self.text(x + 20, y, name, 13)
      x += 44 + 7 * len(name)

  def svg(self) -> str:
    """The picture as the text of an SVG file."""
    return str(self._drawing.as_svg()).rstrip() + "\n"


class Rows:
  """Rows of time: cycles go to the right, from `first` to `last`.

  Args:
    left, top: pixels of the first cycle and of the first row. height: of a row, with its gap. extra: by which the last row is higher.
    step: cycles between two numbers below, 0 for none.
  """

  def __init__(self, canvas: Canvas, names: Sequence[str], first: int, last: int, left: int = 150, top: int = 50, height: int = 30,
               extra: int = 0, step: int = 0, unit: str = "cycle"):
    self.canvas, self.first, self.last, self.left, self.top, self.height = canvas, first, last, left, top, height
    self.scale = (canvas.width - left - 24) / (last - first)
    self.names = list(names)
    self.bottom = top + len(names) * height + extra
    for i, name in enumerate(names):
      canvas.box(left, top + i * height, (last - first) * self.scale, height - 4 + (extra if i == len(names) - 1 else 0), PANEL, radius=0)
      canvas.text(left - 10, top + i * height + height / 2 - 2, name, 14, INK, "end")
    for cycle in range(-(-first // step) * step, last + 1, step) if step else ():
      canvas.line((self.x(cycle), top - 4), (self.x(cycle), self.bottom), edge=LINE, width=1)
      canvas.text(self.x(cycle), self.bottom + 10, str(cycle), 12, SOFT, "middle")
    canvas.text(left - 10, self.bottom + 10, unit if step else "", 12, SOFT, "end")

  def x(self, cycle: float) -> float:
    """Pixel of a cycle's beginning."""
    return self.left + (cycle - self.first) * self.scale

  def y(self, row: str) -> float:
    """Pixel of a row's upper edge."""
    return self.top + self.names.index(row) * self.height

  def bar(self, row: str, start: float, stop: float, fill: str, text: str = "", ink: str = "#ffffff", size: int = 12) -> None:
    """Cycles `start` to `stop` of a row; the text where it has room."""
    y, width = self.y(row), (stop - start) * self.scale
    gap = 0.5 if width > 3 else 0
    self.canvas.box(self.x(start) + gap, y + 2, width - 2 * gap, self.height - 8, fill, radius=2)
    if text and len(text) * size * 0.62 < width:
      self.canvas.text(self.x(start) + width / 2, y + self.height / 2 - 2, text, size, ink, "middle")


def _n(value: float) -> float:
  return round(value, 2)
