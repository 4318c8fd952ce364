"""One instruction as a value: encoding and decoding of words, the group rules, and packing of groups into packets.

`Instr` names fields exactly as `encoding` does. `pack` turns issue groups into the program's words: it checks the
rules that hardware enforces by fault, resolves labels and pads so that no group crosses a packet.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..config import Config
from . import encoding as enc
from .encoding import BKind, MemType
from .table import BY_CODE, OPS, Op, is_memory, reads, writes

_REGISTER_KINDS: dict[str, enc.Field] = {
  "vd": enc.D, "sd": enc.D, "pd": enc.D, "pm": enc.D, "qd": enc.D, "qa": enc.A, "vs": enc.D, "va": enc.A, "sa": enc.A, "pa": enc.A,
  "vb": enc.B, "sb": enc.B, "vc": enc.C, "sc": enc.C}
_FEW = {"p": ("PSUM bucket", Config.PSUMS), "q": ("predicate", Config.PREDICATES)}
"""Register files smaller than their fields, of whose numbers the hardware takes the low bits."""
_MEMORY_FIELDS: dict[str, tuple[enc.Field, ...]] = {
  "mem": (enc.A, enc.X), "mem2": (enc.A, enc.X, enc.R, enc.C2), "memx": (enc.A, enc.X, enc.R)}
_DMA_FIELDS = (enc.C, enc.C2, enc.ZV, enc.A, enc.R, enc.ZH, enc.D, enc.X, enc.Z)
WORD_MASK = (1 << (8 * enc.WORD_BYTES)) - 1


class EncodeError(ValueError):
  """An instruction or group that cannot be encoded.

  Attributes:
    group: index of the offending group among those given to `pack`, or None. position: operation within it, or None.
  """

  def __init__(self, message: str, group: int | None = None, position: int | None = None):
    super().__init__(message)
    self.group, self.position = group, position


class DecodeError(ValueError):
  """A word that is no instruction; the message says which field and why."""


@dataclass(frozen=True)
class Instr:
  """One operation with its fields, named as in `encoding`; fields that `op` does not use are ignored.

  Attributes:
    op: row of the table. d, a, c, b, x, r, c2, z, zh, zv: register numbers. bkind: what the flexible operand is; `b` is its register,
    imm: 32-bit immediate (-2^31 to 2^32 - 1), branch target (word index) or the flexible operand. swap: a and b (of
    select: b and c) change places. masked: register c is the mask. mtype: element type in memory. off: offset in elements.
    target: label that `pack` resolves into `imm`.
  """
  op: Op
  d: int = 0
  a: int = 0
  c: int = 0
  bkind: BKind = BKind.IMM
  b: int = 0
  imm: int = 0
  swap: bool = False
  masked: bool = False
  mtype: MemType = MemType.W
  x: int = 0
  r: int = 0
  c2: int = 0
  off: int = 0
  z: int = 0
  zh: int = 0
  zv: int = 0
  target: str | None = None

  def reads(self) -> list[tuple[str, int]]:
    """Registers that it reads, as (file "v", "s", "p" or "q", number). s0, which is a constant, is left out."""
    return self._registers(reads(self.op, int(self.bkind), self.masked))

  def writes(self) -> list[tuple[str, int]]:
    """Registers that it writes, as (file, number). s0, which drops what is written, is left out."""
    return self._registers(writes(self.op))

  def _registers(self, accesses: Iterable[tuple[str, str]]) -> list[tuple[str, int]]:
    found = ((file, getattr(self, field)) for file, field in accesses)
    return [(file, number) for file, number in found if (file, number) != ("s", 0)]


@dataclass(frozen=True)
class Raw:
  """A word put into a program as it is, chain bit included: no rule is checked. For words that are no instruction."""
  word: int


@dataclass(frozen=True)
class Label:
  """A name, among the groups given to `pack`, for the word index of the group that follows."""
  name: str


def ins(name: str, **fields: object) -> Instr:
  """The instruction of the operation called `name`: `ins("sadd", d=1, a=2, imm=3)`.

  Raises:
    EncodeError: no such operation.
  """
  if name not in OPS:
    raise EncodeError(f"unknown operation {name!r}")
  return Instr(OPS[name], **fields)  # type: ignore[arg-type]


def encode(instr: Instr, chain: bool = False) -> int:
  """The 64-bit word of `instr`. A target that is still a label counts as `imm`.

  Raises:
    EncodeError: a field out of range, a flexible operand that the operation does not take; the message names it.
  """
  op, word = instr.op, enc.CHAIN.put(chain)
  try:
    word |= enc.CODE.put(op.code)
    for kind in op.operands:
      if kind in _REGISTER_KINDS:
        value = getattr(instr, _REGISTER_KINDS[kind].name)
        if kind[0] in _FEW:
          _check_number(kind[0], value)
        word |= _REGISTER_KINDS[kind].put(value)
      elif kind in ("imm", "to"):
        word |= enc.IMM.put(_unsigned(instr.imm))
      elif kind in ("b", "k"):
        word |= _encode_flexible(instr, kind)
      elif kind == "dma":
        for field in _DMA_FIELDS:
          word |= field.put(getattr(instr, field.name))
      else:
        for field in (*_MEMORY_FIELDS[kind], enc.OFF):
          word |= field.put(getattr(instr, field.name))
        if op.words_only and instr.mtype != MemType.W:
          raise ValueError(f"the element type must be w, not {MemType(instr.mtype).name.lower()}")
        word |= enc.DTYPE.put(MemType(instr.mtype)) | enc.MASKED.put(bool(instr.masked))
        if instr.masked:
          word |= enc.C.put(instr.c)
  except ValueError as error:
    raise EncodeError(f"{op.name}: {error}") from None
  return word


def _encode_flexible(instr: Instr, kind: str) -> int:
  bkind = BKind(instr.bkind)
  if kind == "k" and bkind == BKind.VREG:
    raise ValueError("the operand must be a scalar register or an immediate, not a vector register")
  if instr.swap and not instr.op.swappable:
    raise ValueError("the operands cannot be swapped")
  operand = enc.IMM.put(_unsigned(instr.imm)) if bkind == BKind.IMM else enc.B.put(instr.b)
  return operand | enc.BKIND.put(bkind) | enc.SWAP.put(bool(instr.swap))


def _check_number(file: str, number: int) -> None:
  name, count = _FEW[file]
  if not 0 <= number < count:
    raise ValueError(f"{name} must be 0 to {count - 1}, not {number}")


def _unsigned(imm: int) -> int:
  if not -(1 << 31) <= imm < 1 << 32:
    raise ValueError(f"immediate must be {-(1 << 31)} to {(1 << 32) - 1}, not {imm}")
  return imm & 0xFFFFFFFF


def decode(word: int) -> tuple[Instr, bool]:
  """The instruction in a 64-bit word, unused fields left at their defaults, and its chain bit.

  Raises:
    DecodeError: unknown operation code, flexible operand or element type.
  """
  word = int(word)
  op = BY_CODE.get(enc.CODE.get(word))
  if op is None:
    raise DecodeError(f"unknown operation code {enc.CODE.get(word):#04x}")
  fields: dict[str, object] = {}
  for kind in op.operands:
    if kind in _REGISTER_KINDS:
      value = _REGISTER_KINDS[kind].get(word)
      fields[_REGISTER_KINDS[kind].name] = value % _FEW[kind[0]][1] if kind[0] in _FEW else value
    elif kind in ("imm", "to"):
      fields["imm"] = enc.IMM.get(word)
    elif kind in ("b", "k"):
      bkind = enc.BKIND.get(word)
      if bkind not in list(BKind) or kind == "k" and bkind == BKind.VREG:
        raise DecodeError(f"{op.name}: flexible operand of kind {bkind}")
      fields["bkind"] = BKind(bkind)
      fields["imm" if bkind == BKind.IMM else "b"] = (enc.IMM if bkind == BKind.IMM else enc.B).get(word)
      fields["swap"] = op.swappable and bool(enc.SWAP.get(word))
    elif kind == "dma":
      fields |= {field.name: field.get(word) for field in _DMA_FIELDS}
    else:
      if (mtype := enc.DTYPE.get(word)) not in list(MemType):
        raise DecodeError(f"{op.name}: unknown element type {mtype}")
      if op.words_only and mtype != MemType.W:
        raise DecodeError(f"{op.name}: element type {MemType(mtype).name.lower()}, must be w")
      fields |= {field.name: field.get(word) for field in (*_MEMORY_FIELDS[kind], enc.OFF)}
      fields["mtype"], fields["masked"] = MemType(mtype), bool(enc.MASKED.get(word))
      if fields["masked"]:
        fields["c"] = enc.C.get(word)
  return Instr(op, **fields), bool(enc.CHAIN.get(word))  # type: ignore[arg-type]


def check_group(group: Sequence[Instr]) -> None:
  """Check the rules of an issue group: at most `Config.GROUP` operations, one per slot, no register written twice.

  Raises:
    EncodeError: a broken rule, naming the operations; `position` is the second of the two.
  """
  if not group:
    raise EncodeError("an issue group needs at least one operation")
  if len(group) > Config.GROUP:
    raise EncodeError(f"an issue group holds at most {Config.GROUP} operations, not {len(group)}", position=Config.GROUP)
  slots: dict[str, str] = {}
  written: dict[tuple[str, str, int], str] = {}
  for position, instr in enumerate(group):
    name = instr.op.name
    if instr.op.slot:
      if instr.op.slot in slots:
        raise EncodeError(f"{slots[instr.op.slot]} and {name} both need slot {instr.op.slot}", position=position)
      slots[instr.op.slot] = name
    for access in writes(instr.op):
      key = ("write", access.file, getattr(instr, access.field))
      if key in written:
        raise EncodeError(f"{written[key]} and {name} both write {access.file}{key[2]}", position=position)
      written[key] = name


class Layout(NamedTuple):
  """Where `lay_out` puts groups. starts: word index of each group (Label entries: of the group that follows);
  pads: nops to append to it; labels: word index by name; words: the program's length in words."""
  starts: list[int]
  pads: list[int]
  labels: dict[str, int]
  words: int


def lay_out(groups: Sequence[Sequence[Instr | Raw] | Label]) -> Layout:
  """Place groups so that none crosses a packet. A gap is filled by nops that extend the group before it, which always fit:
  that group lies in the same packet.

  Raises:
    EncodeError: an empty or too long group, a label defined twice.
  """
  starts, pads, names = [0] * len(groups), [0] * len(groups), {}
  at, last, pending = 0, -1, []
  for index, group in enumerate(groups):
    if isinstance(group, Label):
      if group.name in names:
        raise EncodeError(f"label {group.name!r} is defined twice", group=index)
      names[group.name] = index
      pending.append(index)
      continue
    if not 1 <= len(group) <= enc.PACKET_WORDS:
      raise EncodeError(f"an issue group holds 1 to {enc.PACKET_WORDS} operations, not {len(group)}", group=index)
    if (room := enc.PACKET_WORDS - at % enc.PACKET_WORDS) < len(group):
      pads[last] = room
      at += room
    for waiting in (*pending, index):
      starts[waiting] = at
    pending, last = [], index
    at += len(group)
  for waiting in pending:
    starts[waiting] = at
  return Layout(starts, pads, {name: starts[index] for name, index in names.items()}, at)


def pack(groups: Sequence[Sequence[Instr | Raw] | Label]) -> np.ndarray:
  """The program made of `groups`, in order; `Label` entries name places for the `target` of branches.

  Returns:
    uint64 array of the program's words, word 0 first.

  Raises:
    EncodeError: whatever `encode`, `check_group` and `lay_out` find, or an unknown label; `group` and `position` say where.
  """
  layout = lay_out(groups)
  words = np.zeros(layout.words, np.uint64)
  nop = OPS["nop"]
  for index, group in enumerate(groups):
    if isinstance(group, Label):
      continue
    instrs = [_resolve(op, layout.labels, index, position) for position, op in enumerate(group)]
    try:
      if checked := [op for op in instrs if isinstance(op, Instr)]:
        check_group(checked)
    except EncodeError as error:
      raise EncodeError(str(error), index, error.position) from None
    instrs += [Instr(nop)] * layout.pads[index]
    for position, instr in enumerate(instrs):
      chain = position + 1 < len(instrs)
      try:
        word = encode(instr, chain) if isinstance(instr, Instr) else instr.word | enc.CHAIN.put(chain)
      except EncodeError as error:
        raise EncodeError(str(error), index, position) from None
      words[layout.starts[index] + position] = word & WORD_MASK
  return words


def _resolve(instr: Instr | Raw, labels: dict[str, int], group: int, position: int) -> Instr | Raw:
  if isinstance(instr, Raw) or instr.target is None:
    return instr
  if instr.target not in labels:
    raise EncodeError(f"{instr.op.name}: label {instr.target!r} is not defined", group, position)
  return replace(instr, imm=labels[instr.target], target=None)


def unpack(words: Sequence[int] | np.ndarray) -> list[list[int]]:
  """Split a program into its issue groups: lists of words, each ended by a clear chain bit or by its packet's end."""
  groups: list[list[int]] = [[]]
  for index, word in enumerate(words):
    groups[-1].append(int(word))
    if not enc.CHAIN.get(int(word)) or (index + 1) % enc.PACKET_WORDS == 0:
      groups.append([])
  return [group for group in groups if group]


__all__ = ["DecodeError", "EncodeError", "Instr", "Label", "Layout", "Raw", "check_group", "decode", "encode", "ins", "is_memory",
           "lay_out", "pack", "unpack"]
