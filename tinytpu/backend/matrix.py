"""WMMA to matrix steps, accumulating in PSUM buckets.

The tensor core of `tensorcore.py` holds an operand as one tile per packed element: step e multiplies tile e of A by
tile e of B, and the steps follow each other on the accumulator's bucket. A bucket is updated in place when nobody but
the next WMMA, or the store that closes the loop, looks at it; otherwise the sum is moved in and out.
"""
from __future__ import annotations

from collections import Counter

from tinygrad.dtype import AddrSpace, DType, dtypes
from tinygrad.uop.ops import Ops, UOp

from ..config import Config
from .accumulators import Accumulators, Key
from .builder import Builder, Val
from .ir import Reg, inst
from .values import Values

STEPS: dict[tuple[DType, DType], tuple[str, str]] = {(dtypes.float32, dtypes.float32): ("mmf", "mmfz")}
"""Matrix step, and the one that clears first, by operand and accumulator dtype."""


class Matrix:
  """Matrix steps of one kernel. `uops`: its linear program."""

  def __init__(self, values: Values, builder: Builder, accumulators: Accumulators, waves: int, uops: list[UOp]):
    self.values, self.b, self.accumulators, self.waves = values, builder, accumulators, waves
    self.users = Counter(s for u in uops for s in u.src)
    self.feeds = {id(c) for u in uops if u.op is Ops.WMMA and (c := self._source(u)) is not None}
    self.spare = True
    self._choose(uops)

  def _source(self, wmma: UOp) -> UOp | None:
    """The LOAD or WMMA whose value is the accumulator of `wmma`, if only it looks at that value."""
    c = wmma.src[2]
    while c.op in (Ops.STACK, Ops.INDEX) and (c.op is Ops.INDEX or len(c.src) == 1):
      if self.users[c] != 1:
        return None
      c = c.src[0]
    return c if c.op in (Ops.LOAD, Ops.WMMA) and self.users[c] == 1 else None

  def _choose(self, uops: list[UOp]) -> None:
    """Elements that live in PSUM: those that a WMMA alone reads in the loop in which its result is stored back to them."""
    keys: dict[Key, None] = {}
    others = False
    for u in uops:
      if u.op is not Ops.WMMA:
        continue
      first = u
      while (c := self._source(first)) is not None and c.op is Ops.WMMA:
        first = c
      if c is None or c.src[0].src[0].addrspace is not AddrSpace.REG:
        others = True
        continue
      keys[self.accumulators.key(c.src[0])] = None
    room = Config.PSUMS // self.waves
    if others or len(keys) > room:
      room = (Config.PSUMS - 2 * self.waves) // self.waves  # some stay free for sums that are moved in and out
    self.accumulators.buckets.update(list(keys)[:max(0, room)])
    self.spare = room * self.waves < Config.PSUMS

  def wmma(self, u: UOp) -> tuple[Val, ...]:
    """The matrix steps of a WMMA; one element per work item."""
    dtype = u.src[0].dtype
    a, b, c = (self.values.known[s] if s.op is Ops.STACK else (self.values.value(s),) for s in u.src)
    if (steps := STEPS.get((dtype, u.dtype))) is None:
      raise self.values.fail(u, f"the matrix unit has no step {dtype} to {u.dtype}")
    assert isinstance(a, tuple) and isinstance(b, tuple) and isinstance(c, tuple)
    width = self.values.lanes.config.width
    if len(a) != len(b) or len(c) != 1 or self.values.lanes.sizes[:1] != [width] or u.arg[3] != width:
      raise self.values.fail(u, f"matrix steps need one wave of {width} work items as the fastest local axis, and one sum each")
    start = c[0]
    in_place = start.file == "p" and self._source(u) is not None
    resident = in_place and self.accumulators.consume(start)
    regs = []
    for w in range(self.waves):
      bucket = Reg("p")
      todo = list(zip(a, b, strict=True))
      if start.file == "i" and start.imm == 0:
        self._step(steps[1], bucket, todo.pop(0), w)
      elif in_place:
        bucket = start.at(w)  # type: ignore[assignment]
      else:
        self.b.emit(inst("ppush", bucket, self.b.to_vector(start).at(w)))
      for pair in todo:
        self._step(steps[0], bucket, pair, w)
      regs.append(bucket)
    out = Val("p", tuple(regs), depth=self.b.depth)
    return (out if resident or id(u) in self.feeds and self.spare else self.b.to_vector(out),)

  def _step(self, name: str, bucket: Reg, pair: tuple[Val, Val], wave: int) -> None:
    self.b.emit(inst(name, bucket, *(self.b.to_vector(v).at(wave) for v in pair)))
