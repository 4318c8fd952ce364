"""The checking mode: which bytes of VMEM and of device memory the accesses of a launch may touch."""
from __future__ import annotations

import numpy as np

from .jit import jit

i64 = np.int64
READ, WRITE = 1, 2
DENIED = 64
"""Causes from here on are no faults of the machine: an access outside all ranges, with bits SPACE (device memory) and WRITES."""
WRITES, SPACE = 1, 2
OFF = np.zeros((0, 3), np.int64)
"""The table of a launch that checks nothing. A table (n, 3) has start, stop and mode of each range; one row at least where it checks."""


@jit
def holder(ranges, start, stop, mode):
  """The range that holds the bytes start to stop - 1 and permits `mode` (READ or WRITE); -1 if there is none."""
  for i in range(ranges.shape[0]):
    if ranges[i, 0] <= start and stop <= ranges[i, 1] and ranges[i, 2] & mode:
      return i
  return -1


@jit
def denial(space, mode, start, nbytes):
  """(cause, info) of a denied access."""
  return DENIED + (WRITES if mode == WRITE else 0) + space, start | nbytes << 32


@jit
def permit_tile(R, address, mask, shift, width, ranges, space, modes):
  """(cause, info) of the lowest active element that no range permits in one of `modes`; (0, 0) if there is none."""
  size = 1 << shift
  for mode in (READ, WRITE):
    if modes & mode:
      low, high = 0, 0  # the range of the element before
      for e in range(width):
        at = i64(address[e])
        if R[mask, e] != 0 and not (low <= at and at + size <= high):
          found = holder(ranges, at, at + size, mode)
          if found < 0:
            return denial(space, mode, at, size)
          low, high = ranges[found, 0], ranges[found, 1]
  return 0, 0


@jit
def permit_rows(base, pitch, plane, nbytes, rows, planes, ranges, space, mode):
  """(cause, info) of the first row of a transfer that no range holds whole; (0, 0) if there is none, or the mode is off."""
  if ranges.shape[0] != 0:
    for p in range(planes):
      for r in range(rows):
        at = base + p * plane + r * pitch
        if holder(ranges, at, at + nbytes, mode) < 0:
          return denial(space, mode, at, nbytes)
  return 0, 0
