"""How each dtype is held: one row per dtype. Whoever adds a dtype adds it here.

Values in registers: integers of any width are 32-bit words, sign- or zero-extended; bools are 0 or 1; float16 and
bfloat16 are float32 words rounded after every operation that may leave the format.
"""
from __future__ import annotations

from typing import NamedTuple

from tinygrad.dtype import DType, dtypes

from ..isa.encoding import MemType

WORD = 4
"""Bytes of a word."""
BYTES = WORD
"""int8 values in a word."""
MATRIX_FLOATS = (dtypes.float32, dtypes.float16, dtypes.bfloat16)
"""Floats that the matrix unit multiplies."""


class Type(NamedTuple):
  """memory: element type of loads and stores. kind: b(ool), u(nsigned), i(nteger) or f(loat). wrap: operations ("shl", "sar" or "and",
  and the immediate) that bring a 32-bit word back into a narrow integer. round: operation that rounds a float32 word to the format;
  pack: from a register's value to its bits in memory; unpack: the way back ("": register and memory hold the same)."""
  memory: MemType
  kind: str
  wrap: tuple[tuple[str, int], ...] = ()
  round: str = ""
  pack: str = ""
  unpack: str = ""


TYPES: dict[DType, Type] = {
  dtypes.bool: Type(MemType.U8, "b"),
  dtypes.uint8: Type(MemType.U8, "u", (("and", 0xFF),)),
  dtypes.int8: Type(MemType.I8, "i", (("shl", 24), ("sar", 24))),
  dtypes.uint16: Type(MemType.U16, "u", (("and", 0xFFFF),)),
  dtypes.int16: Type(MemType.I16, "i", (("shl", 16), ("sar", 16))),
  dtypes.uint32: Type(MemType.W, "u"),
  dtypes.int32: Type(MemType.W, "i"),
  dtypes.float32: Type(MemType.W, "f"),
  dtypes.float16: Type(MemType.F16, "f", round="vroundh", pack="vf2h", unpack="vh2f"),
  dtypes.bfloat16: Type(MemType.BF16, "f", round="vroundb", pack="vf2b", unpack="vb2f"),
}
"""Dtypes that registers can hold. 64-bit integers and 8-bit floats are left to tinygrad's decompositions."""


def kind(dtype: DType) -> str:
  """b(ool), u(nsigned), i(nteger) or f(loat); of dtypes that registers cannot hold as well."""
  if (row := TYPES.get(dtype)) is not None:
    return row.kind
  return "f" if dtype in dtypes.floats else "u" if dtype in dtypes.uints else "i"


def rounding(dtype: DType) -> str:
  """The operation that rounds a float32 word to a 16-bit float; "" for other dtypes."""
  return TYPES[dtype].round if dtype in TYPES else ""
