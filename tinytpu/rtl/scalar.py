"""The scalar unit: one-cycle ALU, pipelined multiplier, iterative divider."""
from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa.table import OPS
from ..isa.timing import SDIV, SMUL
from .div import DivOp, DivSqrt
from .interfaces import scalar_issue, scalar_result
from .opcodes import is_op, timed

__all__ = ["ScalarUnit"]

_SLOW_MUL = timed("S", ["SMUL"])
_SLOW_DIV = timed("S", ["SDIV"])


class ScalarUnit(wiring.Component):
  """Scalar ALU operations.

  Results of latency SCALAR leave on `fast` in the cycle of issue, those of SMUL and SDIV on `slow`, SMUL - 1 and
  SDIV - 1 cycles later; the issue stage keeps two of them from falling due together, and divisions apart.

  Members:
    issue: In(scalar_issue). cycle: In(32), cycles since launch, for scyc.
    loop_index: In(32), loop_depth: In(4), for sldx and sldep, from `control`.
    fast, slow: Out(scalar_result).
  """

  def __init__(self) -> None:
    super().__init__({"issue": In(scalar_issue()), "cycle": In(32), "loop_index": In(32), "loop_depth": In(Config.LOOP_DEPTH.bit_length()),
                      "fast": Out(scalar_result()), "slow": Out(scalar_result())})

  def elaborate(self, platform) -> Module:
    m = Module()
    i = self.issue
    is_mul, is_div = Signal(), Signal()
    m.d.comb += [is_mul.eq(is_op(i.code, *_SLOW_MUL)), is_div.eq(is_op(i.code, *_SLOW_DIV))]

    a, b, shift = i.a, i.b, i.b[:5]
    less = Signal()
    less_unsigned = Signal()
    m.d.comb += [less.eq(a.as_signed() < b.as_signed()), less_unsigned.eq(a < b)]
    results: dict[str, Value] = {
      "sadd": a + b, "ssub": a - b, "sand": a & b, "sor": a | b, "sxor": a ^ b,
      "sshl": (a << shift)[:32], "sshr": a >> shift, "ssar": a.as_signed() >> shift,
      "smin": Mux(less, a, b), "smax": Mux(less, b, a), "sminu": Mux(less_unsigned, a, b), "smaxu": Mux(less_unsigned, b, a),
      "slt": less, "sltu": less_unsigned, "seq": a == b, "sne": a != b, "ssel": Mux(a != 0, b, i.c), "scyc": self.cycle,
      "sldx": self.loop_index, "sldep": self.loop_depth}
    with m.Switch(i.code):
      for name in timed("S", ["SCALAR"]):
        with m.Case(OPS[name].code):
          m.d.comb += self.fast.data.eq(results[name])
      with m.Default():
        m.d.comb += self.fast.data.eq(0)
    m.d.comb += [self.fast.valid.eq(i.start & ~is_mul & ~is_div), self.fast.reg.eq(i.d)]

    # Multiplier: operands at the end of t, product SMUL - 2 registers later.
    product = Signal(32)
    stages: list[tuple[Value, Value, Value]] = []
    mul_a, mul_b = Signal(32), Signal(32)
    with m.If(i.start):
      m.d.sync += [mul_a.eq(a), mul_b.eq(b)]
    m.d.comb += product.eq(mul_a * mul_b)
    valid, reg, data = i.start & is_mul, i.d, product
    for stage in range(SMUL - 1):
      next_valid, next_reg = Signal(name=f"mul_valid{stage}"), Signal(6, name=f"mul_reg{stage}")
      m.d.sync += [next_valid.eq(valid), next_reg.eq(reg)]
      valid, reg = next_valid, next_reg
      if stage:
        next_data = Signal(32, name=f"mul_data{stage}")
        m.d.sync += next_data.eq(data)
        data = next_data
      stages.append((valid, reg, data))

    m.submodules.divider = divider = DivSqrt()
    start, div_op, div_reg = Signal(), Signal(3), Signal(6)
    div_a, div_b = Signal(32), Signal(32)
    m.d.sync += start.eq(i.start & is_div)
    with m.If(i.start & is_div):
      m.d.sync += [div_a.eq(a), div_b.eq(b), div_reg.eq(i.d)]
      with m.Switch(i.code):
        for name in _SLOW_DIV:
          with m.Case(OPS[name].code):
            m.d.sync += div_op.eq(DivOp[name[1:].upper()].value)
        with m.Default():
          m.d.sync += div_op.eq(0)
    # The divider's result stands in cycle t + 1 + CYCLES; wait for t + SDIV - 1.
    wait = SDIV - 2 - DivSqrt.CYCLES
    if wait < 0:
      raise ValueError(f"the latency SDIV ({SDIV}) leaves the divider less than the {DivSqrt.CYCLES + 2} cycles that it takes")
    due = Signal(SDIV - 1)
    m.d.sync += due.eq(Cat(i.start & is_div, due))
    m.d.comb += [divider.start.eq(start), divider.op.eq(Cat(div_op, 0)), divider.a.eq(div_a), divider.b.eq(div_b)]
    m.d.comb += [
      self.slow.valid.eq(due[-1] | valid), self.slow.reg.eq(Mux(due[-1], div_reg, reg)), self.slow.data.eq(Mux(due[-1], divider.o, data))]
    return m
