"""IEEE 754 binary32 comparisons, maximum and minimum, combinational."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Mux, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tinytpu.rtl.float_common import NAN32, is_nan, name

__all__ = ["FCmp32", "FloatOrder", "compare"]


@dataclass(frozen=True)
class FloatOrder:
  """Every way to compare two floats, sharing one magnitude comparison.

  `lt`, `le`, `eq` are false and `ne` is true if either operand is NaN; -0 equals +0. `max` and `min` are IEEE
  754-2019 maximum and minimum: the canonical NaN if either operand is NaN, and -0 below +0. `smax` and `smin` choose by
  comparison alone: a if it is the larger (the smaller), else b.
  """

  lt: Value
  le: Value
  eq: Value
  ne: Value
  max: Value
  min: Value
  smax: Value
  smin: Value


def compare(m: Module, a: Value, b: Value, label: str = "cmp") -> FloatOrder:
  """Compare two 32-bit words as floats; what is not used costs nothing. `label` prefixes the signals' names."""
  unordered = name(m, is_nan(a) | is_nan(b), f"{label}_unordered")
  both_zero = name(m, (a[:31] | b[:31]) == 0, f"{label}_both_zero")
  same = name(m, a == b, f"{label}_same")
  # Words as sign and magnitude: flipping the magnitude of negatives makes them two's complement.
  key_a = Cat(a[:31] ^ a[31].replicate(31), a[31]).as_signed()
  key_b = Cat(b[:31] ^ b[31].replicate(31), b[31]).as_signed()
  below = name(m, key_a < key_b, f"{label}_below")
  lt = name(m, below & ~unordered & ~both_zero, f"{label}_lt")
  eq = name(m, (same | both_zero) & ~unordered, f"{label}_eq")
  return FloatOrder(
    lt=lt,
    le=lt | eq,
    eq=eq,
    ne=~eq,
    max=Mux(unordered, NAN32, Mux(below, b, a)),
    min=Mux(unordered, NAN32, Mux(below, a, b)),
    smax=Mux(lt | eq | unordered, b, a),
    smin=Mux(lt, a, b),
  )


class FCmp32(wiring.Component):
  """`compare` as a component: no registers, results in the same cycle.

  Members:
      a, b: In(32), the operands.
      lt, le, eq, ne: Out(1); max, min, smax, smin: Out(32), as in `FloatOrder`.
  """

  a: In(32)
  b: In(32)
  lt: Out(1)
  le: Out(1)
  eq: Out(1)
  ne: Out(1)
  max: Out(32)
  min: Out(32)
  smax: Out(32)
  smin: Out(32)

  def elaborate(self, platform) -> Module:
    m = Module()
    order = compare(m, self.a, self.b)
    for field in ("lt", "le", "eq", "ne", "max", "min", "smax", "smin"):
      m.d.comb += getattr(self, field).eq(getattr(order, field))
    return m
