"""TASM text of a compiled kernel: what DEBUG=4 shows and the assembler reads."""
from __future__ import annotations

from collections.abc import Sequence

from ...asm.origins import Origin, numbers_text, uop_texts
from ...config import Config
from ...isa.table import FLOATS
from .ir import Group, Inst, Label, Mem, Operand, Reg


def operand(o: Operand, floats: bool = False) -> str:
  """A register, or an immediate: small integers in decimal, anything else, and the bits of what stands for a float, in hexadecimal."""
  if isinstance(o, Reg):
    return repr(o)
  signed = o - (1 << 32) if o >> 31 else o
  return str(signed) if -4096 <= signed <= 65536 and not (floats and o) else f"{o:#x}"


def memory(mem: Mem) -> str:
  """A memory operand in brackets, with its mask."""
  off = f" {'-' if mem.off < 0 else '+'} {abs(mem.off)}" if mem.off else ""
  tail = f" : {operand(mem.r)}, {operand(mem.c)}" if mem.r is not None and mem.c is not None else ""
  tail = f" : {operand(mem.index)}" if mem.index is not None else tail
  mask = f" ? {operand(mem.mask)}" if mem.mask is not None else ""
  return f"[{operand(mem.base)} + {operand(mem.x)}{off}{tail}]{mask}"


def transfer(item: Inst) -> str:
  """A DMA operation. Its operands are those of kind `dma` in the table, in that order; one plane only is written short."""
  c, c2, zv, a, r, zh, size, rows, planes = (operand(s) for s in item.srcs)
  if planes == "s0":
    return f"{item.op.name} [{c} : {c2}], [{a} : {r}], {size}, {rows}"
  return f"{item.op.name} [{c} : {c2}, {zv}], [{a} : {r}, {zh}], {size}, {rows}, {planes}"


def operation(item: Inst) -> str:
  """One operation."""
  if "dma" in item.op.operands:
    return transfer(item)
  name = f"{item.op.name}.{item.mem.mtype.name.lower()}" if item.mem else item.op.name
  parts = [operand(item.dst)] if item.dst is not None else []
  parts += [operand(s, item.op.name in FLOATS) for s in item.srcs]
  parts += [memory(item.mem)] if item.mem else []
  parts += [item.target] if item.target else []
  return f"{name} {', '.join(parts)}" if parts else name


def render(kernel: str, directives: list[str], versions: list[list[Group | Label]], config: Config, origins: Sequence[Origin] = ()) -> str:
  """The program's text: directives, then one issue group per line. versions: the first and, if there is one, that in device memory.
  origins: what the UOps are whose positions operations carry, if the text is to tell."""
  used = {n for groups in versions for group in groups if isinstance(group, list) for x in group for n in x.origin} if origins else set()
  numbers = {n: i for i, n in enumerate(sorted(used))}
  lines = [f"# {config.name}", f".kernel {kernel}", *directives, *uop_texts([origins[n] for n in numbers])]
  for number, groups in enumerate(versions):
    lines += [".direct"] if number else []
    for group in groups:
      if isinstance(group, Label):
        lines.append(f"{group.name}:")
        continue
      if numbers and any(mine := [[numbers[n] for n in x.origin] for x in group]):
        lines.append(f"  .from {numbers_text(mine)}")
      lines.append("  " + " ; ".join(operation(x) for x in group))
  return "\n".join(lines) + "\n"
