"""What several passes ask of tinygrad's UOps, and the UOp of our own: a reduction across lanes.

`across(op, value, lane)` combines what the work items that differ in one local id alone hold, and gives the result to all of
them. The optimiser puts it into kernels (`opt/lane_reduction.py`), `lower/cross_lane.py` makes operations of it.
"""
from __future__ import annotations

from typing import NamedTuple

from tinygrad.dtype import DType, dtypes
from tinygrad.uop.ops import Ops, UOp

from .types import TYPES, rounding


def constant(u: UOp) -> int | float | None:
  """The number that a UOp stands for, if it is a constant, perhaps under a cast. tinygrad leaves integers as they were written, though
  they are beyond their dtype (-1 of a uint8): they stand for what they wrap to."""
  v = u.src[0] if u.op is Ops.CAST else u
  if v.op is not Ops.CONST or not isinstance(v.val, (int, float)):
    return None
  n = v.val
  for dtype in (v.dtype, u.dtype):
    if isinstance(n, int) and dtype in dtypes.ints:
      n = (n - dtype.min) % (1 << dtype.bitsize) + dtype.min
  return n


def integer(u: UOp) -> int | None:
  """The same of a whole number (bools are 0 and 1)."""
  return int(c) if isinstance(c := constant(u), int) else None


REDUCTION = "reduction"
"""Tag of a MAX of floats that is part of a step of a reduction, in which zeros may have any order. Rewrites may lose it: it decides which
operations are taken, not what is right."""


def keeps_nan(op: Ops, dtype: DType) -> bool:
  """Whether steps of a reduction are other operations than they would be elsewhere."""
  return op is Ops.MAX and dtype in dtypes.floats


def combine(op: Ops, a: UOp, b: UOp) -> UOp:
  """A step of a reduction. tinygrad's MAX is a < b ? b : a, which passes over a NaN in `b`; the largest of several is NaN if one is."""
  return is_nan(b).where(b, a.alu(op, b).rtag(REDUCTION)) if keeps_nan(op, a.dtype) else a.alu(op, b)


MAGNITUDE, INFINITY = 0x7FFFFFFF, 0x7F800000
"""Of a float32 as a word: the bits without the sign, and those of infinity."""


def is_nan(x: UOp) -> UOp:
  """Whether a float is NaN, by its bits: tinygrad would take x != x of a gated value apart."""
  bits = x.cast(dtypes.float32).bitcast(dtypes.uint32)
  return UOp.const(INFINITY, dtypes.uint32) < (bits & MAGNITUDE)


class Across(NamedTuple):
  """Argument of the CUSTOM UOp: `op` combines, ADD, MAX or MUL."""
  op: Ops


TREES: dict[tuple[Ops, str], str] = {
  (Ops.ADD, "f"): "xfsum", (Ops.MUL, "f"): "xfprod", (Ops.MAX, "f"): "xfmax", (Ops.MAX, "i"): "xmax", (Ops.MAX, "u"): "xmaxu",
  **{(Ops.ADD, k): "xsum" for k in "iu"}, **{(Ops.MUL, k): "xprod" for k in "iu"},
  (Ops.ADD, "b"): "xmax", (Ops.MAX, "b"): "xmax", (Ops.MUL, "b"): "xmin"}
"""Reductions of the cross-lane unit, without their last letter, by operation and kind of the operand."""


def reducible(op: Ops, dtype: DType) -> bool:
  """Whether a reduction may be spread over the lanes: sums and products of 16-bit floats round after every step, which the trees do not."""
  if rounding(dtype):
    return op is Ops.MAX
  return dtype in TYPES


def across(op: Ops, value: UOp, lane: UOp) -> UOp:
  """The reduction of `value` over the local range `lane`."""
  return UOp(Ops.CUSTOM, value.dtype, (value, lane), Across(op))
