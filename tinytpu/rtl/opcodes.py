"""Decoding by name: conditions on an operation code, taken from the ISA table."""
from __future__ import annotations

from collections.abc import Iterable

from amaranth.hdl import Value

from ..isa.table import OPS


def is_op(code: Value, *names: str) -> Value:
  """1 bit: `code` (8 bits) is the code of one of the operations called `names`.

  Raises:
    KeyError: no such operation in the table.
  """
  return code.matches(*(OPS[name].code for name in names))


def timed(slot: str, timings: Iterable[str]) -> tuple[str, ...]:
  """Names of the operations of `slot` whose result latency is one of `timings` (names in isa.timing), in table order."""
  wanted = frozenset(timings)
  return tuple(op.name for op in OPS.values() if op.slot == slot and op.timing in wanted)
