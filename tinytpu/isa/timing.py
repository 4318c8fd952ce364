"""Latencies in cycles: an operation that issues in cycle t has its result readable by a group that
issues in cycle t + latency. docs/timing.md tells the whole contract; RTL and simulator read these."""
from __future__ import annotations

from ..config import Config

SCALAR = 1   # scalar ALU
SMUL = 3     # scalar multiply
X2S = 3      # tile element or flag to a scalar register
ALU = 2      # vector integer ALU, compare, select, move
IMUL = 3     # vector integer multiply
FLOAT = 4    # float add, multiply and conversions
DIV = 37     # integer divide and remainder, float divide, reciprocal, square root; not pipelined
TRANS = 14   # exp2, log2, sin, cos of float32
TRANS_II = 4    # one of them starts every so many cycles: so many beats feed a tile to width / TRANS_II pipelines
XLU = 2      # cross-lane moves
XRED = 4     # reductions by sublane or lane: integer, float maximum and minimum, index of either; a cycle per level of the tree
XREDT = 6    # the same over the whole tile
XFRED = 8    # float32 sum and product by sublane or lane; three cycles per level
XFREDT = 14  # the same over the whole tile
PPOP = 2     # read of a PSUM bucket
PCLR = 1     # PSUM bucket that is cleared
LOAD = 2     # VMEM load: LOAD + n cycles, n = cycles that its bank conflicts take (1 without)
MM = 19      # matrix step: its bucket may be read or written this many cycles later
MM_II = 4    # a matrix step starts every so many cycles
MM16 = 23    # the same of a matrix step on halfwords, which has twice as many products
MM16_II = 8  # matrix step on halfwords: another step may issue this many cycles later
HBM_ISSUE = 2   # direct HBM load: HBM_ISSUE + n + hbm_latency cycles, n = lines touched (at least 1)
DMA_QUEUE = 4   # DMA transfers of one direction that may be unfinished at once

REDUCTIONS = ("XRED", "XREDT", "XFRED", "XFREDT")
"""Latency classes of reductions: the unit is free again two cycles before the result is readable."""
STEPS = ("MM", "MM16")
"""Latency classes of matrix steps."""
INTERVALS = {"DIV": DIV, "TRANS": TRANS_II, "MM": MM_II, "MM16": MM16_II,
             "XRED": XRED - 2, "XREDT": XREDT - 2, "XFRED": XFRED - 2, "XFREDT": XFREDT - 2}
"""Latency classes whose unit takes another operation only after so many cycles."""


def refill(config: Config) -> int:
  """Cycles that the front end waits for a block which is not in the instruction buffer."""
  return config.hbm_latency + config.ibuf_block_lines + 2
