"""Slot X: the cross-lane unit and the matrix unit, on rows of the register array."""
from __future__ import annotations

import numpy as np

from ..isa.semantics import of_f
from ..isa.table import OPS
from .jit import jit
from .layout import PSUM_ROW, X_ROW

u32, f32 = np.uint32, np.float32

_CODES = {op.name: op.code for op in OPS.values() if op.slot == "X"}
XBCR, XBCC, XBCE, XTR, XROT, XPERM = (_CODES.pop(n) for n in ("xbcr", "xbcc", "xbce", "xtr", "xrot", "xperm"))
XTOS, XANY, XALL = (_CODES.pop(n) for n in ("xtos", "xany", "xall"))
MMF, MMFZ, MMI, MMIZ, PPOP, PPUSH = (_CODES.pop(n) for n in ("mmf", "mmfz", "mmi", "mmiz", "ppop", "ppush"))
if _CODES:
  raise TypeError(f"the simulator does not know slot X operations {sorted(_CODES)}: extend iss.cross")


@jit
def cross(R, code, a, b, k, width, side):
  """Cross-lane move `code` of row a (index row b for xperm; k: scalar operand) into row X_ROW."""
  if code == XBCR:
    row = (k & (side - 1)) * side
    for e in range(width):
      R[X_ROW, e] = R[a, row + (e & (side - 1))]
  elif code == XBCC:
    lane = k & (side - 1)
    for e in range(width):
      R[X_ROW, e] = R[a, (e & ~(side - 1)) + lane]
  elif code == XBCE:
    value = R[a, k & (width - 1)]
    for e in range(width):
      R[X_ROW, e] = value
  elif code == XTR:
    for i in range(side):
      for j in range(side):
        R[X_ROW, i * side + j] = R[a, j * side + i]
  elif code == XROT:
    for e in range(width):
      R[X_ROW, e] = R[a, (e + k) & (width - 1)]
  elif code == XPERM:
    for e in range(width):
      R[X_ROW, e] = R[a, np.int64(R[b, e]) & (width - 1)]


@jit
def to_scalar(R, code, a, k, width):
  """Word that xtos, xany or xall takes from row a."""
  if code == XTOS:
    return R[a, k & (width - 1)]
  count = 0
  for e in range(width):
    if R[a, e] != u32(0):
      count += 1
  return u32(1) if (count > 0 if code == XANY else count == width) else u32(0)


@jit
def matrix_float(R, F, bucket, a, b, side, clear):
  """One float32 step into `bucket`, in the documented order of sums. F is R seen as float32."""
  for i in range(side):
    for j in range(side):
      total = f32(0)
      for g in range(0, side, 4):
        row = i * side + g
        p0, p1 = f32(F[a, row] * F[b, g * side + j]), f32(F[a, row + 1] * F[b, (g + 1) * side + j])
        p2, p3 = f32(F[a, row + 2] * F[b, (g + 2) * side + j]), f32(F[a, row + 3] * F[b, (g + 3) * side + j])
        four = f32(f32(p0 + p1) + f32(p2 + p3))
        total = four if g == 0 else f32(total + four)
      before = f32(0) if clear else F[PSUM_ROW + bucket, i * side + j]
      R[PSUM_ROW + bucket, i * side + j] = of_f(f32(before + total))


@jit
def matrix_int(R, B, bucket, a, b, side, clear):
  """One int8 step into `bucket`. B is R seen as int8, the four bytes of a word along the last axis."""
  for i in range(side):
    for j in range(side):
      total = np.int64(0) if clear else np.int64(R[PSUM_ROW + bucket, i * side + j])
      for k in range(side):
        x, y = i * side + k, k * side + j
        for n in range(4):
          total += np.int64(B[a, x, n]) * np.int64(B[b, y, n])
      R[PSUM_ROW + bucket, i * side + j] = u32(total)
