"""Vector unit: slot V, one operation on a whole tile per cycle."""
from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import timing
from ..isa.table import OPS
from ..isa.transcendental import TransFn
from .div import DivOp, DivSqrt
from .float_add import FAdd32
from .float_convert import ConvertOp, FConvert32
from .float_mul import FMul32
from .interfaces import vector_issue, vector_result
from .once import place
from .opcodes import is_op, timed
from .transcendental_tile import TRANSCENDENTAL_CLOCKS, TranscendentalTile, latency
from .vpu_bits import BIT_ALU
from .vpu_lane import FLOAT_ALU, LaneResult, VectorLane

PRODUCTS = {"vmul": LaneResult.IMUL, "vmulh": LaneResult.IMULH, "vmulhu": LaneResult.IMULH}
ADDER_MULTIPLIER = {"vfadd": LaneResult.FADD, "vfsub": LaneResult.FADD, "vfmul": LaneResult.FMUL}
CONVERSIONS = {"vi2f": ConvertOp.I2F, "vu2f": ConvertOp.U2F, "vf2i": ConvertOp.F2I, "vf2u": ConvertOp.F2U, "vftrunc": ConvertOp.TRUNC}
DIVISIONS = {name: DivOp[name.removeprefix("v").upper()] for name in timed("V", ["DIV"])}
TRANSCENDENTALS = {name: TransFn[name.removeprefix("vf").upper()] for name in timed("V", ["TRANS"])}

FLOAT_PIPELINES = {"float_add": LaneResult.FADD, "float_mul": LaneResult.FMUL, "float_convert": LaneResult.CONVERT}
"""Clock domains of the pipelined float units."""
VECTOR_CLOCKS = (*FLOAT_PIPELINES, "float_alu", "bit_alu", "divide", *TRANSCENDENTAL_CLOCKS)
"""Clock domains of `VectorUnit` that may rest while its output `<domain>_enable` is low."""


def pipelines(config: Config) -> int:
  """Transcendental pipelines: as many as take a tile of `config` in the interval of TRANS."""
  return config.width // timing.interval(config, "TRANS")


def check_timing(config: Config) -> None:
  """Raises ValueError if isa.timing disagrees with what the datapath for tiles of `config` takes."""
  built = {"ALU": 2, "IMUL": 3, "FLOAT": FAdd32.CUTS + 2, "DIV": DivSqrt.CYCLES + 2,
           "TRANS": latency(config.width, pipelines(config)) + 1}
  if not FAdd32.CUTS == FMul32.CUTS == FConvert32.CUTS:
    raise ValueError("the float units must have equally many register cuts")
  for name, cycles in built.items():
    if (stated := timing.latency(config, name)) != cycles:
      raise ValueError(f"the latency {name} is {stated}, but the vector unit takes {cycles} cycles")


class VectorUnit(wiring.Component):
  """All operations of slot V: `width` lanes and the control that they share.

  An operation is captured in the cycle of `issue.start`, cycle t; its result is raised in t + latency - 1, the latency
  (ALU, IMUL, FLOAT, DIV or TRANS) being that of the table. One operation per cycle, divider operations at least the interval of DIV and
  transcendental ones the interval of TRANS apart; the issue stage sees to it that no two results fall due in one cycle.

  The clock domains `VECTOR_CLOCKS` may rest while they have nothing to do, which changes no result; simulation is more than
  twice as fast for it. Each is needed at the end of the cycles in which its output `<domain>_enable` is high; otherwise they
  tick with `sync`. The outputs come from registers, but for those of float_alu,
  bit_alu and transcendental, which depend on `issue` in the same cycle.

  Parameters: config, for the width of a tile.

  Members:
    issue: In(vector_issue). result: Out(vector_result).
    <domain>_enable: Out(1), for each of `VECTOR_CLOCKS`.
  """

  def __init__(self, config: Config) -> None:
    check_timing(config)
    self.config = config
    super().__init__({
      "issue": In(vector_issue(config)), "result": Out(vector_result(config)), **{f"{domain}_enable": Out(1) for domain in VECTOR_CLOCKS}})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    issue, result = self.issue, self.result

    # Stage 1, cycle t + 1: decoded while the lanes capture the operands.
    code, d1 = Signal(8, reset_less=True), Signal(6, reset_less=True)
    unit1 = Signal(LaneResult, reset_less=True)
    subtract, signed_high = Signal(reset_less=True), Signal(reset_less=True)
    convert_op, div_op = Signal(ConvertOp, reset_less=True), Signal(DivOp, reset_less=True)
    alu1, imul1, float1, div1 = Signal(), Signal(), Signal(), Signal()
    for valid, kind in ((alu1, "ALU"), (imul1, "IMUL"), (float1, "FLOAT"), (div1, "DIV")):
      m.d.sync += valid.eq(issue.start & is_op(issue.code, *timed("V", [kind])))
    with m.If(issue.start):
      m.d.sync += [code.eq(issue.code), d1.eq(issue.d), subtract.eq(is_op(issue.code, "vfsub")), signed_high.eq(is_op(issue.code, "vmulh"))]
      with m.Switch(issue.code):
        for name in timed("V", ["IMUL"]):
          with m.Case(OPS[name].code):
            m.d.sync += unit1.eq(PRODUCTS[name])
        for name in timed("V", ["FLOAT"]):
          with m.Case(OPS[name].code):
            m.d.sync += unit1.eq(ADDER_MULTIPLIER.get(name, LaneResult.CONVERT))
            if name in CONVERSIONS:
              m.d.sync += convert_op.eq(CONVERSIONS[name])
        for name in timed("V", ["DIV"]):
          with m.Case(OPS[name].code):
            m.d.sync += div_op.eq(DIVISIONS[name])
        with m.Default():
          m.d.sync += [unit1.eq(LaneResult.ALU), convert_op.eq(ConvertOp.I2F), div_op.eq(DivOp.DIV)]  # of no matter

    # Later stages: what is under way, and where it goes.
    imul2, float2, float3 = Signal(), Signal(), Signal()
    m.d.sync += [imul2.eq(imul1), float2.eq(float1), float3.eq(float2)]
    d2, d3, d_div = (Signal(6, name=name, reset_less=True) for name in ("d2", "d3", "d_div"))
    unit2, unit3 = (Signal(LaneResult, name=name, reset_less=True) for name in ("unit2", "unit3"))
    m.d.sync += [d2.eq(d1), d3.eq(d2), unit2.eq(unit1), unit3.eq(unit2)]
    countdown = Signal(range(DivSqrt.CYCLES + 1))
    div_due = countdown == 1
    with m.If(div1):
      m.d.sync += [countdown.eq(DivSqrt.CYCLES), d_div.eq(d1)]
    with m.Elif(countdown != 0):
      m.d.sync += countdown.eq(countdown - 1)

    # The transcendental unit captures operands itself, in cycle t. Destinations go along with its operations.
    m.submodules.transcendental = tile = TranscendentalTile(self.config.width, pipelines(self.config))
    m.d.comb += [
      tile.start.eq(issue.start & is_op(issue.code, *TRANSCENDENTALS)), self.transcendental_enable.eq(tile.transcendental_enable)]
    with m.Switch(issue.code):
      for name, fn in TRANSCENDENTALS.items():
        with m.Case(OPS[name].code):
          m.d.comb += tile.fn.eq(fn)
      with m.Default():
        m.d.comb += tile.fn.eq(TransFn.EXP2)  # of no matter
    m.d.comb += [x.eq(issue.a.word_select(e, 32)) for e, x in enumerate(tile.x)]
    d_trans = [Signal(6, name=f"d_trans{k}", reset_less=True) for k in range(tile.latency)]
    m.d.transcendental += [after.eq(before) for before, after in zip([issue.d, *d_trans], d_trans, strict=False)]

    # Whatever is due in this cycle; the issue stage admits no two.
    select = Signal(LaneResult)
    m.d.comb += [
      result.valid.eq(alu1 | imul2 | float3 | div_due | tile.due), self.divide_enable.eq(div1 | (countdown != 0)),
      self.float_alu_enable.eq(issue.start & is_op(issue.code, *FLOAT_ALU)),
      self.bit_alu_enable.eq(issue.start & is_op(issue.code, *BIT_ALU))]
    for domain, unit in FLOAT_PIPELINES.items():
      m.d.comb += getattr(self, f"{domain}_enable").eq((float1 & (unit1 == unit)) | (float2 & (unit2 == unit)))
    with m.If(float3):
      m.d.comb += [select.eq(unit3), result.reg.eq(d3)]
    with m.Elif(imul2):
      m.d.comb += [select.eq(unit2), result.reg.eq(d2)]
    with m.Elif(div_due):
      m.d.comb += [select.eq(LaneResult.DIV), result.reg.eq(d_div)]
    with m.Elif(tile.due):
      m.d.comb += [select.eq(LaneResult.TRANS), result.reg.eq(d_trans[-1])]
    with m.Elif(alu1):
      m.d.comb += [select.eq(LaneResult.ALU), result.reg.eq(d1)]

    numbers = is_op(issue.code, "vlid")
    lanes = [place(m, platform, f"lane{e}", "lane", VectorLane) for e in range(self.config.width)]
    for e, lane in enumerate(lanes):
      m.d.comb += [
        lane.capture.eq(issue.start), lane.code.eq(code), lane.subtract.eq(subtract), lane.convert_op.eq(convert_op),
        lane.div_op.eq(div_op), lane.multiply.eq(imul1), lane.signed_high.eq(signed_high), lane.divide.eq(div1),
        lane.select.eq(select), lane.transcendental.eq(tile.o[e])]
      m.d.comb += [getattr(lane, field).eq(getattr(issue, field).word_select(e, 32)) for field in "ac"]
      m.d.comb += lane.b.eq(Mux(numbers, e, issue.b.word_select(e, 32)))  # a constant inside would make every lane another module
    m.d.comb += result.data.eq(Cat(*(lane.o for lane in lanes)))
    return m
