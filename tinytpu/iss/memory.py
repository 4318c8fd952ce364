"""Memory operands: addresses, bounds, bank conflicts and lines touched; loads and stores of every element type; DMA rows."""
from __future__ import annotations

import numpy as np

from ..isa.encoding import MemType
from ..isa.faults import Fault
from ..isa.semantics import b2f, f2b, f2h, h2f
from ..isa.timing import DMA_WORDS
from .jit import jit
from .layout import Unit

u32, i32, i64 = np.uint32, np.int32, np.int64
W, U8, I8, U16, I16, F16, BF16 = (int(m) for m in MemType)
SIZE_SHIFT = np.array([m.bytes.bit_length() - 1 for m in MemType], np.int64)
MEM, MEM2 = 1, 2
VMEM_BOUNDS, VMEM_ALIGN, HBM_BOUNDS, HBM_ALIGN = (int(f) for f in (Fault.VMEM_BOUNDS, Fault.VMEM_ALIGN, Fault.HBM_BOUNDS, Fault.HBM_ALIGN))
DMA_ALIGN, DMA_BOUNDS, DMA_SIZE = int(Fault.DMA_ALIGN), int(Fault.DMA_BOUNDS), int(Fault.DMA_SIZE)
DMAI = int(Unit.DMAI)
WORD = 0xFFFFFFFF


@jit
def addresses(R, address, form, shift, start, r, c2, index, width, side):
  """Byte addresses of a tile's elements, modulo 2^32, into `address` (uint32): element e's distance from `start` is scaled by
  2^shift bytes. r and c2 are the strides of mem2, `index` the row of the index tile of memx."""
  if form == MEM:
    for e in range(width):
      address[e] = u32(start + (e << shift))
  elif form == MEM2:
    for i in range(side):
      row = start + ((i * r) << shift)
      for j in range(side):
        address[i * side + j] = u32(row + ((j * c2) << shift))
  else:
    for e in range(width):
      address[e] = u32(start + (i64(R[index, e]) << shift))


@jit
def check(R, address, mask, shift, size, width, bounds_cause, align_cause):
  """(cause, address) of the lowest active element that is misaligned or at `size` bytes or beyond; (0, 0) if there is none.

  `mask` is the row of the mask tile."""
  low = (1 << shift) - 1
  bad = 0
  for e in range(width):
    at = i64(address[e])
    bad |= (at & low) | i64(at >= size)
  if bad != 0:
    for e in range(width):
      at = i64(address[e])
      if R[mask, e] != u32(0):
        if at & low != 0:
          return align_cause, at
        if at >= size:
          return bounds_cause, at
  return 0, 0


@jit
def meet(word, banks, count, words):
  """Enter a word of VMEM into those that an access has met in its bank; returns how many different ones that are now.
  count (banks) says how many words (banks x banks) has for each bank."""
  bank = word & (banks - 1)
  n = count[bank]
  for i in range(n):
    if words[bank, i] == word:
      return n
  words[bank, n] = word
  count[bank] = n + 1
  return n + 1


@jit
def bank_cycles(R, address, mask, width, banks, count, words):
  """Cycles of a VMEM access: over its beats, the most distinct words of active elements in one bank, at least 1 each. count
  (banks) and words (banks x banks) are scratch."""
  cycles = 0
  for beat in range(0, width, banks):
    most = 1
    count[:banks] = 0
    for e in range(beat, beat + banks):
      if R[mask, e] != u32(0):
        most = max(most, meet(i64(address[e]) >> 2, banks, count, words))
    cycles += most
  return cycles


@jit
def bank_elements(R, address, mask, width, banks, count):
  """Over the beats, the most active elements in any one bank, at least 1 each. count (banks) is scratch."""
  cycles = 0
  for beat in range(0, width, banks):
    most = 1
    count[:banks] = 0
    for e in range(beat, beat + banks):
      if R[mask, e] != u32(0):
        bank = (i64(address[e]) >> 2) & (banks - 1)
        count[bank] += 1
        most = max(most, count[bank])
    cycles += most
  return cycles


@jit
def strided_cycles(r, c2, width, side, banks, memo, count, words):
  """bank_cycles of a whole mem2 tile of words with strides r and c2 (0 to 2^20), which are all it depends on: the start only
  rotates the banks. memo: int64 (n, 2), n a power of two, pairs of key and cycles, keys -1 at first."""
  key = r << 20 | c2
  slot = (r * 5 + c2) & (memo.shape[0] - 1)
  if memo[slot, 0] == key:
    return memo[slot, 1]
  cycles = 0
  for beat in range(0, width, banks):
    most = 1
    count[:banks] = 0
    for e in range(beat, beat + banks):
      most = max(most, meet(e // side * r + (e & (side - 1)) * c2, banks, count, words))
    cycles += most
  memo[slot, 0], memo[slot, 1] = key, cycles
  return cycles


@jit
def lines_touched(R, address, mask, width, lanes, line_shift, words):
  """HBM lines that an access requests: over its beats of `lanes` elements, the distinct lines of active elements; possibly 0.
  words is scratch."""
  lines = 0
  for beat in range(0, width, lanes):
    n, last = 0, -1
    for e in range(beat, beat + lanes):
      if R[mask, e] != u32(0):
        line = i64(address[e]) >> line_shift
        if line != last:
          last, known = line, False
          for i in range(n):
            if words[0, i] == line:
              known = True
              break
          if not known:
            words[0, n] = line
            n += 1
    lines += n
  return lines


@jit
def load(R, out, address, mask, dtype, m8, m16, m32, width):
  """Load checked elements into row `out`; elements masked off become 0. m8, m16, m32: the memory as bytes, halves, words."""
  if dtype == W:
    for e in range(width):
      R[out, e] = m32[i64(address[e]) >> 2] if R[mask, e] != u32(0) else u32(0)
    return
  for e in range(width):
    value, at = u32(0), i64(address[e])
    if R[mask, e] != u32(0):
      if dtype == U8:
        value = u32(m8[at])
      elif dtype == I8:
        value = u32(i64(np.int8(m8[at])))
      elif dtype == I16:
        value = u32(i64(np.int16(m16[at >> 1])))
      else:
        value = u32(m16[at >> 1])
        if dtype == F16:
          value = h2f(value)
        elif dtype == BF16:
          value = b2f(value)
    R[out, e] = value


@jit
def store(R, source, address, mask, dtype, m8, m16, m32, width):
  """Store checked elements of row `source` in element order, so that the highest wins."""
  for e in range(width):
    if R[mask, e] != u32(0):
      value, at = R[source, e], i64(address[e])
      if dtype == W:
        m32[at >> 2] = value
      elif dtype == U8 or dtype == I8:
        m8[at] = np.uint8(value)
      elif dtype == F16:
        m16[at >> 1] = np.uint16(f2h(value))
      elif dtype == BF16:
        m16[at >> 1] = np.uint16(f2b(value))
      else:
        m16[at >> 1] = np.uint16(value)


@jit
def check_transfer(vbase, vpitch, vplane, hbase, hpitch, hplane, nbytes, rows, planes, vmem_bytes, hbm_bytes):
  """(cause, info) of the fault of a DMA transfer (all operands int64, bytes; pitches of rows and of planes), or zeros."""
  if (hbase | hpitch | hplane | vbase | vpitch | vplane | nbytes) & 3 != 0:
    for operand in (hbase, hpitch, hplane, vbase, vpitch, vplane, nbytes):
      if operand & 3 != 0:
        return DMA_ALIGN, operand
  if planes == 0 or rows == 0 or nbytes == 0:
    return 0, 0
  # Products of two 32-bit numbers can pass 2^63: compare in floating point first, exactly only where that is safe.
  for base, pitch, plane, size in ((hbase, hpitch, hplane, hbm_bytes), (vbase, vpitch, vplane, vmem_bytes)):
    reach = np.float64(rows - 1) * np.float64(pitch) + np.float64(planes - 1) * np.float64(plane)
    if reach > 1e15 or base + (rows - 1) * pitch + (planes - 1) * plane + nbytes > size:
      return DMA_BOUNDS, base
  if np.float64(planes) * np.float64(rows) * np.float64(nbytes >> 2) > DMA_WORDS:  # inexact only far beyond it
    return DMA_SIZE, hbase
  return 0, 0


@jit
def transfer(unit, vbase, vpitch, vplane, hbase, hpitch, hplane, nbytes, rows, planes, vmem32, hbm32, line_shift):
  """Perform a checked transfer. Returns the HBM lines touched, summed over all rows, possibly 0."""
  if nbytes == 0:
    return 0
  lines = 0
  for p in range(planes):
    vrow, hrow = vbase + p * vplane, hbase + p * hplane
    for _ in range(rows):
      lines += ((hrow + nbytes - 1) >> line_shift) - (hrow >> line_shift) + 1
      v, h = vrow >> 2, hrow >> 2
      if unit == DMAI:
        for i in range(nbytes >> 2):
          vmem32[v + i] = hbm32[h + i]
      else:
        for i in range(nbytes >> 2):
          hbm32[h + i] = vmem32[v + i]
      vrow += vpitch
      hrow += hpitch
  return lines
