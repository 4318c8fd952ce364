"""Routing by shifts: a value moved to a field of a wider word, and the OR of many."""
from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Value

__all__ = ["any_of", "shifted"]


def shifted(value: Value, place: Value, field: int, width: int) -> Value:
  """`value` in field number `place` of a word of `width` bits whose fields have `field` bits each (a power of two)."""
  return (Cat(value, Const(0, width - len(value))) << Cat(Const(0, field.bit_length() - 1), place))[:width]


def any_of(values: Sequence[Value]) -> Value:
  """Bitwise OR of all `values` (at least one), as a balanced tree."""
  level = list(values)
  while len(level) > 1:
    level = [level[k] | level[k + 1] if k + 1 < len(level) else level[k] for k in range(0, len(level), 2)]
  return level[0]
