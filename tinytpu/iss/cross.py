"""Slot X: the cross-lane unit and the matrix unit, on rows of the register array."""
from __future__ import annotations

import numpy as np

from ..isa.semantics import of_f
from ..isa.table import OPS
from .jit import jit
from .layout import PSUM_ROW, X_ROW

u32, i32, f32 = np.uint32, np.int32, np.float32

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
def four_products(F, b, at, side, a0, a1, a2, a3):
  """Sum, in the documented order, of four products along k: a's elements with those below each other in row b, the first at `at`."""
  p0, p1 = f32(a0 * F[b, at]), f32(a1 * F[b, at + side])
  p2, p3 = f32(a2 * F[b, at + 2 * side]), f32(a3 * F[b, at + 3 * side])
  return f32(f32(p0 + p1) + f32(p2 + p3))


@jit
def matrix_float(R, F, bucket, a, b, side, clear):
  """One float32 step into `bucket`, in the documented order of sums. F is R seen as float32.

  Four neighbours are computed at a time, all loaded before any is stored: straight-line code that LLVM vectorises."""
  row = PSUM_ROW + bucket
  for i in range(side):
    for j in range(0, side, 4):
      t0, t1, t2, t3 = f32(0), f32(0), f32(0), f32(0)
      for g in range(0, side, 4):
        k = i * side + g
        a0, a1, a2, a3 = F[a, k], F[a, k + 1], F[a, k + 2], F[a, k + 3]
        at = g * side + j
        f0, f1 = four_products(F, b, at, side, a0, a1, a2, a3), four_products(F, b, at + 1, side, a0, a1, a2, a3)
        f2, f3 = four_products(F, b, at + 2, side, a0, a1, a2, a3), four_products(F, b, at + 3, side, a0, a1, a2, a3)
        if g == 0:
          t0, t1, t2, t3 = f0, f1, f2, f3
        else:
          t0, t1, t2, t3 = f32(t0 + f0), f32(t1 + f1), f32(t2 + f2), f32(t3 + f3)
      e = i * side + j
      if clear:
        c0, c1, c2, c3 = f32(0), f32(0), f32(0), f32(0)
      else:
        c0, c1, c2, c3 = F[row, e], F[row, e + 1], F[row, e + 2], F[row, e + 3]
      t0, t1, t2, t3 = f32(c0 + t0), f32(c1 + t1), f32(c2 + t2), f32(c3 + t3)
      R[row, e], R[row, e + 1], R[row, e + 2], R[row, e + 3] = of_f(t0), of_f(t1), of_f(t2), of_f(t3)


@jit
def four_bytes(B, b, at, total, a0, a1, a2, a3):
  """`total` plus the products of four bytes with those of the word at byte `at` of row b, modulo 2^32."""
  return i32(total + a0 * i32(B[b, at]) + a1 * i32(B[b, at + 1]) + a2 * i32(B[b, at + 2]) + a3 * i32(B[b, at + 3]))


@jit
def matrix_int(R, B, bucket, a, b, side, clear):
  """One int8 step into `bucket`. B is R seen as int8, four bytes to a word. Four neighbours at a time, as above."""
  row = PSUM_ROW + bucket
  for i in range(side):
    for j in range(0, side, 4):
      t0, t1, t2, t3 = i32(0), i32(0), i32(0), i32(0)
      for k in range(side):
        x, y = 4 * (i * side + k), 4 * (k * side + j)
        a0, a1, a2, a3 = i32(B[a, x]), i32(B[a, x + 1]), i32(B[a, x + 2]), i32(B[a, x + 3])
        t0, t1 = four_bytes(B, b, y, t0, a0, a1, a2, a3), four_bytes(B, b, y + 4, t1, a0, a1, a2, a3)
        t2, t3 = four_bytes(B, b, y + 8, t2, a0, a1, a2, a3), four_bytes(B, b, y + 12, t3, a0, a1, a2, a3)
      e = i * side + j
      c0, c1, c2, c3 = R[row, e], R[row, e + 1], R[row, e + 2], R[row, e + 3]
      if clear:
        c0, c1, c2, c3 = u32(0), u32(0), u32(0), u32(0)
      R[row, e], R[row, e + 1], R[row, e + 2], R[row, e + 3] = u32(c0 + t0), u32(c1 + t1), u32(c2 + t2), u32(c3 + t3)
