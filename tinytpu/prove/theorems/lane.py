"""The vector lane: signs and magnitudes of floats and integers, and the algebra between them."""
from __future__ import annotations

from collections.abc import Callable, Mapping

from bitwuzla import Kind, Term

from tinytpu.isa.table import OPS
from tinytpu.rtl.float_mul import FMul32
from tinytpu.rtl.vpu_lane import VectorLane

from ..circuit import Circuit
from ..floats import F32
from ..mutants import Mutant
from ..proof import Equation, Theorem, Truth
from ..terms import Terms

ONE = 0x3F800000


def _lane(c: Circuit, op: str, a: Term, b: Term | None = None) -> Term:
  """What a lane gives for an operation of latency ALU on two words: captured in cycle 0, there in cycle 1."""
  lane = c.again()
  for name, t, value in (("capture", 0, 1), ("a", 0, a), ("b", 0, a if b is None else b), ("code", 1, OPS[op].code), ("alu_due", 1, 1)):
    lane.bind(name, t, value)
  return lane.output("alu_o", 1)


def _is(wanted: Mapping[str, Callable[[Terms, Term, Term], Term]]) -> Truth:
  """The lane's results are those functions of a and b."""
  def claim(c: Circuit) -> Term:
    a, b = c.input("a", 0), c.input("b", 0)
    return c.terms.all([c.terms.eq(_lane(c, op, a, b), value(c.terms, a, b)) for op, value in wanted.items()])
  return claim


def _float(c: Circuit) -> Term:
  """By SMT-LIB's fp.abs and fp.neg; the sign is 0 of either zero, else 1 with the operand's sign."""
  t, a = c.terms, c.input("a", 0)
  x = F32.of(t, a)
  size, opposite, sign = (_lane(c, op, a) for op in ("vfabs", "vfneg", "vfsign"))
  one = t.if_(t(Kind.FP_IS_NEG, x), t.const(ONE | 1 << 31, 32), t.const(ONE, 32))
  wanted = t.if_(t(Kind.FP_IS_NAN, x), t.const(F32.nan, 32), t.if_(t(Kind.FP_IS_ZERO, x), t.const(0, 32), one))
  return t.all([F32.word_is(t, size, t(Kind.FP_ABS, x)), F32.word_is(t, opposite, t(Kind.FP_NEG, x)), t.eq(sign, wanted)])


def _algebra(c: Circuit) -> Term:
  """Of any float that is no NaN."""
  t, x = c.terms, c.input("a", 0)

  def do(op: str) -> Callable[[Term], Term]:
    return lambda word: _lane(c, op, word)
  size, opposite, sign = do("vfabs"), do("vfneg"), do("vfsign")
  zero = F32.has(t, Kind.FP_IS_ZERO, x)
  product = c.apply(FMul32(), FMul32.CUTS, a=size(x), b=sign(x))
  return t.if_(t.isnt(F32.has(t, Kind.FP_IS_NAN, x)), t.all([
    t.eq(opposite(opposite(x)), x), t.eq(size(opposite(x)), size(x)), t.eq(size(size(x)), size(x)), t.eq(sign(sign(x)), sign(x)),
    t.if_(zero, t.eq(sign(x), 0), t.all([t.eq(sign(opposite(x)), opposite(sign(x))), t.eq(size(sign(x)), ONE), t.eq(product, x)]))]))


def _integer_algebra(c: Circuit) -> Term:
  """Of any integer; the least one is its own negative and its own magnitude."""
  t, x = c.terms, c.input("a", 0)
  zero = t.const(0, 32)

  def opposite(word: Term) -> Term:
    return _lane(c, "vsub", zero, word)
  size, sign, least = _lane(c, "vabs", x), _lane(c, "vsign", x), t.eq(x, 1 << 31)
  return t.all([t.eq(opposite(opposite(x)), x), t.eq(_lane(c, "vabs", opposite(x)), size), t.eq(_lane(c, "vsign", sign), sign),
                t.if_(t.isnt(least), t.all([t.eq(_lane(c, "vsign", opposite(x)), opposite(sign)), t(Kind.BV_SGE, size, zero)])),
                t.if_(least, t.all([t.eq(size, x), t.eq(sign, -1)])), t.eq(t(Kind.BV_MUL, size, sign), x)])


def _flag(kind: Kind) -> Callable[[Terms, Term, Term], Term]:
  return lambda t, a, b: t.extend(t.bit(t(kind, a, b)), 32)


def _word(kind: Kind) -> Callable[[Terms, Term, Term], Term]:
  return lambda t, a, b: t(kind, a, b)


def _shift(kind: Kind) -> Callable[[Terms, Term, Term], Term]:
  """By the low five bits of b."""
  return lambda t, a, b: t(kind, a, t(Kind.BV_AND, b, t.const(31, 32)))


def _lesser(kind: Kind, larger: bool) -> Callable[[Terms, Term, Term], Term]:
  return lambda t, a, b: t.if_(t(kind, a, b), b, a) if larger else t.if_(t(kind, a, b), a, b)


def _limited(kind: Kind, overflow: Kind) -> Callable[[Terms, Term, Term], Term]:
  """The result, or the end of the range that lies on a's side."""
  return lambda t, a, b: t.if_(t(overflow, a, b), t.if_(t(Kind.BV_SLT, a, t.const(0, 32)), t.const(1 << 31, 32), t.const((1 << 31) - 1,
    32)), t(kind, a, b))


INTEGERS: dict[str, Callable[[Terms, Term, Term], Term]] = {
  "vadd": _word(Kind.BV_ADD), "vsub": _word(Kind.BV_SUB), "vand": _word(Kind.BV_AND), "vor": _word(Kind.BV_OR), "vxor": _word(Kind.BV_XOR),
  "vshl": _shift(Kind.BV_SHL), "vshr": _shift(Kind.BV_SHR), "vsar": _shift(Kind.BV_ASHR),
  "vlt": _flag(Kind.BV_SLT), "vltu": _flag(Kind.BV_ULT), "veq": _flag(Kind.EQUAL), "vne": _flag(Kind.DISTINCT),
  "vmin": _lesser(Kind.BV_SLT, False), "vmax": _lesser(Kind.BV_SLT, True), "vminu": _lesser(Kind.BV_ULT, False),
  "vmaxu": _lesser(Kind.BV_ULT, True),
  "vrotl": _shift(Kind.BV_ROL), "vrotr": _shift(Kind.BV_ROR),
  "vadds": _limited(Kind.BV_ADD, Kind.BV_SADD_OVERFLOW), "vsubs": _limited(Kind.BV_SUB, Kind.BV_SSUB_OVERFLOW),
  "vaddsu": lambda t, a, b: t.if_(t(Kind.BV_UADD_OVERFLOW, a, b), t.const(-1, 32), t(Kind.BV_ADD, a, b)),
  "vsubsu": lambda t, a, b: t.if_(t(Kind.BV_ULT, a, b), t.const(0, 32), t(Kind.BV_SUB, a, b)),
  "vabsd": lambda t, a, b: t.if_(t(Kind.BV_SLT, a, b), t(Kind.BV_SUB, b, a), t(Kind.BV_SUB, a, b)),
  "vabsdu": lambda t, a, b: t.if_(t(Kind.BV_ULT, a, b), t(Kind.BV_SUB, b, a), t(Kind.BV_SUB, a, b)),
}
"""What these operations compute, by SMT-LIB's theory of bit vectors."""


def _operand(word: int) -> Truth:
  return lambda c: c.terms.eq(c.input("a", 0), word)


_COVERS = {"-0": _operand(1 << 31), "a NaN": _operand(0x7F800001), "a subnormal": _operand(1)}

THEOREMS = [
  Theorem("lane.float_signs", "vfabs, vfneg and vfsign are IEEE 754's absolute value and negation and the sign: 0, 1 or -1; NaN is "
          "0x7FC00000.",
          "IEEE 754-2019, 5.5.1; docs/isa.md", Equation(VectorLane, _float, _COVERS),
          (Mutant("vpu_lane", "\"vfabs\": Mux(nan, NAN32, a[:31])", "\"vfabs\": a[:31]"),
           Mutant("vpu_lane", "Mux(a[:31] == 0, 0,", "Mux(a == 0, 0,")), quick=True),
  Theorem("lane.float_algebra", "Of floats: --x = x, |-x| = |x|, ||x|| = |x|, sign(-x) = -sign(x) but for zeros, and |x| sign(x) = x by "
          "the multiplier, all bit by bit.",
          "algebra", Equation(VectorLane, _algebra, _COVERS),
          (Mutant("vpu_lane", "Cat(a[:31], ~a[31])", "Cat(a[:31], 1)"),
           Mutant("float_mul", "a[31] ^ b[31], \"sign1\"", "a[31] & b[31], \"sign1\"")), quick=True),
  Theorem("lane.integer_algebra", "Of integers: --x = x, |-x| = |x|, sign(-x) = -sign(x) and |x| >= 0 but for the least one, and |x| "
          "sign(x) = x.",
          "algebra", Equation(VectorLane, _integer_algebra, {"the least": _operand(1 << 31), "-1": _operand(0xFFFFFFFF)}),
          (Mutant("vpu_bits", "Mux(x.as_signed() < 0, -x, x)[:width]", "Mux(x.as_signed() < 0, ~x, x)[:width]"),
           Mutant("vpu_bits", "Cat(x != 0, (x < 0)", "Cat(x > 0, (x < 0)")), quick=True),
  Theorem("lane.integers", f"{len(INTEGERS)} operations on integers are those of the theory of bit vectors: {', '.join(INTEGERS)}.",
          "docs/isa.md", Equation(VectorLane, _is(INTEGERS), {"the least": _operand(1 << 31)}),
          (Mutant("vpu_lane", "\"vsar\": x >> shift", "\"vsar\": a >> shift"),
           Mutant("vpu_bits", "negative != x[width - 1], Cat", "negative & ~x[width - 1], Cat")), quick=True),
]
