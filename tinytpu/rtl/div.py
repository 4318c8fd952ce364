"""One lane's iterative unit: integer divide and remainder, float divide, reciprocal and square root."""

from typing import ClassVar

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from tinytpu.rtl.float_common import INF32, NAN32, is_nan, leading_zeros, name

__all__ = ["DivOp", "DivSqrt"]


class DivOp(enum.Enum, shape=4):
  """What `DivSqrt` computes. Integers: x / 0 = all ones, x rem 0 = x, INT_MIN / -1 = INT_MIN."""

  DIV = 0  # int32, toward zero
  REM = 1  # its remainder, with the sign of a
  DIVU = 2  # uint32
  REMU = 3
  FLDIV = 4  # int32, toward minus infinity
  FLMOD = 5  # its remainder, with the sign of b
  FDIV = 8  # float32, to nearest even
  FRCP = 9  # 1 / a
  FSQRT = 10  # -0 for -0, NaN below


class DivSqrt(wiring.Component):
  """o = op(a, b), one bit of quotient or root per cycle (radix-2 restoring); every operation takes `CYCLES` cycles.

  Operands are captured at the end of the cycle in which `start` is high, cycle n; `o` is valid in cycle n + `CYCLES`
  and stays until the next operation's result replaces it. Not pipelined: a new start before that gives up the
  operation under way. A start in cycle n + `CYCLES` - 1 still lets the result in.

  One cycle prepares (magnitudes of integers; normalised significands), 32 iterate on a remainder of 34 bits, one
  finishes (signs; rounding). All operations share the iteration: shift the next dividend bits into the remainder,
  subtract the divisor, or for a root four times itself plus one, if that leaves no borrow.

  Members:
      start: In(1); op: In(DivOp); a, b: In(32), with start.
      busy: Out(1), high in cycles n + 1 to n + `CYCLES` - 1.
      o: Out(32), the result.
  """

  start: In(1)
  op: In(DivOp)
  a: In(32)
  b: In(32)
  busy: Out(1)
  o: Out(32)

  CYCLES: ClassVar[int] = 35

  def __init__(self) -> None:
    super().__init__()
    self.step = Signal(6)  # 0 idle, 1 prepare, 2 to 33 iterate, 34 finish
    self.kind = Signal(4)
    # Operands at first; then dividend turning into quotient, or root; divisor, or radicand; remainder.
    self.quotient = Signal(32, reset_less=True)
    self.divisor = Signal(32, reset_less=True)
    self.remainder = Signal(34, reset_less=True)
    self.sign_a = Signal(reset_less=True)
    self.sign_b = Signal(reset_less=True)
    # Of float results: special cases and biased exponent of a significand in [1, 2).
    self.nan = Signal(reset_less=True)
    self.infinite = Signal(reset_less=True)
    self.zero = Signal(reset_less=True)
    self.exponent = Signal(signed(10), reset_less=True)

  def elaborate(self, platform) -> Module:
    m = Module()
    last = self.CYCLES - 1
    is_float = self.kind[3]
    is_root = name(m, self.kind == DivOp.FSQRT.value, "is_root")
    m.d.comb += self.busy.eq(self.step != 0)
    with m.If(self.step == 1):
      m.d.sync += self.step.eq(2)
      with m.If(is_float):
        self._prepare_float(m, is_root)
      with m.Else():
        self._prepare_int(m)
    with m.Elif(self.step == last):
      m.d.sync += [self.step.eq(0), self.o.eq(Mux(is_float, self._finish_float(m, is_root), self._finish_int(m)))]
    with m.Elif(self.step != 0):
      m.d.sync += self.step.eq(self.step + 1)
      self._iterate(m, is_root)
    with m.If(self.start):
      reciprocal = self.op == DivOp.FRCP
      m.d.sync += [
        self.step.eq(1),
        self.kind.eq(self.op),
        self.quotient.eq(Mux(reciprocal, 0x3F800000, self.a)),
        self.divisor.eq(Mux(reciprocal, self.a, self.b)),
      ]
    return m

  def _prepare_int(self, m: Module) -> None:
    a, b = self.quotient, self.divisor
    unsigned = name(m, self.kind[1:3] == 1, "unsigned")
    sign_a = name(m, a[31] & ~unsigned, "int_sign_a")
    sign_b = name(m, b[31] & ~unsigned, "int_sign_b")
    m.d.sync += [
      self.sign_a.eq(sign_a),
      self.sign_b.eq(sign_b),
      a.eq(Mux(sign_a, -a, a)),
      b.eq(Mux(sign_b, -b, b)),
      self.remainder.eq(0),
    ]

  def _prepare_float(self, m: Module, is_root: Value) -> None:
    a, b = self.quotient, self.divisor
    significand_a, exponent_a = self._normalise(m, a, "a")
    significand_b, exponent_b = self._normalise(m, b, "b")
    zero_a, zero_b = name(m, a[:31] == 0, "zero_a"), name(m, b[:31] == 0, "zero_b")
    infinite_a, infinite_b = name(m, a[:31] == INF32, "infinite_a"), name(m, b[:31] == INF32, "infinite_b")
    nan_a, nan_b = is_nan(a), is_nan(b)
    m.d.sync += [self.sign_a.eq(a[31]), self.sign_b.eq(b[31] & ~is_root)]
    with m.If(is_root):
      m.d.sync += [
        self.nan.eq(nan_a | (a[31] & ~zero_a)),
        self.infinite.eq(infinite_a),
        self.zero.eq(zero_a),
        self.exponent.eq((exponent_a + 127) >> 1),
        # Radicand in [1, 4), two bits before the point; an even biased exponent is an odd power of two.
        self.divisor.eq(Mux(exponent_a[0], Cat(Const(0, 7), significand_a), Cat(Const(0, 8), significand_a))),
        self.quotient.eq(0),
        self.remainder.eq(0),
      ]
    with m.Else():
      m.d.sync += [
        self.nan.eq(nan_a | nan_b | (zero_a & zero_b) | (infinite_a & infinite_b)),
        self.infinite.eq(infinite_a | zero_b),
        self.zero.eq(zero_a | infinite_b),
        self.exponent.eq(exponent_a - exponent_b + 127),
        # The dividend is significand_a * 2^31, so that the quotient's point is below bit 31.
        self.divisor.eq(significand_b),
        self.quotient.eq(Cat(Const(0, 31), significand_a[0])),
        self.remainder.eq(significand_a[1:]),
      ]

  @staticmethod
  def _normalise(m: Module, word: Value, label: str) -> tuple[Value, Value]:
    """Significand with its leading one at bit 23, and the biased exponent that goes with it (from -22 on)."""
    normal = name(m, word[23:31] != 0, f"normal_{label}")
    significand = Cat(word[:23], normal)
    zeros = leading_zeros(m, significand, f"zeros_{label}")
    exponent = Signal(signed(10), name=f"exponent_{label}")
    m.d.comb += exponent.eq((word[23:31] | ~normal) - zeros)
    return name(m, (significand << zeros)[:24], f"significand_{label}"), exponent

  def _iterate(self, m: Module, is_root: Value) -> None:
    q, d, r = self.quotient, self.divisor, self.remainder
    shifted = name(m, Mux(is_root, Cat(d[30:], r[:32]), Cat(q[31], r[:33])), "shifted")
    subtrahend = Mux(is_root, Cat(Const(1, 2), q), d)
    fits = name(m, shifted >= subtrahend, "fits")
    m.d.sync += [
      r.eq(Mux(fits, shifted - subtrahend, shifted)),
      q.eq(Cat(fits, q[:31])),
      d.eq(Mux(is_root, d << 2, d)),
    ]

  def _finish_int(self, m: Module) -> Value:
    q, d, r = self.quotient, self.divisor, self.remainder[:32]
    differ = name(m, self.sign_a ^ self.sign_b, "differ")
    floor_down = name(m, self.kind[2] & differ & (r != 0), "floor_down")
    quotient = Mux(d == 0, 0xFFFFFFFF, Mux(floor_down, ~q, Mux(differ, -q, q))[:32])
    magnitude = Mux(floor_down, d - r, r)[:32]
    negate = self.sign_a ^ floor_down
    # d - r has the sign of b, which is the other one than that of a.
    remainder = Mux(negate, -magnitude, magnitude)[:32]
    return Mux(self.kind[0], remainder, quotient)

  def _finish_float(self, m: Module, is_root: Value) -> Value:
    q, e = self.quotient, self.exponent
    normal = name(m, e >= 2, "normal")  # also after losing one to a quotient below 1
    halve = name(m, ~q[31] & normal, "halve")
    aligned = name(m, Mux(halve, q << 1, q)[:32], "aligned")
    below = name(m, (1 - e)[:10], "below")  # the same for e = 1: no shift
    right = name(m, Mux(normal, 0, Mux(below[5:] != 0, 31, below[:5])), "right")
    sticky = (aligned[:7] != 0) | (self.remainder != 0)
    fine = name(m, Cat(Const(0, 31), sticky, aligned[7:]) >> right, "fine")
    up = name(m, fine[32] & ((fine[:32] != 0) | fine[33]), "up")
    base = name(m, Mux(normal, (e - 1 - halve)[:8], 0), "base")
    packed = name(m, (Cat(Const(0, 23), base) + fine[33:] + up)[:32], "packed")
    overflow = (e >= 256) | (packed[23:] >= 0xFF)
    sign = self.sign_a ^ self.sign_b
    finite = Mux(self.infinite | overflow, INF32, packed)
    return Mux(self.nan, NAN32, Mux(self.zero, Cat(Const(0, 31), sign), Cat(finite[:31], sign)))
