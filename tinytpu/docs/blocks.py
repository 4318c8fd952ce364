"""What may stand between markers of a page, by name."""
from __future__ import annotations

from collections.abc import Callable

from . import change, chip, gantt, machines, matrix, memory, waveform
from .page import Page

BLOCKS: dict[str, Callable[..., str]] = {
  "gantt": gantt.gantt, "cycles": gantt.cycles, "causes": gantt.causes,
  "memories": memory.memories, "accesses": memory.accesses, "banks": memory.banks,
  "kernels": machines.kernels, "fields": machines.fields, "effects": machines.effects, "sizes": machines.sizes,
  "latencies": machines.latencies,
  "waveform": waveform.waveform, "source": waveform.source,
  "changed": change.changed, "hunk": change.hunk,
  "diagram": chip.diagram, "presets": chip.presets,
  "array": matrix.array, "utilisation": matrix.utilisation, "product": matrix.product,
}
"""Functions of a `page.Page` and the words behind the name; each gives Markdown, and adds pictures to the page."""
__all__ = ["BLOCKS", "Page"]
