"""Group decode: which words of a packet form the group, what each needs, and whether the group is legal.

All that is known of an operation comes from the ISA table, as a read-only memory of one control word per code.
"""
from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out, Signature

from ..isa import encoding as enc
from ..isa import table, timing
from .fetch import PACKET_BITS

__all__ = ["CONTROL", "CONTROL_WORDS", "SLOTS", "Decode", "SlotRead", "field", "group", "operation", "slot_reads", "used"]

SLOTS = tuple(table.SLOTS)

_READS = ("s_a", "s_c", "s_x", "s_r", "s_c2", "s_d", "s_z", "s_zh", "s_zv", "v_a", "v_b", "v_c", "v_d", "v_r")
_TIMINGS = tuple(dict.fromkeys(name for names in (*timing.PORTS.values(), *timing.UNITS.values(), ("PPUSH",)) for name in names))

CONTROL = data.StructLayout({
  "known": 1,                             # the code is an operation's
  "slot": len(SLOTS),                     # one bit per slot, in the order of SLOTS; none for nop
  **{f"read_{r}": 1 for r in _READS},     # registers read, by file and field; b, k and masks come on top
  "write_v": 1, "write_s": 1,             # registers written, named by field d
  "flexible": 1, "scalar_only": 1,        # has an operand b or k; it is a k
  "swap_ab": 1, "swap_bc": 1,             # the operands that the field swap exchanges
  "memory": 1,                            # has an element type and perhaps a mask
  "words": 1,                             # the element type must be W
  **{f"is_{t}": 1 for t in _TIMINGS},     # result latency, where the issue stage must know
  "step": 1,                              # a matrix step
  "clear_all": 1,                         # waits for every PSUM bucket
  "pop": 1, "push": 1,                    # waits for the PSUM bucket in field a, in field d
  "vmem": 1, "hbm": 1, "dmai": 1, "dmao": 1,  # the unit of slot T
})
"""What the issue stage knows of an operation."""


def _control(op: table.Op) -> dict[str, int]:
  reads, writes = table.reads(op), table.writes(op)
  bits = {f"read_{a.file}_{a.field}": 1 for a in reads if a.file in "sv"}
  bits |= {f"write_{a.file}": 1 for a in writes if a.file in "sv"}
  reads_bucket, writes_bucket = (any(a.file == "p" for a in accesses) for accesses in (reads, writes))
  step = op.timing in timing.STEPS
  if op.timing in _TIMINGS:
    bits[f"is_{op.timing}"] = 1
  dma = "dma" in op.operands
  return bits | {
    "known": 1, "slot": 1 << SLOTS.index(op.slot) if op.slot else 0,
    "flexible": "b" in op.operands or "k" in op.operands, "scalar_only": "k" in op.operands,
    "swap_ab": op.swaps == "ab", "swap_bc": op.swaps == "bc",
    "memory": table.is_memory(op), "words": op.words_only, "step": step, "clear_all": op.name == "pclra",
    "pop": reads_bucket and not step, "push": writes_bucket and not step,
    "vmem": op.name.startswith("v") and table.is_memory(op), "hbm": op.name.startswith("h") and table.is_memory(op),
    "dmai": dma and op.name == "dmai", "dmao": dma and op.name == "dmao"}


CONTROL_WORDS: dict[int, dict[str, int]] = {code: _control(op) for code, op in table.BY_CODE.items()}
"""By code, the bits of `CONTROL` that are set."""


def used(slot: str, flag: str) -> bool:
  """Whether any operation of `slot` has `flag` of its control word set: the hardware for others is left out."""
  bit = 1 << SLOTS.index(slot)
  return any(word.get(flag) and word["slot"] == bit for word in CONTROL_WORDS.values())


def field(word: Value, f: enc.Field) -> Value:
  """The bits of field `f` in a 64-bit word, unsigned."""
  return word[f.lsb:f.lsb + f.width]


class SlotRead(NamedTuple):
  """One way in which operations of a slot read a register: file "s" or "v", the field that names it, and the condition on
  instruction word and control word under which they do."""
  file: str
  field: enc.Field
  needed: Callable[[Value, data.View], Value]


def slot_reads(slot: str) -> list[SlotRead]:
  """All the register reads of `slot`, from the table; fields of one file may occur twice (a flexible b and a plain one)."""
  def plain(flag: str) -> Callable[[Value, data.View], Value]:
    return lambda word, control: control[flag]

  found = [SlotRead(file, f, plain(flag)) for file in ("s", "v") for f in enc.FIELDS.values()
           if (flag := f"read_{file}_{f.name}") in CONTROL.members and used(slot, flag)]
  if used(slot, "flexible"):
    found.append(SlotRead("s", enc.B, lambda word, control: control.flexible & (field(word, enc.BKIND) == enc.BKind.SREG)))
    if any(op.slot == slot and "b" in op.operands for op in table.OPS.values()):
      found.append(SlotRead("v", enc.B, lambda word, control: control.flexible & (field(word, enc.BKIND) == enc.BKind.VREG)))
  if used(slot, "memory"):
    found.append(SlotRead("v", enc.C, lambda word, control: control.memory & field(word, enc.MASKED)))
  return found


def operation() -> Signature:
  """A slot's operation in the group: whether there is one, its instruction word, its control word."""
  return Signature({"valid": Out(1), "word": Out(8 * enc.WORD_BYTES), "control": Out(CONTROL)})


def group() -> Signature:
  """A decoded group: one operation per slot (members named as the slots), words it takes, and whether it is illegal."""
  return Signature({slot: Out(operation()) for slot in SLOTS} | {"length": Out(range(enc.PACKET_WORDS + 1)), "illegal": Out(1)})


class Decode(wiring.Component):
  """Packet and word offset in, decoded group out; combinational.

  Members:
    packet: In(256); offset: In(2), the group's first word.
    group: Out(group()).
  """

  def __init__(self) -> None:
    super().__init__({"packet": In(PACKET_BITS), "offset": In(range(enc.PACKET_WORDS)), "group": Out(group())})

  def elaborate(self, platform) -> Module:
    m = Module()
    n = enc.PACKET_WORDS
    rom = [CONTROL.const(CONTROL_WORDS.get(code, {})) for code in range(enc.CODE.mask + 1)]
    m.submodules.rom = rom_memory = memory.Memory(shape=CONTROL, depth=len(rom), init=rom)

    words = [Signal(8 * enc.WORD_BYTES, name=f"word{i}") for i in range(n)]
    active = [Signal(name=f"active{i}") for i in range(n)]
    controls = []
    illegal: list[Value] = []
    previous: Value = Const(0)
    for i, word in enumerate(words):
      port = rom_memory.read_port(domain="comb")
      control = data.View(CONTROL, Signal(CONTROL, name=f"control{i}"))
      m.d.comb += [
        word.eq(self.packet.word_select(i, len(word))), active[i].eq((self.offset == i) | previous),
        port.addr.eq(field(word, enc.CODE)), Value.cast(control).eq(Value.cast(port.data))]
      controls.append(control)
      previous = active[i] & field(word, enc.CHAIN)
      bkind = field(word, enc.BKIND)
      bad_kind = control.flexible & ((bkind == 3) | (control.scalar_only & (bkind == enc.BKind.VREG)))
      dtype = field(word, enc.DTYPE)
      bad_type = (control.memory & (dtype > max(enc.MemType))) | (control.words & (dtype != enc.MemType.W))
      illegal.append(active[i] & (~control.known | bad_kind | bad_type))
    illegal.append(previous)  # a chain across the packet's end
    m.d.comb += self.group.length.eq(sum(active))

    operations = {slot: getattr(self.group, slot) for slot in SLOTS}
    for s, (slot, op) in enumerate(operations.items()):
      here = [Signal(name=f"{slot}_in_{i}") for i in range(n)]
      word, control = words[0], Value.cast(controls[0])
      for i in range(n):
        m.d.comb += here[i].eq(active[i] & controls[i].slot[s])
        if i:
          word, control = Mux(here[i], words[i], word), Mux(here[i], Value.cast(controls[i]), control)
      m.d.comb += [op.valid.eq(Cat(here).any()), op.word.eq(word), Value.cast(op.control).eq(control)]
      illegal += [a & b for a, b in combinations(here, 2)]
    for file in ("v", "s"):
      writers = [slot for slot in SLOTS if used(slot, f"write_{file}")]
      for a, b in combinations((operations[slot] for slot in writers), 2):
        both = a.valid & b.valid & a.control[f"write_{file}"] & b.control[f"write_{file}"]
        illegal.append(both & (field(a.word, enc.D) == field(b.word, enc.D)))
    m.d.comb += self.group.illegal.eq(Cat(illegal).any())
    return m
