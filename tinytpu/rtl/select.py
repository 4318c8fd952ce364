"""Selections of a word by its number: what wide data uses in place of `hdl.Array`, which simulates far slower."""
from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Mux, Value

__all__ = ["part", "tree"]


def tree(values: Sequence[Value], index: Value) -> Value:
  """`values[index]` as a binary tree of two-way selections; as many values as `index` can count (a power of two).

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


def part(value: Value, index: Value, width: int) -> Value:
  """Part number `index` of `value`, whose parts have `width` bits each (a power of two) and are as many as `index` can count.

  Of a wide `value` this is one access to memory in simulation, since `verilate` makes an indexed part-select of it; it should
  be a `Signal`, so that there is something to index.

  Raises:
    ValueError: `value` has another width.
  """
  if len(value) != width << len(index):
    raise ValueError(f"a selection of {width} bits by {len(index)} bits takes a value of {width << len(index)} bits, not {len(value)}")
  return value.bit_select(Cat(Const(0, width.bit_length() - 1), index), width)
