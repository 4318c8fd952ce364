"""Matrix unit: C + A * B on whole tiles, accumulated in PSUM buckets."""
from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import enum, wiring
from amaranth.lib.data import StructLayout, View
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import timing
from ..isa.table import OPS
from .float_common import name
from .float_convert import bf16_to_f32, f16_to_f32
from .interfaces import cross_issue, tile_bits, vector_result
from .once import place
from .opcodes import is_op, timed
from .pe import ADDEND_CYCLE, GROUP, RESULT_CYCLE, ProcessingElement
from .psum import PsumBank
from .select import tree

MATRIX_CLOCKS = ("matrix_float", "matrix_int", "matrix_operands")
"""Clock domains of `MatrixUnit` that may rest while its output `<domain>_enable` is low."""
GROUP_LAYOUT = StructLayout({"bucket": 4, "zero": 1, "int": 1})
"""Four k of a step: its bucket, whether C is zero, whether its format is int8."""
PLACE_LAYOUT = StructLayout({"valid": 1, "group": GROUP_LAYOUT})


STEP_NAMES = timed("X", timing.STEPS)
CLEARING = tuple(name for name in STEP_NAMES if "pd" in OPS[name].operands)
"""Steps that start from C = 0."""
HOLDING = tuple(name for name in STEP_NAMES if "vb" not in OPS[name].operands)
"""Steps whose second operand is the held tile."""


class Format(enum.Enum, shape=2):
  """What the words of a step's operands are for the array."""
  WORDS = 0   # one operand each: a float32, or four bytes
  HALF = 1    # two float16
  BRAIN = 2   # two bfloat16


def _of_format(prefix: str) -> tuple[str, ...]:
  return tuple(name for name in STEP_NAMES if name.startswith(prefix))


def check_timing(config: Config) -> None:
  """Raises ValueError if isa.timing disagrees with what the array takes."""
  # A step waits up to GROUP cycles for its turn; its last group's result is in the bucket one cycle after RESULT_CYCLE, and
  # ppop reads in the cycle after its issue.
  size = config.sublanes
  built = {"MM": (GROUP + (size - GROUP) + RESULT_CYCLE, size), "MM16": (GROUP + (2 * size - GROUP) + RESULT_CYCLE, 2 * size),
           "PPOP": (2, 1), "PPUSH": (2, 1), "PCLR": (1, 1)}
  for which, cycles in built.items():
    if (stated := (timing.latency(config, which), timing.interval(config, which))) != cycles:
      raise ValueError(f"latency and interval of {which} are {stated}, but a unit for tiles of {size} sublanes takes {cycles} cycles")


class MatrixUnit(wiring.Component):
  """Matrix steps, mmld and the moves of buckets: slot X.

  S x S processing elements; in cycle k of a step of float32 or int8, element (i, j) gets a[i][k] and b[k][j]. A step on halfwords
  takes twice as many cycles: low and high halfword of each word, one after the other, widened to float32 on the way to the array.
  The elements work in groups of four products along K, aligned to a counter of cycles modulo 4 (`phase`), so that their adders are
  shared without conflict whenever steps come. A step issued in t is held until the next cycle u >= t + 1 with phase 0, u <= t + 4,
  and takes S (halfwords: 2 S) cycles from there. Its bucket is written by the end of t + MM (MM16) at the latest; when exactly is
  seen by nobody, as the issue stage keeps everything else off the bucket until then, and steps on one bucket chain in order.

  mmld issued in t holds its tile from t + 1 on; steps that use it take it along when they issue.
  ppop, ppopr and ppopz issued in t read their bucket in t + 1 and raise the result there. ppush issued in t writes, and ppopz, pclr
  and pclra clear, at the end of t + 1. One
  operation per cycle, steps at least the interval of MM (MM16 after one on halfwords) apart.

  Clock domains `matrix_float` and `matrix_int` (the datapaths of the elements) and `matrix_operands` (operand registers) may rest at
  the end of cycles without their `<domain>_enable`, which changes no result; otherwise they tick with `sync`.

  Parameters: config, for the shape of a tile. Raises ValueError if isa.timing does not fit it.

  Members:
    issue: In(cross_issue); the other operations of slot X are ignored. Of `d` as a bucket the low 4 bits count.
    result: Out(vector_result), of ppop.
    <domain>_enable: Out(1), for each of `MATRIX_CLOCKS`; from registers, but for that of the operands, which depends on `issue`
    in the same cycle.
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
    """Reads, writes and clears of buckets."""
    issue, bank, result, size = self.issue, self.bank, self.result, self.config.sublanes
    pop, push = issue.start & is_op(issue.code, *timed("X", ["PPOP"])), issue.start & is_op(issue.code, "ppush")
    source, d = Signal(4, reset_less=True), Signal(6, reset_less=True)
    one_row, row, clear = Signal(reset_less=True), Signal(range(size), reset_less=True), Signal(self.config.PSUMS)
    push_valid, target, data = Signal(), Signal(4, reset_less=True), Signal(tile_bits(self.config), reset_less=True)
    m.d.sync += [result.valid.eq(pop), push_valid.eq(push)]
    with m.If(pop):
      m.d.sync += [source.eq(issue.bucket), d.eq(issue.d), one_row.eq(is_op(issue.code, "ppopr")), row.eq(issue.k)]
    with m.If(push):
      m.d.sync += [target.eq(issue.d), data.eq(issue.a)]
    for which, buckets in (("ppopz", 1 << issue.bucket), ("pclr", 1 << issue.d[:4]), ("pclra", ~Const(0, self.config.PSUMS))):
      with m.If(issue.start & is_op(issue.code, which)):
        m.d.sync += clear.eq(buckets)
    with m.If(~(issue.start & is_op(issue.code, "ppopz", "pclr", "pclra"))):
      m.d.sync += clear.eq(0)
    m.d.comb += [bank.push.valid.eq(push_valid), bank.push.bucket.eq(target), bank.push.data.eq(data), bank.clear.eq(clear)]
    m.d.comb += [bank.pop_bucket.eq(source), result.reg.eq(d), result.data.eq(bank.pop)]
    with m.If(one_row):
      lanes = 32 * self.config.lanes
      m.d.comb += result.data.eq(tree([bank.pop.word_select(i, lanes) for i in range(size)], row).replicate(size))

  def _steps(self, m: Module, platform: object) -> None:
    """Matrix steps: operands and what they need on their way through the elements."""
    issue, size = self.issue, self.config.sublanes
    step, load = issue.start & is_op(issue.code, *STEP_NAMES), issue.start & is_op(issue.code, "mmld")
    phase = Signal(range(GROUP))
    m.d.sync += phase.eq(phase + 1)

    # A step waits for phase 0, its cycle u. Then its first operands are used at once, and the others make room for the next step.
    staged, staged_group = Signal(), Signal(GROUP_LAYOUT, reset_less=True)
    tile = tile_bits(self.config)
    waiting, active = ([Signal(tile, name=f"{name}_{n}", reset_less=True) for n in "ab"] for name in ("waiting", "active"))
    held = Signal(tile, reset_less=True)
    staged_format, format_now = Signal(Format, reset_less=True), Signal(Format, reset_less=True)
    begin, running, last = Signal(), Signal(), Signal()
    k = Signal(range(2 * size))  # operands of the step that have been used
    m.d.comb += [begin.eq(staged & (phase == 0)), running.eq(begin | (k != 0))]
    m.d.comb += last.eq(k == Mux(format_now == Format.WORDS, size - 1, 2 * size - 1))
    with m.If(step):
      m.d.sync += [staged_group.bucket.eq(issue.d), staged_group.zero.eq(is_op(issue.code, *CLEARING)),
                   staged_group.int.eq(is_op(issue.code, *_of_format("mmi")))]
      m.d.matrix_operands += [waiting[0].eq(issue.a), waiting[1].eq(Mux(is_op(issue.code, *HOLDING), held, issue.b)),
                              staged_format.eq(Mux(is_op(issue.code, *_of_format("mmh")), Format.HALF,
                                                   Mux(is_op(issue.code, *_of_format("mmb")), Format.BRAIN, Format.WORDS)))]
    with m.If(load):
      m.d.matrix_operands += held.eq(issue.a)
    with m.If(begin):
      m.d.matrix_operands += [*(new.eq(old) for new, old in zip(active, waiting, strict=True)), format_now.eq(staged_format)]
    with m.If(running):
      m.d.matrix_operands += k.eq(Mux(last & ~begin, 0, k + 1))
    m.d.sync += staged.eq(step | (staged & ~begin))
    m.d.comb += self.matrix_operands_enable.eq(step | load | running)

    current = Mux(k == 0, staged_format, format_now)
    words = Mux(current == Format.WORDS, k[:-1], k[1:])
    rows = [self._widen(m, tree([(active if n else waiting)[0].word_select(i * size + n, 32) for n in range(size)], words),
                        k[0], current, f"row{i}") for i in range(size)]
    columns = [self._widen(m, tree([(active if n else waiting)[1].word_select(n * size + j, 32) for n in range(size)], words),
                           k[0], current, f"column{j}") for j in range(size)]

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
    for clock, mine in (("matrix_float", ~staged_group.int), ("matrix_int", staged_group.int)):
      cycles = RESULT_CYCLE - GROUP - 1
      left = Signal(range(2 * size + cycles + 1), name=f"{clock}_left")
      with m.If(begin & mine):
        m.d.sync += left.eq(cycles + Mux(staged_format == Format.WORDS, size, 2 * size))
      with m.Elif(left != 0):
        m.d.sync += left.eq(left - 1)
      m.d.comb += getattr(self, f"{clock}_enable").eq((staged & mine) | (left != 0))
    self._elements(m, platform, phase, rows, columns, places)

  @staticmethod
  def _widen(m: Module, word: Value, high: Value, form: Value, label: str) -> Value:
    """The operand for the array: the word, or its low or high halfword as float32."""
    half = name(m, Mux(high, word[16:], word[:16]), f"{label}_half")
    floats = Mux(form == Format.HALF, f16_to_f32(m, half, f"{label}_f16"), bf16_to_f32(m, half, f"{label}_bf16"))
    return name(m, Mux(form == Format.WORDS, word, floats), f"{label}_operand")

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
