"""The matrix unit: how a step goes through the array, and how much of its peak products reach."""
from __future__ import annotations

from ..config import PRESETS, Config, preset
from . import measure
from .page import Page, table
from .svg import BLUE, GREEN, INK, LINE, ORANGE, PANEL, SOFT, VIOLET, Canvas

_COLOURS = dict(zip(PRESETS, (BLUE, GREEN, ORANGE), strict=True))


def peak(machine: str, n: int) -> float:
  """Cycles of a float32 product of two matrices n x n if every element of the array multiplied in every cycle."""
  return n ** 3 / preset(machine).width


def array(page: Page, machine: str = "4x4") -> str:
  """`array [PRESET]`: a picture of a matrix step in the array, operands streamed and held."""
  side = preset(machine).lanes
  cell, gap = 62, 20
  size = side * cell
  canvas = Canvas(2 * (size + 210) + 60, size + 270)
  for panel, (title, held) in enumerate((("mmf p0, v1, v2: both operands arrive", False), ("mmfw p0, v1: the weights are held", True))):
    left, top = 150 + panel * (size + 240), 160
    canvas.text(left - 110, 30, title, 17, bold=True)
    for j in range(side):
      x = left + j * cell
      if held:
        canvas.label(x + 3, 66, cell - 6, 54, f"w[·][{j}]", VIOLET, "#ffffff", 13, below="stays")
      else:
        canvas.label(x + 3, 66, cell - 6, 54, f"b[k][{j}]", GREEN, "#ffffff", 13, below="of v2")
      canvas.line((x + cell / 2, 122), (x + cell / 2, top - 6), edge=VIOLET if held else GREEN, arrow=True)
    for i in range(side):
      y = top + i * cell
      canvas.label(left - 112, y + 8, 78, cell - 20, f"a[{i}][k]", BLUE, "#ffffff", 13, below="of v1")
      canvas.line((left - 32, y + cell / 2 - 2), (left - 6, y + cell / 2 - 2), edge=BLUE, arrow=True)
      for j in range(side):
        canvas.label(left + j * cell + 3, y + 2, cell - 6, cell - 8, f"c[{i}][{j}]", PANEL, INK, 13, LINE)
    for line, text in enumerate(("each element multiplies, and adds to its own c", f"k = 0, 1, ... {side - 1}: {side} cycles a step")):
      canvas.text(left + size / 2, top + size + gap + 22 * line, text, 14, SOFT, "middle")
  below = f"c is a PSUM bucket, one of {Config.PSUMS}: it stays in the array from step to step ({machine})"
  canvas.text(canvas.width / 2, canvas.height - 22, below, 14, INK, "middle")
  return page.show("array.svg", canvas.svg(), "A matrix step: operands pass through, sums stay in the array")


def utilisation(page: Page, *sizes: str) -> str:
  """`utilisation SIZES...`: a table and a chart of square float32 products on all presets: cycles, and the share of the peak."""
  found = {name: measure.cycles(name, *(f"product:{n}" for n in sizes)) for name in PRESETS}
  share = {name: [peak(name, int(n)) / found[name][f"product:{n}"].again for n in sizes] for name in PRESETS}
  canvas = Canvas(860, 400)
  left, top, width, height = 90, 60, 560, 270
  canvas.text(24, 28, "share of the matrix unit's peak", 17, bold=True)
  for percent in range(0, 101, 20):
    y = top + height * (1 - percent / 100)
    canvas.line((left, y), (left + width, y), edge=LINE, width=1)
    canvas.text(left - 10, y, f"{percent} %", 13, SOFT, "end")
  xs = [left + 40 + i * (width - 80) / (len(sizes) - 1) for i in range(len(sizes))]
  for x, n in zip(xs, sizes, strict=True):
    canvas.text(x, top + height + 20, f"{n}³", 14, INK, "middle")
  for name, values in share.items():
    points = [(x, top + height * (1 - value)) for x, value in zip(xs, values, strict=True)]
    canvas.line(*points, edge=_COLOURS[name], width=3)
    for x, y in points:
      canvas.box(x - 4, y - 4, 8, 8, _COLOURS[name], radius=4)
  for i, name in enumerate(PRESETS):
    canvas.legend(left + width + 40, top + 30 + 26 * i, [(_COLOURS[name], f"preset {name}")])
  canvas.text(left + width / 2, top + height + 46, "size of the product, float32, operands in VMEM", 13, SOFT, "middle")
  shown = page.show("utilisation.svg", canvas.svg(), "Share of the matrix unit's peak by size of a product")
  rows = [(f"{n}³", *(cell for name in PRESETS for cell in (found[name][f"product:{n}"].again, f"{share[name][i]:.0%}")))
          for i, n in enumerate(sizes)]
  return shown + table(("product", *(cell for name in PRESETS for cell in (f"{name}: cycles", "of peak"))), rows)


def product(page: Page, n: str) -> str:
  """`product SIZE`: a table of a product on all presets, cold and warm, with the share of the peak."""
  rows = []
  for name in PRESETS:
    took = measure.cycles(name, f"product:{n}")[f"product:{n}"]
    rows.append((name, took.first, took.again, f"{peak(name, int(n)):,.0f}", f"{peak(name, int(n)) / took.again:.0%}"))
  return table(("preset", "cycles, first run", "cycles, again", "at the peak", "share of the peak"), rows)
