"""Conversions between float32, integers and the 16-bit floats are IEEE 754's, for all words."""
from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from bitwuzla import Kind, RoundingMode, Term

from tinytpu.rtl.float_convert import ConvertOp, FConvert32, bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16

from ..circuit import Circuit
from ..floats import BF16, F16, F32, Format
from ..mutants import Mutant
from ..proof import Equation, Theorem, Truth


def _operands(c: Circuit, op: int) -> tuple[Term, Term]:
  """Operand and result of a conversion."""
  c.bind("op", 0, ConvertOp(op).value)
  return c.input("a", 0), c.output("o", FConvert32.CUTS)


def _to_float(op: int, kind: Kind) -> Truth:
  def claim(c: Circuit) -> Term:
    a, o = _operands(c, op)
    return F32.word_is(c.terms, o, F32.round(c.terms, kind, a))
  return claim


def _to_integer(op: int, kind: Kind, low: int, high: int) -> Truth:
  """Toward zero; NaN to 0, and beyond the limits `low` and `high` the limit. Only between them does SMT-LIB say what the result is."""
  def claim(c: Circuit) -> Term:
    t = c.terms
    a, o = _operands(c, op)
    x, whole = F32.of(t, a), F32.round(t, Kind.FP_RTI, F32.of(t, a), to=RoundingMode.RTZ)
    lowest, beyond = (F32.of(t, t.const(word, 32)) for word in (low, high))
    plain = t.manager.mk_term(kind, [t.manager.mk_rm_value(RoundingMode.RTZ), x], [32])
    least, most = (0x80000000, 0x7FFFFFFF) if kind is Kind.FP_TO_SBV else (0, 0xFFFFFFFF)
    return t.if_(t(Kind.FP_IS_NAN, x), t.eq(o, 0), t.if_(t(Kind.FP_LEQ, whole, lowest), t.eq(o, least), t.if_(
      t(Kind.FP_GEQ, whole, beyond), t.eq(o, most), t.eq(o, plain))))
  return claim


def _truncated(c: Circuit) -> Term:
  a, o = _operands(c, ConvertOp.TRUNC)
  return F32.word_is(c.terms, o, F32.round(c.terms, Kind.FP_RTI, F32.of(c.terms, a), to=RoundingMode.RTZ))


class Halves(wiring.Component):
  """The conversions of 16-bit floats, which are functions in the RTL, side by side."""

  def __init__(self) -> None:
    super().__init__({"word": In(32), "half": In(16), "to_f16": Out(16), "to_bf16": Out(16), "from_f16": Out(32), "from_bf16": Out(32)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    m.d.comb += [self.to_f16.eq(f32_to_f16(m, self.word)), self.to_bf16.eq(f32_to_bf16(m, self.word)),
                 self.from_f16.eq(f16_to_f32(m, self.half)), self.from_bf16.eq(bf16_to_f32(m, self.half))]
    return m


def _from_to(source: Format, target: Format, operand: str, result: str) -> Truth:
  def claim(c: Circuit) -> Term:
    number = target.round(c.terms, Kind.FP_TO_FP_FROM_FP, source.of(c.terms, c.input(operand, 0)))
    return target.word_is(c.terms, c.output(result, 0), number)
  return claim


def _is(form: Format, kind: Kind, name: str, t: int = 0) -> Truth:
  def cover(c: Circuit) -> Term:
    return form.has(c.terms, kind, c.output(name, t) if name in c.netlist.top.ports_o else c.input(name, t))
  return cover


def _word(word: int) -> Truth:
  return lambda c: c.terms.eq(c.output("o", FConvert32.CUTS), word)


THEOREMS = [
  Theorem("float_convert.i2f", "int32 to float32, to nearest, ties to even.", "IEEE 754-2019, 5.4.1",
          Equation(FConvert32, _to_float(ConvertOp.I2F, Kind.FP_TO_FP_FROM_SBV), {"rounded to 2^24 + 2": _word(0x4B800001),
                                                                                "the least integer": _word(0xCF000000)}),
          (Mutant("float_convert", "shifted[7] & ((shifted[:7] != 0) | shifted[8])", "shifted[7] & (shifted[:7] != 0)"),), quick=True),
  Theorem("float_convert.u2f", "uint32 to float32, to nearest, ties to even.", "IEEE 754-2019, 5.4.1",
          Equation(FConvert32, _to_float(ConvertOp.U2F, Kind.FP_TO_FP_FROM_UBV), {"2^32": _word(0x4F800000)}),
          (Mutant("float_convert", "a[31] & (self.op != ConvertOp.U2F)", "a[31]"),)),
  Theorem("float_convert.f2i", "float32 to int32, toward zero, limited to what int32 holds; NaN to 0.",
          "IEEE 754-2019, 5.8; limits: isa.md, vf2i",
          Equation(FConvert32, _to_integer(ConvertOp.F2I, Kind.FP_TO_SBV, 0xCF000000, 0x4F000000),
                   {"the limit": _word(0x7FFFFFFF), "a negative one": _word(0xFFFFFFFF)}),
          (Mutant("float_convert", "Mux(huge2 | shifted[31], limit,", "Mux(huge2, limit,"),), quick=True),
  Theorem("float_convert.f2u", "float32 to uint32, toward zero, limited to what uint32 holds; NaN to 0.",
          "IEEE 754-2019, 5.8; limits: isa.md, vf2u",
          Equation(FConvert32, _to_integer(ConvertOp.F2U, Kind.FP_TO_UBV, 0, 0x4F800000),
                   {"the limit": _word(0xFFFFFFFF), "one with 32 bits": _word(0x80000100)}),
          (Mutant("float_convert", "Mux(nan2 | sign2, 0,", "Mux(nan2, 0,"),)),
  Theorem("float_convert.trunc", "The integral float32 next to it toward zero, with its sign.",
          "IEEE 754-2019, 5.9, roundToIntegralTowardZero",
          Equation(FConvert32, _truncated, {"-0": _word(0x80000000), "-3": _word(0xC0400000)}),
          (Mutant("float_convert", "Mux(trunc, 149, 158)", "Mux(trunc, 148, 158)"),), quick=True),
  Theorem("float_convert.f2h", "float32 to float16, to nearest even: subnormals exact, overflow to infinity, NaN to 0x7E00.",
          "IEEE 754-2019, 5.4.2",
          Equation(Halves, _from_to(F32, F16, "word", "to_f16"), {"a subnormal": _is(F16, Kind.FP_IS_SUBNORMAL, "to_f16")}),
          (Mutant("float_convert", "Mux(exponent < 98, 15, below[:4])", "Mux(exponent < 103, 15, below[:4])"),), quick=True),
  Theorem("float_convert.f2b", "float32 to bfloat16, to nearest even: overflow to infinity, NaN to 0x7FC0.", "IEEE 754-2019, 5.4.2",
          Equation(Halves, _from_to(F32, BF16, "word", "to_bf16"), {"infinity": _is(BF16, Kind.FP_IS_INF, "to_bf16")}),
          (Mutant("float_convert", "word[15] & ((word[:15] != 0) | word[16])", "word[15] & (word[:15] != 0)"),), quick=True),
  Theorem("float_convert.h2f", "float16 to float32, exactly; NaN to 0x7FC00000.", "IEEE 754-2019, 5.4.2",
          Equation(Halves, _from_to(F16, F32, "half", "from_f16"), {"a subnormal": _is(F16, Kind.FP_IS_SUBNORMAL, "half")}),
          (Mutant("float_convert", "Mux(exponent == 0, 113 - left, exponent + 112)", "Mux(exponent == 0, 112 - left, exponent + 112)"),),
          quick=True),
  Theorem("float_convert.b2f", "bfloat16 to float32, exactly; NaN to 0x7FC00000.", "IEEE 754-2019, 5.4.2",
          Equation(Halves, _from_to(BF16, F32, "half", "from_bf16"), {"a NaN": _is(BF16, Kind.FP_IS_NAN, "half")}),
          (Mutant("float_convert", "half[:15] > 0x7F80", "half[:15] > 0x7F81"),), quick=True),
]
