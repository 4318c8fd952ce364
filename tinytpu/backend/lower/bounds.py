"""What values an index can take, given the gate of its load: whether it stays within the buffer.

An axis that is padded makes indices that pass a buffer's end. The load that needs them is gated, but a load that only serves another's
address may not be: tinygrad drops conditions that hold wherever the outer load is made. So each load must be shown to stay inside, or is
masked.
"""
from __future__ import annotations

import numpy as np
from tinygrad.uop.ops import Ops, UOp

from ..intervals import INTEGERS, Interval, Intervals, both, whole
from ..uops import integer
from .uniformity import Lanes


def conditions(gate: UOp | None) -> list[UOp]:
  """The conditions that all hold where a gate does."""
  if gate is None:
    return []
  return [c for s in gate.src for c in conditions(s)] if gate.op is Ops.AND else [gate]


def within(lanes: Lanes, index: UOp, gate: UOp | None, elements: int) -> bool:
  """Whether 0 <= index < elements in every lane and pass in which the gate holds. Errs towards no."""
  open_lanes = np.ones(lanes.ids.shape, bool)
  limits: dict[UOp, Interval] = {}
  for c in conditions(gate):
    if (held := lanes.fixed(c)) is not None:
      open_lanes &= held != 0
    elif c.op is Ops.CMPLT and all(s.dtype in INTEGERS for s in c.src):
      small, large = c.src
      if (n := integer(large)) is not None:
        limits[small] = both(limits.get(small), (whole(small.dtype)[0], n - 1))
      if (n := integer(small)) is not None:
        limits[large] = both(limits.get(large), (n + 1, whole(large.dtype)[1]))
  if not open_lanes.any():
    return True

  def fixed(u: UOp) -> Interval | None:
    return None if (values := lanes.fixed(u)) is None else _ends(values[open_lanes])
  low, high = Intervals(fixed, limits).of(index)
  return 0 <= low and high < elements


def _ends(values: np.ndarray) -> Interval:
  return int(values.min()), int(values.max())


def intervals(lanes: Lanes) -> Intervals:
  """Of any UOp of a kernel, over all lanes."""
  return Intervals(lambda u: None if (values := lanes.fixed(u)) is None else _ends(values))
