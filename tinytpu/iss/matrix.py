"""Slot X: steps of the matrix unit, on rows of the register array."""
from __future__ import annotations

import numpy as np

from ..isa.semantics import b2f, h2f, of_f
from .jit import jit
from .layout import PSUM_ROW, WIDE_A, WIDE_B, Format

u32, i32, f32 = np.uint32, np.int32, np.float32
F_FLOAT, F_INT, F_HALF = int(Format.F), int(Format.I), int(Format.H)


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
      e = i * side + j
      t0, t1, t2, t3 = F[row, e], F[row, e + 1], F[row, e + 2], F[row, e + 3]
      if clear:
        t0, t1, t2, t3 = f32(0), f32(0), f32(0), f32(0)
      for g in range(0, side, 4):
        k = i * side + g
        a0, a1, a2, a3 = F[a, k], F[a, k + 1], F[a, k + 2], F[a, k + 3]
        at = g * side + j
        f0, f1 = four_products(F, b, at, side, a0, a1, a2, a3), four_products(F, b, at + 1, side, a0, a1, a2, a3)
        f2, f3 = four_products(F, b, at + 2, side, a0, a1, a2, a3), four_products(F, b, at + 3, side, a0, a1, a2, a3)
        t0, t1, t2, t3 = f32(t0 + f0), f32(t1 + f1), f32(t2 + f2), f32(t3 + f3)
      R[row, e], R[row, e + 1], R[row, e + 2], R[row, e + 3] = of_f(t0), of_f(t1), of_f(t2), of_f(t3)


@jit
def widen(R, to, a, half, width):
  """The halfwords of row a as float32: the low ones into row `to`, the high ones into the next; `half`: of float16, else bfloat16."""
  for e in range(width):
    word = R[a, e]
    if half:
      R[to, e], R[to + 1, e] = h2f(word), h2f(word >> u32(16))
    else:
      R[to, e], R[to + 1, e] = b2f(word), b2f(word >> u32(16))


@jit
def four_halves(F, at, side, a0, a1, a2, a3):
  """As `four_products`, of the halfwords of two words of a below each other in WIDE_B, the first at `at`."""
  p0, p1 = f32(a0 * F[WIDE_B, at]), f32(a1 * F[WIDE_B + 1, at])
  p2, p3 = f32(a2 * F[WIDE_B, at + side]), f32(a3 * F[WIDE_B + 1, at + side])
  return f32(f32(p0 + p1) + f32(p2 + p3))


@jit
def matrix_half(R, F, bucket, a, b, side, clear, half):
  """One step on halfwords into `bucket`, float16 if `half`, else bfloat16: as `matrix_float`."""
  row, width = PSUM_ROW + bucket, side * side
  widen(R, WIDE_A, a, half, width)
  widen(R, WIDE_B, b, half, width)
  for i in range(side):
    for j in range(0, side, 4):
      e = i * side + j
      t0, t1, t2, t3 = F[row, e], F[row, e + 1], F[row, e + 2], F[row, e + 3]
      if clear:
        t0, t1, t2, t3 = f32(0), f32(0), f32(0), f32(0)
      for g in range(0, side, 2):
        k = i * side + g
        a0, a1, a2, a3 = F[WIDE_A, k], F[WIDE_A + 1, k], F[WIDE_A, k + 1], F[WIDE_A + 1, k + 1]
        at = g * side + j
        f0, f1 = four_halves(F, at, side, a0, a1, a2, a3), four_halves(F, at + 1, side, a0, a1, a2, a3)
        f2, f3 = four_halves(F, at + 2, side, a0, a1, a2, a3), four_halves(F, at + 3, side, a0, a1, a2, a3)
        t0, t1, t2, t3 = f32(t0 + f0), f32(t1 + f1), f32(t2 + f2), f32(t3 + f3)
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


@jit
def matrix_step(R, F, B, form, bucket, a, b, side, clear):
  """One step of format `form` on rows a and b into `bucket`. F and B are R seen as float32 and as int8."""
  if form == F_FLOAT:
    matrix_float(R, F, bucket, a, b, side, clear)
  elif form == F_INT:
    matrix_int(R, B, bucket, a, b, side, clear)
  else:
    matrix_half(R, F, bucket, a, b, side, clear, form == F_HALF)
