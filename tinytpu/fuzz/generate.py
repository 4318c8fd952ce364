"""Random programs that keep to the cases that docs/timing.md defines.

What may race is kept apart: VMEM and device memory are cut into areas, and at any time every area serves vector
accesses, inbound transfers or outbound ones only. Between phases, when areas change their roles, the program waits for all that is
under way. Addresses come from scalar registers that the host sets and that no random operation writes.
"""
from __future__ import annotations

import random
from dataclasses import replace

from ..config import Config
from ..isa.encoding import BKIND, CODE, DTYPE, BKind, MemType
from ..isa.instruction import Instr, Raw, encode, ins
from ..isa.table import BY_CODE, OPS, Op, is_memory, writes
from .case import Case, Layout
from .program import Block, Group, Item, Tree

_BRANCHES = ("beq", "bne", "blt", "bge", "bltu", "bgeu", "bp", "bnp")
_WAITS = ("fence", "dwaiti", "dwaito", "barrier")
_SETS = ("pset0", "pset1")
_SLOT_OPS = {slot: [op for op in OPS.values() if op.slot == slot] for slot in "SVX"}
_MEMORY_T = [op for op in OPS.values() if op.slot == "T" and is_memory(op)]
_CHANCE = {"S": 0.45, "V": 0.6, "X": 0.4, "L": 0.35, "T": 0.35}
_INTERESTING = (0, 1, 2, 3, 5, 31, 32, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x3F800000, 0xBF800000, 0x7F800000, 0x7FC00001, 0x00000001,
                0x00800000, 0x477FF000, 0x4B000000, 0x4F000000)
SCRATCH_S, SCRATCH_V = range(1, 14), range(12)
"""Registers that random operations mostly write: few, so that they depend on each other."""
COUNTERS, ODD_BASES, PLANE_PITCHES, INDICES = range(24, 31), (20, 21, 22), (16, 17), range(56, 60)
"""Scalar registers that count loops; that hold bases not aligned to words; distances of planes; vector registers with gather indices."""


class _Generator:
  def __init__(self, config: Config, rng: random.Random):
    self.config, self.rng, self.layout = config, rng, Layout(config)
    self.labels, self.counters, self.phase = 0, 0, 0

  # -- operands -----------------------------------------------------------------------------------------
  def scalar(self, write: bool = False) -> int:
    rng = self.rng
    if write:
      return rng.choice(SCRATCH_S) if rng.random() < 0.95 else 0
    return rng.choice(SCRATCH_S) if rng.random() < 0.8 else rng.randrange(64)

  def vector(self, write: bool = False) -> int:
    rng = self.rng
    if write:
      return rng.choice(SCRATCH_V) if rng.random() < 0.9 else rng.randrange(12, INDICES.start)
    return rng.choice(SCRATCH_V) if rng.random() < 0.9 else rng.randrange(64)

  def immediate(self) -> int:
    return self.rng.choice((*_INTERESTING, self.rng.getrandbits(32), self.rng.randrange(-20, 20)))

  def area(self, kind: str, role: str) -> int:
    """Scalar register that holds the base of an area of `kind` ("vmem", "hbm") which now serves `role`."""
    return self.rng.choice(self.layout.registers(kind, role, self.phase))

  # -- operations ---------------------------------------------------------------------------------------
  def op(self, op: Op) -> Instr:
    """An operation that is no control and no DMA operation, its operands random."""
    rng = self.rng
    fields: dict[str, object] = {}
    for kind in op.operands:
      if kind in ("vd", "vs"):
        fields["d"] = self.vector(write=kind == "vd")
      elif kind == "sd":
        fields["d"] = self.scalar(write=True)
      elif kind in ("pd", "pm"):
        fields["d"] = rng.randrange(4)
      elif kind == "pa":
        fields["a"] = rng.randrange(4)
      elif kind[0] == "q":
        fields[kind[1]] = rng.randrange(Config.PREDICATES)
      elif kind[0] == "v":
        fields[kind[1]] = self.vector()
      elif kind[0] == "s":
        fields[kind[1]] = self.scalar()
      elif kind in ("b", "k"):
        bkind = rng.choice(list(BKind) if kind == "b" else [BKind.SREG, BKind.IMM])
        fields["bkind"] = bkind
        if op.name == "sldx" and bkind == BKind.IMM:
          fields["imm"] = rng.choice((0, 0, 1, 2, 3, 8, 0xFFFFFFFF))
        else:
          fields |= {"imm": self.immediate()} if bkind == BKind.IMM else {"b": self.vector() if bkind == BKind.VREG else self.scalar()}
        fields["swap"] = op.swappable and rng.random() < 0.3
      elif is_memory(op):
        fields |= self.memory(op, kind)
    return Instr(op, **fields)  # type: ignore[arg-type]

  def memory(self, op: Op, kind: str) -> dict[str, object]:
    rng, layout = self.rng, self.layout
    space = "vmem" if op.name[0] == "v" else "hbm"
    store = op.name[1:3] == "st" or op.name.startswith("vatom")
    role = "vector" if store or rng.random() < 0.8 else "out" if space == "vmem" else "in"  # what a transfer only reads may be loaded
    mtype = MemType.W if op.words_only else rng.choice([MemType.W, MemType.W, *MemType])
    fields: dict[str, object] = {"mtype": mtype, "off": rng.randrange(-64, 64), "x": rng.choice((0, *layout.small))}
    fields["a"] = self.area(space, role)
    if mtype != MemType.W and space == "vmem" and role == "vector" and rng.random() < 0.4:
      fields["a"] = ODD_BASES[1] if mtype.bytes == 2 else rng.choice(ODD_BASES)
    if kind == "mem2":
      fields |= {"r": rng.choice((0, *layout.small)), "c2": rng.choice((0, *layout.small))}
    elif kind == "memx":
      fields["r"] = rng.choice(INDICES)
    if rng.random() < 0.3:
      fields |= {"masked": True, "c": self.vector()}
    return fields

  def dma(self, name: str | None = None) -> Instr:
    """A transfer, of the direction given by `name` or of any."""
    rng, layout = self.rng, self.layout
    name = name or rng.choice(("dmai", "dmao"))
    role = {"dmai": "in", "dmao": "out"}[name]
    planes: dict[str, object] = {}
    if rng.random() < 0.5:
      planes = {"z": rng.choice((0, *layout.rows)), "zh": rng.choice((0, *layout.pitches)), "zv": rng.choice((0, *PLANE_PITCHES))}
    return ins(name, c=self.area("vmem", role), a=self.area("hbm", role), c2=rng.choice(layout.pitches),
               r=rng.choice(layout.pitches), d=rng.choice(layout.pitches), x=rng.choice((0, *layout.rows)), **planes)

  def group(self, control: Instr | None = None, slots: str = "SVXLT") -> Group:
    """A group of random operations, and `control` if given."""
    rng = self.rng
    ops: list[Instr] = [control] if control else []
    taken: set[tuple[str, int]] = set()
    for slot in rng.sample(slots, len(slots)):
      if len(ops) == Config.GROUP or rng.random() > _CHANCE[slot]:
        continue
      op = self.pick(slot)
      keys = {(a.file, getattr(op, a.field)) for a in writes(op.op)}
      if not keys & taken:
        taken |= keys
        ops.append(op)
    rng.shuffle(ops)
    if not ops:
      ops = [ins("nop")]
    return Group(tuple(ops))

  def pick(self, slot: str) -> Instr:
    rng = self.rng
    if slot == "L":
      return self.op(OPS[rng.choice(("vld", "vld", "vld2", "vldx"))])
    if slot == "T":
      if rng.random() < 0.15:
        return self.dma()
      return self.op(rng.choice(_MEMORY_T))
    while True:
      op = rng.choice(_SLOT_OPS[slot])
      if op.timing != "DIV" or rng.random() < 0.4:  # else nearly all time would be waiting for dividers
        return self.op(op)

  # -- structure ----------------------------------------------------------------------------------------
  def label(self) -> str:
    self.labels += 1
    return f"l{self.labels}"

  def wait(self) -> Group:
    """A group with a control operation that goes nowhere."""
    return self.group(self.control(self.rng.choice((*_WAITS, *_SETS))))

  def control(self, name: str) -> Instr:
    """A wait, or a predicate's assignment."""
    if name in _SETS:
      return self.op(OPS[name])
    return ins(name, imm=self.rng.choice((0, 1, 2, 3, 4, 0xFFFFFFFF)) if name[0] == "d" else 0)

  def items(self, count: int, depth: int) -> tuple[Item, ...]:
    out: list[Item] = []
    for _ in range(count):
      chance = self.rng.random()
      if depth < 3 and chance < 0.12:
        out.append(self.block(depth))
      elif chance < 0.18:
        out.append(self.wait())
      else:
        out.append(self.group())
    return tuple(out)

  def loop(self, depth: int) -> Block:
    label = self.label()
    head = self.group(ins("loop", a=self.rng.choice(self.layout.counts), target=label))
    return Block(head, self.items(self.rng.randrange(1, 7), depth + 1), self.group(ins("lend")), label)

  def branch(self, depth: int, name: str) -> Block:
    """A branch, or jmp, forward over some items."""
    label = self.label()
    instr = ins("jmp", target=label) if name == "jmp" else replace(self.op(OPS[name]), target=label)
    return Block(self.group(instr), self.items(self.rng.randrange(1, 7), depth + 1), None, label)

  def block(self, depth: int) -> Block:
    rng = self.rng
    kind = rng.random()
    if kind < 0.5:
      return self.loop(depth)
    if kind < 0.65 and self.counters < len(COUNTERS):
      counter = COUNTERS[self.counters]
      self.counters += 1
      label = self.label()
      setup = Group((ins("sadd", d=counter, a=0, imm=rng.randrange(1, 4)),))
      body = (*self.items(rng.randrange(1, 7), depth + 1), Group((ins("ssub", d=counter, a=counter, imm=1),)))
      self.counters -= 1
      return Block(setup, body, self.group(ins("bne", a=counter, c=0, target=label)), label, backward=True)
    return self.branch(depth, "jmp" if kind < 0.7 else rng.choice(_BRANCHES))

  def barrier(self) -> list[Item]:
    """Wait for everything, then let the areas change roles. The load waits for stores that VMEM is still busy with."""
    self.phase += 1
    base = self.area("vmem", "vector")
    if self.rng.random() < 0.5:
      return [Group((ins("barrier"),), pinned=True), *self.prepare(base)]
    waits = [Group((ins(name),), pinned=True) for name in ("fence", "dwaiti", "dwaito")]
    return [*waits, Group((ins("vld", d=self.vector(write=True), a=base),), pinned=True), *self.prepare(base)]

  def prepare(self, base: int) -> list[Item]:
    """Registers that memory operands rely on: bases that are not aligned, distances of planes, and small indices."""
    rng = self.rng
    odd = [Group((ins("sadd", d=d, a=base, imm=imm),), pinned=True) for d, imm in zip(ODD_BASES, (1, 2, 3), strict=True)]
    odd += [Group((ins("sadd", d=d, a=0, imm=imm),), pinned=True) for d, imm in zip(PLANE_PITCHES, (132, 1024), strict=True)]
    indices = [Group((ins("vand", d=d, a=self.vector(), imm=rng.choice((1, 3, 15, 63, 127))),), pinned=True) for d in INDICES]
    return [*odd, *indices]

  # -- faults -------------------------------------------------------------------------------------------
  def fault(self) -> list[Item]:
    """Groups that are likely to stop the program."""
    rng, layout = self.rng, self.layout
    group = self.group(slots="SVX")
    room = [op for op in group.ops if isinstance(op, Instr) and op.op.slot][:2]
    kind = rng.randrange(9)
    if kind == 0:
      unknown = rng.choice([code for code in range(256) if code not in BY_CODE])
      words = (encode(ins("vld")) | DTYPE.mask << DTYPE.lsb, encode(ins("vatom")) | 1 << DTYPE.lsb,
               encode(ins("sadd")) | BKIND.mask << BKIND.lsb, rng.getrandbits(64) & ~(CODE.put(CODE.mask) | 1) | CODE.put(unknown))
      bad: list[Instr | Raw] = [Raw(rng.choice(words))]
    elif kind == 1:
      bad = [ins("trap", imm=self.immediate())]
    elif kind == 2:
      bad = [ins("lend")]
    elif kind == 3:
      bad = [Raw(encode(ins("sadd", d=1))), Raw(encode(ins(rng.choice(("sadd", "smul")), d=2)))]
      room = []
    elif kind == 4:
      return [self.group(ins("loop", a=layout.small[0])) for _ in range(Config.LOOP_DEPTH + 1)]
    elif kind == 5:
      bad = [replace(self.dma(), **rng.choice(layout.bad_dma))]
    else:
      ops = [op for op in OPS.values() if is_memory(op)]
      wrong: list[Instr | Raw] = [replace(self.op(rng.choice(ops)), a=rng.choice(layout.bad_bases)) for _ in range(rng.randrange(1, 3))]
      bad = [wrong[0]] if len(wrong) == 1 or wrong[0].op.slot == wrong[1].op.slot or wrong[0].d == wrong[1].d else wrong  # type: ignore[union-attr]
      writes_v = {op.d for op in bad if isinstance(op, Instr)}
      room = [op for op in room if op.op.slot == "S" or op.d not in writes_v]
    return [Group((*room, *bad))]


def generate(seed: int, config: Config) -> Case:
  """The random program number `seed` for `config`, with the memory and arguments to run it on."""
  rng = random.Random(f"tinytpu {config.name} {seed}")
  g = _Generator(config, rng)
  items: list[Item] = list(g.prepare(g.area("vmem", "vector")))
  for phase in range(rng.choice((1, 1, 2, 3))):
    if phase:
      items += g.barrier()
    items += g.items(rng.randrange(2, 24), 0)
  if rng.random() < 0.3:
    items += g.fault()
    items += g.items(rng.randrange(3), 3)
  end = g.group(ins("halt"))
  limit = rng.randrange(1, 400) if rng.random() < 0.06 else 200_000
  return Case(config, seed, Tree((*items, Group(end.ops, pinned=True))), limit, rng.choice((1, 1, 2, 3)))


def exercise(name: str, config: Config) -> Case:
  """A program that runs the operation called `name` many times, on random operands and beside random other operations.

  Raises:
    KeyError: no such operation.
  """
  op, rng = OPS[name], random.Random(name)
  g = _Generator(config, rng)
  items: list[Item] = list(g.prepare(g.area("vmem", "vector")))
  last = "trap" if name == "trap" else "halt"
  for _ in range(20):
    if name in ("loop", "lend"):
      items.append(g.loop(2))
    elif name in (*_BRANCHES, "jmp"):
      items += [g.group(g.op(OPS[rng.choice(_SETS)])), g.branch(2, name)]
    elif name in _WAITS:
      items += [Group((g.dma(),)), g.group(), g.group(g.control(name))]
    elif name in _SETS:
      items += [g.group(g.op(op)), g.branch(2, rng.choice(("bp", "bnp")))]
    elif name in ("sldx", "sldep"):
      items.append(Group((g.op(op),)) if rng.random() < 0.3 else replace(g.loop(2), body=(Group((g.op(op),)), g.loop(3))))
    elif name == "nop" or op.slot == "C":
      items.append(g.group(ins("nop")))
    else:
      items += [Group((g.dma(name) if name in ("dmai", "dmao") else g.op(op),)), g.group(slots="SVXLT".replace(op.slot, ""))]
  return Case(config, 0, Tree((*items, Group((ins(last, imm=g.immediate()),), pinned=True))), 200_000)
