"""WMMA to matrix steps, accumulating in PSUM buckets.

The tensor core of `opt/tensorcore.py` holds an operand as one tile per packed element: step e multiplies tile e of A by
tile e of B, and the steps follow each other on the accumulator's bucket. A bucket is updated in place when nobody but
the next WMMA, or the store that closes the loop, looks at it; otherwise the sum is moved in and out.
"""
from __future__ import annotations

from collections import Counter

from tinygrad.dtype import DType, dtypes
from tinygrad.uop.ops import Ops, UOp

from ...config import Config
from ..mir.builder import Builder, Val
from ..mir.ir import Reg, inst
from ..types import MATRIX_FLOATS
from ..uops import constant
from .accumulators import Accumulators, Key
from .arithmetic import Values
from .private_arrays import element_index, register_buffer

STEPS: dict[tuple[DType, DType], tuple[str, str]] = {
  **{(dtype, dtypes.float32): ("mmf", "mmfz") for dtype in MATRIX_FLOATS}, (dtypes.int8, dtypes.int32): ("mmi", "mmiz")}
"""Matrix step, and the one that clears first, by operand and accumulator dtype. 16-bit floats are float32 in registers: two float32 steps
give the bits of one step on halfwords in the same time, and need no packing."""


class Matrix:
  """Matrix steps of one kernel. `uops`: its linear program."""

  def __init__(self, values: Values, builder: Builder, accumulators: Accumulators, waves: int, uops: list[UOp]):
    self.values, self.b, self.accumulators, self.waves = values, builder, accumulators, waves
    self.users = Counter(s for u in uops for s in u.src)
    self.sums = self._integer_sums(uops)
    self.feeds = {id(c) for u in uops if u.op is Ops.WMMA and (c := self._source(u)) is not None}
    self.spare = True
    self._choose(uops)

  def _integer_sums(self, uops: list[UOp]) -> dict[UOp, UOp]:
    """Integer sums of an accumulator and a WMMA that starts from 0, and is used for nothing else, by WMMA: tinygrad leaves them beside it.
    They are the same to the bit if it starts from the accumulator."""
    made = {u: i for i, u in enumerate(uops)}
    sums = {}
    for u in uops:
      if u.op is Ops.ADD and u.dtype in dtypes.ints:
        load, element = sorted(u.src, key=lambda s: s.op is not Ops.LOAD)
        wmma = element.src[0] if element.op is Ops.INDEX else element
        if load.op is Ops.LOAD and wmma.op is Ops.WMMA and made[load] < made[wmma] and self.users[element] == self.users[wmma] == 1 \
            and all(constant(c) == 0 for c in wmma.src[2].src):
          sums[wmma] = u
    return sums

  def _start(self, wmma: UOp) -> UOp:
    """What a WMMA starts from: its third operand, or the accumulator that the sum around it adds."""
    if (around := self.sums.get(wmma)) is None:
      return wmma.src[2]
    return next(s for s in around.src if s.op is Ops.LOAD)

  def _source(self, wmma: UOp) -> UOp | None:
    """The LOAD or WMMA whose value is the accumulator of `wmma`, if only it looks at that value."""
    c = self._start(wmma)
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
      if c is None or register_buffer(c.src[0]) is None or element_index(c.src[0]) is None:
        others = True
        continue
      keys[self.accumulators.key(c.src[0])] = None
    room = Config.PSUMS // self.waves
    if others or len(keys) > room:
      room = (Config.PSUMS - 2 * self.waves) // self.waves  # some stay free for sums that are moved in and out
    self.accumulators.buckets.update(list(keys)[:max(0, room)])
    self.spare = room * self.waves < Config.PSUMS

  def wmma(self, u: UOp) -> tuple[Val, ...]:
    """The matrix steps of a WMMA; one element per work item. The value is also that of the sum in `sums`."""
    dtype = u.src[0].dtype
    a, b, c = (self.values.known[s] if s.op is Ops.STACK else (self.values.value(s),) for s in (*u.src[:2], self._start(u)))
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
    result = out if resident or id(u) in self.feeds and self.spare else self.b.to_vector(out)
    if u in self.sums:
      self.values.known[self.sums[u]] = result
    return (result,)

  def _step(self, name: str, bucket: Reg, pair: tuple[Val, Val], wave: int) -> None:
    self.b.emit(inst(name, bucket, *(self.b.to_vector(v).at(wave) for v in pair)))
