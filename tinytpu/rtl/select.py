"""Binary trees of two-way selections: what wide data uses in place of `hdl.Array`, which simulates far slower."""
from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Mux, Value

__all__ = ["tree"]


def tree(values: Sequence[Value], index: Value) -> Value:
  """`values[index]`; as many values as `index` can count (a power of two).

  Raises:
    ValueError: another number of values.
  """
  if len(values) != 1 << len(index):
    raise ValueError(f"a selection by {len(index)} bits takes {1 << len(index)} values, not {len(values)}")
  if len(values) == 1:
    return values[0]
  half = len(values) // 2
  low, top = index[:-1], index[-1]
  return Mux(top, tree(values[half:], low), tree(values[:half], low))
