"""What values integer UOps can take, wrapping included: the bounds that divisions, addresses and masks may rely on."""
from __future__ import annotations

from collections.abc import Callable

from tinygrad.dtype import DType, dtypes
from tinygrad.uop.ops import Ops, UOp

from .uops import integer

Interval = tuple[int, int]
INTEGERS = (*dtypes.ints, dtypes.weakint, dtypes.bool)


def whole(dtype: DType) -> Interval:
  """All values of a dtype; indices without one are computed in 32 bits."""
  return (0, 1) if dtype == dtypes.bool else (-1 << 31, (1 << 31) - 1) if dtype == dtypes.weakint else (int(dtype.min), int(dtype.max))


def both(a: Interval | None, b: Interval) -> Interval:
  """What two bounds say together."""
  return b if a is None else (max(a[0], b[0]), min(a[1], b[1]))


class Intervals:
  """The smallest and largest value that integer UOps can have, wrapping included. (tinygrad's own bounds take it that nothing wraps.)

  Args: fixed: bounds of a UOp that depends on local ids alone; limits: what is known of some of them.
  """

  def __init__(self, fixed: Callable[[UOp], Interval | None] = lambda u: None, limits: dict[UOp, Interval] | None = None):
    self.fixed, self.limits = fixed, limits or {}
    self.known: dict[UOp, Interval] = {}

  def of(self, value: UOp) -> Interval:
    """Of a UOp. What is known already, and what nothing can be known of, is not gone through again."""
    for u in value.toposort(lambda u: u.op is not Ops.LOAD and u.dtype in INTEGERS and u not in self.known):
      self.known[u] = both(self.limits.get(u), self._value(u))
    return self._of(value)

  def _of(self, u: UOp) -> Interval:
    return self.known[u] if u in self.known else both(self.limits.get(u), whole(u.dtype))

  def _value(self, u: UOp) -> Interval:
    if (c := integer(u)) is not None:
      return c, c
    if (fixed := self.fixed(u)) is not None:
      return fixed
    if u.op is Ops.SPECIAL or u.op is Ops.PARAM:
      return int(u.vmin), int(u.vmax)
    found = self._computed(u) if all(s.dtype in INTEGERS for s in u.src) else None
    low, high = whole(u.dtype)
    return found if found is not None and low <= found[0] and found[1] <= high else (low, high)

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
      case Ops.BITCAST if u.src[0].dtype.itemsize == u.dtype.itemsize:
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
