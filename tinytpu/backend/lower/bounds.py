"""What values an index can take, given the gate of its load: whether it stays within the buffer.

An axis that is padded makes indices that pass a buffer's end. The load that needs them is gated, but a load that only serves another's
address may not be: tinygrad drops conditions that hold wherever the outer load is made. So each load must be shown to stay inside, or is
masked.
"""
from __future__ import annotations

import numpy as np
from tinygrad.dtype import dtypes
from tinygrad.uop.ops import Ops, UOp

from ..uops import integer
from .uniformity import Lanes

Interval = tuple[int, int]


def conditions(gate: UOp | None) -> list[UOp]:
  """The conditions that all hold where a gate does."""
  if gate is None:
    return []
  return [c for s in gate.src for c in conditions(s)] if gate.op is Ops.AND else [gate]


def within(lanes: Lanes, index: UOp, gate: UOp | None, elements: int) -> bool:
  """Whether 0 <= index < elements in every lane and pass in which the gate holds. Errs towards no."""
  held = conditions(gate)
  open_lanes = np.ones(lanes.ids.shape, bool)
  limits: dict[UOp, Interval] = {}
  for c in held:
    if (fixed := lanes.fixed(c)) is not None:
      open_lanes &= fixed != 0
    elif c.op is Ops.CMPLT:
      small, large = c.src
      if (n := integer(large)) is not None:
        limits[small] = _both(limits.get(small), (-1 << 31, n - 1))
      if (n := integer(small)) is not None:
        limits[large] = _both(limits.get(large), (n + 1, 1 << 31))
  if not open_lanes.any():
    return True
  low, high = _Intervals(lanes, limits, open_lanes).of(index)
  return 0 <= low and high < elements


def _both(a: Interval | None, b: Interval) -> Interval:
  return b if a is None else (max(a[0], b[0]), min(a[1], b[1]))


class _Intervals:
  """Values of UOps. limits: what is known of some of them; open_lanes: the lanes that count."""

  def __init__(self, lanes: Lanes, limits: dict[UOp, Interval], open_lanes: np.ndarray):
    self.lanes, self.limits, self.open_lanes = lanes, limits, open_lanes
    self.known: dict[UOp, Interval] = {}

  def of(self, index: UOp) -> Interval:
    """The smallest and largest value that a UOp is known to have."""
    for u in index.toposort(lambda u: u.op is not Ops.LOAD):
      if u.dtype in (*dtypes.ints, dtypes.weakint):
        self.known[u] = _both(self.limits.get(u), self._value(u))
    return self._of(index)

  def _of(self, u: UOp) -> Interval:
    return self.known[u] if u in self.known else _both(self.limits.get(u), (int(u.vmin), int(u.vmax)))

  def _value(self, u: UOp) -> Interval:
    if (c := integer(u)) is not None:
      return c, c
    if (fixed := self.lanes.fixed(u)) is not None:
      values = fixed[self.open_lanes]
      return int(values.min()), int(values.max())
    bounds = int(u.vmin), int(u.vmax)
    if u.op in (Ops.ADD, Ops.SUB, Ops.MUL, Ops.SHL):
      (a, b), (c, d) = (self._of(s) for s in u.src)
      if u.op is Ops.ADD:
        return _both(bounds, (a + c, b + d)) if _fits(a + c, b + d) else bounds
      if u.op is Ops.SUB:
        return _both(bounds, (a - d, b - c)) if _fits(a - d, b - c) else bounds
      if u.op is Ops.SHL:
        if c != d or not 0 <= c < 32:
          return bounds
        c = d = 1 << c
      ends = [x * y for x in (a, b) for y in (c, d)]
      return _both(bounds, (min(ends), max(ends))) if _fits(min(ends), max(ends)) else bounds
    if u.op is Ops.CAST and u.src[0].dtype in (*dtypes.ints, dtypes.weakint) and bounds[0] <= (inner := self._of(u.src[0]))[0]:
      return inner if inner[1] <= bounds[1] else bounds
    if u.op in (Ops.CDIV, Ops.SHR) and (n := integer(u.src[1])) is not None and n >= (u.op is Ops.CDIV):
      (a, b), by = self._of(u.src[0]), n if u.op is Ops.CDIV else 1 << n
      return _both(bounds, (a // by, b // by)) if a >= 0 else bounds
    return bounds


def _fits(low: int, high: int) -> bool:
  return low >= -1 << 31 and high < 1 << 31
