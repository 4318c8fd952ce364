"""Slot X: reductions, on rows of the register array."""
from __future__ import annotations

import numpy as np

from ..isa.semantics import add, as_f, fadd, flt, fmax, fmin, fmul, lt, max_, maxu, min_, minu, mul
from .jit import jit
from .layout import REDUCTION_NAMES, WIDE_A, X_ROW

u32 = np.uint32
VALUE, PLACE = WIDE_A, WIDE_A + 1   # scratch rows: the tree's values, and where they come from
XSUM, XPROD, XMAX, XMIN, XFSUM, XFPROD, XFMAX, XFMIN, XMAXU, XMINU, XAMAX, XAMIN, XFAMAX, XFAMIN = range(len(REDUCTION_NAMES))
if REDUCTION_NAMES != ("xsum", "xprod", "xmax", "xmin", "xfsum", "xfprod", "xfmax", "xfmin", "xmaxu", "xminu", "xamax", "xamin",
                       "xfamax", "xfamin"):
  raise TypeError(f"the simulator knows other reductions than the table's {REDUCTION_NAMES}: extend iss.reduce")


@jit
def combine(kind, x, y):
  """One node of the tree of a reduction that is not of indices."""
  if kind == XSUM:
    return add(x, y)
  if kind == XPROD:
    return mul(x, y)
  if kind == XMAX:
    return max_(x, y)
  if kind == XMIN:
    return min_(x, y)
  if kind == XMAXU:
    return maxu(x, y)
  if kind == XMINU:
    return minu(x, y)
  if kind == XFSUM:
    return fadd(x, y)
  if kind == XFPROD:
    return fmul(x, y)
  return fmax(x, y) if kind == XFMAX else fmin(x, y)


@jit
def second_wins(kind, x, y):
  """Whether y, which comes later, is the one whose index is sought."""
  if kind == XAMAX:
    return lt(x, y) != u32(0)
  if kind == XAMIN:
    return lt(y, x) != u32(0)
  if as_f(x) != as_f(x):
    return False
  return as_f(y) != as_f(y) or (flt(x, y) if kind == XFAMAX else flt(y, x)) != u32(0)


@jit
def reduction(R, kind, along, a, width, side):
  """Reduction `kind` of row a, `along` 0 sublanes, 1 lanes, 2 the tile, into row X_ROW."""
  for e in range(width):
    R[VALUE, e] = R[a, (e % side) * side + e // side] if along == 1 else R[a, e]
    R[PLACE, e] = u32(e) if along == 2 else u32(e % side)
  n = width
  while n > (1 if along == 2 else side):
    n //= 2
    for e in range(n):
      x, y = R[VALUE, 2 * e], R[VALUE, 2 * e + 1]
      if kind < XAMAX:
        R[VALUE, e] = combine(kind, x, y)
      else:
        winner = 2 * e + 1 if second_wins(kind, x, y) else 2 * e
        R[VALUE, e], R[PLACE, e] = R[VALUE, winner], R[PLACE, winner]
  row = VALUE if kind < XAMAX else PLACE
  for e in range(width):
    R[X_ROW, e] = R[row, 0 if along == 2 else e % side if along == 1 else e // side]
