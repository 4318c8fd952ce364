"""What a rule makes of a UOp, compared with what the UOp means, to the bit (a NaN is a NaN)."""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tinygrad.dtype import DType, dtypes
from tinygrad.uop.ops import Ops, UOp

from tests.backend.uop_machine import in_register, words
from tests.backend.uop_meaning import APPROXIMATE, meaning, rounded
from tinytpu.backend.types import TYPES

INTS = [d for d, row in TYPES.items() if row.kind in "iu"]
FLOATS = [d for d, row in TYPES.items() if row.kind == "f"]
HALVES = [d for d, row in TYPES.items() if row.round]
LONG = [dtypes.int64, dtypes.uint64]
Given = Mapping[UOp, np.ndarray]


class Difference(AssertionError):
  """A rule gives something else than its UOp means."""


def leaf(name: str, dtype: DType, low: int | None = None, high: int | None = None) -> UOp:
  return UOp.variable(name, dtype.min if low is None else low, dtype.max if high is None else high, dtype)


def const(value: float, dtype: DType) -> UOp:
  return UOp.const(value, dtype)


def of(dtype: DType) -> tuple[UOp, UOp]:
  return leaf("a", dtype), leaf("b", dtype)


# -- comparing ------------------------------------------------------------------------------------------
def compare(what: object, got: np.ndarray, want: np.ndarray, given: Given, steps: int = 0) -> int:
  """Number of operands tried. got, want: words, or floats, which may be `steps` neighbours apart.

  Raises:
    Difference: with the smallest operands that show it.
  """
  leaves = [u for u in given if u.op is not Ops.PARAM]  # no memories
  got, want, *operands = np.broadcast_arrays(got, want, *(given[u] for u in leaves))
  if want.dtype.kind == "f":
    word = f"u{want.itemsize}"
    x, y = np.ascontiguousarray(got, want.dtype).view(word), np.ascontiguousarray(want).view(word)
    same = (x == y) | np.isnan(got) & np.isnan(want)
    if steps:
      same |= np.isfinite(got) & np.isfinite(want) & (np.abs(_order(x) - _order(y)) <= steps)
  else:
    same = got == want
  if not same.all():
    wrong = np.flatnonzero(~same)
    with np.errstate(all="ignore"):
      size = sum(np.abs(np.nan_to_num(x.ravel()[wrong].astype(np.float64))) for x in operands)
    at = wrong[np.argmin(size)] if operands else 0
    tried = ", ".join(f"{u.arg.name} = {x.ravel()[at]}" for u, x in zip(leaves, operands, strict=True))
    raise Difference(f"{what}\nof {tried}: {got.ravel()[at]}, not {want.ravel()[at]}")
  return got.size


def _order(words_: np.ndarray) -> np.ndarray:
  """Numbers that rise by one from float to float."""
  sign = 1 << 8 * words_.itemsize - 1
  n = words_.astype(np.int64)
  return np.where(n & sign, -(n & sign - 1), n)


def machine(u: UOp, given: Given, file: str = "v") -> int:
  """What the backend selects for `u`, on the vector or the scalar unit, against its meaning."""
  want, got = meaning(u, given), words(u, given, file)
  if u.dtype not in dtypes.floats:
    return compare(u, got, in_register(want, u.dtype), given)
  got = got.view(np.float32)
  if u.op not in APPROXIMATE:
    return compare(u, got, want.astype(np.float32), given)
  with np.errstate(all="ignore"):
    fitting = rounded(got.astype(np.float64), u.dtype)
  compare(u, got, fitting.astype(np.float32), given)
  return compare(u, fitting, want, given, 1 << 16 if u.dtype == dtypes.bfloat16 else 1)


def rewritten(u: UOp, new: UOp, given: Given, **how: int) -> int:
  """A UOp against the one that stands for it."""
  return compare(u, meaning(new, given, **how), meaning(u, given), given)
