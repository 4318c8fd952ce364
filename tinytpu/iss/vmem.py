"""VMEM accesses of slots L and T: the common forms by short cuts, all others by way of every element's address."""
from __future__ import annotations

import numpy as np

from ..isa import encoding as enc
from . import layout as lay
from .jit import jit
from .memory import (
  MEM,
  MEM2,
  SIZE_SHIFT,
  VMEM_ALIGN,
  VMEM_BOUNDS,
  WORD,
  W,
  addresses,
  bank_cycles,
  bank_elements,
  check,
  load,
  store,
  strided_cycles,
)

i64 = np.int64
_A, _X, _R, _C, _C2, _OFF, _MASKED, _DTYPE = (
  f.lsb for f in (enc.A, enc.X, enc.R, enc.C, enc.C2, enc.OFF, enc.MASKED, enc.DTYPE))
REG, DTYPE_MASK, ONES_ROW = enc.A.mask, enc.DTYPE.mask, lay.ONES_ROW
SMALL = 1 << 20
"""Strides below this cannot make an address wrap, so that the last element of a tile has the highest one."""


@jit
def operand_start(word, sregs):
  """(start, element type, log2 of its size, row of the mask) of a memory operand: start is element 0's byte address, not yet
  taken modulo 2^32."""
  dtype = (word >> _DTYPE) & DTYPE_MASK
  shift = SIZE_SHIFT[dtype]
  start = i64(sregs[(word >> _A) & REG]) + ((i64(sregs[(word >> _X) & REG]) + (word >> _OFF)) << shift)
  return start, dtype, shift, ((word >> _C) & REG) if (word >> _MASKED) & 1 else ONES_ROW


@jit
def operand_addresses(word, form, start, shift, sregs, R, address, width, side):
  """Byte addresses of all elements of a memory operand into `address`."""
  r = (word >> _R) & REG
  addresses(R, address, form, shift, start, i64(sregs[r]), i64(sregs[(word >> _C2) & REG]), r, width, side)


@jit
def short_cut(word, form, start, dtype, mask, sregs, vmem_bytes, width, side):
  """(column stride, row stride) in words of a tile of words that is neither masked nor faulting nor wraps; (-1, -1) of others."""
  first = start & WORD
  if dtype != W or mask != ONES_ROW or first & 3 != 0:
    return -1, -1
  if form == MEM:
    columns, rows = 1, side
  elif form == MEM2:
    columns, rows = int(sregs[(word >> _C2) & REG]), int(sregs[(word >> _R) & REG])
    if columns >= SMALL or rows >= SMALL:
      return -1, -1
  else:
    return -1, -1
  if first + 4 * (side - 1) * (columns + rows) + 4 > vmem_bytes:
    return -1, -1
  return columns, rows


@jit
def vmem_load(word, form, sregs, R, out, m8, m16, m32, vmem_bytes, width, side, beat_shift, memo, address, count, words):
  """Load into row `out`. Returns (cycles, cause, info): a fault's cause and address, or zeros."""
  start, dtype, shift, mask = operand_start(word, sregs)
  columns, rows = short_cut(word, form, start, dtype, mask, sregs, vmem_bytes, width, side)
  if columns >= 0:
    first = (start & WORD) >> 2
    if form == MEM:
      for e in range(width):
        R[out, e] = m32[first + e]
      return 1 << beat_shift, 0, 0
    for i in range(side):
      for j in range(side):
        R[out, i * side + j] = m32[first + i * rows + j * columns]
    return strided_cycles(rows, columns, width, side, width >> beat_shift, memo, count, words), 0, 0
  operand_addresses(word, form, start, shift, sregs, R, address, width, side)
  cause, info = check(R, address, mask, shift, vmem_bytes, width, VMEM_BOUNDS, VMEM_ALIGN)
  if cause != 0:
    return 0, cause, info
  load(R, out, address, mask, dtype, m8, m16, m32, width)
  return 1 << beat_shift if form == MEM else bank_cycles(R, address, mask, width, width >> beat_shift, count, words), 0, 0


@jit
def vmem_store(word, form, sregs, R, source, m8, m16, m32, vmem_bytes, width, side, beat_shift, memo, address, count, words):
  """Store row `source`. Returns (cycles, cause, info): a fault's cause and address, or zeros."""
  start, dtype, shift, mask = operand_start(word, sregs)
  columns, rows = short_cut(word, form, start, dtype, mask, sregs, vmem_bytes, width, side)
  if columns >= 0:
    first = (start & WORD) >> 2
    if form == MEM:
      for e in range(width):
        m32[first + e] = R[source, e]
      return 1 << beat_shift, 0, 0
    for i in range(side):
      for j in range(side):
        m32[first + i * rows + j * columns] = R[source, i * side + j]
    return strided_cycles(rows, columns, width, side, width >> beat_shift, memo, count, words), 0, 0
  operand_addresses(word, form, start, shift, sregs, R, address, width, side)
  cause, info = check(R, address, mask, shift, vmem_bytes, width, VMEM_BOUNDS, VMEM_ALIGN)
  if cause != 0:
    return 0, cause, info
  store(R, source, address, mask, dtype, m8, m16, m32, width)
  return 1 << beat_shift if form == MEM else bank_cycles(R, address, mask, width, width >> beat_shift, count, words), 0, 0


@jit
def vmem_atomic(word, form, sregs, R, source, m32, vmem_bytes, width, side, beat_shift, address, count):
  """Add row `source` to memory, element by element. Returns (cycles, cause, info): a fault's cause and address, or zeros."""
  start, _, shift, mask = operand_start(word, sregs)
  operand_addresses(word, form, start, shift, sregs, R, address, width, side)
  cause, info = check(R, address, mask, shift, vmem_bytes, width, VMEM_BOUNDS, VMEM_ALIGN)
  if cause != 0:
    return 0, cause, info
  for e in range(width):
    if R[mask, e] != 0:
      at = i64(address[e]) >> 2
      m32[at] = m32[at] + R[source, e]
  return bank_elements(R, address, mask, width, width >> beat_shift, count) + 1, 0, 0
