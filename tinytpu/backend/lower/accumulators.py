"""REG buffers: every element is a register, tracked as the value it holds at this point of the program.

Straight-line code needs no moves for them: a store names a new value, a load takes the current one. A loop that stores
to an element gives it a register of its own (vector registers, or PSUM buckets where the element is only ever the
accumulator of matrix steps), set before the loop and updated at its end.
"""
from __future__ import annotations

from collections.abc import Iterable

from tinygrad.uop.ops import UOp

from ..mir.builder import Builder, Val, imm
from ..mir.ir import Reg
from .arithmetic import Values
from .private_arrays import element_index, register_buffer

Key = tuple[UOp, int]  # buffer, element


class Accumulators:
  """REG buffers of one kernel.

  Attributes:
    buckets: elements that may live in PSUM (the lowering finds them before it starts).
  """

  def __init__(self, values: Values, builder: Builder, waves: int):
    self.values, self.b, self.waves = values, builder, waves
    self.current: dict[Key, Val] = {}
    self.buckets: set[Key] = set()
    self._loops: list[dict[Key, tuple[Reg, ...]]] = []
    self._stored: list[list[Key]] = []

  def key(self, index: UOp) -> Key:
    """The element that an INDEX of a REG buffer names.

    Raises:
      UnsupportedError: the index is not a constant.
    """
    buffer, at = register_buffer(index), element_index(index)
    if buffer is None or at is None:
      raise self.values.fail(index, "accumulators live in registers and take constant indices only")
    return buffer, at

  def load(self, u: UOp, gate: Val | None = None) -> Val:
    """The current value of an element, whatever the gate."""
    if (v := self.current.get(self.key(u.src[0]))) is None:
      raise self.values.fail(u, "an accumulator is read before it is written: tinygrad drops the writes where it takes an "
                             "unsigned number never to wrap (the largest of -x); cast to a wider signed integer first")
    return v

  def store(self, u: UOp, gate: Val | None) -> None:
    """Make a value current, under a gate if there is one."""
    key, v = self.key(u.src[0]), self.values.value(u.src[1])
    if gate is not None:
      v = self.values.b.vector("vsel", self.b.to_vector(gate), v, self.current.get(key, imm(0)))
    self.current[key] = v

  def consume(self, v: Val) -> bool:
    """Note that the buckets of `v` are about to be changed in place: nothing may read the element that holds it until it is stored
    again. Returns whether they belong to a loop."""
    for key in [k for k, current in self.current.items() if current is v]:
      del self.current[key]
    return any(reg in regs for loop in self._loops for regs in loop.values() for reg in v.regs)

  def open_loop(self, stored: Iterable[Key]) -> None:
    """Before a loop opens whose body stores to these elements: give those that already hold a value registers."""
    mine: dict[Key, tuple[Reg, ...]] = {}
    self._stored.append(list(dict.fromkeys(stored)))
    for key in self._stored[-1]:
      if (v := self.current.get(key)) is None:
        continue
      if key in self.buckets and v.file == "p":
        mine[key] = v.regs  # an outer loop's bucket: accumulate on in place
        continue
      file = "p" if key in self.buckets else "v"
      mine[key] = tuple(Reg(file) for _ in range(self.waves))
      if file == "v" and v.file == "p":
        v = self.b.to_vector(v)
      for w, reg in enumerate(mine[key]):
        self.b.move(reg, self._same_file(v, w, file))
    self._loops.append(mine)

  def _same_file(self, v: Val, wave: int, file: str) -> Reg | int:
    return self.b.to_vector(v).at(wave) if file == "p" else v.at(wave)

  def enter_loop(self) -> None:
    """After the loop has opened: its registers are the current values."""
    for key, regs in self._loops[-1].items():
      self.current[key] = Val(regs[0].file, regs, depth=self.b.depth)

  def end_loop(self, merge: bool) -> None:
    """At the end of the body: bring the current values back into the loop's registers. merge: the operations that compute
    them may be made to write these registers directly."""
    mine = self._loops[-1]
    own = {reg for regs in mine.values() for reg in regs}
    moves: list[tuple[Reg, Reg | int]] = []
    for key, regs in mine.items():
      v = self.current[key]
      if v.file == "p" and regs[0].file == "v":
        v = self.b.to_vector(v)
      moves += [(reg, self._same_file(v, w, "p") if v.file != "p" and reg.file == "p" else v.at(w)) for w, reg in enumerate(regs)]
    moves = [(reg, source) for reg, source in moves if source is not reg]
    crossing = {source for _, source in moves if source in own}
    copies = {source: self._copy(source) for source in crossing if isinstance(source, Reg)}  # before any of them is overwritten
    sources = [source for _, source in moves]
    for reg, source in moves:
      once = merge and sources.count(source) == 1 and not self._current_elsewhere(mine, source)
      self.b.move(reg, copies.get(source, source), final=once and source not in copies)  # type: ignore[arg-type]

  def _current_elsewhere(self, mine: dict[Key, tuple[Reg, ...]], source: Reg | int) -> bool:
    return any(source in v.regs for key, v in self.current.items() if key not in mine)

  def _copy(self, source: Reg) -> Reg:
    copy = Reg(source.file)
    vector = Val(source.file, (source,), depth=self.b.depth)
    self.b.move(copy, self.b.to_vector(vector).regs[0] if source.file == "p" else source)
    return copy

  def close_loop(self) -> None:
    """After the loop has closed: its registers hold the elements. Elements first written inside it are forgotten."""
    for key in self._stored.pop():
      self.current.pop(key, None)
    for key, regs in self._loops.pop().items():
      self.current[key] = Val(regs[0].file, regs, depth=self.b.depth)
