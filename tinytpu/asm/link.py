"""Several programs, each with its arguments, as one: a launch that runs them in order.

Each call becomes a prologue and the program's words, with branches moved to where they lie and `halt` turned into a jump
to the next call. The prologue clears the predicates, sets the argument registers, from immediates or, what changes from
launch to launch, from a table in HBM (so that the code, and what the instruction buffer holds of it, stays as it is), and
waits until nothing is outstanding (`barrier`). So a call begins as after a launch of its own, with memory as its
predecessor left it. (The loop stack is empty if the predecessor left its loops before it halted.)
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
from .program import Program

_BRANCHES = [op.code for op in OPS.values() if "to" in op.operands]
_PREDICATED = [op.code for op in OPS.values() if "qa" in op.operands]


@dataclass(frozen=True, eq=False)
class Linked:
  """Programs in one.

  Attributes:
    words: uint64, entry at word 0. starts: word index of each call's prologue, ascending.
    cells: what the table holds: (number of the call, argument register) of each of its words.
  """
  words: np.ndarray
  starts: list[int]
  cells: list[tuple[int, int]]

  def code_bytes(self) -> bytes:
    """As `Program.code_bytes`."""
    return self.words.astype("<u8").tobytes()

  def call_at(self, pc: int) -> int:
    """The number of the call that the word at index `pc` belongs to."""
    return bisect_right(self.starts, pc) - 1


def link(calls: Sequence[tuple[Program, Sequence[int | None]]], table: int = 0) -> Linked:
  """One program that does what launches of each of `calls`, a program with its argument registers' values, do one after the other.

  Args:
    calls: None as a value stands for a word of the table.
    table: HBM byte address of the table, a multiple of 4; a whole tile is read from each call's first word on.

  Raises:
    ValueError: no calls, or programs of different presets.
  """
  if len(presets := {program.config for program, _ in calls}) != 1:
    raise ValueError(f"programs of one preset can be linked, not of {', '.join(sorted(presets)) or 'none'}")
  width = preset(presets.pop()).width
  parts: list[np.ndarray] = []
  starts: list[int] = []
  cells: list[tuple[int, int]] = []
  at = 0
  for i, (program, values) in enumerate(calls):
    starts.append(at)
    parts.append(_prologue(program, values, table + 4 * len(cells), width))
    cells += [(i, register) for register, value in enumerate(values) if value is None]
    at += len(parts[-1])
    parts.append(_moved(program.words, at, last=i == len(calls) - 1))
    at += len(parts[-1])
  return Linked(np.concatenate(parts), starts, cells)


def _prologue(program: Program, values: Sequence[int | None], table: int, width: int) -> np.ndarray:
  """Words, whole packets, that clear the predicates, set the argument registers and wait for the call before."""
  open_registers = [register for register, value in enumerate(values) if value is None]
  tiles = range(-(-len(open_registers) // width))
  groups: list[list[Instr]] = [[_set(0, table)]] if tiles else []
  groups += [[ins("hld", d=tile, a=Config.ARG_BASE, off=tile * width)] for tile in tiles]
  if np.isin(_codes(program.words), _PREDICATED).any():
    groups += [[ins("pset1", d=q, a=0)] for q in range(Config.PREDICATES)]
  groups += [[ins("xtos", d=Config.ARG_BASE + register, a=n // width, imm=n % width)] for n, register in enumerate(open_registers)]
  groups += [[_set(register, value)] for register, value in enumerate(values) if value is not None]
  groups += [[ins("barrier")]]  # last: the call before ends meanwhile
  groups[-1] += [ins("nop")] * (-len(pack(groups)) % enc.PACKET_WORDS)
  return pack(groups)


def _set(register: int, value: int) -> Instr:
  return ins("sadd", d=Config.ARG_BASE + register, a=0, imm=value)


def _codes(words: np.ndarray) -> np.ndarray:
  return (words >> np.uint64(enc.CODE.lsb)) & np.uint64(enc.CODE.mask)


def _moved(words: np.ndarray, base: int, last: bool) -> np.ndarray:
  """A program's words for word index `base`, the start of a packet, filled up to whole packets."""
  filled = -(-len(words) // enc.PACKET_WORDS) * enc.PACKET_WORDS
  moved = np.full(filled, encode(ins("nop")), np.uint64)
  moved[:len(words)] = words
  codes = _codes(moved)
  moved[np.isin(codes, _BRANCHES)] += np.uint64(enc.IMM.put(base))
  if not last:
    halts = codes == OPS["halt"].code
    moved[halts] = moved[halts] & np.uint64(enc.CHAIN.mask) | np.uint64(encode(ins("jmp", imm=base + filled)))
  return moved
