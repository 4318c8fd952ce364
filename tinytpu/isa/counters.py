"""Event counters of a launch, kept alike by both engines."""
from __future__ import annotations

from collections.abc import Mapping

from ..config import Config
from . import timing

COUNTERS = (
  "groups",         # issue groups issued
  "slot_C", "slot_S", "slot_V", "slot_X", "slot_L", "slot_T",  # operations issued, by slot
  "div_ops",        # of slot_V: operations of the iterative divider
  "mxu_steps",      # matrix steps (each keeps the array busy for the interval of MM or MM16)
  "vmem_cycles",    # cycles that VMEM accesses of slots L and T took, bank conflicts included
  "hbm_lines",      # lines moved by direct HBM access
  "dma_lines",      # lines moved by DMA, both directions
  "refills",        # instruction buffer blocks fetched
)

UNITS = ("MXU", "VPU", "VMEM", "HBM")
"""What `shares` tells of: matrix unit, vector unit, scratchpad, and the ports to device memory."""


def shares(config: Config, counters: Mapping[str, int], cycles: int) -> dict[str, float]:
  """How busy `UNITS` were in so many cycles, as shares of what they can do (0 to 1): matrix steps (one on halfwords, which takes twice as
  long, counts as one), vector operations (a division counts as one), VMEM, and the three ports to HBM together. A counter left out is 0."""
  n = {name: counters.get(name, 0) for name in COUNTERS}
  done = (n["mxu_steps"] * timing.interval(config, "MM"), n["slot_V"] * timing.interval(config, "ALU"), n["vmem_cycles"],
          (n["hbm_lines"] + n["dma_lines"]) / 3)
  return {unit: work / max(cycles, 1) for unit, work in zip(UNITS, done, strict=True)}
