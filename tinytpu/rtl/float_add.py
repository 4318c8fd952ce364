"""Pipelined IEEE 754 binary32 addition."""

from typing import ClassVar

from amaranth.hdl import Cat, Const, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tinytpu.rtl.float_common import INF32, NAN32, leading_zeros, name, register, swap_if

__all__ = ["FAdd32"]


class FAdd32(wiring.Component):
  """o = a + b, rounded to nearest even, with subnormals, infinities and the canonical NaN.

  Three combinational sections with `CUTS` = 2 registers between them: `o` in cycle n + 2 belongs to the operands of
  cycle n. One operation per cycle, no stall, no enable, no reset: whatever enters leaves two cycles later. The user
  registers the operands and the result. Subtraction is addition with bit 31 of `b` inverted.

  1. order by magnitude, align the smaller operand (26 bits and a sticky bit are exact for rounding);
  2. add or subtract, count leading zeros, limit the shift to the exponent (subnormal results);
  3. normalise, round by adding into the packed word (the carry runs on into the exponent), handle specials.

  Members:
      a, b: In(32), the operands.
      o: Out(32), the sum of two cycles ago.
  """

  a: In(32)
  b: In(32)
  o: Out(32)

  CUTS: ClassVar[int] = 2

  def elaborate(self, platform) -> Module:
    m = Module()
    a, b = self.a, self.b

    # 1. Order and align.
    swap = name(m, b[:31] > a[:31], "swap")
    big, small = (name(m, word, label) for word, label in zip(swap_if(swap, a, b), ("big", "small"), strict=True))
    subtract = name(m, a[31] ^ b[31], "subtract")
    big_normal = name(m, big[23:31] != 0, "big_normal")
    small_normal = name(m, small[23:31] != 0, "small_normal")
    distance = name(m, (big[23:31] - small[23:31] - (big_normal & ~small_normal))[:8], "distance")
    shift = name(m, Mux(distance[5:] != 0, 31, distance[:5]), "shift")
    aligned = name(m, Cat(Const(0, 31), small[:23], small_normal) >> shift, "aligned")
    cancel = name(m, subtract & (a[:31] == b[:31]), "cancel")  # exactly zero, and positive
    big_infinite = name(m, big[23:31] == 0xFF, "big_infinite")
    invalid = name(m, big_infinite & ((big[:23] != 0) | (subtract & (small[23:31] == 0xFF))), "invalid")

    x = register(m, Cat(big[:23], big_normal), "x")
    y = register(m, Cat(aligned[:29] != 0, aligned[29:]), "y")
    exponent1 = register(m, Mux(cancel, 0, big[23:31] | ~big_normal), "exponent1")
    negate = register(m, subtract, "negate")
    sign1 = register(m, big[31] & ~cancel, "sign1")
    infinite1 = register(m, big_infinite, "infinite1")
    nan1 = register(m, invalid, "nan1")

    # 2. Add; how far to shift left.
    total = name(m, (Cat(Const(0, 3), x) + (Cat(y, Const(0, 1)) ^ negate.replicate(28)) + negate)[:28], "total")
    zeros = leading_zeros(m, total, "zeros")
    left = name(m, Mux(zeros > exponent1, exponent1[:5], zeros), "left")

    total2 = register(m, total, "total2")
    left2 = register(m, left, "left2")
    exponent2 = register(m, (exponent1 - left)[:8], "exponent2")
    sign2 = register(m, sign1, "sign2")
    infinite2 = register(m, infinite1, "infinite2")
    nan2 = register(m, nan1, "nan2")

    # 3. Normalise, round, pack.
    normal = name(m, (total2 << left2)[:28], "normal")
    up = name(m, normal[3] & ((normal[:3] != 0) | normal[4]), "up")
    packed = name(m, (Cat(Const(0, 23), exponent2) + normal[4:] + up)[:31], "packed")
    finite = Mux(infinite2 | (packed[23:] == 0xFF), INF32, packed)
    m.d.comb += self.o.eq(Mux(nan2, NAN32, Cat(finite[:31], sign2)))
    return m
