"""Memory arguments of `tinytpu run`: what to set before and what to show after a launch. All are read before anything runs."""
from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..asm import ArgKind, Program
from ..asm.errors import quote
from ..asm.lexer import float_bits
from ..config import Config
from ..machine import Engine
from ..machine.replay import FILES
from .common import UsageError

TYPES = {"i32": "<i4", "u32": "<u4", "f32": "<f4", "i8": "i1", "u8": "u1", "i16": "<i2", "u16": "<u2", "f16": "<f2"}
COUNTS = {"s": Config.SREGS, "v": Config.VREGS, "p": Config.PSUMS}
"""Registers of each file."""
_LAST = Config.SREGS - 1


class Setting(NamedTuple):
  """Bytes to put into device memory: their address, and uint8 (n,)."""
  address: int
  data: np.ndarray


@dataclass(frozen=True)
class Shown:
  """What to show: the option's text, "hbm" or "vmem", byte address, number of elements, their type; or "s", "v" or "p", first register and
  number of registers."""
  text: str
  memory: str
  address: int
  count: int
  dtype: np.dtype

  def of(self, engine: Engine) -> np.ndarray:
    """The elements; of several vector registers or buckets a row each."""
    if self.memory in FILES:
      rows = engine.state()[FILES[self.memory]][self.address:self.address + self.count]
      values = np.frombuffer(rows.tobytes(), self.dtype)
      return values.reshape(self.count, -1) if rows.ndim > 1 and self.count > 1 else values
    memory = engine.hbm if self.memory == "hbm" else engine.state()["vmem"]
    return np.frombuffer(memory[self.address:self.address + self.count * self.dtype.itemsize].tobytes(), self.dtype)


def _dtype(name: str, text: str) -> np.dtype:
  if name not in TYPES:
    raise UsageError(f"{quote(text)}: unknown element type {quote(name)}; types: {', '.join(TYPES)}")
  return np.dtype(TYPES[name])


def integer(text: str, what: str, whole: str) -> int:
  """A decimal, hexadecimal (0x) or binary (0b) number in an option `whole`. Raises UsageError, which says `what` was expected."""
  try:
    return int(text, 0)
  except ValueError:
    raise UsageError(f"{quote(whole)}: expected {what}, found {quote(text)}") from None


def setting(text: str, config: Config) -> Setting:
  """What to write into device memory: ADDRESS=VALUE,VALUE,...[:TYPE] (type i32 by default) or ADDRESS=@FILE.

  Raises:
    UsageError: malformed, or beyond memory. OSError: no such file.
  """
  where, equals, what = text.partition("=")
  if not equals:
    raise UsageError(f"{quote(text)}: expected ADDRESS=VALUES[:TYPE] or ADDRESS=@FILE")
  address = integer(where, "a byte address", text)
  if what.startswith("@"):
    data = np.frombuffer(Path(what[1:]).read_bytes(), np.uint8)
  else:
    values, _, kind = what.partition(":")
    data = np.concatenate([_element(value, _dtype(kind or "i32", text), kind or "i32", text) for value in values.split(",")])
  if not 0 <= address <= config.hbm_bytes - len(data):
    raise UsageError(f"{quote(text)}: {len(data)} bytes at {address:#x} are beyond device memory ({config.hbm_bytes:#x} bytes)")
  return Setting(address, data)


def _element(value: str, dtype: np.dtype, kind: str, whole: str) -> np.ndarray:
  """One value's bytes."""
  try:
    if dtype.kind != "f":
      return np.array([int(value, 0)], dtype).view(np.uint8)
    with warnings.catch_warnings(action="ignore"):  # beyond the type: told below
      element = np.array([float(value)], dtype)
    if np.isinf(element[0]) and "inf" not in value.lower():
      raise UsageError(f"{quote(whole)}: {quote(value)} does not fit {kind}; write inf for infinity")
    return element.view(np.uint8)
  except OverflowError:
    raise UsageError(f"{quote(whole)}: {quote(value)} does not fit {kind}") from None
  except UsageError:
    raise
  except ValueError:
    advice = f" is no integer, and {kind} takes integers: add :f32" if _is_float(value) else f" is no value of type {kind}"
    raise UsageError(f"{quote(whole)}: {quote(value)}{advice}") from None


def _is_float(text: str) -> bool:
  try:
    float(text)
  except ValueError:
    return False
  return not text.strip().lstrip("+-").isdecimal()


def shown(text: str, config: Config) -> Shown:
  """What to show: ADDRESS:COUNT[:TYPE] of device memory (type i32 by default), vmem:ADDRESS:COUNT[:TYPE], or registers, v3[:TYPE] or
  p0-p3[:TYPE].

  Raises:
    UsageError: malformed, or beyond memory.
  """
  if match := re.fullmatch(r"([svp])([0-9]{1,3})(?:-\1([0-9]{1,3}))?(?::(\w+))?", text):
    first, last, count = int(match[2]), int(match[3] or match[2]), COUNTS[match[1]]
    if not first <= last < count:
      raise UsageError(f"{quote(text)}: registers are {match[1]}0 to {match[1]}{count - 1}")
    return Shown(text, match[1], first, last - first + 1, _dtype(match[4] or "i32", text))
  parts = text.split(":")
  memory = parts.pop(0) if parts[0] in ("vmem", "hbm") else "hbm"
  if len(parts) not in (2, 3):
    raise UsageError(f"{quote(text)}: expected ADDRESS:COUNT[:TYPE], vmem:ADDRESS:COUNT[:TYPE] or registers, v3[:TYPE] or p0-p3[:TYPE]")
  address, count = integer(parts[0], "a byte address", text), integer(parts[1], "a number of elements", text)
  dtype = _dtype(parts[2] if len(parts) == 3 else "i32", text)
  size, room = count * dtype.itemsize, config.vmem_bytes if memory == "vmem" else config.hbm_bytes
  if count < 0 or not 0 <= address <= room - size:
    what = "VMEM" if memory == "vmem" else "device memory"
    raise UsageError(f"{quote(text)}: the elements are beyond {what} ({room:#x} bytes)")
  return Shown(text, memory, address, count, dtype)


def arguments(program: Program, given: list[str]) -> list[int]:
  """Words for the argument registers, from options NAME=VALUE, where NAME is a number from 0, which counts from s32 on, a register's
  name or a variable's.

  Raises:
    UsageError: malformed, given twice, or an argument that the program declares and nobody gave.
  """
  names = {str(arg.value): arg.register for arg in program.args if arg.kind == ArgKind.VAR}
  limit = Config.SREGS - Config.ARG_BASE
  values: dict[int, int] = {}
  for text in given:
    name, equals, value = text.partition("=")
    register = names.get(name, -1)
    if register < 0 and (match := re.fullmatch(r"(s?)([0-9]{1,3})", name)):
      register = int(match[2]) - (Config.ARG_BASE if match[1] else 0)
    if not equals or not 0 <= register < limit:
      variables = f" or one of {', '.join(names)}" if names else ""
      raise UsageError(f"{quote(text)}: expected REGISTER=VALUE, with a register from 0 to {limit - 1} (s{Config.ARG_BASE} to s{_LAST})"
                       f"{variables}")
    if register in values:
      raise UsageError(f"{quote(text)}: argument {register} (s{Config.ARG_BASE + register}) is given twice")
    values[register] = _word(value, text)
  for arg in program.args:
    if arg.register not in values:
      raise UsageError(f"argument {arg.register} ({arg.kind.name.lower()} {arg.value}) is not given: add --arg {arg.register}=VALUE")
  return [values.get(n, 0) for n in range(max(values, default=-1) + 1)]


def _word(text: str, whole: str) -> int:
  if re.fullmatch(r"[+-]?[0-9]+", text) and len(text) > 40:
    raise UsageError(f"{quote(whole)}: the number does not fit 32 bits")
  try:
    value = int(text, 0)
  except ValueError:
    try:
      return float_bits(text)
    except OverflowError:
      raise UsageError(f"{quote(whole)}: {quote(text)} does not fit float32; write inf for infinity") from None
    except ValueError:
      raise UsageError(f"{quote(whole)}: expected an integer or a float, found {quote(text)}") from None
  if not -(1 << 31) <= value < 1 << 32:
    raise UsageError(f"{quote(whole)}: {value if abs(value) < 1 << 128 else 'the number'} does not fit 32 bits")
  return value & 0xFFFFFFFF
