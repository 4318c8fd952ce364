"""Vector unit: slot V, one operation on a whole tile at a time."""
from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import timing
from ..isa.table import OPS
from ..isa.transcendental import TransFn
from .beats import collect, feed
from .div import DivOp
from .div_tile import DIVIDE_CLOCKS, DivideTile
from .float_add import FAdd32
from .float_convert import ConvertOp, FConvert32
from .float_mul import FMul32
from .interfaces import vector_issue, vector_result
from .once import place
from .opcodes import is_op, timed
from .transcendental_tile import TRANSCENDENTAL_CLOCKS, TranscendentalTile, latency
from .vpu_bits import BIT_ALU
from .vpu_lane import FLOAT_ALU, LaneUnit, VectorLane

HIGH_PRODUCTS = ("vmulh", "vmulhu")
FLOAT_UNITS = {"vfadd": LaneUnit.ADD, "vfsub": LaneUnit.ADD, "vfmul": LaneUnit.MULTIPLY}
CONVERSIONS = {"vi2f": ConvertOp.I2F, "vu2f": ConvertOp.U2F, "vf2i": ConvertOp.F2I, "vf2u": ConvertOp.F2U, "vftrunc": ConvertOp.TRUNC}
DIVISIONS = {name: DivOp[name.removeprefix("v").upper()] for name in timed("V", ["DIV"])}
TRANSCENDENTALS = {name: TransFn[name.removeprefix("vf").upper()] for name in timed("V", ["TRANS"])}

FLOAT_PIPELINES = {"float_add": LaneUnit.ADD, "float_mul": LaneUnit.MULTIPLY, "float_convert": LaneUnit.CONVERT}
"""Clock domains of the pipelined float units."""
VECTOR_CLOCKS = (*FLOAT_PIPELINES, "float_alu", "bit_alu", *DIVIDE_CLOCKS, *TRANSCENDENTAL_CLOCKS)
"""Clock domains of `VectorUnit` that may rest while its output `<domain>_enable` is low."""
PIPELINE_LANES = 4
"""Vector lanes that share a transcendental pipeline."""


def check_timing(config: Config) -> None:
  """Raises ValueError if isa.timing disagrees with what the datapath for tiles of `config` takes."""
  more = config.beats - 1
  built = {"ALU": 2 + more, "IMUL": 3 + more, "FLOAT": FAdd32.CUTS + 2 + more, "DIV": config.beats * DivideTile.PERIOD + 1,
           "TRANS": latency(config.width, config.vector_lanes // PIPELINE_LANES) + 1}
  if not FAdd32.CUTS == FMul32.CUTS == FConvert32.CUTS:
    raise ValueError("the float units must have equally many register cuts")
  for name, cycles in built.items():
    if (stated := timing.latency(config, name)) != cycles:
      raise ValueError(f"the latency {name} is {stated}, but the vector unit takes {cycles} cycles")


class VectorUnit(wiring.Component):
  """All operations of slot V: `vector_lanes` lanes and the control that they share.

  An operation is captured in the cycle of `issue.start`, cycle t; its result is raised in t + latency - 1, the latency being
  that of its class in isa.timing: whole, with the last of its beats. Operations of the lanes (ALU, IMUL, FLOAT), of the dividers and
  of the transcendental pipelines do not wait for each other; of each, the issue stage starts one not before its interval has passed,
  and sees to it that no two results fall due in one cycle.

  Beat b of an operation of the lanes is captured by them in t + b; beats of each class are collected by themselves, since
  they may come between those of an operation of another class.

  The clock domains `VECTOR_CLOCKS` may rest while they have nothing to do, which changes no result; simulation is more than
  twice as fast for it. Each is needed at the end of the cycles in which its output `<domain>_enable` is high; otherwise they
  tick with `sync`. The outputs come from registers, but for those of float_alu,
  bit_alu, divide and transcendental, which depend on `issue` in the same cycle.

  Parameters: config, for the width of a tile and the lanes.

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
    issue, result, config = self.issue, self.result, self.config
    kinds = ("ALU", "IMUL", "FLOAT")

    # Cycle t: of the first beat, and of those that follow it into the lanes.
    start, left, capture, last = Signal(), Signal(range(config.beats)), Signal(), Signal()
    m.d.comb += [start.eq(issue.start & is_op(issue.code, *timed("V", kinds))), capture.eq(start | (left != 0)),
                 last.eq(start if config.beats == 1 else left == 1)]
    with m.If(start):
      m.d.sync += left.eq(config.beats - 1)
    with m.Elif(left != 0):
      m.d.sync += left.eq(left - 1)

    # Stage 1, cycle t + 1 and those of further beats: decoded while the lanes capture the operands.
    code, d1 = Signal(8, reset_less=True), Signal(6, reset_less=True)
    unit1 = Signal(LaneUnit, reset_less=True)
    subtract, signed_high, high1 = Signal(reset_less=True), Signal(reset_less=True), Signal(reset_less=True)
    convert_op = Signal(ConvertOp, reset_less=True)
    kind = {name: Signal(name=f"is_{name}") for name in (*kinds, "float_alu", "bit_alu")}
    active, last1 = Signal(), Signal()
    m.d.sync += [active.eq(capture), last1.eq(last)]
    with m.If(start):
      m.d.sync += [code.eq(issue.code), d1.eq(issue.d), subtract.eq(is_op(issue.code, "vfsub")),
                   signed_high.eq(is_op(issue.code, "vmulh")), high1.eq(is_op(issue.code, *HIGH_PRODUCTS))]
      m.d.sync += [kind[name].eq(is_op(issue.code, *timed("V", [name]))) for name in kinds]
      m.d.sync += [kind["float_alu"].eq(is_op(issue.code, *FLOAT_ALU)), kind["bit_alu"].eq(is_op(issue.code, *BIT_ALU))]
      with m.Switch(issue.code):
        for name in timed("V", ["FLOAT"]):
          with m.Case(OPS[name].code):
            m.d.sync += unit1.eq(FLOAT_UNITS.get(name, LaneUnit.CONVERT))
            if name in CONVERSIONS:
              m.d.sync += convert_op.eq(CONVERSIONS[name])
        with m.Default():
          m.d.sync += [unit1.eq(LaneUnit.CONVERT), convert_op.eq(ConvertOp.I2F)]  # of no matter
    alu1, imul1, float1 = (Signal(name=f"{name.lower()}1") for name in kinds)
    m.d.comb += [valid.eq(active & kind[name]) for valid, name in ((alu1, "ALU"), (imul1, "IMUL"), (float1, "FLOAT"))]

    # Later stages: what is under way, and where it goes.
    imul2, float2, float3, high2 = Signal(), Signal(), Signal(), Signal(reset_less=True)
    m.d.sync += [imul2.eq(imul1), float2.eq(float1), float3.eq(float2), high2.eq(high1)]
    last2, last3 = Signal(), Signal()
    d2, d3 = Signal(6, reset_less=True), Signal(6, reset_less=True)
    unit2, unit3 = Signal(LaneUnit, reset_less=True), Signal(LaneUnit, reset_less=True)
    m.d.sync += [last2.eq(last1), last3.eq(last2), d2.eq(d1), d3.eq(d2), unit2.eq(unit1), unit3.eq(unit2)]

    # The lanes.
    numbers = Signal(32 * config.width)
    m.d.comb += numbers.eq(Mux(is_op(issue.code, "vlid"), Cat(*(Const(e, 32) for e in range(config.width))), issue.b))
    bits = 32 * config.vector_lanes
    a, b, c = (feed(m, start, capture, tile, bits, label) for tile, label in ((issue.a, "a"), (numbers, "b"), (issue.c, "c")))
    lanes: list[Any] = [place(m, platform, f"lane{e}", "lane", VectorLane) for e in range(config.vector_lanes)]
    for e, lane in enumerate(lanes):
      m.d.comb += [
        lane.capture.eq(capture), lane.code.eq(code), lane.subtract.eq(subtract), lane.convert_op.eq(convert_op),
        lane.multiply.eq(imul1), lane.signed_high.eq(signed_high), lane.high.eq(high2), lane.unit.eq(unit3),
        lane.alu_due.eq(alu1), lane.product_due.eq(imul2), lane.float_due.eq(float3)]
      m.d.comb += [port.eq(tile.word_select(e, 32)) for port, tile in ((lane.a, a), (lane.b, b), (lane.c, c))]
    for domain, unit in FLOAT_PIPELINES.items():
      m.d.comb += getattr(self, f"{domain}_enable").eq((float1 & (unit1 == unit)) | (float2 & (unit2 == unit)))
    for domain, names in (("float_alu", FLOAT_ALU), ("bit_alu", BIT_ALU)):
      m.d.comb += getattr(self, f"{domain}_enable").eq(Mux(issue.start, is_op(issue.code, *names), 0) | ((left != 0) & kind[domain]))
    alu, product, floats = (
      collect(m, valid, Cat(*(getattr(lane, f"{port}_o") for lane in lanes)), config.beats, port)
      for valid, port in ((alu1, "alu"), (imul2, "product"), (float3, "float")))

    # Dividers and transcendental pipelines capture operands themselves, in cycle t. Destinations go along with their operations.
    m.submodules.divide = divide = DivideTile(config.width, config.vector_lanes)
    m.submodules.transcendental = trans = TranscendentalTile(config.width, config.vector_lanes // PIPELINE_LANES)
    m.d.comb += [
      divide.start.eq(issue.start & is_op(issue.code, *DIVISIONS)), self.divide_enable.eq(divide.divide_enable),
      trans.start.eq(issue.start & is_op(issue.code, *TRANSCENDENTALS)), self.transcendental_enable.eq(trans.transcendental_enable),
      divide.a.eq(issue.a), divide.b.eq(issue.b), trans.x.eq(issue.a)]
    with m.Switch(issue.code):
      for name, fn in TRANSCENDENTALS.items():
        with m.Case(OPS[name].code):
          m.d.comb += trans.fn.eq(fn)
      with m.Default():
        m.d.comb += trans.fn.eq(TransFn.EXP2)  # of no matter
    with m.Switch(issue.code):
      for name, op in DIVISIONS.items():
        with m.Case(OPS[name].code):
          m.d.comb += divide.op.eq(op)
      with m.Default():
        m.d.comb += divide.op.eq(DivOp.DIV)  # of no matter
    d_div = Signal(6, reset_less=True)
    with m.If(divide.start):
      m.d.divide += d_div.eq(issue.d)
    d_trans = [Signal(6, name=f"d_trans{k}", reset_less=True) for k in range(trans.latency)]
    m.d.transcendental += [after.eq(before) for before, after in zip([issue.d, *d_trans], d_trans, strict=False)]

    # Whatever is due in this cycle; the issue stage admits no two.
    due = ((float3 & last3, floats, d3), (imul2 & last2, product, d2), (divide.due, divide.o, d_div), (trans.due, trans.o, d_trans[-1]),
           (alu1 & last1, alu, d1))
    for k, (valid, data, reg) in enumerate(due):
      with m.If(valid) if k == 0 else m.Elif(valid):
        m.d.comb += [result.valid.eq(1), result.reg.eq(reg), result.data.eq(data)]
    return m
