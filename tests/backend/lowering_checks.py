"""Checks of what UOps are lowered by: rows of RULES, conversions, constants, peepholes, division by constants.

Each returns how many operands it tried, and raises Difference.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
from tinygrad.dtype import DType, dtypes
from tinygrad.uop.ops import Ops, PatternMatcher, UOp

from tests.backend.operands import ends, integers, pairs, patterns, values
from tests.backend.rule_compare import FLOATS, HALVES, INTS, Given, const, leaf, machine, of
from tests.backend.uop_machine import emitted
from tests.backend.uop_meaning import NUMPY
from tinytpu.backend.lower import division, peephole, rules
from tinytpu.backend.types import TYPES, kind
from tinytpu.backend.uops import REDUCTION, combine, is_nan


# -- one UOp, one operation -----------------------------------------------------------------------------
def _binary(dtype: DType) -> Iterator[Given]:
  a, b = of(dtype)
  yield dict(zip((a, b), pairs(dtype), strict=True))


def _division(dtype: DType) -> Iterator[Given]:
  a, b = of(dtype)
  x, y = pairs(dtype)
  yield {a: x[y != 0], b: y[y != 0]}


def _shift(dtype: DType) -> Iterator[Given]:
  """Every value with every count of a word's bits, and some beyond, of the same dtype and another."""
  every = np.array([*range(32), 32, 33, 40, 63, 64, 96, 127])
  for counts in (dtype, dtypes.uint32):
    some = values(dtype) if dtype.itemsize < 2 else np.concatenate([ends(dtype), values(dtype)[:: len(values(dtype)) // 4000]])
    x, n = (v.ravel() for v in np.meshgrid(some, every.astype(NUMPY[counts]), indexing="ij"))
    yield {leaf("a", dtype): x, leaf("b", counts): n}


def _where(dtype: DType) -> Iterator[Given]:
  x, y = pairs(dtype)
  for c in (False, True):
    yield {leaf("c", dtypes.bool): np.array([c]), leaf("a", dtype): x, leaf("b", dtype): y}


def _one(dtype: DType) -> Iterator[Given]:
  yield {leaf("a", dtype): values(dtype)}


OPERANDS: dict[Ops, Callable[[DType], Iterator[Given]]] = {
  **dict.fromkeys((Ops.NEG, Ops.RECIPROCAL, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.TRUNC), _one),
  **dict.fromkeys((Ops.ADD, Ops.SUB, Ops.MUL, Ops.AND, Ops.OR, Ops.XOR, Ops.MAX, Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE, Ops.FDIV), _binary),
  **dict.fromkeys((Ops.CDIV, Ops.CMOD, Ops.FLOORDIV, Ops.FLOORMOD), _division),
  **dict.fromkeys((Ops.SHL, Ops.SHR), _shift), Ops.WHERE: _where}
"""What to try UOps on."""


def selected(op: Ops, of_kind: str) -> int:
  """A row of RULES, on every dtype of its kind and either unit."""
  rule, tried = rules.RULES[op, of_kind], 0
  for dtype in (d for d in TYPES if kind(d) == of_kind):
    for given in OPERANDS[op](dtype):
      u = UOp(op, src=tuple(given))
      tried += machine(u, given)
      if rule.scalar:
        tried += machine(u, given, "s")
  return tried


def casts() -> int:
  """Conversions between all dtypes."""
  tried = 0
  for source, target in product(TYPES, TYPES):
    x = values(source)
    if source in FLOATS and target in INTS:  # where the conversion has a meaning
      with np.errstate(all="ignore"):
        wide = np.trunc(x.astype(np.float64))
      x = x[(wide >= -2.0**31) & (wide < (2.0**32 if target == dtypes.uint32 else 2.0**31))]
    a = leaf("a", source)
    tried += machine(a.cast(target), {a: x})
    if source.itemsize == target.itemsize and dtypes.bool not in (source, target) and source != target:
      x = values(source)
      tried += machine(a.bitcast(target), {a: x[x == x] if source in HALVES else x})  # in a register there is one NaN of 16 bits
  return tried


def constants() -> int:
  """Constants, and constants under a cast, in registers."""
  tried = 0
  for dtype in TYPES:
    numbers = [float(x) for x in patterns(dtype)] if dtype in FLOATS else [int(x) for x in ends(dtype)]
    forms = [const(n, dtype) for n in numbers] + [const(n, s).cast(dtype) for s in INTS for n in (-3, -1, 0, 1, 2, 127) if n >= s.min]
    forms += [const(n, dtypes.float32).cast(dtype) for n in (0.0, -0.0, 0.25, 1.5, 2.0, 100.7)]
    tried += sum(machine(u, {}) for u in forms)
  return tried


# -- peepholes ------------------------------------------------------------------------------------------
def rotations(op: Ops = Ops.OR, dtype: DType = dtypes.uint32) -> Iterator[tuple[UOp, bool]]:
  """(x << n) combined with (x >> m), and whether it is a rotation."""
  x, bits = leaf("x", dtype), 8 * dtype.itemsize
  for n, m in [(n, bits - n) for n in range(1, bits)] + [(0, 0), (1, bits - 2), (bits - 1, bits - 1), (5, 5), (3, bits - 4)]:
    up, down = (x.alu(op, const(k, dtypes.uint32)) for op, k in ((Ops.SHL, n), (Ops.SHR, m)))
    yield up.alu(op, down), (one := dtype == dtypes.uint32 and n + m == bits)
    yield down.alu(op, up), one


def _rotation() -> Iterator[tuple[UOp, Given, bool]]:
  for dtype in (dtypes.uint8, dtypes.uint16, dtypes.uint32):
    some = np.concatenate([np.arange(256).astype(NUMPY[dtype]), ends(dtype), values(dtype)[::20]])
    for op in (Ops.ADD, Ops.OR, Ops.XOR):
      for u, hit in rotations(op, dtype):
        yield u, {leaf("x", dtype): some}, hit


def _half_round() -> Iterator[tuple[UOp, Given, bool]]:
  x, y = leaf("x", dtypes.uint32), leaf("y", dtypes.uint32)
  bytes_ = [v.astype(np.uint32) for v in pairs(dtypes.uint8)]
  for turn, hit in rotations():
    yield turn.alu(Ops.XOR, x + y), dict(zip((x, y), bytes_, strict=True)), hit
  some = [v[::10] for v in pairs(dtypes.uint32)]
  for op in (Ops.ADD, Ops.OR, Ops.XOR):
    for turn, hit in list(rotations(op))[::5]:
      for u in (turn.alu(Ops.XOR, y + x), (x + y).alu(Ops.XOR, turn), (y + x).alu(Ops.XOR, turn)):
        yield u, dict(zip((x, y), some, strict=True)), hit


def _choice() -> Iterator[tuple[UOp, Given, bool]]:
  for dtype in TYPES:
    a, b = of(dtype)
    for yes, no in ((a, b), (b, a), (a, a)):
      yield (a < b).where(yes, no), dict(zip((a, b), pairs(dtype), strict=True)), yes is not no and dtype != dtypes.bool
    yield (a < a).where(a, a), {a: values(dtype)}, dtype != dtypes.bool


def _float_minimum() -> Iterator[tuple[UOp, Given, bool]]:
  for dtype in FLOATS:
    a, b = of(dtype)
    most = a.alu(Ops.NEG).alu(Ops.MAX, b.alu(Ops.NEG))
    yield most.alu(Ops.NEG), dict(zip((a, b), pairs(dtype), strict=True)), True


def _largest() -> Iterator[tuple[UOp, Given, bool]]:
  """Steps of a reduction; and what is written like one, whose zeros have an order, or tests another number."""
  for dtype in FLOATS:
    a, b = of(dtype)
    x, y = pairs(dtype)
    ordered = (x != 0) | (y != 0)
    yield combine(Ops.MAX, a, b), {a: x, b: y}, True
    yield is_nan(b).where(b, a.alu(Ops.MAX, b)), {a: x, b: y}, False
    for test in (is_nan(a), b < 0):
      yield test.where(b, a.alu(Ops.MAX, b).rtag(REDUCTION)), {a: x[ordered], b: y[ordered]}, False


def _integer_minimum() -> Iterator[tuple[UOp, Given, bool]]:
  for dtype in INTS:
    a, b = of(dtype)
    complement = dtype.max if kind(dtype) == "u" else -1
    for n in dict.fromkeys((complement, -1, dtype.max, dtype.max - 1, dtype.min, 0, 1, 0x55)):
      for ones in (const(n, dtype), const(n, dtypes.int64).cast(dtype)):
        most = a.alu(Ops.XOR, ones).alu(Ops.MAX, b.alu(Ops.XOR, ones))
        yield most.alu(Ops.XOR, ones), dict(zip((a, b), pairs(dtype), strict=True)), n == complement


def signs(dtype: DType) -> Iterator[tuple[UOp, bool]]:
  """x != 0 ? (x < 0 ? -1 : 1) : 0, and with one of the constants another; and whether it is the sign."""
  x, right = leaf("a", dtype), (0, 0, -1, 1, 0)
  others = (0, 1, -1, 2) if dtype in INTS else (0.0, 1.0, -1.0, 0.5, -0.0)
  for cs in [right, *((*right[:i], o, *right[i + 1:]) for i in range(5) for o in others if str(float(o)) != str(float(right[i])))]:
    zero, less, minus, plus, none = (const(c, dtype) for c in cs)
    yield x.alu(Ops.CMPNE, zero).where((x < less).where(minus, plus), none), cs is right


def _sign() -> Iterator[tuple[UOp, Given, bool]]:
  for dtype in INTS + FLOATS:
    for u, hit in signs(dtype):
      yield u, {leaf("a", dtype): values(dtype)[::1 if hit else 7]}, hit and kind(dtype) == "i"


def _magnitude() -> Iterator[tuple[UOp, Given, bool]]:
  for dtype in INTS + FLOATS:
    x = leaf("a", dtype)
    for s, hit in signs(dtype):
      for u in (x.alu(Ops.MUL, s), s.alu(Ops.MUL, x)):
        yield u, {x: values(dtype)[::1 if hit else 7]}, hit and kind(dtype) in "if"


FORMS: dict[str, Callable[[], Iterator[tuple[UOp, Given, bool]]]] = {
  "rotation": _rotation, "half_round": _half_round, "choice": _choice, "float_minimum": _float_minimum, "largest": _largest,
  "integer_minimum": _integer_minimum,
  "sign": _sign, "magnitude": _magnitude}
"""By rule what to try it on: UOps that it must take (True) and UOps that look like them, of which it may only take what it is right for."""


def fused(name: str) -> int:
  """A peephole, by the name of its function."""
  mine = PatternMatcher([(p, f) for p, f in peephole.RULES if f.__name__ == name])
  tried = 0
  for u, given, hit in FORMS[name]():
    assert not hit or mine.rewrite(u) is not None, f"{name} does not take {u}"
    tried += machine(u, given)
  return tried


# -- division by constants ------------------------------------------------------------------------------
def divided(dtype: DType, by: int, n: np.ndarray, low: int | None = None) -> int:
  """Quotient and remainder by a constant, of numbers from `low` on."""
  x, tried = leaf("n", dtype, low), 0
  for op in (Ops.CDIV, Ops.CMOD):
    u = x.alu(op, const(by, dtype))
    if division.divides(u) is not None:
      assert not any(name in x.op.name for x in emitted(u, [x])[2] for name in ("div", "rem")), f"{u} takes the divider"
    tried += machine(u, {x: n})
  return tried


def _divisors(dtype: DType, rng: np.random.Generator) -> list[int]:
  """All of 8 bits; else neighbours of powers of two, everyday ones, one with a short multiplier and its cofactor, random ones; also
  two that are beyond their dtype, and stand for what they wrap to."""
  usual = (3, 5, 6, 7, 9, 10, 11, 12, 13, 14, 25, 60, 100, 125, 625, 641, 1000, 3600, 10_000, 6_700_417, 10**9)
  some = {s * n for n in (*((1 << k) + d for k in range(33) for d in (-1, 0, 1)), *usual) for s in (1, -1)}
  some |= set(rng.integers(-2**31, 2**32, 60).tolist()) if dtype.itemsize == 4 else set()
  inside = integers(dtype).tolist() if dtype.itemsize == 1 else [d for d in sorted(some) if dtype.min <= d <= dtype.max]
  return [d for d in inside if d] + ([dtype.max + 2, 2 * dtype.max - 3] if kind(dtype) == "i" else [-1, -3])


def _dividends(dtype: DType, by: int, rng: np.random.Generator) -> np.ndarray:
  """All of 8 and 16 bits; of 32 short numbers, ends, random ones, and the last, the first and other multiples with their neighbours."""
  if dtype.itemsize < 4:
    return integers(dtype)
  top = dtype.max // abs(by)
  times = np.concatenate([np.arange(max(0, top - 100), top + 1), np.arange(min(100, top)), rng.integers(0, top + 1, 300)]) * abs(by)
  near = np.concatenate([times - 1, times, times + 1])
  near = near[(near >= 0) & (near <= dtype.max)].astype(NUMPY[dtype])
  short = np.arange(-256, 256).astype(NUMPY[dtype])
  return np.concatenate([ends(dtype), short, integers(dtype)[::50], near, np.zeros((), near.dtype) - near])


def quotients() -> int:
  """By constants: of any number, and of those that are known not to be negative."""
  tried, rng = 0, np.random.default_rng(1)
  for dtype in INTS:
    for by in _divisors(dtype, rng)[::2 if dtype.itemsize == 2 else 1]:
      n = _dividends(dtype, by, rng)
      tried += divided(dtype, by, n)
      if kind(dtype) == "i":
        tried += divided(dtype, by, n[n >= 0], 0)
  return tried
