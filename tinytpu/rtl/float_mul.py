"""Pipelined IEEE 754 binary32 multiplication."""

from typing import ClassVar

from amaranth.hdl import Cat, Const, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tinytpu.rtl.float_common import INF32, NAN32, is_nan, leading_zeros, name, register

__all__ = ["FMul32"]

BIAS = 31 + 127  # the exponent sums below are kept this much too large, so that they stay unsigned


class FMul32(wiring.Component):
  """o = a * b, rounded to nearest even, with subnormals, infinities and the canonical NaN.

  Three combinational sections with `CUTS` = 2 registers between them: `o` in cycle n + 2 belongs to the operands of
  cycle n. One operation per cycle, no stall, no enable, no reset. The user registers the operands and the result.

  1. normalise a subnormal operand (one suffices: the product of two is below every rounding boundary);
  2. 24 x 24 bit product, alone between two registers as DSP blocks like it; limits on the exponent;
  3. shift right (by one if the product is 2 or more, further if the result is subnormal), round by adding into the
     packed word, handle specials.

  Members:
      a, b: In(32), the operands.
      o: Out(32), the product of two cycles ago.
  """

  a: In(32)
  b: In(32)
  o: Out(32)

  CUTS: ClassVar[int] = 2

  def elaborate(self, platform) -> Module:
    m = Module()
    a, b = self.a, self.b

    # 1. Classify; normalise.
    a_normal = name(m, a[23:31] != 0, "a_normal")
    b_normal = name(m, b[23:31] != 0, "b_normal")
    maybe_subnormal = name(m, Mux(a_normal, Cat(b[:23], b_normal), a[:23]), "maybe_subnormal")
    zeros = leading_zeros(m, maybe_subnormal, "zeros")
    zero = name(m, (a[:31] == 0) | (b[:31] == 0), "zero")
    infinite = name(m, (a[23:31] == 0xFF) | (b[23:31] == 0xFF), "infinite")
    exponent = (a[23:31] | ~a_normal) + (b[23:31] | ~b_normal) + ~zeros[:5]

    x = register(m, (maybe_subnormal << zeros)[:24], "x")
    y = register(m, Mux(a_normal, Cat(a[:23], Const(1, 1)), Cat(b[:23], b_normal)), "y")
    exponent1 = register(m, Mux(zero, 0, exponent), "exponent1")
    sign1 = register(m, a[31] ^ b[31], "sign1")
    infinite1 = register(m, infinite, "infinite1")
    nan1 = register(m, is_nan(a) | is_nan(b) | (infinite & zero), "nan1")

    # 2. Multiply; exponent of the result less its hidden bit, or how far below the smallest normal it is.
    normal = name(m, exponent1 > BIAS, "normal")
    below = name(m, (BIAS + 1 - exponent1)[:10], "below")

    product = register(m, x * y, "product")
    exponent2 = register(m, Mux(normal, (exponent1 - (BIAS + 1))[:8], 0), "exponent2")
    right2 = register(m, Mux(normal, 0, Mux(below[5:] != 0, 31, below[:5])), "right2")
    sign2 = register(m, sign1, "sign2")
    infinite2 = register(m, infinite1 | (exponent1 >= BIAS + 255), "infinite2")
    nan2 = register(m, nan1, "nan2")

    # 3. Shift, round, pack. `fine` has the last bit of the result at 33, the first one to round off at 32.
    two = name(m, product[47] & (right2 == 0), "two")
    fine = name(m, Cat(Const(0, 31), product[:22] != 0, product[22:]) >> (right2 | two), "fine")
    up = name(m, fine[32] & ((fine[:32] != 0) | fine[33]), "up")
    packed = name(m, (Cat(Const(0, 23), exponent2) + fine[33:] + Cat(up, Const(0, 22), two))[:32], "packed")
    finite = Mux(infinite2 | (packed[23:] >= 0xFF), INF32, packed)
    m.d.comb += self.o.eq(Mux(nan2, NAN32, Cat(finite[:31], sign2)))
    return m
