"""16-bit floats that are only moved (flip, pad, cat, a choice between two) go as the 16-bit words that they are.

As numbers they would become float32 on their way through a register, and every NaN the one NaN of this machine.
"""
from __future__ import annotations

import numpy as np
from tinygrad.dtype import AddrSpace, DType, dtypes
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat

from ..types import TYPES
from ..uops import constant

HALVES = tuple(dtype for dtype, row in TYPES.items() if row.round)


def _as_words(index: UOp) -> UOp:
  return index.replace(dtype=None, src=(index.src[0].bitcast(dtypes.uint16), *index.src[1:]))


def half_bits(value: float, dtype: DType) -> int:
  """The bits of a number as a 16-bit float, rounded to nearest even."""
  if dtype == dtypes.float16:
    with np.errstate(over="ignore"):
      return int(np.float16(value).view(np.uint16))
  assert dtype == dtypes.bfloat16
  word = int(np.float32(value).view(np.uint32))
  return 0x7FC0 if value != value else (word + 0x7FFF + (word >> 16 & 1)) >> 16 & 0xFFFF


def _moved(u: UOp) -> UOp | None:
  """A value that is only moved, as a word; None if something is computed."""
  if (c := constant(u)) is not None:
    return UOp.const(half_bits(float(c), u.dtype), dtypes.uint16)
  if u.op is Ops.LOAD and u.src[0].op is Ops.INDEX and u.src[0].addrspace is not AddrSpace.REG:
    if len(u.src) == 1:
      return _as_words(u.src[0]).load()
    return None if (alternative := _moved(u.src[1])) is None else _as_words(u.src[0]).load(alternative, *u.src[2:])
  if u.op is Ops.BITCAST:
    return u.src[0].bitcast(dtypes.uint16)
  if u.op is Ops.WHERE:
    yes, no = (_moved(s) for s in u.src[1:])
    return None if yes is None or no is None else u.src[0].where(yes, no)
  return None


def _copy(u: UOp, index: UOp, value: UOp) -> UOp | None:
  if index.addrspace is AddrSpace.REG or value.op not in (Ops.LOAD, Ops.WHERE, Ops.BITCAST) or (word := _moved(value)) is None:
    return None
  return u.replace(src=(_as_words(index), word, *u.src[2:]))


def _bits(u: UOp, value: UOp) -> UOp | None:
  return None if (word := _moved(value)) is None else word.bitcast(u.dtype)


COPIES = PatternMatcher([
  (UPat(Ops.BITCAST, (dtypes.uint16, dtypes.int16), src=(UPat((Ops.LOAD, Ops.WHERE), HALVES, name="value"),), name="u"), _bits),
  (UPat(Ops.STORE, src=(UPat(Ops.INDEX, HALVES, name="index"), UPat(dtype=HALVES, name="value")), allow_any_len=True, name="u"), _copy)])
