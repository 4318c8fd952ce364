"""What UOps mean, on numpy arrays: tinygrad's published meaning, apart from how the backend computes them.

Integers wrap at their width, division rounds toward zero (CDIV, CMOD) or down (FLOORDIV, FLOORMOD), MAX is a < b ? b : a, a float result is
rounded once. Conversions: floats to integers toward zero, to narrow ones through int32, to uint32 0 from negatives; integers to 16-bit
floats through float32. What has no meaning (counts below 0, floats beyond 32 bits to 32-bit integers) is for the caller to leave out;
what a division by zero gives, the caller says.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from tinygrad.dtype import DType, Invalid, dtypes
from tinygrad.uop.ops import GroupOp, Ops, UOp

from tinytpu.backend.uops import REDUCTION

NUMPY: dict[DType, type] = {
  dtypes.bool: np.bool_, dtypes.int8: np.int8, dtypes.uint8: np.uint8, dtypes.int16: np.int16, dtypes.uint16: np.uint16,
  dtypes.int32: np.int32, dtypes.uint32: np.uint32, dtypes.int64: np.int64, dtypes.uint64: np.uint64,
  dtypes.float16: np.float16, dtypes.bfloat16: np.float32, dtypes.float32: np.float32}
"""The arrays that hold values of a dtype. bfloat16: float32, of numbers that bfloat16 has."""
APPROXIMATE = (Ops.EXP2, Ops.LOG2, Ops.SIN)
"""Operations that are meant to be near, not exact to the last place."""


class Place(NamedTuple):
  """What an INDEX stands for: elements of a memory, where `valid`. Its index, if it has a gate, is one without a memory."""
  memory: np.ndarray | None
  at: np.ndarray
  valid: np.ndarray


def meaning(u: UOp, given: Mapping[UOp, np.ndarray], by_zero: int = 0) -> Any:
  """The value of a UOp from arrays for the UOps in `given` (memories for buffers); of a STORE index, gate and value. A division by
  zero gives `by_zero`.

  Raises:
    NotImplementedError: the meaning of a UOp is not written here.
  """
  known: dict[UOp, Any] = dict(given)
  with np.errstate(all="ignore"):
    for v in u.toposort(lambda v: v not in given):
      if v not in known:
        known[v] = _value(v, [known[s] for s in v.src], by_zero)
  return known[u]


def _value(u: UOp, xs: list, by_zero: int) -> Any:
  match u.op:
    case Ops.CONST:
      return constant(u.val, u.dtype)
    case Ops.CAST:
      return cast(xs[0], u.dtype)
    case Ops.BITCAST:
      return bitcast(xs[0], u.src[0].dtype, u.dtype)
    case Ops.WHERE if u.src[2].is_invalid:
      return Place(None, xs[1], xs[0])
    case Ops.INDEX:
      return Place(xs[0], xs[1].at, xs[1].valid) if isinstance(xs[1], Place) else Place(xs[0], xs[1], np.array(True))
    case Ops.LOAD:
      (memory, at, valid), other, gate = xs + [np.zeros((), xs[0].memory.dtype), True][len(xs) - 1:]
      return np.where(valid & gate, memory[np.where(valid & gate, at, 0)], other)
    case Ops.STORE:
      (_, at, valid), value, gate = xs + [True][len(xs) - 2:]
      return np.where(valid & gate, at, 0), valid & gate, value
    case op if op in GroupOp.ALU:
      operands = u.src[1:] if op is Ops.WHERE else u.src
      strong = next((s.dtype for s in operands if s.dtype not in dtypes.weaks), operands[0].dtype)
      xs = [cast(x, strong) if s.dtype in dtypes.weaks and strong in NUMPY else x for s, x in zip(u.src, xs, strict=True)]
      return _alu(u, strong, xs, by_zero)
  raise NotImplementedError(f"the meaning of {u.op}")


# -- arithmetic -----------------------------------------------------------------------------------------
def _alu(u: UOp, dtype: DType, xs: list[np.ndarray], by_zero: int) -> np.ndarray:
  if u.op is Ops.MAX and u.tag == REDUCTION and dtype in dtypes.floats:
    return _unordered_zeros(*xs)
  if u.op in ANY:
    return ANY[u.op](*xs)
  if dtype in dtypes.floats and u.op in FLOAT:
    return FLOAT[u.op](*xs) if dtype == dtypes.float32 and u.op not in APPROXIMATE else rounded(FLOAT[u.op](*(
      x.astype(np.float64) for x in xs)), dtype)
  if dtype not in dtypes.floats and u.op in DIVISION:
    a, b = xs
    return np.where(b == 0, cast(np.array(by_zero), dtype), DIVISION[u.op](a, np.where(b == 0, b.dtype.type(1), b)))
  if dtype not in dtypes.floats and u.op in INTEGER:
    return INTEGER[u.op](*xs)
  raise NotImplementedError(f"the meaning of {u.op} of {dtype}")


def _unordered_zeros(a: np.ndarray, b: np.ndarray) -> np.ndarray:
  """MAX in a reduction, which takes its operands in any order: of two zeros the positive one."""
  of_zeros = np.where(np.signbit(a), b, a)
  return np.where((a == 0) & (b == 0), of_zeros, np.where(a < b, b, a))


def _cdiv(a: np.ndarray, b: np.ndarray) -> np.ndarray:
  down = a // b
  return down + ((a - down * b != 0) & ((a < 0) != (b < 0))).astype(down.dtype)


ANY: dict[Ops, Callable[..., np.ndarray]] = {
  Ops.CMPLT: np.less, Ops.CMPNE: np.not_equal, Ops.CMPEQ: np.equal, Ops.MAX: lambda a, b: np.where(a < b, b, a),
  Ops.NEG: np.negative, Ops.WHERE: np.where, Ops.TRUNC: np.trunc}
FLOAT: dict[Ops, Callable[..., np.ndarray]] = {
  Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply, Ops.FDIV: np.divide, Ops.RECIPROCAL: lambda x: x.dtype.type(1) / x,
  Ops.SQRT: np.sqrt, Ops.EXP2: np.exp2, Ops.LOG2: np.log2, Ops.SIN: np.sin}
"""Of float32, or of float64 where the result is rounded to 16 bits, which is one rounding: 53 bits are more than twice as many."""
INTEGER: dict[Ops, Callable[..., np.ndarray]] = {
  Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply, Ops.AND: np.bitwise_and, Ops.OR: np.bitwise_or, Ops.XOR: np.bitwise_xor,
  Ops.SHL: lambda a, n: a << n.astype(a.dtype), Ops.SHR: lambda a, n: a >> n.astype(a.dtype)}
"""Of bools too. A shift by more than the width moves all bits out."""
DIVISION: dict[Ops, Callable[..., np.ndarray]] = {
  Ops.CDIV: _cdiv, Ops.CMOD: np.fmod, Ops.FLOORDIV: np.floor_divide, Ops.FLOORMOD: np.remainder}


# -- conversions ----------------------------------------------------------------------------------------
def rounded(x: np.ndarray, dtype: DType) -> np.ndarray:
  """float64 rounded to nearest even, to the numbers of a dtype."""
  if dtype != dtypes.bfloat16:
    return x.astype(NUMPY[dtype])
  exponent = np.maximum(np.frexp(x)[1], -125)  # the smallest normal number is 0.5 * 2^-125
  return np.where(np.isfinite(x), np.ldexp(np.rint(np.ldexp(x, 8 - exponent)), exponent - 8), x).astype(np.float32)


def constant(value: Any, dtype: DType) -> np.ndarray:
  """A number as an array of no dimension; of weak dtypes of what numpy takes for it."""
  if value is Invalid:
    return np.array(0)
  return np.array(value) if dtype in dtypes.weaks else cast(np.array(value), dtype)


def cast(x: np.ndarray, target: DType) -> np.ndarray:
  """CAST to a dtype."""
  to = NUMPY[target]
  if target in (dtypes.float16, dtypes.bfloat16):
    return rounded((x.astype(np.float32) if x.dtype.kind in "iu" else x).astype(np.float64), target)
  if x.dtype.kind != "f" or to in (np.bool_, np.float32):
    return x.astype(to)
  if target == dtypes.uint32:
    return np.where(x < 0, 0, np.trunc(x)).astype(to)
  return x.astype(np.int32).astype(to) if target.itemsize < 4 else np.trunc(x).astype(to)


def bitcast(x: np.ndarray, source: DType, target: DType) -> np.ndarray:
  """BITCAST between dtypes of one size. (A bfloat16 is the high half of a float32.)"""
  if source == target:
    return x
  if source == dtypes.bfloat16:
    x = (np.ascontiguousarray(x).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
  if target == dtypes.bfloat16:
    return (np.ascontiguousarray(x).view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
  return np.ascontiguousarray(x).view(NUMPY[target])
