"""Device memory as a heap: best fit over a sorted list of free ranges, which coalesce when they are given back."""
from __future__ import annotations

from bisect import bisect_left

ALIGN = 256
"""Bytes at whose multiples buffers start."""


class Heap:
  """Addresses `start` to `end` of a memory, in bytes."""

  def __init__(self, start: int, end: int):
    self.free_ranges: list[tuple[int, int]] = [(start, end)]
    self.high = start
    """End of the highest range ever taken."""

  def take(self, size: int, align: int) -> int:
    """The address of `size` bytes at a multiple of `align`.

    Raises:
      MemoryError: no free range is large enough.
    """
    best = None
    for i, (a, b) in enumerate(self.free_ranges):
      at = -(-a // align) * align
      if at + size <= b and (best is None or b - a < best[0]):
        best = b - a, i, at
    if best is None:
      largest = max((b - a for a, b in self.free_ranges), default=0)
      raise MemoryError(f"no {size} bytes of HBM are free in one piece (largest: {largest}); free tensors or raise Config.hbm_bytes")
    _, i, at = best
    a, b = self.free_ranges[i]
    self.high = max(self.high, at + size)
    self.free_ranges[i:i + 1] = [r for r in ((a, at), (at + size, b)) if r[0] < r[1]]
    return at

  def give(self, at: int, size: int) -> None:
    """Give back what `take` gave.

    Raises:
      ValueError: part of the range is free already.
    """
    i = bisect_left(self.free_ranges, (at, at))
    a, b = at, at + size
    if i and self.free_ranges[i - 1][1] > a or i < len(self.free_ranges) and self.free_ranges[i][0] < b:
      raise ValueError(f"{size} bytes at {at:#x} are given back twice")
    low, high = i, i
    if i and self.free_ranges[i - 1][1] == a:
      low, a = i - 1, self.free_ranges[i - 1][0]
    if i < len(self.free_ranges) and self.free_ranges[i][0] == b:
      high, b = i + 1, self.free_ranges[i][1]
    self.free_ranges[low:high] = [(a, b)]
