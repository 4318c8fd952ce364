"""The 64-bit instruction word: its fields, stated once for encoder, decoder, simulator and RTL.

    63            32 31   27 26  21 20  15 14   9 8    1 0
    [      imm      ] [mode] [ c  ] [ a  ] [ d  ] [code] [chain]

`chain` = 1 means that the next word belongs to the same issue group. Where `imm` holds no immediate,
parts of it name further registers (`B`, or `X`, `R`, `C2` and `OFF` of a memory operand).
"""
from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

WORD_BYTES = 8
PACKET_WORDS = 4
"""A group never crosses a boundary of this many words: one fetch delivers every group whole."""


class Field(NamedTuple):
  """Bits [lsb, lsb + width) of an instruction word; signed fields hold two's complement."""
  name: str
  lsb: int
  width: int
  signed: bool = False

  @property
  def mask(self) -> int:
    return (1 << self.width) - 1

  def get(self, word: int) -> int:
    """The field's value in `word`."""
    value = (word >> self.lsb) & self.mask
    return value - (1 << self.width) if self.signed and value >> (self.width - 1) else value

  def put(self, value: int) -> int:
    """A word with only this field set.

    Raises:
      ValueError: value out of range, naming field and range.
    """
    lo, hi = (-(1 << (self.width - 1)), (1 << (self.width - 1)) - 1) if self.signed else (0, self.mask)
    if not lo <= value <= hi:
      raise ValueError(f"{self.name} must be {lo} to {hi}, not {value}")
    return (value & self.mask) << self.lsb


CHAIN = Field("chain", 0, 1)
CODE = Field("code", 1, 8)
D = Field("d", 9, 6)
A = Field("a", 15, 6)
C = Field("c", 21, 6)
MODE = Field("mode", 27, 5)
IMM = Field("imm", 32, 32)

# ALU operations: what the flexible operand b is, and whether a and b change places.
BKIND = Field("bkind", 27, 2)
SWAP = Field("swap", 29, 1)
B = Field("b", 32, 6)

# Memory operations: [a + size*(x + off + ...)], optional mask register in c, element type.
MASKED = Field("masked", 27, 1)
DTYPE = Field("dtype", 28, 4)
X = Field("x", 32, 6)
R = Field("r", 38, 6)
C2 = Field("c2", 44, 6)
OFF = Field("off", 50, 14, signed=True)

# DMA, besides d, a, c, x, r and c2: planes of rows. z names the register with their number (s0: one plane), zh and zv those with the
# distances of planes in HBM and VMEM; zv, in the place of mode, names one of s0 to s31.
ZV = Field("zv", 27, 5)
Z = Field("z", 50, 6)
ZH = Field("zh", 56, 6)

FIELDS = {f.name: f for f in (CHAIN, CODE, D, A, C, MODE, IMM, BKIND, SWAP, B, MASKED, DTYPE, X, R, C2, OFF, ZV, Z, ZH)}


class BKind(IntEnum):
  """What the flexible operand b is."""
  VREG = 0
  SREG = 1
  IMM = 2


class MemType(IntEnum):
  """Element types in memory. In a register every element is a 32-bit word: integers are extended,
  float16 and bfloat16 are widened to float32 by loads and rounded (to nearest even) by stores."""
  W = 0
  U8 = 1
  I8 = 2
  U16 = 3
  I16 = 4
  F16 = 5
  BF16 = 6

  @property
  def bytes(self) -> int:
    return (4, 1, 1, 2, 2, 2, 2)[self]
