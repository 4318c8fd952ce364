"""Whether a kernel writes every element of a buffer: then what was there before need not be kept.

Indices and gates of its stores are evaluated for every work item and every pass of the loops that they depend on.
"""
from __future__ import annotations

import math

import numpy as np
from tinygrad.dtype import AddrSpace, dtypes
from tinygrad.uop.ops import Ops, UOp

from ..lower.uniformity import FOLD, Lanes
from ..uops import integer

MAX_POINTS = 1 << 19
"""Work items times passes that are looked at for one store."""


class Coverage:
  """Stores of one kernel. `uops`: its linear program. `lanes`: its work items."""

  def __init__(self, uops: list[UOp], lanes: Lanes):
    self.lanes = lanes
    self.stores: list[tuple[UOp, list[UOp], list[UOp]]] = []  # INDEX, gates and loops around it
    gates: list[UOp] = []
    loops: list[UOp] = [u for u in uops if u.op is Ops.SPECIAL and u.arg[0] == "g"]
    for u in uops:
      if u.op is Ops.IF:
        gates.append(u.src[0])
      elif u.op is Ops.ENDIF:
        gates.pop()
      elif u.op is Ops.RANGE and u.dtype is not dtypes.void:
        loops.append(u)
      elif u.op is Ops.END:
        loops = [x for x in loops if x is not u.src[1]]
      elif u.op is Ops.STORE and u.src[0].op is Ops.INDEX and u.src[0].addrspace is AddrSpace.GLOBAL:
        self.stores.append((u.src[0], list(gates), list(loops)))

  def whole(self, slot: int, elements: int) -> bool:
    """Whether every one of `elements` elements of the parameter in `slot` is certainly stored to. Errs towards no."""
    written = np.zeros(elements, bool)
    for index, gates, loops in self.stores:
      buffer = index.src[0]
      while buffer.op is Ops.AFTER or buffer.op is Ops.BITCAST and buffer.dtype.itemsize == buffer.src[0].dtype.itemsize:
        buffer = buffer.src[0]
      if buffer.op is not Ops.PARAM or buffer.arg.slot != slot or buffer.max_numel() != elements or len(index.src) != 2:
        continue
      if (at := self._places(index.src[1], gates, loops)) is not None:
        written[at[(at >= 0) & (at < elements)]] = True
    return bool(written.all())

  def _places(self, index: UOp, gates: list[UOp], loops: list[UOp]) -> np.ndarray | None:
    """Values of `index` where all gates are open, flat; None if something depends on more than loops and work items."""
    sizes = [integer(u.src[0]) for u in loops]
    if any(n is None or n < 1 for n in sizes):
      return None
    needed = set().union(*(u.backward_slice_with_self for u in (index, *gates)))
    mine = [(u, n) for u, n in zip(loops, sizes, strict=True) if u in needed and n is not None]
    if math.prod(n for _, n in mine) * len(self.lanes.ids) > MAX_POINTS:
      return None
    known: dict[UOp, np.ndarray | None] = {}
    for axis, (u, n) in enumerate(mine):
      known[u] = np.arange(n).reshape((-1,) + (1,) * (len(mine) - axis))
    values = [v for u in (index, *gates) if (v := self._evaluate(u, known)) is not None]
    if len(values) <= len(gates):
      return None
    at, *held = np.broadcast_arrays(*values)
    return at[np.logical_and.reduce(held)] if held else at.ravel()

  def _evaluate(self, u: UOp, known: dict[UOp, np.ndarray | None]) -> np.ndarray | None:
    """The value of a UOp for all loop passes and work items (the last axis), where loops have their values in `known`."""
    for x in u.toposort():
      if x in known:
        continue
      v = self.lanes.fixed(x)
      if v is None and x.op is Ops.CAST and (x.dtype in dtypes.ints or x.dtype in (dtypes.weakint, dtypes.bool)):
        v = known.get(x.src[0])
      elif v is None and x.op in FOLD and x.op not in (Ops.CDIV, Ops.CMOD, Ops.SHL, Ops.SHR):
        srcs = [known.get(s) for s in x.src]
        v = None if any(s is None for s in srcs) else FOLD[x.op](*srcs)
      elif v is None and x.op in FOLD:
        a, b = (known.get(s) for s in x.src)
        good = a is not None and b is not None and np.all(b > 0) and (x.op in (Ops.CDIV, Ops.CMOD) or np.all(b < 32))
        v = FOLD[x.op](a, b) if good else None
      if v is not None and x.dtype in dtypes.ints and not x.dtype.min <= v.min() <= v.max() <= x.dtype.max:
        v = None  # what wraps is left alone
      known[x] = v
    return known[u]
