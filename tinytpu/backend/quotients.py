"""Float quotients with one divisor in common: its reciprocal once, and products, in place of a division each.

tinygrad means x * (1 / y) by x / y, and calls it a division for machines that are good at those; here the divider is busy for tens of
cycles each time. The divisor is scaled by a power of two, so that neither it nor its reciprocal is subnormal: quotients are at most
2 units in the last place off, over the whole range. Those that something is decided by (that are rounded to integers or compared)
stay divisions, correctly rounded.
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from tinygrad.dtype import dtypes
from tinygrad.uop.ops import GroupOp, Ops, UOp

from .builder import Builder, Val, imm
from .fuse import constant

SCALE = 64
"""Divisors below 2^-SCALE are multiplied by 2^SCALE, those above 2^SCALE by 2^-SCALE."""


def indecisive(uops: Iterable[UOp]) -> dict[UOp, int]:
  """The quotients of a program that may be products, and how many have the same divisor."""
  by_divisor: dict[UOp, list[UOp]] = defaultdict(list)
  decisive: set[UOp] = set()
  for u in uops:
    if u.op is Ops.FDIV and constant(u.src[0]) is None:
      by_divisor[u.src[1]].append(u)
    if u.op is Ops.TRUNC or u.op in GroupOp.Comparison or u.op in (Ops.CAST, Ops.BITCAST) and u.dtype not in dtypes.floats:
      decisive.update(u.src)
  return {q: len(of) for of in by_divisor.values() if decisive.isdisjoint(of) for q in of}


def _float(x: float) -> Val:
  return imm(int(np.float32(x).view(np.uint32)))


def quotient(b: Builder, x: Val, y: Val) -> Val:
  """x / y by way of the reciprocal of y, which value numbering computes once."""
  large, small = _float(2.0**SCALE), _float(2.0**-SCALE)
  size = b.vector("vfabs", y)
  scale = b.vector("vsel", b.vector("vflt", large, size), small, _float(1.0))
  scale = b.vector("vsel", b.vector("vflt", size, small), large, scale)
  reciprocal = b.vector("vfrcp", b.vector("vfmul", y, scale))
  return b.vector("vfmul", b.vector("vfmul", x, scale), reciprocal)  # scaled first: a subnormal product would lose bits before it is
