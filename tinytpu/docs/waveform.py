"""Signals of a unit over time, from the VCD file that a page's script writes; and lines of the unit's source."""
from __future__ import annotations

import io
import re
import tempfile
from bisect import bisect_left
from pathlib import Path

from vcd.reader import TokenKind, tokenize

from .page import Page
from .svg import BLUE, INK, PANEL, SOFT, Canvas, Rows

PACKAGE = Path(__file__).parents[1]


def waveform(page: Page, script: str, file: str, *names: str) -> str:
  """`waveform SCRIPT FILE SIGNALS...`: run a script of the page, and draw signals of the VCD file that it writes, cycle by cycle."""
  from .pages import run
  with tempfile.TemporaryDirectory() as folder:
    (Path(folder) / script).write_text(page.files[script], "utf-8")
    run(f"python {script}", Path(folder))
    signals = cycles((Path(folder) / file).read_bytes())
  count = len(signals["clk"][1])
  canvas = Canvas(1000, 100 + 34 * len(names))
  canvas.text(24, 26, f"{file}: {count} cycles", 17, bold=True)
  chart = Rows(canvas, names, 0, count, left=120, top=50, height=34, step=1)
  for name in names:
    width, values = signals[name]
    y = chart.y(name)
    starts = [i for i in range(count) if not i or values[i] != values[i - 1]]
    for start, stop in zip(starts, [*starts[1:], count], strict=True):
      x, length, value = chart.x(start), (stop - start) * chart.scale, values[start]
      if width == 1:
        canvas.box(x, y + 4, length, 22, BLUE if value else PANEL, radius=0)
        canvas.line((x, y + 4 if value else y + 26), (x + length, y + 4 if value else y + 26), edge=BLUE if value else SOFT)
      else:
        canvas.box(x + 1, y + 4, length - 2, 22, PANEL if not value else "#dbe7f6", SOFT, radius=4)
        text = f"{value:0{width // 4}x}"[:4] if width > 32 else str(value)
        if 7 * len(text) < length:
          canvas.text(x + length / 2, y + 15, text, 12, INK, "middle", mono=True)
  return page.show(f"{file.split('.')[0]}-waveform.svg", canvas.svg(), f"Waveform of {', '.join(names)}")


def cycles(vcd: bytes) -> dict[str, tuple[int, list[int]]]:
  """The signals of a VCD file by name: width, and value in each cycle, which ends at a rising edge of `clk`."""
  widths: dict[str, int] = {}
  ids: dict[str, str] = {}
  changes: dict[str, list[tuple[int, int]]] = {}
  now = 0
  named = re.sub(rb"^\$var \w+ \d+ \S+ [\\$].*\n", b"", vcd, flags=re.MULTILINE)  # the reader takes no names with a $
  for token in tokenize(io.BytesIO(named)):
    if token.kind is TokenKind.VAR:
      ids.setdefault(token.var.id_code, token.var.reference)
      widths.setdefault(token.var.reference, token.var.size)
    elif token.kind is TokenKind.CHANGE_TIME:
      now = token.time_change
    elif token.kind in (TokenKind.CHANGE_SCALAR, TokenKind.CHANGE_VECTOR):
      change = token.scalar_change if token.kind is TokenKind.CHANGE_SCALAR else token.vector_change
      if change.id_code in ids:
        changes.setdefault(ids[change.id_code], []).append((now, int(change.value)))
  edges = [time for time, level in changes["clk"] if level]

  def value(name: str, time: int) -> int:
    """Just before a time."""
    at = bisect_left(changes[name], (time, -1))
    return changes[name][at - 1][1] if at else 0

  return {name: (widths[name], [value(name, edge) for edge in edges]) for name in changes}


def source(page: Page, path: str, first: str, last: str) -> str:
  """`source PATH FIRST LAST`: lines of a file of the package, from the first that has FIRST in it to the next that has LAST."""
  lines = (PACKAGE / path).read_text("utf-8").splitlines()
  start = next(i for i, line in enumerate(lines) if first in line)
  stop = next(i for i in range(start, len(lines)) if last in lines[i])
  indent = min(len(line) - len(line.lstrip()) for line in lines[start:stop + 1] if line)
  return "\n```python\n" + "\n".join(line[indent:] for line in lines[start:stop + 1]) + "\n```\n"
