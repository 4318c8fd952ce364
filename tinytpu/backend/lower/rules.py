"""Instruction selection as data: which operation computes a UOp, by UOp and kind of its operands."""
from __future__ import annotations

from typing import NamedTuple

from tinygrad.dtype import DType, dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp

from ..types import kind, rounding


class Rule(NamedTuple):
  """vector, scalar: mnemonics, scalar "" where there is none. order: operands by position in the UOp, or an int as an
  immediate; None: all in order. wraps: the result may leave a narrow integer. rounds: it may leave a 16-bit float."""
  vector: str
  scalar: str = ""
  order: tuple[str | int, ...] | None = None
  wraps: bool = False
  rounds: bool = False


def _both(stem: str, wraps: bool = False) -> Rule:
  return Rule("v" + stem, "s" + stem, wraps=wraps)


SIGN = 0x80000000
RULES: dict[tuple[Ops, str], Rule] = {
  **{(op, k): _both(stem, wraps=True) for k in "iu" for op, stem in (
    (Ops.ADD, "add"), (Ops.SUB, "sub"), (Ops.MUL, "mul"), (Ops.SHL, "shl"))},
  **{(op, k): _both(stem) for op, stem in ((Ops.AND, "and"), (Ops.OR, "or"), (Ops.XOR, "xor")) for k in "iub"},
  **{(op, k): _both(stem) for op, stem in ((Ops.CMPEQ, "eq"), (Ops.CMPNE, "ne")) for k in "iub"},
  **{(op, "i"): _both(stem, wraps=True) for op, stem in (
    (Ops.CDIV, "div"), (Ops.CMOD, "rem"), (Ops.FLOORDIV, "fldiv"), (Ops.FLOORMOD, "flmod"))},
  **{(op, "u"): _both(stem) for op, stem in ((Ops.CDIV, "divu"), (Ops.CMOD, "remu"), (Ops.FLOORDIV, "divu"), (Ops.FLOORMOD, "remu"))},
  (Ops.SHR, "i"): _both("sar"), (Ops.SHR, "u"): _both("shr"), (Ops.MAX, "i"): _both("max"), (Ops.MAX, "u"): _both("maxu"),
  (Ops.CMPLT, "i"): _both("lt"), (Ops.CMPLT, "u"): _both("ltu"), (Ops.CMPLT, "b"): _both("ltu"),
  (Ops.ADD, "b"): _both("or"), (Ops.MUL, "b"): _both("and"), (Ops.MAX, "b"): _both("or"),
  **{(Ops.NEG, k): Rule("vsub", "ssub", (0, "a"), wraps=True) for k in "iu"},
  **{(Ops.WHERE, k): _both("sel") for k in "iubf"},
  **{(op, "f"): Rule(name, rounds=True) for op, name in (
    (Ops.ADD, "vfadd"), (Ops.SUB, "vfsub"), (Ops.MUL, "vfmul"), (Ops.FDIV, "vfdiv"), (Ops.RECIPROCAL, "vfrcp"), (Ops.SQRT, "vfsqrt"),
    (Ops.EXP2, "vfexp2"), (Ops.LOG2, "vflog2"), (Ops.SIN, "vfsin"))},
  **{(op, "f"): Rule(name) for op, name in (
    (Ops.CMPLT, "vflt"), (Ops.CMPEQ, "vfeq"), (Ops.CMPNE, "vfne"), (Ops.TRUNC, "vftrunc"))},
  (Ops.NEG, "f"): Rule("vxor", "", ("a", SIGN)),
  (Ops.MAX, "f"): Rule("vfsmax", "", ("b", "a")),  # a < b ? b : a
}
"""Operations by UOp and kind of its operands, see `operand_dtype`."""

SUPPORTED_OPS = tuple(dict.fromkeys(op for op, _ in RULES if op not in (Ops.FLOORDIV, Ops.FLOORMOD)))
"""What tinygrad may leave undecomposed."""


def rule_of(u: UOp) -> Rule | None:
  """The rule for an arithmetic UOp; None: the machine has no operation for it."""
  return RULES.get((u.op, kind(operand_dtype(u))))


def operand_dtype(u: UOp) -> DType:
  """The dtype that decides how an arithmetic UOp computes: of WHERE that of what is chosen, of the rest (shifts have counts of another
  dtype, comparisons a bool result) that of the first operand."""
  return u.src[1 if u.op is Ops.WHERE else 0].dtype


def cast_sequence(source: DType, target: DType) -> list[tuple[str, int | None]]:
  """Operations (mnemonic without its v or s, immediate or None) of a CAST between dtypes of `TYPES`, before the target's `wrap`.
  Out of range, floats convert as on x86: through int32 to narrow integers."""
  s, t = kind(source), kind(target)
  if source == target or s == "b" and t in "iu":
    return []
  if t == "b":
    return [("fne" if s == "f" else "ne", 0)]
  if s != "f" and t == "f":
    return [("i2f" if s == "i" else "u2f", None), *_rounding(target)]
  if s == "f" and t == "f":
    return _rounding(target)
  if s == "f":
    return [("f2u" if target == dtypes.uint32 else "f2i", None)]
  return []


def cast_wraps(source: DType, target: DType) -> bool:
  """Whether a CAST to an integer may leave its range, so that it needs the target's `wrap`."""
  s, t = kind(source), kind(target)
  if t not in "iu" or s == "b":
    return False
  if s == "f" or target.itemsize < source.itemsize:
    return True
  return s != t and (target.itemsize == source.itemsize or s == "i")  # wider unsigned from signed: the sign is cut off


def _rounding(dtype: DType) -> list[tuple[str, int | None]]:
  return [(name[1:], None)] if (name := rounding(dtype)) else []
