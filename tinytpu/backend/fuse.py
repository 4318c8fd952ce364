"""Operations of the machine that stand for several UOps: small patterns, each an identity over all operands.

Only where the vector unit computes: a value that is the same in all lanes stays on the scalar unit.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tinygrad.dtype import dtypes
from tinygrad.uop.ops import Ops, UOp

from .select import kind


class Fused(NamedTuple):
  """vector: mnemonic. operands: UOps, and ints as immediates."""
  vector: str
  operands: tuple[UOp | int, ...]


def fuse(u: UOp) -> Fused | None:
  """The one operation that computes `u` and UOps that it is made of, if there is one."""
  return next(filter(None, (rule(u) for rule in RULES.get(u.op, ()))), None)


def constant(u: UOp) -> int | float | None:
  """The number that a UOp stands for, if it is a constant."""
  v = u.src[0] if u.op is Ops.CAST else u
  return v.val if v.op is Ops.CONST and isinstance(v.val, (int, float)) else None


def _rotation(u: UOp) -> Fused | None:
  """x << n combined with x >> 32 - n."""
  if u.dtype != dtypes.uint32:
    return None
  for left, right in (u.src, u.src[::-1]):
    if left.op is Ops.SHL and right.op is Ops.SHR and left.src[0] is right.src[0]:
      n, m = constant(left.src[1]), constant(right.src[1])
      if isinstance(n, int) and isinstance(m, int) and 0 < n < 32 and n + m == 32:
        return Fused("vrotl", (left.src[0], n))
  return None


def _threefry(u: UOp) -> Fused | None:
  """(x rotated by n) ^ (x + y): half a round."""
  for rotated, total in (u.src, u.src[::-1]):
    if total.op is Ops.ADD and rotated.op in (Ops.ADD, Ops.OR, Ops.XOR) and (turn := _rotation(rotated)) is not None:
      x, n = turn.operands
      others = [s for s in total.src if s is not x]
      if len(others) == 1:
        return Fused("vaxr", (x, n, others[0]))
  return None


def _choice(u: UOp) -> Fused | None:
  """a < b ? a : b and its like. Of floats only with a constant, since one that is not ordered is chosen otherwise than by vfmin."""
  if u.src[0].op is not Ops.CMPLT or u.src[0].src[0].dtype != u.dtype:
    return None
  (a, b), (yes, no) = u.src[0].src, u.src[1:]
  if {a, b} != {yes, no}:
    return None
  stem = "min" if yes is a else "max"
  match kind(u.dtype):
    case "i":
      return Fused("v" + stem, (a, b))
    case "u":
      return Fused(f"v{stem}u", (a, b))
    case "f" if (c := constant(yes)) is not None and c == c and c != 0:  # of two zeros this takes `no`, vfmin the negative
      return Fused("vf" + stem, (no, yes))
  return None


def _minimum(u: UOp) -> Fused | None:
  """-max(-a, -b), as tinygrad writes the smaller of two floats, and the same of complements for integers."""
  of = kind(u.dtype)
  flipped = u.op is Ops.XOR and of in "iu" and constant(u.src[1]) in (-1, u.dtype.max)
  if not (flipped or u.op is Ops.NEG and of == "f") or (most := u.src[0]).op is not Ops.MAX:
    return None
  inner = []
  for s in most.src:
    if s.op is u.op and (u.op is Ops.NEG or s.src[1] is u.src[1]):
      inner.append(s.src[0])
  if len(inner) != 2:
    return None
  return Fused({"i": "vmin", "u": "vminu", "f": "vfmin"}[of], tuple(inner))


def _sign(u: UOp) -> Fused | None:
  """Sign of an integer: x != 0 ? (x < 0 ? -1 : 1) : 0. (Of a float tinygrad's is 1 for NaN, unlike vfsign.)"""
  return Fused("vsign", (x,)) if (x := _of_sign(u)) is not None and kind(u.dtype) == "i" else None


def _of_sign(u: UOp) -> UOp | None:
  if u.op is not Ops.WHERE or u.src[0].op is not Ops.CMPNE or u.src[1].op is not Ops.WHERE or constant(u.src[2]) != 0:
    return None
  x, zero = u.src[0].src
  less, minus, plus = u.src[1].src
  if constant(zero) != 0 or less.op is not Ops.CMPLT or less.src[0] is not x or constant(less.src[1]) != 0 or x.dtype != u.dtype:
    return None
  return x if constant(minus) == -1 and constant(plus) == 1 else None


def _magnitude(u: UOp) -> Fused | None:
  """x times its sign. (A negative zero becomes zero.)"""
  for x, s in (u.src, u.src[::-1]):
    if _of_sign(s) is x:
      return Fused({"i": "vabs", "f": "vfabs"}[kind(u.dtype)], (x,)) if kind(u.dtype) in "if" else None
  return None


RULES: dict[Ops, tuple[Callable[[UOp], Fused | None], ...]] = {
  Ops.ADD: (_rotation,), Ops.OR: (_rotation,), Ops.XOR: (_threefry, _rotation, _minimum), Ops.NEG: (_minimum,),
  Ops.WHERE: (_choice, _sign), Ops.MUL: (_magnitude,)}
"""By the UOp that the pattern ends in."""
