"""Words to assembly text that assembles to the same words, whatever they are."""
from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from ..config import Config
from ..isa import encoding as enc
from ..isa.encoding import BKind, MemType
from ..isa.instruction import DecodeError, EncodeError, Instr, check_group, decode, encode, unpack
from ..isa.table import FLOATS, is_memory
from .operands import REGISTER_FIELD, SWAP_SUFFIX, swap_pair
from .origins import Origins, numbers_text, uop_texts
from .program import Program


def disassemble(program: Program | np.ndarray | Sequence[int], *, addresses: bool = False, origins: Origins | None = None) -> str:
  """Assembly text of a program or of bare words, one issue group per line, with invented labels at branch targets.

  `assemble` gives exactly the same words back: padding is printed as explicit nops, and words that no operation's text stands for
  (unknown codes, set bits in unused fields, groups against the rules) as `.word`, with a comment that says why.

  Args:
    addresses: end every line with a comment that gives the index of its first word.
    origins: of bare words, to be named in that comment; a program's own are given by directives.
  """
  words = program.words if isinstance(program, Program) else program
  lines = _header(program) if isinstance(program, Program) else []
  whole = program.origins if isinstance(program, Program) else None
  groups, at = [], 0
  for group in unpack(words):
    groups.append((at, group))
    at += len(group)
  starts = {start for start, _ in groups}
  targets = {instr.imm for _, group in groups for word in group if (instr := _instruction(word)) and "to" in instr.op.operands}
  labels = {target: f"L{target}" for target in targets & starts}
  direct = program.direct if isinstance(program, Program) else 0
  for start, group in groups:
    if start == direct > 0:
      lines.append(".direct")
    if start in labels:
      lines.append(f"{labels[start]}:")
    text, note = _group_text(group, labels)
    mine = [own.words[start + n] for n in range(len(group))] if (own := origins or whole) else []
    if whole and any(mine):
      lines.append(f"  .from {numbers_text(mine)}")
    source = f"from {numbers_text(mine)}" if origins and any(mine) else ""
    comment = "; ".join(filter(None, (f"@{start}" if addresses else "", source, note)))
    lines.append(f"  {text}" + (f"  # {comment}" if comment else ""))
  return "\n".join(lines) + "\n"


def group_at(program: Program | np.ndarray, word: int) -> str:
  """Text of the issue group that starts at `word`; "" beyond the program. Branch targets are word indices."""
  words = program.words if isinstance(program, Program) else program
  packet_end = word - word % enc.PACKET_WORDS + enc.PACKET_WORDS
  group = []
  for value in words[word:packet_end]:
    group.append(int(value))
    if not enc.CHAIN.get(int(value)):
      break
  text, note = _group_text(group, {})
  return f"{text}  # {note}" if note else text


def operation_text(instr: Instr, labels: dict[int, str] | None = None) -> str:
  """Assembly text of one operation; branch targets that are not among `labels` (by word index) are written @index."""
  op, labels = instr.op, labels or {}
  if op.name == "sadd" and instr.a == 0 and not instr.swap:
    return f"smov s{instr.d}, {_flexible(instr)}"
  name = f"{op.name}.{MemType(instr.mtype).name.lower()}" if is_memory(op) else op.name
  operands = [_operand(instr, kind, labels) for kind in op.operands]
  if instr.swap and (pair := swap_pair(op)):
    first, second = pair
    operands[first], operands[second] = operands[second], operands[first]
    fixed = first if op.operands[second] in ("b", "k") else second
    # Two registers that could both be the fixed one read as not swapped: say that they are.
    if instr.bkind == (BKind.VREG if op.operands[fixed][0] == "v" else BKind.SREG):
      name += f".{SWAP_SUFFIX}"
  return f"{name} {', '.join(operands)}".rstrip()


def _header(program: Program) -> list[str]:
  lines = [f".kernel {program.name}"]
  if program.config != Config().name:
    lines.append(f".config {program.config}")
  lines += [*map(str, program.args), *map(str, program.bufs)]
  lines += uop_texts(program.origins.uops) if program.origins else []
  if program.direct:
    lines.append(f".cycles {program.cycles[0]} {program.cycles[1]}")
  return [*lines, f".vmem {program.vmem_bytes}"] if program.vmem_bytes else lines


def _instruction(word: int) -> Instr | None:
  """The instruction whose text stands for exactly this word, or None."""
  try:
    instr, chain = decode(word)
    return instr if encode(instr, chain) == word else None
  except (DecodeError, EncodeError):
    return None


def _group_text(group: Sequence[int], labels: dict[int, str]) -> tuple[str, str]:
  """Text of a group of words, and a note about words that are not printed as operations."""
  instrs = [_instruction(word) for word in group]
  notes = [_why(word) for word, instr in zip(group, instrs, strict=True) if instr is None]
  if group and enc.CHAIN.get(group[-1]):
    instrs[-1] = None
    notes.append("chain across the packet's or the program's end")
  try:
    if known := [instr for instr in instrs if instr]:
      check_group(known)
  except EncodeError as error:
    instrs = [None] * len(group)
    notes.append(str(error))
  texts = [operation_text(i, labels) if i else f".word {word:#018x}" for word, i in zip(group, instrs, strict=True)]
  return " ; ".join(texts), ", ".join(notes)


def _why(word: int) -> str:
  try:
    return f"{operation_text(decode(word)[0])} with unused bits set"
  except DecodeError as error:
    return str(error)


def _operand(instr: Instr, kind: str, labels: dict[int, str]) -> str:
  if kind in ("b", "k"):
    return _flexible(instr)
  if kind == "imm":
    return str(instr.imm)
  if kind == "to":
    return labels.get(instr.imm, f"@{instr.imm}")
  if kind == "dma":
    if instr.z or instr.zh or instr.zv:
      return (f"[s{instr.c} : s{instr.c2}, s{instr.zv}], [s{instr.a} : s{instr.r}, s{instr.zh}], s{instr.d}, s{instr.x}, s{instr.z}")
    return f"[s{instr.c} : s{instr.c2}], [s{instr.a} : s{instr.r}], s{instr.d}, s{instr.x}"
  if kind in ("mem", "mem2", "memx"):
    return _memory(instr, kind)
  return f"{'v' if kind == 'vs' else kind[0]}{getattr(instr, REGISTER_FIELD[kind[1]])}"


def _flexible(instr: Instr) -> str:
  if instr.bkind != BKind.IMM:
    return f"{'v' if instr.bkind == BKind.VREG else 's'}{instr.b}"
  imm = instr.imm & 0xFFFFFFFF
  if instr.op.name in FLOATS:
    return _float(imm)
  signed = imm - (1 << 32) if imm >> 31 else imm
  return str(signed) if abs(signed) < 1 << 16 else f"{imm:#x}"


def _float(bits: int) -> str:
  """The shortest float literal that stands for exactly these bits; hexadecimal for other NaNs than the canonical one."""
  value = np.float32(struct.unpack("<f", struct.pack("<I", bits))[0])
  text = str(value)
  if np.isnan(value):
    return "nan" if bits == 0x7FC00000 else f"{bits:#x}"
  return text


def _memory(instr: Instr, kind: str) -> str:
  address = f"s{instr.a}" + (f" + s{instr.x}" if instr.x else "")
  if instr.off:
    address += f" {'-' if instr.off < 0 else '+'} {abs(instr.off)}"
  form = {"mem": "", "mem2": f" : s{instr.r}, s{instr.c2}", "memx": f" : v{instr.r}"}[kind]
  return f"[{address}{form}]" + (f" ? v{instr.c}" if instr.masked else "")
