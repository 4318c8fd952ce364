"""The vector ALU's less usual integer operations: bits, rotations, saturation, packed bytes; combinational."""
from __future__ import annotations

from collections.abc import Callable

from amaranth.hdl import Cat, Const, Module, Mux, Value

from ..isa.table import OPS
from .float_common import leading_zeros, name

__all__ = ["BIT_ALU", "bit_results"]

_WORDS = ("vaxr", "vrotl", "vrotr", "vabsd", "vabsdu", "vadds", "vsubs", "vaddsu", "vsubsu", "vclz", "vctz", "vpopc", "vbswap", "vabs",
          "vsign")
BIT_ALU = (*_WORDS, *(op for op in OPS if op.startswith("vb4")))
"""The operations. They have operand registers of their own, so that their logic is still in other cycles."""


def bit_results(m: Module, a: Value, b: Value, c: Value) -> dict[str, Value]:
  """Results of `BIT_ALU`, by name, from 32-bit operands."""
  x, y = a.as_signed(), b.as_signed()
  left = name(m, _rotated(a, (-b[:5])[:5]), "left")
  difference = name(m, x - y, "difference")
  lowest = name(m, (a & -a)[:32], "lowest")
  words = {
    "vaxr": left ^ (a + c)[:32], "vrotl": left, "vrotr": _rotated(a, b[:5]),
    "vabsd": _magnitude(difference, 32), "vabsdu": _magnitude(name(m, a - b, "difference_u"), 32),
    "vadds": _saturated(name(m, x + y, "sum"), 32), "vsubs": _saturated(difference, 32),
    "vaddsu": _up_to_ones(name(m, a + b, "sum_u")), "vsubsu": Mux(a < b, 0, a - b)[:32],
    "vclz": Mux(a == 0, 32, leading_zeros(m, a, "clz")), "vctz": Mux(a == 0, 32, ~leading_zeros(m, lowest, "ctz")),
    "vpopc": _ones(m, a), "vbswap": Cat(a[24:], a[16:24], a[8:16], a[:8]),
    "vabs": _magnitude(x, 32), "vsign": _sign(x, 32)}
  return words | _packed_results(m, a, b)


def _packed_results(m: Module, a: Value, b: Value) -> dict[str, Value]:
  pairs = [(name(m, a[k:k + 8].as_signed(), f"byte_a{k}"), name(m, b[k:k + 8].as_signed(), f"byte_b{k}")) for k in range(0, 32, 8)]
  products = [name(m, x * y, f"product{k}") for k, (x, y) in enumerate(pairs)]

  def each(f: Callable[[Value, Value], Value]) -> Value:
    return Cat(*(Cat(f(x, y), Const(0, 8))[:8] for x, y in pairs))
  return {
    "vb4adds": each(lambda x, y: _saturated(x + y, 8)), "vb4subs": each(lambda x, y: _saturated(x - y, 8)),
    "vb4min": each(lambda x, y: Mux(x < y, x, y)), "vb4max": each(lambda x, y: Mux(x < y, y, x)),
    "vb4eq": each(lambda x, y: x == y), "vb4lt": each(lambda x, y: x < y), "vb4absd": each(lambda x, y: _magnitude(x - y, 8)),
    "vb4mul": Cat(*(p[:8] for p in products)), "vb4mulh": Cat(*(p[8:16] for p in products)),
    "vb4neg": each(lambda x, y: _saturated(-x, 8)), "vb4abs": each(lambda x, y: _saturated(Mux(x < 0, -x, x), 8)),
    "vb4relu": each(lambda x, y: Mux(x < 0, 0, x)), "vb4sign": each(lambda x, y: _sign(x, 8))}


def _rotated(a: Value, right: Value) -> Value:
  """`a` rotated to the right; in 64 bits, which simulate as one machine operation."""
  return (Cat(a, a) >> right)[:32]


def _magnitude(x: Value, width: int) -> Value:
  """The low bits of |x|; x is signed."""
  return Mux(x.as_signed() < 0, -x, x)[:width]


def _sign(x: Value, width: int) -> Value:
  """-1, 0 or 1 by the sign of a signed value of `width` bits."""
  return Cat(x != 0, (x < 0).replicate(width - 1))


def _saturated(x: Value, width: int) -> Value:
  """A signed value of one bit more than `width`, at most what `width` bits hold."""
  negative = x[width]
  return Mux(negative != x[width - 1], Cat((~negative).replicate(width - 1), negative), x[:width])


def _up_to_ones(total: Value) -> Value:
  """An unsigned sum of 33 bits, at most 2^32 - 1."""
  return Mux(total[32], 0xFFFFFFFF, total[:32])


def _ones(m: Module, a: Value) -> Value:
  """Number of ones: sums of fields side by side, of two, four and eight bits."""
  pairs = name(m, (a - ((a >> 1) & 0x55555555))[:32], "pairs")
  fours = name(m, ((pairs & 0x33333333) + ((pairs >> 2) & 0x33333333))[:32], "fours")
  eights = name(m, ((fours + (fours >> 4)) & 0x0F0F0F0F)[:32], "eights")
  return (eights[:8] + eights[8:16] + eights[16:24] + eights[24:])[:6]
