"""Machine IR: operations of the ISA table on virtual registers, and the loops around them."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from ...isa import timing
from ...isa.encoding import MemType
from ...isa.table import OPS, Op


class Reg:
  """A register of file "v", "s" or "p". `number` is None until allocation; registers made with a number keep it.
  `remat` is the operation that recomputes its value from nothing (a constant), if there is one. `serial` names it before."""
  __slots__ = ("file", "number", "remat", "serial")
  _serials = count()

  def __init__(self, file: str, number: int | None = None):
    self.file, self.number = file, number
    self.remat: Inst | None = None
    self.serial = next(Reg._serials)

  def __repr__(self) -> str:
    return f"{self.file}{self.number}" if self.number is not None else f"{self.file}%{self.serial}"


class Traffic(NamedTuple):
  """What one access costs. lines: lines of HBM that it touches; conflicts: cycles in VMEM, the most words of it in one bank."""
  lines: int = 1
  conflicts: int = 1


class Reach(NamedTuple):
  """Bytes that an access may touch, from its buffer's start. low, high: the first and last where all loops are in their first pass.
  steps: (counter, bytes, last): with each pass of the loop of that counter, up to `last`, so many bytes further."""
  low: int
  high: int
  steps: tuple[tuple[Reg, int, int], ...] = ()


Origin = tuple[int, ...]
Operand = Reg | int  # an int is a 32-bit immediate
S0 = Reg("s", 0)


@dataclass
class Mem:
  """A memory operand: `base` byte address, `x` and `off` in elements, then per form nothing, strides `r` and `c`, or `index`.
  `space` names what is accessed: accesses of different spaces never meet. `traffic`: the cycles it takes in either memory.
  `reach`: the bytes that it may touch, if known."""
  base: Reg
  mtype: MemType
  x: Reg = S0
  off: int = 0
  r: Reg | None = None
  c: Reg | None = None
  index: Reg | None = None
  mask: Reg | None = None
  space: str = ""
  traffic: Traffic = Traffic()
  reach: Reach | None = None

  REGISTERS = ("base", "x", "r", "c", "index", "mask")

  def registers(self) -> list[Reg]:
    return [reg for f in self.REGISTERS if (reg := getattr(self, f)) is not None]


@dataclass
class Inst:
  """One operation: `dst` is its result register, `srcs` its other operands in the order of the table, without the memory
  operand (`mem`) and the branch target (`target`, a label). `lines` estimates the lines or cycles of a memory access. `origin`: positions
  in tinygrad's program of the UOps that it was made of, if they are noted."""
  op: Op
  dst: Reg | None = None
  srcs: list[Operand] = field(default_factory=list)
  mem: Mem | None = None
  target: str = ""
  lines: int = 1
  origin: Origin = ()

  @property
  def unit(self) -> str:
    """The unit that it keeps busy for more than a cycle; "" if there is none."""
    if self.mem is not None:
      return self.op.name[0]
    return next((name for name, classes in timing.UNITS.items() if self.op.timing in classes), "")

  def reads(self) -> list[Reg]:
    """Registers that it reads, s0 included."""
    regs = [s for s in self.srcs if isinstance(s, Reg)]
    if "pm" in self.op.operands and self.dst is not None:
      regs.append(self.dst)
    return regs + self.mem.registers() if self.mem else regs

  def substitute(self, replace: Callable[[Reg], Reg]) -> None:
    """Rewrite the registers that it reads (a bucket that is both read and written is left alone)."""
    self.srcs = [replace(s) if isinstance(s, Reg) else s for s in self.srcs]
    if self.mem:
      for f in Mem.REGISTERS:
        if (reg := getattr(self.mem, f)) is not None:
          setattr(self.mem, f, replace(reg))


Group = list[Inst]
"""Operations that issue together."""


@dataclass
class Loop:
  """A counted loop (`count` holds the number of passes, which may be zero) or, with `until`, one that repeats while `until` != 0, or, with
  `given`, a body that is gone through once if `given` != 0. `trips`: the passes to expect. `origin`: as an operation's."""
  body: list[Inst | Loop]
  count: Reg | None = None
  counter: Reg | None = None
  until: Reg | None = None
  given: Reg | None = None
  trips: int = 4
  origin: Origin = ()


@dataclass
class Label:
  """A place in linear code."""
  name: str


@dataclass
class Code:
  """Linear code: operations and labels, and for each loop the positions (first, last) of its operations."""
  items: list[Inst | Label]
  loops: list[tuple[int, int]]


def inst(name: str, dst: Reg | None, *srcs: Operand, origin: Origin = ()) -> Inst:
  """An operation of the table by name."""
  return Inst(OPS[name], dst, list(srcs), origin=origin)


def walk(items: list[Inst | Loop]) -> Iterator[Inst]:
  """Every operation of a block, loops included, in order."""
  for item in items:
    if isinstance(item, Loop):
      yield from walk(item.body)
    else:
      yield item


def clone(items: list[Inst | Loop]) -> list[Inst | Loop]:
  """The same block with operations, loops and unnumbered registers of its own."""
  regs: dict[Reg, Reg] = {}

  def reg(r: Reg) -> Reg:
    if r.number is not None:
      return r
    if (new := regs.get(r)) is None:
      new = regs[r] = Reg(r.file)
    return new

  def some(r: Reg | None) -> Reg | None:
    return None if r is None else reg(r)

  def memory(m: Mem) -> Mem:
    reach = m.reach and Reach(m.reach.low, m.reach.high, tuple((reg(r), *step) for r, *step in m.reach.steps))  # type: ignore[misc]
    return Mem(reg(m.base), m.mtype, reg(m.x), m.off, some(m.r), some(m.c), some(m.index), some(m.mask), m.space, m.traffic, reach)

  def operation(x: Inst) -> Inst:
    srcs = [reg(s) if isinstance(s, Reg) else s for s in x.srcs]
    new = Inst(x.op, some(x.dst), srcs, x.mem and memory(x.mem), x.target, x.lines, x.origin)
    if x.dst is not None and x.dst.remat is x and new.dst is not None:
      new.dst.remat = new
    return new

  def block(items: list[Inst | Loop]) -> list[Inst | Loop]:
    return [operation(x) if isinstance(x, Inst) else
            Loop(block(x.body), some(x.count), some(x.counter), some(x.until), some(x.given), x.trips, x.origin) for x in items]
  done = block(items)
  for old, new in list(regs.items()):
    if old.remat is not None and new.remat is None:  # recomputed by an operation that is not there any more
      new.remat = operation(old.remat)
  return done


def flatten(items: list[Inst | Loop], loop_depth: int, prefix: str = "") -> Code:
  """Linear code of a block: loops on the hardware stack down to `loop_depth` levels counted from the innermost, branches outside.
  Labels begin with `prefix`."""
  code = Code([], [])
  labels = iter(range(1 << 30))

  def height(loop: Loop) -> int:
    return (loop.count is not None) + max([height(x) for x in loop.body if isinstance(x, Loop)], default=0)

  def branch(loop: Loop, name: str, *srcs: Operand, to: str) -> Inst:
    return Inst(OPS[name], None, list(srcs), target=prefix + to, origin=loop.origin)

  def add(block: list[Inst | Loop]) -> None:
    for item in block:
      if not isinstance(item, Loop):
        code.items.append(item)
        continue
      n = next(labels)
      first = len(code.items)
      if item.given is not None:
        code.items.append(branch(item, "beq", item.given, S0, to=f"end{n}"))
        add(item.body)
        code.items.append(Label(f"{prefix}end{n}"))
      elif item.until is not None:
        code.items.append(Label(f"{prefix}again{n}"))
        add(item.body)
        code.items.append(branch(item, "bne", item.until, S0, to=f"again{n}"))
      else:
        assert item.count is not None and item.counter is not None
        if stack := height(item) <= loop_depth:
          code.items.append(branch(item, "loop", item.count, to=f"end{n}"))
        else:
          code.items += [branch(item, "bge", S0, item.count, to=f"end{n}"), Label(f"{prefix}top{n}")]
        add(item.body)
        code.items.append(inst("sadd", item.counter, item.counter, 1, origin=item.origin))
        code.items.append(inst("lend", None, origin=item.origin) if stack else branch(item, "blt", item.counter, item.count, to=f"top{n}"))
        code.items.append(Label(f"{prefix}end{n}"))
      code.loops.append((first, len(code.items) - 1))
  add(items)
  return code
