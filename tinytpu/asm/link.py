"""Several programs, each with its arguments, as one: a launch that runs them in order.

Each call becomes a prologue and the program's words, with branches moved to where they lie and `halt` turned into a jump
to the next call. The prologue clears the predicates, sets the argument registers, from immediates or, what changes from
launch to launch, from a table in HBM (so that the code, and what the instruction buffer holds of it, stays as it is), and
waits until nothing is outstanding (`barrier`). So a call begins as after a launch of its own, with memory as its
predecessor left it. (The loop stack is empty if the predecessor left its loops before it halted.) Where VMEM must be made free for a call,
its prologue then moves what was there to device memory.
"""
from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..config import Config, preset
from ..isa import encoding as enc
from ..isa.instruction import Instr, encode, ins, pack
from ..isa.table import OPS
from .origins import Origin, Origins
from .program import Program

_BRANCHES = [op.code for op in OPS.values() if "to" in op.operands]
_SCRATCH = 1
"""The first of four scalar registers that a prologue uses; no program expects anything in them."""
_PREDICATED = [op.code for op in OPS.values() if "qa" in op.operands]


@dataclass(frozen=True)
class Spill:
  """Bytes in VMEM to be moved to device memory: addresses and size, multiples of 4."""
  vmem: int
  hbm: int
  bytes: int


@dataclass(frozen=True)
class Call:
  """One of the programs. values: of its argument registers; None stands for a word of the table. direct: its version in device memory
  is meant. spills: what must leave VMEM before."""
  program: Program
  values: Sequence[int | None]
  direct: bool = False
  spills: Sequence[Spill] = ()

  @property
  def part(self) -> slice:
    """The words of the version that is meant."""
    cut = self.program.direct or len(self.program.words)
    return slice(cut, None) if self.direct and self.program.direct else slice(cut)


@dataclass(frozen=True, eq=False)
class Linked:
  """Programs in one.

  Attributes:
    words: uint64, entry at word 0. starts: word index of each call's prologue, ascending. origins: where its operations come from, if
    one of the programs tells.
    cells: what the table holds: (number of the call, argument register) of each of its words.
  """
  words: np.ndarray
  starts: list[int]
  cells: list[tuple[int, int]]
  origins: Origins | None = None

  def code_bytes(self) -> bytes:
    """As `Program.code_bytes`."""
    return self.words.astype("<u8").tobytes()

  def call_at(self, pc: int) -> int:
    """The number of the call that the word at index `pc` belongs to."""
    return bisect_right(self.starts, pc) - 1


def link(calls: Sequence[Call], table: int = 0) -> Linked:
  """One program that does what launches of each of `calls` do one after the other.

  Args:
    table: HBM byte address of the table, a multiple of 4; a whole tile is read from each call's first word on.

  Raises:
    ValueError: no calls, or programs of different presets.
  """
  if len(presets := {call.program.config for call in calls}) != 1:
    raise ValueError(f"programs of one preset can be linked, not of {', '.join(sorted(presets)) or 'none'}")
  width = preset(presets.pop()).width
  parts: list[np.ndarray] = []
  starts: list[int] = []
  cells: list[tuple[int, int]] = []
  bodies: list[int] = []
  at = 0
  for i, call in enumerate(calls):
    starts.append(at)
    part = call.part
    skipped = (part.start or 0) % enc.PACKET_WORDS  # words of the other version in the first packet
    prologue = _prologue(call, table + 4 * len(cells), width)
    if skipped:
      prologue.append([ins("jmp", imm=at + _length(prologue + [[ins("nop")]]) + skipped)])
    prologue[-1] += [ins("nop")] * (-len(pack(prologue)) % enc.PACKET_WORDS)
    parts.append(pack(prologue))
    cells += [(i, register) for register, value in enumerate(call.values) if value is None]
    at += len(parts[-1])
    parts.append(_moved(call.program.words, part, at, last=i == len(calls) - 1))
    bodies.append(at)
    at += len(parts[-1])
  return Linked(np.concatenate(parts), starts, cells, _origins(calls, bodies, at))


def _origins(calls: Sequence[Call], bodies: Sequence[int], size: int) -> Origins | None:
  """Where the operations of linked programs come from. bodies: the word at which each program's own begin. size: of them all, in words."""
  uops: list[Origin] = []
  words: list[tuple[int, ...]] = [()] * size
  first: dict[int, int] = {}  # of each program the number of its first UOp: several calls may be of one
  for call, body in zip(calls, bodies, strict=True):
    if (mine := call.program.origins) is None:
      continue
    if id(call.program) not in first:
      first[id(call.program)] = len(uops)
      uops += mine.uops
    moved = [tuple(first[id(call.program)] + n for n in numbers) for numbers in mine.words[_whole(call.part)]]
    words[body:body + len(moved)] = moved
  return Origins(tuple(uops), tuple(words)) if uops else None


def _whole(part: slice) -> slice:
  """A part of a program, with what precedes it in its packet."""
  return slice((part.start or 0) // enc.PACKET_WORDS * enc.PACKET_WORDS, part.stop)


def _length(groups: list[list[Instr]]) -> int:
  """Words of whole packets that groups take."""
  return -(-len(pack(groups)) // enc.PACKET_WORDS) * enc.PACKET_WORDS


def _prologue(call: Call, table: int, width: int) -> list[list[Instr]]:
  """Groups that clear the predicates, set the argument registers and wait for the call before."""
  open_registers = [register for register, value in enumerate(call.values) if value is None]
  tiles = range(-(-len(open_registers) // width))
  groups: list[list[Instr]] = [[_set(0, table)]] if tiles else []
  groups += [[ins("hld", d=tile, a=Config.ARG_BASE, off=tile * width)] for tile in tiles]
  if np.isin(_codes(call.program.words[call.part]), _PREDICATED).any():
    groups += [[ins("pset1", d=q, a=0)] for q in range(Config.PREDICATES)]
  groups += _moves(call.spills)
  groups += [[ins("xtos", d=Config.ARG_BASE + register, a=n // width, imm=n % width)] for n, register in enumerate(open_registers)]
  groups += [[_set(register, value)] for register, value in enumerate(call.values) if value is not None]
  groups += [[ins("barrier")]]  # last: the call before ends meanwhile
  return groups


def _moves(spills: Sequence[Spill]) -> list[list[Instr]]:
  """Groups that start transfers out of VMEM, once the call before has written there."""
  groups: list[list[Instr]] = [[ins("barrier")], [ins("sadd", d=_SCRATCH, a=0, imm=1)]] if spills else []
  for spill in spills:
    groups += [[ins("sadd", d=_SCRATCH + n, a=0, imm=value)] for n, value in enumerate((spill.vmem, spill.hbm, spill.bytes), 1)]
    groups += [[ins("dmao", c=_SCRATCH + 1, a=_SCRATCH + 2, d=_SCRATCH + 3, x=_SCRATCH)]]
  return groups


def _set(register: int, value: int) -> Instr:
  return ins("sadd", d=Config.ARG_BASE + register, a=0, imm=value)


def _codes(words: np.ndarray) -> np.ndarray:
  return (words >> np.uint64(enc.CODE.lsb)) & np.uint64(enc.CODE.mask)


def _moved(words: np.ndarray, part: slice, base: int, last: bool) -> np.ndarray:
  """A part of a program's words, and what precedes it in its packet, for word index `base`, the start of a packet; filled up to whole
  packets."""
  whole = _whole(part)
  first, mine = whole.start, words[whole]
  filled = -(-len(mine) // enc.PACKET_WORDS) * enc.PACKET_WORDS
  moved = np.full(filled, encode(ins("nop")), np.uint64)
  moved[:len(mine)] = mine
  codes = _codes(moved)
  branches = np.isin(codes, _BRANCHES)
  moved[branches] += np.uint64(enc.IMM.put((base - first) & enc.IMM.mask))  # may wrap in the word's top bits, as it should
  if not last:
    halts = codes == OPS["halt"].code
    moved[halts] = moved[halts] & np.uint64(enc.CHAIN.mask) | np.uint64(encode(ins("jmp", imm=base + filled)))
  return moved
