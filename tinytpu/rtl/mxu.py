"""Matrix unit: C + A * B on whole tiles, accumulated in PSUM buckets."""
from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.data import StructLayout, View
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import timing
from .interfaces import cross_issue, tile_bits, vector_result
from .once import place
from .opcodes import is_op, timed
from .pe import ADDEND_CYCLE, GROUP, RESULT_CYCLE, ProcessingElement
from .psum import PsumBank
from .select import tree

MATRIX_CLOCKS = ("matrix_float", "matrix_int")
"""Clock domains of `MatrixUnit` that may rest while its output `<domain>_enable` is low."""
GROUP_LAYOUT = StructLayout({"bucket": 4, "zero": 1, "int": 1})
"""Four k of a step: its bucket, whether C is zero, whether its format is int8."""
PLACE_LAYOUT = StructLayout({"valid": 1, "group": GROUP_LAYOUT})


def check_timing(config: Config) -> None:
  """Raises ValueError if isa.timing disagrees with what the array takes."""
  # A step waits up to GROUP cycles for its turn; its last group's result is in the bucket one cycle after RESULT_CYCLE, and
  # ppop reads in the cycle after its issue.
  built = {"MM_II": config.sublanes, "MM": GROUP + (config.sublanes - GROUP) + RESULT_CYCLE, "PPOP": 2}
  for name, latency in built.items():
    if (stated := getattr(timing, name)) != latency:
      raise ValueError(f"isa.timing.{name} is {stated}, but a matrix unit for tiles of {config.sublanes} sublanes takes {latency} cycles")


class MatrixUnit(wiring.Component):
  """Matrix steps mmf, mmfz (float32), mmi, mmiz (int8) and the moves ppop and ppush: slot X.

  S x S processing elements; in cycle k of a step element (i, j) gets a[i][k] and b[k][j]. The elements work in groups of four k,
  aligned to a counter of cycles modulo 4 (`phase`), so that their adders are shared without conflict whenever steps come. A step
  issued in t is held until the next cycle u >= t + 1 with phase 0, u <= t + 4, and takes S cycles from there. Its bucket is
  written by the end of t + MM at the latest; when exactly is seen by nobody, as the issue stage keeps everything else off the
  bucket until t + MM, and steps on one bucket chain in order.

  ppop issued in t reads its bucket in t + 1 and raises the result there. ppush issued in t writes at the end of t + 1. One
  operation per cycle, steps at least MM_II apart.

  Clock domains `matrix_float` and `matrix_int` (the datapaths of the elements) may rest at the end of cycles without
  `matrix_float_enable` or `matrix_int_enable`, which changes no result; otherwise they tick with `sync`.

  Parameters: config, for the shape of a tile. Raises ValueError if isa.timing does not fit it.

  Members:
    issue: In(cross_issue); the other operations of slot X are ignored. Of `d` as a bucket the low 4 bits count.
    result: Out(vector_result), of ppop.
    matrix_float_enable, matrix_int_enable: Out(1), from registers.
  """

  def __init__(self, config: Config) -> None:
    check_timing(config)
    self.config = config
    super().__init__({
      "issue": In(cross_issue(config)), "result": Out(vector_result(config)), **{f"{domain}_enable": Out(1) for domain in MATRIX_CLOCKS}})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    m.submodules.bank = self.bank = PsumBank(self.config)
    self._moves(m)
    self._steps(m, platform)
    return m

  def _moves(self, m: Module) -> None:
    """ppop and ppush."""
    issue, bank, result = self.issue, self.bank, self.result
    pop, push = issue.start & is_op(issue.code, "ppop"), issue.start & is_op(issue.code, "ppush")
    source, d = Signal(4, reset_less=True), Signal(6, reset_less=True)
    push_valid, target, data = Signal(), Signal(4, reset_less=True), Signal(tile_bits(self.config), reset_less=True)
    m.d.sync += [result.valid.eq(pop), push_valid.eq(push)]
    with m.If(pop):
      m.d.sync += [source.eq(issue.bucket), d.eq(issue.d)]
    with m.If(push):
      m.d.sync += [target.eq(issue.d), data.eq(issue.a)]
    m.d.comb += [bank.push.valid.eq(push_valid), bank.push.bucket.eq(target), bank.push.data.eq(data)]
    m.d.comb += [bank.pop_bucket.eq(source), result.reg.eq(d), result.data.eq(bank.pop)]

  def _steps(self, m: Module, platform: object) -> None:
    """Matrix steps: operands and what they need on their way through the elements."""
    issue, size = self.issue, self.config.sublanes
    step = issue.start & is_op(issue.code, *timed("X", ["MM"]))
    phase = Signal(range(GROUP))
    m.d.sync += phase.eq(phase + 1)

    # A step waits for phase 0, its cycle u. Then its first operands are used at once, and the others make room for the next step.
    staged, staged_group = Signal(), Signal(GROUP_LAYOUT, reset_less=True)
    tile = tile_bits(self.config)
    waiting, active = ([Signal(tile, name=f"{name}_{n}", reset_less=True) for n in "ab"] for name in ("waiting", "active"))
    k = Signal(range(size))
    begin = Signal()
    m.d.comb += begin.eq(staged & (phase == 0))
    with m.If(step):
      m.d.sync += [waiting[0].eq(issue.a), waiting[1].eq(issue.b), staged_group.bucket.eq(issue.d),
                   staged_group.zero.eq(is_op(issue.code, "mmfz", "mmiz")), staged_group.int.eq(is_op(issue.code, "mmi", "mmiz"))]
    with m.If(begin):
      m.d.sync += [new.eq(old) for new, old in zip(active, waiting, strict=True)]
    with m.If(begin | (k != 0)):
      m.d.sync += k.eq(k + 1)
    m.d.sync += staged.eq(step | (staged & ~begin))
    rows = [tree([(active if n else waiting)[0].word_select(i * size + n, 32) for n in range(size)], k) for i in range(size)]
    columns = [tree([(active if n else waiting)[1].word_select(n * size + j, 32) for n in range(size)], k) for j in range(size)]

    # Where the groups are: places[n] describes the one that is in its cycles 4 n + 1 to 4 n + 4.
    places = [Signal(PLACE_LAYOUT, name=f"place{n}") for n in range((RESULT_CYCLE - 1) // GROUP + 1)]
    group = Signal(GROUP_LAYOUT, reset_less=True)
    with m.If(begin):
      m.d.sync += group.eq(staged_group)
    with m.If(phase == 0):
      m.d.sync += [new.eq(old) for new, old in zip(places[1:], places, strict=False)]
      m.d.sync += places[0].valid.eq(begin | (k != 0))
      m.d.sync += places[0].group.eq(Mux(begin, staged_group, group))
      with m.If(k != 0):
        m.d.sync += places[0].group.zero.eq(0)

    # The datapaths' clocks are needed from u to the cycle before the last group's result.
    for name, mine in zip(MATRIX_CLOCKS, (~staged_group.int, staged_group.int), strict=True):
      cycles = size - GROUP + RESULT_CYCLE - 1
      left = Signal(range(cycles + 1), name=f"{name}_left")
      with m.If(begin & mine):
        m.d.sync += left.eq(cycles)
      with m.Elif(left != 0):
        m.d.sync += left.eq(left - 1)
      m.d.comb += getattr(self, f"{name}_enable").eq((staged & mine) | (left != 0))
    self._elements(m, platform, phase, rows, columns, places)

  def _elements(self, m: Module, platform: object, phase: Value, rows: list[Value], columns: list[Value], places: list[View]) -> None:
    """The array, and C from and to the bank."""
    bank = self.bank
    taking, giving = places[(ADDEND_CYCLE - 1) // GROUP], places[(RESULT_CYCLE - 1) // GROUP]
    take = taking.valid & (phase == ADDEND_CYCLE % GROUP)
    elements: list[Any] = []
    for i, row in enumerate(rows):
      for j, column in enumerate(columns):
        pe = place(m, platform, f"element_{i}_{j}", "element", ProcessingElement)
        addend = bank.addend.word_select(len(elements), 32)
        m.d.comb += [pe.phase.eq(phase), pe.a.eq(row), pe.b.eq(column), pe.take.eq(take), pe.total_int.eq(taking.group.int),
                     pe.addend.eq(Mux(taking.group.zero, 0, addend)), pe.out_int.eq(giving.group.int)]
        elements.append(pe)
    m.d.comb += [bank.addend_bucket.eq(taking.group.bucket), bank.array.bucket.eq(giving.group.bucket),
                 bank.array.valid.eq(giving.valid & (phase == RESULT_CYCLE % GROUP)), bank.array.data.eq(Cat(*(pe.o for pe in elements)))]
