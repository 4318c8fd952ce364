"""Latencies and intervals in cycles, as functions of the Config: an operation that issues in cycle t has its result readable by
a group that issues in t + latency, and its unit takes another operation in t + interval. docs/timing.md tells the whole
contract; RTL, simulator and compiler ask here."""
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..config import Config

Cycles = Callable[[Config], int]


class Timing(NamedTuple):
  """A latency class: cycles to the result, cycles until the unit is free again, and what it is of."""
  latency: Cycles
  interval: Cycles
  doc: str


def _turns(config: Config, levels: int) -> int:
  """Turns of `levels` levels of the tree of reductions, which has vector_lanes / 2 nodes: a level with more pairs takes several."""
  pairs = [config.width >> level + 1 for level in range(levels)]
  return sum(max(1, 2 * n // config.vector_lanes) for n in pairs)


def _fixed(latency: int, doc: str) -> Timing:
  """The same for every Config, and pipelined."""
  return Timing(lambda c: latency, lambda c: 1, doc)


def _beats(latency: int, doc: str) -> Timing:
  """A result that takes `latency` cycles and one more for every beat after the first."""
  return Timing(lambda c: latency + c.beats - 1, lambda c: c.beats, doc)


def _iterated(latency: int, doc: str) -> Timing:
  """Beat after beat in units that are not pipelined; a beat starts in the cycle in which the one before it has its result."""
  def cycles(c: Config) -> int: return latency + (c.beats - 1) * (latency - 1)
  return Timing(cycles, cycles, doc)


def _reduction(trees: int, turn: int, doc: str) -> Timing:
  """`trees` times log2(lanes) levels, a turn taking `turn` cycles."""
  def cycles(c: Config) -> int: return turn * _turns(c, trees * (c.lanes.bit_length() - 1))
  return Timing(lambda c: cycles(c) + 2, cycles, doc)


def _step(products: int, doc: str) -> Timing:
  """A matrix step with `products` products per word."""
  return Timing(lambda c: products * c.sublanes + 15, lambda c: products * c.sublanes, doc)


CLASSES: dict[str, Timing] = {
  "SCALAR": _fixed(1, "scalar ALU"),
  "SMUL": _fixed(3, "scalar multiply"),
  "SDIV": Timing(lambda c: 37, lambda c: 37, "scalar divide and remainder"),
  "X2S": _beats(3, "tile element or flag to a scalar register"),
  "ALU": _beats(2, "vector integer ALU, compare, select, move"),
  "IMUL": _beats(3, "vector integer multiply"),
  "FLOAT": _beats(4, "float add, multiply and conversions"),
  "DIV": _iterated(37, "vector integer divide and remainder, float divide, reciprocal, square root"),
  "TRANS": Timing(lambda c: 14 + 4 * (c.beats - 1), lambda c: 4 * c.beats,
                  "exp2, log2, sin, cos of float32, in a pipeline for every four vector lanes"),
  "XLU": _beats(2, "cross-lane moves"),
  "XRED": _reduction(1, 1, "reductions by sublane or lane: integer, float maximum and minimum, index of either"),
  "XREDT": _reduction(2, 1, "the same over the whole tile"),
  "XFRED": _reduction(1, 3, "float32 sum and product by sublane or lane"),
  "XFREDT": _reduction(2, 3, "the same over the whole tile"),
  "PPOP": _fixed(2, "read of a PSUM bucket"),
  "PPUSH": _fixed(2, "PSUM bucket that is written"),
  "PCLR": _fixed(1, "PSUM bucket that is cleared"),
  "MM": _step(1, "matrix step: its bucket may be read or written this many cycles later"),
  "MM16": _step(2, "the same of a matrix step on halfwords"),
  "LOAD": _fixed(2, "VMEM load, to which come n cycles, as many as the access takes"),
  "HBM_ISSUE": _fixed(2, "direct HBM load, to which come n, the lines it requests, and the latency of HBM"),
}
"""By name, the latency classes of the ISA table."""

SCALAR, SMUL, SDIV, LOAD, HBM_ISSUE = (CLASSES[_name].latency(Config()) for _name in ("SCALAR", "SMUL", "SDIV", "LOAD", "HBM_ISSUE"))
"""Latencies that are the same for every Config."""
DMA_QUEUE = 4
"""DMA transfers of one direction that may be unfinished at once."""
DMA_WORDS = 1 << 24
"""Words that a DMA transfer moves at most, so that every launch ends soon after its last group."""

REDUCTIONS = ("XRED", "XREDT", "XFRED", "XFREDT")
"""Latency classes of reductions."""
STEPS = ("MM", "MM16")
"""Latency classes of matrix steps."""
UNITS: dict[str, tuple[str, ...]] = {
  "vector_alu": ("ALU", "IMUL", "FLOAT"), "vector_divider": ("DIV",), "transcendental": ("TRANS",), "scalar_divider": ("SDIV",),
  "cross": ("XLU", "X2S"), "reduce": REDUCTIONS, "array": STEPS}
"""Units that may be busy for more than a cycle: the classes that wait for each other."""
PORTS: dict[str, tuple[str, ...]] = {
  "V": ("ALU", "IMUL", "FLOAT", "DIV", "TRANS"), "S": ("SMUL", "SDIV"), "X": ("XLU", "PPOP", *REDUCTIONS)}
"""Write ports on which different latencies meet, by slot: the classes that share one."""


def latency(config: Config, name: str) -> int:
  """Cycles from issue to a readable result of latency class `name`, without the n of LOAD and HBM_ISSUE."""
  return CLASSES[name].latency(config)


def interval(config: Config, name: str) -> int:
  """Cycles after which the unit of latency class `name` takes another operation; 1 if it is pipelined."""
  return CLASSES[name].interval(config)


def refill(config: Config) -> int:
  """Cycles that the front end waits for a block which is not in the instruction buffer."""
  return config.hbm_latency + config.ibuf_block_lines + 2
