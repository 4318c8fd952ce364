"""Peepholes: operations of the machine that stand for several UOps. Each is an identity over all operands, to the bit.

`tests/backend/test_rules_exhaustive.py` evaluates every rule over all 8-bit operands, and at 16 and 32 bits, and fails for one that it
does not know.

Only where the vector unit computes: a value that is the same in all lanes stays on the scalar unit.
"""
from __future__ import annotations

import math
from typing import NamedTuple

from tinygrad.dtype import dtypes
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat

from ..types import kind
from ..uops import INFINITY, MAGNITUDE, REDUCTION, constant
from .rules import SIGN


class Fused(NamedTuple):
  """vector: mnemonic. operands: UOps, ints as immediates, and operations in their turn."""
  vector: str
  operands: tuple[UOp | int | Fused, ...]

  def leaves(self) -> tuple[UOp, ...]:
    """The UOps that it is computed from."""
    return tuple(leaf for o in self.operands for leaf in (o.leaves() if isinstance(o, Fused) else (o,) if isinstance(o, UOp) else ()))


def fuse(u: UOp) -> Fused | None:
  """The operations that compute `u` and UOps that it is made of, if there is a rule."""
  return PEEPHOLES.rewrite(u)  # type: ignore[return-value]


def rotation(x: UOp, n: UOp, m: UOp) -> Fused | None:
  """x << n combined with x >> 32 - n."""
  by, back = constant(n), constant(m)
  return Fused("vrotl", (x, by)) if isinstance(by, int) and isinstance(back, int) and 0 < by < 32 and by + back == 32 else None


def half_round(x: UOp, n: UOp, m: UOp, y: UOp) -> Fused | None:
  """(x rotated by n) ^ (x + y): half a round of Threefry."""
  return None if (turn := rotation(x, n, m)) is None else Fused("vaxr", (*turn.operands, y))


def choice(u: UOp, a: UOp, b: UOp, yes: UOp, no: UOp) -> Fused | None:
  """a < b ? a : b and its like."""
  if a.dtype != u.dtype or {a, b} != {yes, no} or kind(u.dtype) == "b":
    return None
  stem = "min" if yes is a else "max"
  return Fused({"i": "v" + stem, "u": f"v{stem}u", "f": "vfs" + stem}[kind(u.dtype)], (yes, no))


def float_minimum(a: UOp, b: UOp) -> Fused:
  """-max(-a, -b), as tinygrad writes the smaller of two floats."""
  return Fused("vfsmin", (b, a))


def largest(most: UOp, a: UOp, b: UOp, bits: UOp, infinity: UOp, magnitude: UOp) -> Fused | None:
  """A step of a reduction to the largest (`uops.combine`), in which zeros may have any order."""
  of_b = bits is b or bits.op is Ops.CAST and bits.src[0] is b and bits.dtype == dtypes.float32
  found = most.tag == REDUCTION and of_b and (constant(infinity), constant(magnitude)) == (INFINITY, MAGNITUDE)
  return Fused("vfmax", (a, b)) if found else None


def integer_minimum(u: UOp, a: UOp, b: UOp, ones: UOp) -> Fused | None:
  """~max(~a, ~b), as tinygrad writes the smaller of two integers."""
  of = kind(u.dtype)
  complement = constant(ones) == (u.dtype.max if of == "u" else -1)
  return Fused({"i": "vmin", "u": "vminu"}[of], (a, b)) if of in "iu" and complement else None


def sign(u: UOp, x: UOp, zero: UOp, less: UOp, minus: UOp, plus: UOp, none: UOp) -> Fused | None:
  """x != 0 ? (x < 0 ? -1 : 1) : 0 of an integer. (Of a float it is 1 for NaN, unlike vfsign.)"""
  return Fused("vsign", (x,)) if kind(u.dtype) == "i" and _of_sign(u, x, zero, less, minus, plus, none) else None


def magnitude(u: UOp, x: UOp, zero: UOp, less: UOp, minus: UOp, plus: UOp, none: UOp) -> Fused | None:
  """x times its sign. A negative zero stays one, as the product has it."""
  if kind(u.dtype) not in "if" or not _of_sign(u, x, zero, less, minus, plus, none):
    return None
  return Fused("vabs", (x,)) if kind(u.dtype) == "i" else Fused("vfsmax", (Fused("vxor", (x, SIGN)), x))


def _of_sign(u: UOp, x: UOp, zero: UOp, less: UOp, minus: UOp, plus: UOp, none: UOp) -> bool:
  rest = constant(none)
  return (x.dtype == u.dtype and constant(minus) == -1 and constant(plus) == 1 and constant(zero) == constant(less) == rest == 0
          and math.copysign(1, rest) > 0)


_x, _y, _a, _b = (UPat.var(name) for name in "xyab")
_ROTATED = UPat((Ops.ADD, Ops.OR, Ops.XOR), dtypes.uint32,
                src=[UPat(Ops.SHL, src=(_x, UPat.var("n"))), UPat(Ops.SHR, src=(_x, UPat.var("m")))])
_SIGN = UPat(Ops.WHERE, src=(
  UPat(Ops.CMPNE, src=(_x, UPat.var("zero"))),
  UPat(Ops.WHERE, src=(UPat(Ops.CMPLT, src=(_x, UPat.var("less"))), UPat.var("minus"), UPat.var("plus"))), UPat.var("none")))
_ones = UPat.var("ones")
_NAN = UPat(Ops.CMPLT, src=(UPat.var("infinity"), UPat(Ops.AND, dtypes.uint32, src=[
  UPat(Ops.BITCAST, src=(UPat.var("bits"),)), UPat.var("magnitude")])))

RULES = (
  (UPat(Ops.XOR, dtypes.uint32, src=[_ROTATED, UPat(Ops.ADD, src=[_x, _y])]), half_round),
  (_ROTATED, rotation),
  (UPat(Ops.WHERE, src=(UPat(Ops.CMPLT, src=(_a, _b)), UPat.var("yes"), UPat.var("no")), name="u"), choice),
  (UPat(Ops.NEG, dtypes.floats, src=(UPat(Ops.MAX, src=tuple(UPat(Ops.NEG, src=(v,)) for v in (_a, _b))),)), float_minimum),
  (UPat(Ops.WHERE, dtypes.floats, src=(_NAN, _b, UPat(Ops.MAX, src=(_a, _b), name="most"))), largest),
  (UPat(Ops.XOR, src=(UPat(Ops.MAX, src=tuple(UPat(Ops.XOR, src=(v, _ones)) for v in (_a, _b))), _ones), name="u"), integer_minimum),
  (_SIGN.named("u"), sign),
  (UPat(Ops.MUL, src=[_x, _SIGN], name="u"), magnitude),
)
"""Patterns, and what they become; the first that applies."""
PEEPHOLES = PatternMatcher(list(RULES))
