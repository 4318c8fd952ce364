"""Loops: RANGE and END, whose passes may depend on the work item or on memory.

All work items go through a loop together. Where they disagree about its passes it runs until the last of them is done, and
those that are done already are gated off: they load and store nothing, in memory and in registers.
"""
from __future__ import annotations

from tinygrad.dtype import dtypes
from tinygrad.uop.ops import Ops, UOp

from ..mir.builder import Val, imm
from ..mir.ir import Loop, Reg
from .accumulators import Accumulators, Key
from .arithmetic import Values
from .memory import Memory
from .private_arrays import Arrays, register_buffer

MANY = 1 << 24
"""Bounds from here on say nothing about the passes of a loop."""


class Loops:
  """Loops of one kernel.

  Args: uops: its linear program.
  Attributes: gates: conditions under which a work item takes part in what follows, from the outside in.
  """

  def __init__(self, values: Values, memory: Memory, accumulators: Accumulators, arrays: Arrays, uops: list[UOp]):
    self.memory = memory
    self.values, self.b, self.lanes, self.accumulators = values, values.b, values.lanes, accumulators
    self.gates: list[Val] = []
    self._ends = {u.src[1]: i for i, u in enumerate(uops) if u.op is Ops.END}
    self._uops, self._arrays = uops, arrays
    self._open: list[tuple[UOp, tuple[Reg, ...]]] = []

  def gate(self) -> Val | None:
    """All gates at once."""
    gate = None
    for g in self.gates:
      gate = g if gate is None else self.values.apply("vand", "sand", gate, g)
    return gate

  def begin(self, at: int, u: UOp) -> None:
    """Open the loop of the RANGE at position `at` of the program."""
    end = self._uops[self._ends[u]]
    own: tuple[Reg, ...] = ()
    limit = count = None
    trips = Loop.trips
    if u.dtype is not dtypes.void:
      passes = self.values.value(u.src[0])
      trips = int(most) if (most := u.src[0].vmax) < MANY else trips
      if not self.lanes.alike(u.src[0]):
        limit = self._working(self.b.to_vector(passes))
        count = self._most(limit).regs[0]
      else:
        count = self.b.to_scalar(passes).regs[0]
    elif self._diverges(end):
      own = tuple(Reg("v") for _ in range(self.lanes.waves))
      everyone = self._working(imm(1))
      for wave, reg in enumerate(own):
        self.b.move(reg, everyone.at(wave))
    self.accumulators.open_loop(self._stored(at, u))
    counter = self.b.open_loop(count, trips)
    self.values.known[u] = counter
    self.accumulators.enter_loop()
    self._open.append((u, own))
    if limit is not None:
      self.gates.append(self.b.vector("vlt", counter, limit))
    elif own:
      self.gates.append(Val("v", own, depth=self.b.depth))

  def end(self, u: UOp) -> None:
    """Close the loop of an END."""
    loop, own = self._open.pop()
    if loop is not u.src[1]:
      raise self.values.fail(u, "loops must nest")
    until = None
    if own:
      going_on = self.b.vector("vand", self.gates.pop(), self.values.value(u.src[2]))
      for wave, reg in enumerate(own):
        self.b.move(reg, going_on.at(wave))
      until = self._most(going_on).regs[0]
    elif len(u.src) == 3:
      until = self.b.to_scalar(self.values.value(u.src[2])).regs[0]
    elif not self.lanes.alike(loop.src[0]):
      self.gates.pop()
    self.accumulators.end_loop(merge=until is None)
    self.b.close_loop(until)
    self.accumulators.close_loop()

  def _diverges(self, end: UOp) -> bool:
    return len(end.src) == 3 and self.lanes.count > 1 and not self.lanes.alike(end.src[2])

  def _working(self, v: Val) -> Val:
    """A value, and 0 in lanes without a work item, where nothing is known about it."""
    if self.lanes.count == 1 or self.lanes.count % (width := self.lanes.config.width) == 0:
      return v
    masks = [self.memory.mask(None, True, width, wave) for wave in range(self.lanes.waves)]
    full = self.b.to_vector(imm(1)).regs[0]
    return self.b.vector("vsel", Val("v", tuple(m or full for m in masks)), v, imm(0))

  def _most(self, v: Val) -> Val:
    """The largest of a value over all work items, in a scalar register."""
    v = self.b.to_vector(v)
    most = Val("v", v.regs[:1], depth=v.depth)
    for reg in v.regs[1:]:
      most = self.b.vector("vmax", most, Val("v", (reg,), depth=v.depth))
    return self.b.to_scalar(self.b.cross("xmaxt", "v", most))

  def _stored(self, at: int, loop: UOp) -> list[Key]:
    body = self._uops[at:self._ends[loop]]
    return [self.accumulators.key(u.src[0]) for u in body
            if u.op is Ops.STORE and register_buffer(u.src[0]) is not None and not self._arrays.holds(u.src[0])]
