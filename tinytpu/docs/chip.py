"""The machine at a glance: a block diagram with a preset's numbers, and a table of the presets."""
from __future__ import annotations

from ..config import PRESETS, Config, preset
from .page import Page, table
from .svg import BLUE, GREEN, INK, LINE, ORANGE, PANEL, RED, SOFT, TEAL, VIOLET, Canvas

_SLOTS = (("C", "control", "loops, branches", SOFT), ("S", "scalar ALU", "addresses", TEAL),
          ("V", "vector ALU", "{vector_lanes} lanes", BLUE), ("X", "matrix", "and cross-lane", VIOLET),
          ("L", "load", "from VMEM", GREEN), ("T", "store", "VMEM, HBM", ORANGE))


def diagram(page: Page, machine: str = "4x4") -> str:
  """`diagram [PRESET]`: a block diagram of the chip and its memory."""
  c = preset(machine)
  canvas = Canvas(860, 690)
  canvas.text(24, 28, f"TinyTPU, preset {machine}", 17, bold=True)
  canvas.box(170, 50, 666, 516, "#fafbfc", LINE, 8)
  canvas.text(822, 70, "chip", 14, SOFT, "end")
  buffer = f"instruction buffer, {c.ibuf_blocks * c.ibuf_block_bytes // 1024} KiB"
  grey = "#e6eaef"
  canvas.label(24, 90, 100, 60, "host", grey, below="registers, launch")
  canvas.line((124, 112), (206, 112), arrow=True)
  canvas.label(210, 90, 230, 60, "fetch", grey, edge=LINE, below=buffer)
  canvas.line((440, 120), (466, 120), arrow=True)
  canvas.label(470, 90, 340, 60, "issue", grey, edge=LINE, below=f"in order, up to {Config.GROUP} operations a cycle, scoreboard")
  canvas.line((640, 150), (640, 168), (258, 168))
  canvas.line((640, 168), (763, 168))
  for i, (slot, name, below, colour) in enumerate(_SLOTS):
    x = 210 + 101 * i
    canvas.line((x + 48, 168), (x + 48, 188), arrow=True)
    canvas.box(x, 190, 95, 78, colour)
    for y, text, size in ((206, f"slot {slot}", 12), (228, name, 14), (250, below.format(vector_lanes=c.vector_lanes), 12)):
      canvas.text(x + 47, y, text, size, "#ffffff", "middle")
  for x, width, name, below in ((210, 128, f"{Config.SREGS} scalar registers", "32 bits"),
                                (344, 146, f"{Config.VREGS} vector registers", f"tiles of {c.sublanes} x {c.lanes} words"),
                                (496, 112, f"{Config.PSUMS} buckets", "in the array")):
    canvas.label(x, 312, width, 58, name, PANEL, edge=LINE, below=below)
    canvas.line((x + width / 2, 294), (x + width / 2, 310), edge=SOFT)
  canvas.line((258, 268), (258, 294), (590, 294), (590, 268), edge=SOFT)
  canvas.line((359, 268), (359, 294), edge=SOFT)
  canvas.line((460, 268), (460, 294), edge=SOFT)
  canvas.label(210, 408, 560, 60, f"VMEM: {c.vmem_bytes // 1024} KiB in {c.vector_lanes} banks", "#dff1e6", INK, 15, GREEN,
               below="what kernels hand each other stays here")
  canvas.line((662, 406), (662, 272), edge=GREEN, arrow=True)
  canvas.line((744, 268), (744, 404), edge=GREEN, arrow=True)
  canvas.line((788, 268), (788, 502), edge=ORANGE, arrow=True)
  pale = "#fbe9d3"
  for x, name, below in ((210, "DMA in", "HBM to VMEM"), (410, "DMA out", "VMEM to HBM"),
                         (610, "direct access", "any address of any lane")):
    canvas.label(x, 506, 190, 48, name, pale, INK, 14, ORANGE, below=below)
  canvas.line((305, 504), (305, 472), edge=ORANGE, arrow=True)
  canvas.line((505, 468), (505, 502), edge=ORANGE, arrow=True)
  canvas.label(170, 612, 666, 58, f"HBM: {c.hbm_bytes >> 30} GiB", "#fdeeee", INK, 15, RED,
               below=f"lines of {c.line_bytes} bytes, one a cycle at each of four ports; latency {c.hbm_latency} cycles")
  canvas.line((305, 610), (305, 558), edge=RED, arrow=True)
  canvas.line((505, 554), (505, 608), edge=RED, arrow=True)
  canvas.line((685, 610), (685, 558), edge=RED, arrow=True)
  canvas.line((725, 554), (725, 608), edge=RED, arrow=True)
  canvas.line((190, 610), (190, 136), (206, 136), edge=RED, arrow=True)
  canvas.text(182, 588, "code", 12, SOFT, "end")
  return page.show("chip.svg", canvas.svg(), "Block diagram: fetch and issue, six slots of functional units, registers, VMEM, DMA and HBM")


def presets(page: Page) -> str:
  """`presets`: a table of the presets."""
  rows = [(name, f"{c.sublanes} x {c.lanes}", c.vector_lanes, c.width, f"{c.vmem_bytes // 1024} KiB", c.line_bytes, c.hbm_latency)
          for name, c in PRESETS.items()]
  return table(("preset", "tile", "vector lanes", "multiplications of the matrix unit a cycle", "VMEM", "bytes of an HBM line",
                "HBM latency, cycles"), rows)
