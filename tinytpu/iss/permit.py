"""The checking mode: which bytes of VMEM and of device memory the accesses of a launch may touch. Apart from the accesses
themselves, so that a launch that checks nothing does not pay for it."""
from __future__ import annotations

import numpy as np

from ..isa import encoding as enc
from . import layout as lay
from .hbm import transfer_operands
from .jit import jit
from .memory import check, check_transfer
from .vmem import operand_addresses, operand_start

i64 = np.int64
WIDTH, SIDE, VMEM_BYTES, HBM_BYTES, *_ = (int(m) for m in lay.Geometry)
HLOAD, DMAI, UNIT, FORM = int(lay.Unit.HLOAD), int(lay.Unit.DMAI), lay.UNIT, lay.FORM
_CODE, CODE_MASK = enc.CODE.lsb, enc.CODE.mask

VMEM_READ, VMEM_WRITE, HBM_READ, HBM_WRITE = 1, 2, 4, 8
"""Modes: what an access does, one bit each; of a range, all that it permits."""
DENIED = 64
"""Causes from here on are no faults of the machine but denied accesses: DENIED plus the mode."""
OFF = np.zeros((0, 3), np.int64)
"""The table of a launch that checks nothing. A table (n, 3) has start, stop and modes of each range; one row at least where it checks."""

MODES = np.zeros(256, np.int64)
"""What the operation of a code does."""
for _unit, _modes in ((lay.Unit.VLOAD, VMEM_READ), (lay.Unit.VSTORE, VMEM_WRITE), (lay.Unit.VATOMIC, VMEM_READ | VMEM_WRITE),
                      (lay.Unit.HLOAD, HBM_READ), (lay.Unit.HSTORE, HBM_WRITE), (lay.Unit.DMAI, HBM_READ | VMEM_WRITE),
                      (lay.Unit.DMAO, HBM_WRITE | VMEM_READ)):
  MODES[lay.UNIT == _unit] = _modes


@jit
def holder(ranges, start, stop, mode):
  """The range that holds the bytes start to stop - 1 and permits `mode`; -1 if there is none."""
  for i in range(ranges.shape[0]):
    if ranges[i, 0] <= start and stop <= ranges[i, 1] and ranges[i, 2] & mode:
      return i
  return -1


@jit
def denial(mode, start, nbytes):
  """(cause, info) of a denied access."""
  return DENIED + mode, start | nbytes << 32


@jit
def permit_tile(R, address, mask, shift, width, ranges, mode):
  """(cause, info) of the lowest active element that no range permits; (0, 0) if there is none."""
  low, high, size = 0, 0, 1 << shift  # low to high is the range of the element before
  for e in range(width):
    at = i64(address[e])
    if R[mask, e] != 0 and not (low <= at and at + size <= high):
      found = holder(ranges, at, at + size, mode)
      if found < 0:
        return denial(mode, at, size)
      low, high = ranges[found, 0], ranges[found, 1]
  return 0, 0


@jit
def permit_rows(base, pitch, plane, nbytes, rows, planes, ranges, mode):
  """(cause, info) of the first row of a transfer that no range holds whole; (0, 0) if there is none."""
  for p in range(planes):
    for r in range(rows):
      at = base + p * plane + r * pitch
      if holder(ranges, at, at + nbytes, mode) < 0:
        return denial(mode, at, nbytes)
  return 0, 0


@jit
def permit(word, sregs, R, address, geo, ranges):
  """(cause, info) of what is denied of the memory operation `word`; (0, 0) if nothing is, or if it faults. address is scratch."""
  code, width = (word >> _CODE) & CODE_MASK, geo[WIDTH]
  modes, hbm = MODES[code], UNIT[code] >= HLOAD
  if UNIT[code] >= DMAI:
    vbase, vpitch, vplane, hbase, hpitch, hplane, nbytes, rows, planes = transfer_operands(word, sregs)
    cause, _ = check_transfer(vbase, vpitch, vplane, hbase, hpitch, hplane, nbytes, rows, planes, geo[VMEM_BYTES], geo[HBM_BYTES])
    if cause != 0 or planes == 0 or rows == 0 or nbytes == 0:
      return 0, 0
    cause, info = permit_rows(hbase, hpitch, hplane, nbytes, rows, planes, ranges, modes & (HBM_READ | HBM_WRITE))
    if cause != 0:
      return cause, info
    return permit_rows(vbase, vpitch, vplane, nbytes, rows, planes, ranges, modes & (VMEM_READ | VMEM_WRITE))
  start, _, shift, mask = operand_start(word, sregs)
  operand_addresses(word, FORM[code], start, shift, sregs, R, address, width, geo[SIDE])
  cause, _ = check(R, address, mask, shift, geo[HBM_BYTES] if hbm else geo[VMEM_BYTES], width, 1, 1)
  if cause != 0:
    return 0, 0
  for mode in (VMEM_READ, VMEM_WRITE, HBM_READ, HBM_WRITE):
    if modes & mode:
      cause, info = permit_tile(R, address, mask, shift, width, ranges, mode)
      if cause != 0:
        return cause, info
  return 0, 0
