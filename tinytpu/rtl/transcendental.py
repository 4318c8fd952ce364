"""Pipelined exp2, log2, sin and cos of binary32, bit for bit those of isa.transcendental."""

from typing import ClassVar

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..isa.transcendental import OVERFLOW, TINY, UNDERFLOW, TransFn
from ..isa.transcendental_tables import COSINE, EXP2, FRACTION, LOG, LOG_FOLD, POSITION, SEGMENTS, SINE, TWO_OVER_PI
from .float_common import INF32, NAN32, ONE32, is_nan, leading_zeros, name, register

__all__ = ["Transcendental"]

CONSTANT, LINEAR, QUADRATIC = (max(abs(c).bit_length() for c in column) for column in zip(*SEGMENTS, strict=True))
"""Bits of the coefficients' magnitudes; linear and quadratic ones have a sign bit besides."""
TAIL = 188
"""A value times 2^-k has a biased exponent, less one, of TAIL - k - zeros, with `zeros` leading zeros in 63 bits."""


class Tail(data.Struct):
  """What goes along with an operation from section 4 to the last."""
  special: unsigned(1)  # the result is `word`
  word: unsigned(32)
  sign: unsigned(1)
  fixed: unsigned(1)  # exp2: the value is normalised, or is to stay subnormal
  subtract: unsigned(1)  # log2: the product counts against the whole part
  whole: unsigned(8)  # log2: magnitude of the exponent
  exponent: unsigned(8)  # of the result, before its leading zeros are subtracted


class Transcendental(wiring.Component):
  """o = fn(x), rounded once at the end, as isa.transcendental says: at most 0.64 ulp off, over all inputs.

  Nine combinational sections with `CUTS` = 8 registers between them: `o` in cycle n + 8 belongs to the inputs of cycle n.
  One operation per cycle, functions mixed at will, no stall, no enable, no reset. The user registers the operand and the
  result. All is in domain `sync`; a user renames it to one that may rest.

  1. classify specials; normalise a subnormal; take the windows of 2 / pi;
  2. multiply by them; exp2: make the argument fixed-point; log2: split off the exponent, fold the fraction;
  3. reduce: segment, position in it, and what the product's factor comes from;
  4. look up the coefficients; normalise the factor;
  5. linear + position * quadratic;
  6. slope = constant + position * that;
  7. factor * slope;
  8. log2: add the exponent; normalise;
  9. round and pack.

  Members:
      fn: In(2), an isa.transcendental.TransFn.
      x: In(32), the operand.
      o: Out(32), the result of the inputs eight cycles ago.
  """

  fn: In(2)
  x: In(32)
  o: Out(32)

  CUTS: ClassVar[int] = 8

  def elaborate(self, platform) -> Module:
    m = Module()
    x = self.x

    # 1. Classify.
    magnitude = x[:31]
    special, word = self._special(m)
    normal = name(m, x[23:31] != 0, "normal")
    zeros = leading_zeros(m, Cat(x[:23], normal), "subnormal_zeros")
    significand = register(m, (Cat(x[:23], normal) << zeros)[:24], "significand")
    exponent = register(m, ((x[23:31] | ~normal) - zeros).as_signed()[:9].as_signed(), "exponent")
    windows = self._windows(m, magnitude)
    fn1, sign1, special1, word1 = (
      register(m, value, f"{label}1") for label, value in (("fn", self.fn), ("sign", x[31]), ("special", special), ("word", word)))

    # 2. Multiply: modulo 4 quarters of a turn, so the low half of the first product. The other functions' arguments.
    product0, product1, product2 = (
      register(m, (significand * window)[:bits], f"product{k}") for k, (window, bits) in enumerate(zip(windows, (32, 56, 56), strict=True)))
    right = name(m, (134 - exponent)[:9], "right")
    fixed2 = register(m, Cat(Const(0, 14), significand) >> Mux(right[6:] != 0, 63, right[:6]), "fixed2")
    fold = name(m, significand[16:23] >= LOG_FOLD, "fold")
    whole2 = register(m, (exponent - Mux(fold, 126, 127))[:9].as_signed(), "whole2")
    fraction2 = register(m, significand[:23], "fraction2")
    part2 = register(m, Mux(fold, (1 << 23) - significand[:23], significand[:23] << 1)[:24], "part2")
    fold2, fn2, sign2, special2, word2 = (
      register(m, value, f"{label}2")
      for label, value in (("fold", fold), ("fn", fn1), ("sign", sign1), ("special", special1), ("word", word1)))

    # 3. Reduce. `turns` is |t| in units of 2^-62 quarters.
    middle = name(m, (product1 + product2[32:])[:57], "middle")
    high = name(m, (product0 + middle[32:])[:32], "high")
    below = high[29]
    quadrant = name(m, (high[30:] + below + (fn2 == TransFn.COS))[:2], "quadrant")
    turns = name(m, Cat(middle[:32], high[:29]) ^ below.replicate(61), "turns")
    argument = name(m, Mux(sign2, -fixed2, fixed2)[:39], "argument")
    n = name(m, argument[FRACTION:].as_signed(), "n")
    subnormal = name(m, n < -126, "subnormal")
    right_exp = name(m, Mux(subnormal, (-126 - n)[:5], 0), "right_exp")
    no_whole = name(m, whole2 == 0, "no_whole")

    tail3 = Signal(Tail, reset_less=True)
    segment3, position3 = Signal(range(len(SEGMENTS)), reset_less=True), Signal(POSITION, reset_less=True)
    norm3, raw3, plain3 = Signal(reset_less=True), Signal(61, reset_less=True), Signal(32, reset_less=True)
    m.d.sync += [
      tail3.special.eq(special2), tail3.word.eq(word2), tail3.fixed.eq(0), tail3.whole.eq(0), tail3.subtract.eq(0)]
    with m.Switch(fn2):
      with m.Case(TransFn.EXP2):
        m.d.sync += [
          segment3.eq(EXP2 + argument[POSITION:FRACTION]), position3.eq(argument[:POSITION]), norm3.eq(0),
          raw3.eq(turns), plain3.eq(Const(1 << 31, 32) >> right_exp), tail3.sign.eq(0), tail3.fixed.eq(1),
          tail3.exponent.eq(Mux(subnormal, 1, n + 127))]
      with m.Case(TransFn.LOG2):
        m.d.sync += [
          segment3.eq(LOG + fraction2[16:]), position3.eq(Cat(Const(0, POSITION - 16), fraction2[:16])),
          norm3.eq(no_whole), raw3.eq(Cat(Const(0, 61 - 24), part2)), plain3.eq(part2),
          tail3.sign.eq(Mux(no_whole, fold2, whole2[8])), tail3.whole.eq(Mux(whole2[8], -whole2, whole2)),
          tail3.subtract.eq(~no_whole & (whole2[8] ^ fold2)),
          tail3.exponent.eq(Mux(no_whole, TAIL - 32 - FRACTION, TAIL - 24 - FRACTION))]
      with m.Default():
        m.d.sync += [
          segment3.eq(Mux(quadrant[0], COSINE, SINE) + turns[55:]), position3.eq(turns[55 - POSITION:55]), norm3.eq(~quadrant[0]),
          raw3.eq(turns), plain3.eq(1 << 31),
          tail3.sign.eq(quadrant[1] ^ (sign2 & (fn2 == TransFn.SIN)) ^ (below & ~quadrant[0])),
          tail3.exponent.eq(Mux(quadrant[0], TAIL - 31 - FRACTION, TAIL - 33 - FRACTION))]

    # 4. Look up; normalise. No t or fraction that is normalised has more than 31 leading zeros.
    constant, linear, quadratic = self._coefficients(m, segment3)
    constant4, linear4, quadratic4 = (
      register(m, value, label) for value, label in ((constant, "constant4"), (linear, "linear4"), (quadratic, "quadratic4")))
    zeros3 = name(m, leading_zeros(m, raw3[29:], "factor_zeros"), "zeros3")
    normalised = (Cat(Const(0, 2), raw3) >> ~zeros3)[:32]
    factor4 = register(m, Mux(norm3, normalised, plain3), "factor4")
    position4 = register(m, position3, "position4")
    tail4 = Signal(Tail, reset_less=True)
    m.d.sync += [tail4.eq(tail3), tail4.exponent.eq(tail3.exponent - Mux(norm3, zeros3, 0))]

    # 5. and 6. The quadratic. 7. The product, of which the upper 40 bits count.
    linear5 = register(m, (linear4 + (position4 * quadratic4)[POSITION:].as_signed())[:LINEAR + 1].as_signed(), "linear5")
    constant5, position5, factor5 = (
      register(m, value, label) for value, label in ((constant4, "constant5"), (position4, "position5"), (factor4, "factor5")))
    slope6 = register(m, (constant5 + (position5 * linear5)[POSITION:].as_signed())[:CONSTANT], "slope6")
    factor6 = register(m, factor5, "factor6")
    product7 = register(m, (factor6 * slope6)[23:63], "product7")
    tails = [Signal(Tail, name=f"tail{k}", reset_less=True) for k in (5, 6, 7)]
    m.d.sync += [after.eq(before) for before, after in zip([tail4, *tails], tails, strict=False)]
    tail7 = tails[-1]

    # 8. Add the whole part; normalise. A result with one has few leading zeros, and one without comes from normalised factors.
    whole = Cat(Const(0, FRACTION + 24 - 23), tail7.whole)
    total = name(m, Mux(tail7.subtract, whole - product7, whole + product7)[:40], "total")
    zeros7 = name(m, Mux(tail7.fixed, 1, leading_zeros(m, total[8:], "total_zeros")[:4]), "zeros7")
    total8 = register(m, (total << zeros7)[:40], "total8")
    exponent8 = register(m, (tail7.exponent - zeros7)[:8], "exponent8")
    sign8, special8, word8 = (
      register(m, value, label) for value, label in ((tail7.sign, "sign8"), (tail7.special, "special8"), (tail7.word, "word8")))

    # 9. Round, pack.
    up = name(m, total8[15] & ((total8[:15] != 0) | total8[16]), "up")
    packed = (Cat(Const(0, 23), exponent8) + total8[16:] + up)[:31]
    m.d.comb += self.o.eq(Mux(special8, word8, Cat(packed, sign8)))
    return m

  def _special(self, m: Module) -> tuple[Signal, Signal]:
    """Whether the result needs no computation, and which it is."""
    x, magnitude = self.x, self.x[:31]
    special, word = Signal(), Signal(32)
    with m.Switch(self.fn):
      with m.Case(TransFn.EXP2):
        m.d.comb += [special.eq(is_nan(x) | (~x[31] & (magnitude >= int(OVERFLOW))) | (x >= int(UNDERFLOW))),
                     word.eq(Mux(is_nan(x), NAN32, Mux(x[31], 0, INF32)))]
      with m.Case(TransFn.LOG2):
        m.d.comb += [special.eq((magnitude == 0) | (x >= INF32) | (x == ONE32)),
                     word.eq(Mux(magnitude == 0, INF32 | 1 << 31, Mux(x == INF32, INF32, Mux(x == ONE32, 0, NAN32))))]
      with m.Default():
        m.d.comb += [special.eq((magnitude >= INF32) | (magnitude < int(TINY))),
                     word.eq(Mux(magnitude >= INF32, NAN32, Mux(self.fn == TransFn.SIN, x, ONE32)))]
    return special, word

  @staticmethod
  def _windows(m: Module, magnitude: Value) -> list[Signal]:
    """Three times 32 bits of 2 / pi as registers, the most significant first, for the exponent of a number from TINY on."""
    place = name(m, (magnitude - int(TINY))[23:31], "place")
    limbs = [Signal(32, name=f"limb{k}") for k in range(4)]
    with m.Switch(place[5:]):
      last = len(TWO_OVER_PI) - 4
      for first in range(last + 1):
        with m.Case(first) if first < last else m.Default():
          m.d.comb += [limb.eq(TWO_OVER_PI[first + k]) for k, limb in enumerate(limbs)]
    # The upper half after a shift to the left, which is the lower half after one to the right by 32 less.
    return [register(m, (Cat(limbs[k + 1][1:], limbs[k]) >> ~place[:5])[:32], f"window{k}") for k in range(3)]

  @staticmethod
  def _coefficients(m: Module, segment: Value) -> tuple[Value, Value, Value]:
    """Constant, linear and quadratic coefficient of a segment."""
    slopes = data.StructLayout({"linear": signed(LINEAR + 1), "quadratic": signed(QUADRATIC + 1)})
    # Two memories, since what is wider than 64 bits simulates slowly.
    m.submodules.constants = constants = Memory(shape=CONSTANT, depth=len(SEGMENTS), init=[c for c, _, _ in SEGMENTS])
    m.submodules.slopes = memory = Memory(
      shape=slopes, depth=len(SEGMENTS), init=[{"linear": linear, "quadratic": quadratic} for _, linear, quadratic in SEGMENTS])
    constant, slope = constants.read_port(domain="comb"), memory.read_port(domain="comb")
    m.d.comb += [constant.addr.eq(segment), slope.addr.eq(segment)]
    return constant.data, slope.data.linear, slope.data.quadratic
