"""One lane of the vector ALU: the datapath of one element."""
from __future__ import annotations

from amaranth.hdl import Cat, Const, DomainRenamer, Module, Mux, Signal, Value
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from ..isa.table import OPS
from .float_add import FAdd32
from .float_cmp import compare
from .float_common import NAN32, ONE32, is_nan
from .float_convert import ConvertOp, FConvert32, bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16
from .float_mul import FMul32
from .opcodes import timed
from .vpu_bits import bit_results


class LaneUnit(enum.Enum, shape=2):
  """Which of a lane's float units an operation is for."""
  ADD = 0
  MULTIPLY = 1
  CONVERT = 2


FLOAT_ALU = ("vflt", "vfle", "vfeq", "vfne", "vfmax", "vfmin", "vfsmax", "vfsmin", "vf2h", "vh2f", "vf2b", "vb2f", "vroundh", "vroundb",
             "vfabs", "vfneg", "vfsign")
"""Float operations with latency ALU. They have operand registers of their own, so that their logic is still in other cycles."""


class VectorLane(wiring.Component):
  """Operand registers, integer ALU and float units of one element; all control comes from `VectorUnit`.

  Operands are captured at the end of the cycle with `capture`, cycle t. In t + 1 the ALU's result is there, and the integer
  multiplier and the float units (clock domains float_add, float_mul, float_convert) take the operands.
  The float operations of the ALU and those of `vpu_bits` have operand registers of their own (domains float_alu and bit_alu),
  captured whenever that clock ticks.

  Members:
    capture: In(1); a, b, c: In(32), operands.
    code: In(8), of the captured operation. subtract: In(1), the float adder's b is negated. convert_op: In(ConvertOp), of the same.
    multiply: In(1), the captured operation is for the integer multiplier.
    signed_high: In(1), of a multiplication: the high half of the product is that of signed numbers.
    alu_due, product_due, float_due: In(1), this cycle has such a result. high: In(1), the high half of the product. unit: In(LaneUnit).
    alu_o, product_o, float_o: Out(32), the results, zero when not due.
  """
  def __init__(self) -> None:
    super().__init__({
      "capture": In(1), "a": In(32), "b": In(32), "c": In(32), "code": In(8), "subtract": In(1), "convert_op": In(ConvertOp),
      "multiply": In(1), "signed_high": In(1), "alu_due": In(1), "product_due": In(1), "high": In(1), "float_due": In(1),
      "unit": In(LaneUnit), "alu_o": Out(32), "product_o": Out(32), "float_o": Out(32)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    a, b, c = (Signal(32, name=f"operand_{n}", reset_less=True) for n in "abc")
    with m.If(self.capture):
      m.d.sync += [a.eq(self.a), b.eq(self.b), c.eq(self.c)]

    x, y = (Signal(32, name=f"float_operand_{n}", reset_less=True) for n in "ab")
    m.d.float_alu += [x.eq(self.a), y.eq(self.b)]

    p, q, r = (Signal(32, name=f"bit_operand_{n}", reset_less=True) for n in "abc")
    m.d.bit_alu += [p.eq(self.a), q.eq(self.b), r.eq(self.c)]

    # Signed, the high half is less by b for a negative a, and by a for a negative b.
    product, excess = Signal(64, reset_less=True), Signal(32, reset_less=True)
    with m.If(self.multiply):
      m.d.sync += [
        product.eq(a * b), excess.eq((a & (self.signed_high & b[31]).replicate(32)) + (b & (self.signed_high & a[31]).replicate(32)))]
    m.submodules.fadd = fadd = DomainRenamer("float_add")(FAdd32())
    m.submodules.fmul = fmul = DomainRenamer("float_mul")(FMul32())
    m.submodules.convert = convert = DomainRenamer("float_convert")(FConvert32())
    m.d.comb += [
      fadd.a.eq(a), fadd.b.eq(b ^ (self.subtract << 31)), fmul.a.eq(a), fmul.b.eq(b), convert.a.eq(a), convert.op.eq(self.convert_op)]

    results = integer_results(a, b, c) | float_results(m, x, y) | bit_results(m, p, q, r)
    if results.keys() != set(timed("V", ["ALU"])):
      raise ValueError(f"the lane computes {sorted(results)}, but the table lists {sorted(timed('V', ['ALU']))}")
    with m.If(self.alu_due):
      with m.Switch(self.code):
        for name, value in results.items():
          with m.Case(OPS[name].code):
            m.d.comb += self.alu_o.eq(value)
        with m.Default():
          m.d.comb += self.alu_o.eq(0)
    with m.If(self.product_due):
      m.d.comb += self.product_o.eq(Mux(self.high, (product[32:] - excess)[:32], product[:32]))
    with m.If(self.float_due):
      with m.Switch(self.unit):
        with m.Case(LaneUnit.ADD):
          m.d.comb += self.float_o.eq(fadd.o)
        with m.Case(LaneUnit.MULTIPLY):
          m.d.comb += self.float_o.eq(fmul.o)
        with m.Default():
          m.d.comb += self.float_o.eq(convert.o)
    return m


def integer_results(a: Value, b: Value, c: Value) -> dict[str, Value]:
  """Results of the integer operations with latency ALU, by name, from 32-bit operands; for vlid, b is the element's number."""
  x, y, shift = a.as_signed(), b.as_signed(), b[:5]
  return {
    "vadd": a + b, "vsub": a - b, "vand": a & b, "vor": a | b, "vxor": a ^ b,
    "vshl": (a << shift)[:32], "vshr": a >> shift, "vsar": x >> shift,
    "vmin": Mux(x < y, a, b), "vmax": Mux(x < y, b, a), "vminu": Mux(a < b, a, b), "vmaxu": Mux(a < b, b, a),
    "vlt": x < y, "vltu": a < b, "veq": a == b, "vne": a != b,
    "vsel": Mux(a != 0, b, c), "vmov": b, "vlid": b,
  }


def float_results(m: Module, a: Value, b: Value) -> dict[str, Value]:
  """Results of `FLOAT_ALU`, by name."""
  order = compare(m, a, b)
  half, brain = f32_to_f16(m, a), f32_to_bf16(m, a)
  nan = is_nan(a)
  return {
    "vflt": order.lt, "vfle": order.le, "vfeq": order.eq, "vfne": order.ne, "vfmax": order.max, "vfmin": order.min,
    "vfsmax": order.smax, "vfsmin": order.smin,
    "vf2h": half, "vh2f": f16_to_f32(m, a[:16]), "vroundh": f16_to_f32(m, half, "rounded_h"),
    "vfabs": Mux(nan, NAN32, a[:31]), "vfneg": Mux(nan, NAN32, Cat(a[:31], ~a[31])),
    "vfsign": Mux(nan, NAN32, Mux(a[:31] == 0, 0, Cat(Const(ONE32, 31), a[31]))),
    "vf2b": brain, "vb2f": bf16_to_f32(m, a[:16]), "vroundb": bf16_to_f32(m, brain, "rounded_b"),
  }
