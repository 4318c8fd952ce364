"""Event counters of a launch, kept alike by both engines."""
from __future__ import annotations

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
