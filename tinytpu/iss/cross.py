"""Slot X: the cross-lane unit, on rows of the register array."""
from __future__ import annotations

import numpy as np

from ..isa.table import OPS
from .jit import jit
from .layout import REDUCTION, STEP, X_ROW

u32 = np.uint32

_CODES = {op.name: op.code for op in OPS.values() if op.slot == "X"}
XBCR, XBCC, XBCE, XTR, XROT, XPERM = (_CODES.pop(n) for n in ("xbcr", "xbcc", "xbce", "xtr", "xrot", "xperm"))
XTOS, XANY, XALL = (_CODES.pop(n) for n in ("xtos", "xany", "xall"))
XTRB, XTRH = _CODES.pop("xtrb"), _CODES.pop("xtrh")
MMLD, PPOP, PPOPR, PPOPZ, PPUSH, PCLR, PCLRA = (_CODES.pop(n) for n in ("mmld", "ppop", "ppopr", "ppopz", "ppush", "pclr", "pclra"))
if unknown := sorted(name for name, code in _CODES.items() if not STEP[code] and REDUCTION[code] < 0):
  raise TypeError(f"the simulator does not know slot X operations {unknown}: extend iss.cross")


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
  elif code == XTRB:
    for e in range(width):
      word = u32(0)
      for n in range(4):
        word |= u32((R[a, (e & ~3) + n] >> u32(8 * (e & 3))) & u32(0xFF)) << u32(8 * n)
      R[X_ROW, e] = word
  elif code == XTRH:
    for e in range(0, width, 2):
      low, high = R[a, e], R[a, e + 1]
      R[X_ROW, e] = u32((low & u32(0xFFFF)) | (high << u32(16)))
      R[X_ROW, e + 1] = u32((low >> u32(16)) | (high & u32(0xFFFF0000)))
  elif code == XPERM:
    for e in range(width):
      R[X_ROW, e] = R[a, np.int64(R[b, e]) & (width - 1)]


@jit
def pop(R, code, bucket, k, width, side):
  """ppop, ppopr or ppopz of row `bucket` into row X_ROW."""
  row = (k & (side - 1)) * side
  for e in range(width):
    R[X_ROW, e] = R[bucket, row + (e & (side - 1)) if code == PPOPR else e]
  if code == PPOPZ:
    R[bucket, :] = 0


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
