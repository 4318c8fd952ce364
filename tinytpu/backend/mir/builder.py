"""Emission of machine IR: values, the scopes that loops open, value numbering and hoisting.

A value is pure unless it is a load: it is emitted in the outermost scope in which its operands exist, and equal
operations there are emitted once. So what does not depend on a loop leaves it without a pass of its own.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from ...isa.table import OPS
from .ir import S0, Inst, Loop, Mem, Operand, Origin, Reg, inst, walk


@dataclass(frozen=True, eq=False)
class Val:
  """A value. file: "s" scalar register, "v" vector registers, "p" PSUM buckets, "i" 32-bit immediate in `imm`.
  regs: one register per wave, or a single one where all waves are alike. depth: index of the scope in which it exists."""
  file: str
  regs: tuple[Reg, ...] = ()
  imm: int = 0
  depth: int = 0

  def at(self, wave: int) -> Operand:
    """The operand that stands for the value in a wave."""
    return self.imm if self.file == "i" else self.regs[wave if len(self.regs) > 1 else 0]

  @property
  def waves(self) -> int:
    """Waves that differ."""
    return max(1, len(self.regs))


def imm(value: int) -> Val:
  """An immediate value."""
  return Val("i", imm=value & 0xFFFFFFFF)


@dataclass
class Scope:
  """A block under construction, and its value numbers. `loop` is the loop that it is the body of."""
  items: list[Inst | Loop] = field(default_factory=list)
  known: dict[tuple[object, ...], Reg] = field(default_factory=dict)
  loop: Loop | None = None


class Builder:
  """Emits operations into nested scopes; scope 0 is the program's prologue.

  Attributes:
    origin: of what is emitted from now on, as `Inst.origin` has it.
  """

  def __init__(self) -> None:
    self.scopes = [Scope()]
    self.origin: Origin = ()
    self._makers: dict[Reg, Inst] = {}

  @property
  def depth(self) -> int:
    return len(self.scopes) - 1

  def emit(self, item: Inst, depth: int | None = None) -> None:
    """Append an operation to the scope at `depth` (default: the innermost)."""
    if item.dst is not None and item.dst.file == "p":  # what was popped before is not the bucket's value any more
      for scope in self.scopes:
        scope.known.pop(("ppop", "v", item.dst), None)
    item.origin = self.origin
    self.scopes[self.depth if depth is None else depth].items.append(item)

  # -- pure operations ------------------------------------------------------------------------------
  def _pure(self, name: str, file: str, operands: tuple[Operand, ...], depth: int) -> Reg:
    key = (name, file, *operands)
    known = self.scopes[depth].known
    if (reg := known.get(key)) is None:
      reg = known[key] = Reg(file)
      op = inst(name, reg, *operands)
      if not any(isinstance(o, Reg) and o is not S0 for o in operands):
        reg.remat = op
      self.emit(op, depth)
      self._makers[reg] = op
    elif self.origin:  # another UOp that has the same value
      maker = self._makers[reg]
      maker.origin = tuple(sorted({*maker.origin, *self.origin}))
    return reg

  def scalar(self, name: str, *operands: Val) -> Val:
    """A scalar operation on scalar or immediate values."""
    depth = max(o.depth for o in operands)
    kinds = OPS[name].operands[1:]
    args = [o.at(0) for o in operands]
    flexible = [i for i, k in enumerate(kinds) if k in ("k", "sc" if "sc" in kinds else "sa")]
    imms = [i for i, a in enumerate(args) if isinstance(a, int)]
    for i in imms if not set(imms) <= set(flexible) else imms[:-1]:  # one immediate at most, where the encoding allows it
      args[i] = self.to_scalar(imm(args[i])).regs[0]  # type: ignore[arg-type]
    return Val("s", (self._pure(name, "s", tuple(args), depth),), depth=depth)

  def vector(self, name: str, *operands: Val) -> Val:
    """A vector operation; scalars and immediates take the flexible operand or are broadcast first."""
    op = OPS[name]
    kinds = op.operands[1:]
    places = [i for i, k in enumerate(kinds) if k in ("b", "vc" if "vc" in kinds else "va")] if "b" in kinds else []
    vals = [self.to_vector(o) if o.file == "p" else o for o in operands]
    loose = [i for i, o in enumerate(vals) if o.file != "v"]
    keep = next((i for i in reversed(loose) if i in places), None)
    vals = [o if o.file == "v" or i == keep else self.to_vector(o) for i, o in enumerate(vals)]
    depth, waves = max((o.depth for o in vals), default=0), max((o.waves for o in vals), default=1)
    return Val("v", tuple(self._pure(name, "v", tuple(o.at(w) for o in vals), depth) for w in range(waves)), depth=depth)

  def cross(self, name: str, file: str, *operands: Val) -> Val:
    """A pure operation of slot X, one per wave; result in `file`."""
    depth = max(o.depth for o in operands)
    waves = max(o.waves for o in operands)
    return Val(file, tuple(self._pure(name, file, tuple(o.at(w) for o in operands), depth) for w in range(waves)), depth=depth)

  def to_scalar(self, v: Val) -> Val:
    """A value in a scalar register; of a vector, element 0."""
    if v.file == "i":
      return Val("s", (S0,)) if v.imm == 0 else Val("s", (self._pure("sadd", "s", (S0, v.imm), 0),))
    return v if v.file == "s" else self.cross("xtos", "s", Val("v", self.to_vector(v).regs[:1], depth=v.depth), imm(0))

  def to_vector(self, v: Val) -> Val:
    """A value in vector registers, broadcast if need be."""
    if v.file == "v":
      return v
    if v.file == "p":
      return self.cross("ppop", "v", v)
    return Val("v", (self._pure("vmov", "v", (v.at(0),), v.depth),), depth=v.depth)

  # -- memory: never hoisted, never merged ----------------------------------------------------------
  def load(self, name: str, mem: Mem, lines: int) -> Reg:
    """A load in the innermost scope."""
    reg = Reg("v")
    self.emit(Inst(OPS[name], reg, [], mem, lines=lines))
    return reg

  def store(self, name: str, data: Reg, mem: Mem, lines: int) -> None:
    """A store in the innermost scope."""
    self.emit(Inst(OPS[name], None, [data], mem, lines=lines))

  # -- loops ----------------------------------------------------------------------------------------
  def open_loop(self, count: Reg | None, trips: int = Loop.trips) -> Val:
    """Open a loop of `count` passes (None: until a condition given at its end), about `trips`; the value is its counter."""
    loop = Loop([], count, trips=trips, origin=self.origin)
    if count is not None:
      loop.counter = Reg("s")
      self.emit(inst("sadd", loop.counter, S0, 0))
    scope = Scope(loop=loop)
    loop.body = scope.items
    self.scopes.append(scope)
    return Val("s", (loop.counter or S0,), depth=self.depth)

  def close_loop(self, until: Reg | None = None) -> None:
    """Close the innermost loop."""
    loop = self.scopes.pop().loop
    assert loop is not None
    loop.until = until
    self.scopes[-1].items.append(loop)

  def move(self, target: Reg, value: Operand, final: bool = False) -> None:
    """Write `value` into a mutable vector register or bucket in the innermost scope. `final`: at the end of a loop body, where
    the operation that computes `value` may write `target` itself if nothing after it needs the old contents."""
    if value is target:
      return
    if final and isinstance(value, Reg) and self._merge(target, value):
      return
    if target.file == "p":
      source = value if isinstance(value, Reg) else self.to_vector(imm(value)).regs[0]
      self.emit(inst("ppush", target, source))
    else:
      self.emit(inst("vmov", target, value))

  def _merge(self, target: Reg, value: Reg) -> bool:
    """Make `target` stand for `value` from its first definition in the innermost scope on, if no one there needs what `target` held."""
    items = self.scopes[-1].items
    at = next((i for i, x in enumerate(items) if isinstance(x, Inst) and x.dst is value), None)
    if at is None or value.file != target.file or value.number is not None:
      return False
    if any(target in x.reads() or x.dst is target for x in walk(items[at + 1:])):
      return False
    for x in walk(items[at:]):
      x.substitute(lambda reg: target if reg is value else reg)
      if x.dst is value:
        x.dst = target
    first = items[at]
    if isinstance(first, Inst) and first.op.name == "vmov" and first.srcs[0] is target:
      items.pop(at)
    return True
