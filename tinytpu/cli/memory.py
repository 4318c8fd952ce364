"""Memory arguments of `tinytpu run`: what to set before and what to show after a launch."""
from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from ..asm import ArgKind, Program
from ..config import Config

TYPES = {"i32": "<i4", "u32": "<u4", "f32": "<f4", "i8": "i1", "u8": "u1", "i16": "<i2", "u16": "<u2", "f16": "<f2"}


def _dtype(name: str, text: str) -> np.dtype:
  if name not in TYPES:
    raise ValueError(f"{text!r}: unknown element type {name!r}; types: {', '.join(TYPES)}")
  return np.dtype(TYPES[name])


def _integer(text: str, what: str, whole: str) -> int:
  try:
    return int(text, 0)
  except ValueError:
    raise ValueError(f"{whole!r}: expected {what}, found {text!r}") from None


def set_memory(hbm: np.ndarray, text: str) -> None:
  """Write into device memory what `text` says: ADDRESS=VALUE,VALUE,...[:TYPE] (type i32 by default) or ADDRESS=@FILE.

  Raises:
    ValueError: malformed, or beyond memory.
  """
  where, equals, what = text.partition("=")
  if not equals:
    raise ValueError(f"{text!r}: expected ADDRESS=VALUES[:TYPE] or ADDRESS=@FILE")
  address = _integer(where, "a byte address", text)
  if what.startswith("@"):
    data = np.frombuffer(Path(what[1:]).read_bytes(), np.uint8)
  else:
    values, _, kind = what.partition(":")
    dtype = _dtype(kind or "i32", text)
    try:
      numbers = [float(v) if dtype.kind == "f" else int(v, 0) for v in values.split(",")]
      data = np.array(numbers, dtype).view(np.uint8)
    except (ValueError, OverflowError) as error:
      raise ValueError(f"{text!r}: {error}") from None
  if not 0 <= address <= len(hbm) - len(data):
    raise ValueError(f"{text!r}: {len(data)} bytes at {address:#x} are beyond device memory ({len(hbm):#x} bytes)")
  hbm[address:address + len(data)] = data


def show_memory(hbm: np.ndarray, text: str) -> np.ndarray:
  """The elements that `text`, ADDRESS:COUNT[:TYPE], names (type i32 by default).

  Raises:
    ValueError: malformed, or beyond memory.
  """
  parts = text.split(":")
  if len(parts) not in (2, 3):
    raise ValueError(f"{text!r}: expected ADDRESS:COUNT[:TYPE]")
  address, count = _integer(parts[0], "a byte address", text), _integer(parts[1], "a number of elements", text)
  dtype = _dtype(parts[2] if len(parts) == 3 else "i32", text)
  size = count * dtype.itemsize
  if count < 0 or not 0 <= address <= len(hbm) - size:
    raise ValueError(f"{text!r}: {size} bytes at {address:#x} are beyond device memory ({len(hbm):#x} bytes)")
  return np.frombuffer(hbm[address:address + size].tobytes(), dtype)


def arguments(program: Program, given: list[str]) -> list[int]:
  """Words for the argument registers, from options NAME=VALUE, where NAME is a register number or a variable's name.

  Raises:
    ValueError: malformed, or an argument that the program declares and nobody gave.
  """
  names = {str(arg.value): arg.register for arg in program.args if arg.kind == ArgKind.VAR}
  limit = Config.SREGS - Config.ARG_BASE
  values: dict[int, int] = {}
  for text in given:
    name, equals, value = text.partition("=")
    register = names.get(name, -1) if not name.isdecimal() else int(name)
    if not equals or not 0 <= register < limit:
      variables = f" or one of {', '.join(names)}" if names else ""
      raise ValueError(f"{text!r}: expected REGISTER=VALUE, with a register from 0 to {limit - 1}{variables}")
    values[register] = _word(value, text)
  for arg in program.args:
    if arg.register not in values:
      raise ValueError(f"argument {arg.register} ({arg.kind.name.lower()} {arg.value}) is not given: add --arg {arg.register}=VALUE")
  return [values.get(n, 0) for n in range(max(values, default=-1) + 1)]


def _word(text: str, whole: str) -> int:
  try:
    value = int(text, 0)
  except ValueError:
    try:
      return int(struct.unpack("<I", struct.pack("<f", float(text)))[0])
    except (ValueError, OverflowError):
      raise ValueError(f"{whole!r}: expected an integer or a float, found {text!r}") from None
  if not -(1 << 31) <= value < 1 << 32:
    raise ValueError(f"{whole!r}: {value} does not fit 32 bits")
  return value & 0xFFFFFFFF
