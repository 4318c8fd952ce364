"""Where the cycles of a launch go: every cycle has exactly one of these causes (docs/timing.md). Both engines number them in this order,
docs/trace.md is printed from it."""
from __future__ import annotations

from . import timing
from .table import SLOTS

WORK = {
  "issue": "a group issues",
  "launch": "cycle 0, in which the entry group is looked up",
  "fetch": "the group is not present: its block is fetched",
  "fault": "a fault is taken",
}
"""Causes of cycles in which no group waits."""

DRAINS = {
  "drain_dma_out": "at the end: an outbound transfer is unfinished",
  "drain_dma_in": "at the end: an inbound transfer is unfinished",
  "drain_hbm": "at the end: a direct HBM access is outstanding",
  "drain_vmem": "at the end: a VMEM access is under way",
  "drain_result": "at the end: a result is outstanding",
}
"""Causes of cycles from `halt` or a fault to the end of the launch, in the order in which one is named where several hold."""

RESULTS = {
  "result_hbm": ("HBM_ISSUE",), "result_vmem": ("LOAD",), "result_scalar_divider": ("SDIV",), "result_scalar_multiplier": ("SMUL",),
  "result_vector_divider": ("DIV",), "result_transcendental": ("TRANS",), "result_reduce": timing.REDUCTIONS,
  "result_vector_alu": timing.UNITS["vector_alu"], "result_cross": timing.UNITS["cross"], "result_psum": ("PPOP",)}
"""Causes that are a register with an outstanding result, and the latency classes of the operations that write it."""

_RESULTS = {
  "result_hbm": "a direct HBM load", "result_vmem": "a VMEM load", "result_scalar_divider": "a scalar division",
  "result_scalar_multiplier": "a scalar multiplication", "result_vector_divider": "a vector division or square root",
  "result_transcendental": "exp2, log2, sin or cos", "result_reduce": "a reduction", "result_vector_alu": "the vector ALU",
  "result_cross": "the cross-lane unit", "result_psum": "a pop of a PSUM bucket"}

WAITS = {
  "fence": "`fence`: a direct HBM access is outstanding",
  "barrier": "`barrier`: something is outstanding",
  "dwaiti": "`dwaiti n`: more than n inbound transfers are unfinished",
  "dwaito": "`dwaito n`: more than n outbound transfers are unfinished",
  "queue_dma_in": "`dmai`: `DMA_QUEUE` inbound transfers are unfinished",
  "queue_dma_out": "`dmao`: `DMA_QUEUE` outbound transfers are unfinished",
  **{cause: f"a register waits for the result of {what}" for cause, what in _RESULTS.items()},
  "bucket": "a PSUM bucket that is popped, pushed or cleared waits for a matrix step or push",
  "unit_hbm": "the direct HBM unit still requests lines of an access before",
  "unit_vmem": "VMEM still serves accesses before, bank conflicts included",
  **{f"unit_{unit}": f"the unit is busy with an operation before ({', '.join(classes)})" for unit, classes in timing.UNITS.items()},
  **{f"port_{slot}": f"write port {slot} is taken in the cycle of the result" for slot in timing.PORTS},
}
"""Causes that are a condition of issue which does not hold, in the order in which one is named where several do not."""

CAUSES = WORK | DRAINS | WAITS
"""All causes, and what each is."""
NUMBER = {cause: i for i, cause in enumerate(CAUSES)}
"""Number of each cause: its place in `CAUSES`."""
FIRST_DRAIN, FIRST_WAIT = len(WORK), len(WORK) + len(DRAINS)
"""Numbers of the first of `DRAINS`, and of the first condition of issue."""

PRODUCER = {name: cause for cause, classes in RESULTS.items() for name in classes}
"""By latency class, the cause of waiting for a register that such an operation writes."""

FIELDS = {
  "kind": "0: a group that issued; 1: the launch ended in a fault here",
  "cycle": "in which the group issued, or the fault was taken",
  "pc": "word index of the group in its program",
  "slots": f"operations of the group by slot, a bit each from the lowest on: {', '.join(SLOTS)}; 0 of a fault",
  "fetch": "cycles, before, in which the group was not present",
  "wait": "cycles, after those, in which it was present and waited",
  "cause": "number of what it waited for, if it waited: one cause for the whole wait",
  "vmem": "cycles that its VMEM accesses took, bank conflicts included",
  "lines": "HBM lines that its direct access or DMA transfer moved",
  "end": "of a DMA transfer: the cycle from which on it is finished; else 0",
}
"""Fields of an event, all int64, in order; cycles count from the start of the launch."""
GROUP, FAULT = 0, 1
"""Kinds of events."""
