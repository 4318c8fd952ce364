"""Conversions between binary32 and integers (pipelined), and between binary32 and the 16-bit floats (combinational)."""

from typing import ClassVar

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from tinytpu.rtl.float_common import INF32, NAN32, is_nan, leading_zeros, name, register

__all__ = ["ConvertOp", "FConvert32", "bf16_to_f32", "f16_to_f32", "f32_to_bf16", "f32_to_f16"]

NAN16, INF16, NAN_BF16 = 0x7E00, 0x7C00, 0x7FC0


class ConvertOp(enum.Enum, shape=3):
  """What `FConvert32` does with its operand."""

  I2F = 0  # int32 to float, to nearest even
  U2F = 1  # uint32 to float, to nearest even
  F2I = 2  # float to int32, toward zero, saturating; NaN to 0
  F2U = 3  # float to uint32, likewise
  TRUNC = 4  # float to the integral float next to it toward zero, keeping the sign of zero


class FConvert32(wiring.Component):
  """o = a converted as `op` says, bit for bit as IEEE 754 has it; NaN results are canonical.

  Three combinational sections with `CUTS` = 2 registers between them: `o` in cycle n + 2 belongs to the inputs of
  cycle n. One operation per cycle, no stall, no enable, no reset. The user registers the inputs and the result.

  1. bring the operand into one 32-bit `value`: magnitude of an integer, significand of a float (its leading one at
     bit 31), or for TRUNC a mask of fraction bits;
  2. shift it: left to normalise an integer, right by the exponent otherwise;
  3. round and pack, or saturate and give the sign, or clear the masked bits.

  Members:
      op: In(ConvertOp); a: In(32).
      o: Out(32), the result of two cycles ago.
  """

  op: In(ConvertOp)
  a: In(32)
  o: Out(32)

  CUTS: ClassVar[int] = 2

  def elaborate(self, platform) -> Module:
    m = Module()
    a = self.a

    # 1. One value to shift.
    from_int = name(m, (self.op == ConvertOp.I2F) | (self.op == ConvertOp.U2F), "from_int")
    negative = name(m, a[31] & (self.op != ConvertOp.U2F), "negative")
    exponent = a[23:31]
    small = name(m, exponent < 127, "small")  # below 1 in magnitude
    magnitude = Mux(negative, -a, a)[:32]
    significand = Mux(small, 0, Cat(Const(0, 8), a[:23], Const(1, 1)))
    mask = Mux(small, Const(0x7FFFFFFF), Const(0x007FFFFF))  # of the bits that TRUNC clears; small: all

    trunc = self.op == ConvertOp.TRUNC
    value = register(m, Mux(from_int, magnitude, Mux(trunc, mask, significand))[:32], "value")
    shift = Mux(trunc, exponent - 127, 158 - exponent)[:5]
    right = register(m, Mux(small, 0, shift), "right")
    huge1 = register(m, exponent > Mux(trunc, 149, 158), "huge1")  # integral already, or too big for any integer
    nan1 = register(m, is_nan(a), "nan1")
    sign1 = register(m, negative, "sign1")
    op1 = register(m, self.op.as_value(), "op1")
    a1 = register(m, a, "a1")

    # 2. Shift.
    zeros = leading_zeros(m, value, "zeros")
    left = (op1 == ConvertOp.I2F.value) | (op1 == ConvertOp.U2F.value)
    shifted = register(m, Mux(left, (value << zeros)[:32], value >> right), "shifted")
    exponent2 = register(m, (157 - zeros)[:8], "exponent2")
    huge2 = register(m, huge1, "huge2")
    nan2 = register(m, nan1, "nan2")
    sign2 = register(m, sign1, "sign2")
    op2 = register(m, op1, "op2")
    a2 = register(m, a1, "a2")

    # 3. Finish.
    up = name(m, shifted[7] & ((shifted[:7] != 0) | shifted[8]), "up")
    packed = (Cat(Const(0, 23), exponent2) + shifted[8:] + up)[:31]
    as_float = Mux(shifted[31], Cat(packed, sign2), 0)
    limit = Mux(sign2, Const(0x80000000), Const(0x7FFFFFFF))
    as_int = Mux(nan2, 0, Mux(huge2 | shifted[31], limit, Mux(sign2, -shifted, shifted)[:32]))
    as_uint = Mux(nan2 | sign2, 0, Mux(huge2, 0xFFFFFFFF, shifted))
    integral = Mux(nan2, NAN32, Mux(huge2, a2, a2 & ~Cat(shifted[:31], Const(0, 1))))
    to_int = Mux(op2[0], as_uint, as_int)
    m.d.comb += self.o.eq(Mux(op2[2], integral, Mux(op2[1], to_int, as_float)))
    return m


def f32_to_f16(m: Module, word: Value, label: str = "f16") -> Value:
  """Binary32 word to binary16, to nearest even: subnormals exact, overflow to infinity, NaN to 0x7E00."""
  exponent = word[23:31]
  normal = name(m, exponent > 112, f"{label}_normal")
  below = 113 - exponent  # how far a subnormal result is shifted right; from 12 on nothing but stickiness is left
  right = name(m, Mux(normal, 0, Mux(exponent < 98, 15, below[:4])), f"{label}_right")
  fine = name(m, Cat(Const(0, 15), word[:23], exponent != 0) >> right, f"{label}_fine")
  up = name(m, fine[27] & ((fine[:27] != 0) | fine[28]), f"{label}_up")
  base = Mux(normal, (exponent - 113)[:5], 0)
  packed = (Cat(Const(0, 10), base) + fine[28:39] + up)[:15]
  finite = Mux(exponent > 142, INF16, packed)
  return Mux(is_nan(word), NAN16, Cat(finite[:15], word[31]))[:16]


def f32_to_bf16(m: Module, word: Value, label: str = "bf16") -> Value:
  """Binary32 word to bfloat16, to nearest even: subnormals kept, overflow to infinity, NaN to 0x7FC0."""
  up = name(m, word[15] & ((word[:15] != 0) | word[16]), f"{label}_up")
  return Mux(is_nan(word), NAN_BF16, (word[16:] + up)[:16])[:16]


def f16_to_f32(m: Module, half: Value, label: str = "h") -> Value:
  """Binary16 word (16 bits) to binary32, exactly; NaN to 0x7FC00000."""
  exponent, fraction = half[10:15], half[:10]
  zeros = leading_zeros(m, fraction, f"{label}_zeros")
  left = Mux(exponent == 0, zeros + 1, 0)[:4]
  shifted = name(m, (fraction << left)[:10], f"{label}_shifted")
  # A subnormal is 1.shifted * 2^(-15 - zeros); 113 - left is its biased exponent.
  biased = name(m, Mux(exponent == 0, 113 - left, exponent + 112)[:8], f"{label}_biased")
  finite = Mux(half[:15] == 0, 0, Cat(Const(0, 13), shifted, biased))
  special = Mux(fraction != 0, NAN32, Cat(Const(INF32, 31), half[15]))
  return Mux(exponent == 31, special, Cat(finite[:31], half[15]))[:32]


def bf16_to_f32(m: Module, half: Value, label: str = "b") -> Value:
  """Bfloat16 word (16 bits) to binary32, exactly; NaN to 0x7FC00000."""
  nan = name(m, half[:15] > 0x7F80, f"{label}_nan")
  return Mux(nan, NAN32, Cat(Const(0, 16), half))[:32]
