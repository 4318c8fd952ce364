"""What values an index can take, given the gate of its load: whether it stays within the buffer.

An axis that is padded makes indices that pass a buffer's end. The load that needs them is gated, but a load that only serves another's
address may not be: tinygrad drops conditions that hold wherever the outer load is made. So each load must be shown to stay inside, or is
masked.
"""
from __future__ import annotations

import numpy as np
from tinygrad.dtype import DType, dtypes
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
  open_lanes = np.ones(lanes.ids.shape, bool)
  limits: dict[UOp, Interval] = {}
  for c in conditions(gate):
    if (fixed := lanes.fixed(c)) is not None:
      open_lanes &= fixed != 0
    elif c.op is Ops.CMPLT and all(s.dtype in _INTEGERS for s in c.src):
      small, large = c.src
      if (n := integer(large)) is not None:
        limits[small] = _both(limits.get(small), (_whole(small.dtype)[0], n - 1))
      if (n := integer(small)) is not None:
        limits[large] = _both(limits.get(large), (n + 1, _whole(large.dtype)[1]))
  if not open_lanes.any():
    return True
  low, high = Intervals(lanes, limits, open_lanes).of(index)
  return 0 <= low and high < elements


_INTEGERS = (*dtypes.ints, dtypes.weakint, dtypes.bool)


def _whole(dtype: DType) -> Interval:
  """All values of a dtype; indices without one are computed in 32 bits."""
  return (0, 1) if dtype == dtypes.bool else (-1 << 31, (1 << 31) - 1) if dtype == dtypes.weakint else (int(dtype.min), int(dtype.max))


def _both(a: Interval | None, b: Interval) -> Interval:
  return b if a is None else (max(a[0], b[0]), min(a[1], b[1]))


class Intervals:
  """The smallest and largest value that integer UOps can have, wrapping included. (tinygrad's own bounds take it that nothing wraps.)

  Args: limits: what is known of some of them; open_lanes: the lanes that count (default: all).
  """

  def __init__(self, lanes: Lanes, limits: dict[UOp, Interval] | None = None, open_lanes: np.ndarray | None = None):
    self.lanes, self.limits = lanes, limits or {}
    self.open_lanes = np.ones(lanes.ids.shape, bool) if open_lanes is None else open_lanes
    self.known: dict[UOp, Interval] = {}

  def of(self, index: UOp) -> Interval:
    """Of a UOp."""
    for u in index.toposort(lambda u: u.op is not Ops.LOAD):
      if u not in self.known and u.dtype in _INTEGERS:
        self.known[u] = _both(self.limits.get(u), self._value(u))
    return self._of(index)

  def _of(self, u: UOp) -> Interval:
    return self.known[u] if u in self.known else _both(self.limits.get(u), _whole(u.dtype))

  def _value(self, u: UOp) -> Interval:
    whole = _whole(u.dtype)
    if (c := integer(u)) is not None:
      return c, c
    if (fixed := self.lanes.fixed(u)) is not None:
      values = fixed[self.open_lanes]
      return int(values.min()), int(values.max())
    if u.op is Ops.SPECIAL or u.op is Ops.PARAM:
      return int(u.vmin), int(u.vmax)
    found = self._computed(u) if all(s.dtype in _INTEGERS for s in u.src) else None
    return found if found is not None and whole[0] <= found[0] and found[1] <= whole[1] else whole

  def _computed(self, u: UOp) -> Interval | None:
    """Before it wraps; None: nothing is known."""
    sources = [self._of(s) for s in u.src]
    (a, b), (c, d) = sources[0] if sources else (0, 0), sources[1] if len(sources) > 1 else (0, 0)
    n = integer(u.src[1]) if len(u.src) > 1 else None
    match u.op:
      case Ops.RANGE:
        return 0, max(0, b - 1)
      case Ops.ADD:
        return a + c, b + d
      case Ops.SUB:
        return a - d, b - c
      case Ops.NEG:
        return -b, -a
      case Ops.CAST:
        return a, b
      case Ops.MAX:
        return max(a, c), max(b, d)
      case Ops.WHERE:
        (e, f) = sources[2]
        return min(c, e), max(d, f)
      case Ops.MUL:
        ends = [x * y for x in (a, b) for y in (c, d)]
        return min(ends), max(ends)
      case Ops.SHL if n is not None and 0 <= n < 32:
        return a << n, b << n
      case Ops.SHR if n is not None and 0 <= n < 32:
        return a >> n, b >> n
      case Ops.CDIV if n is not None and n > 0:
        return -(-a // n) if a < 0 else a // n, -(-b // n) if b < 0 else b // n
      case Ops.CMOD if n is not None and n > 0:
        return (0, min(b, n - 1)) if a >= 0 else (1 - n, n - 1)
      case Ops.AND if a >= 0 or c >= 0:
        return 0, min(x for low, x in ((a, b), (c, d)) if low >= 0)
    return None
