"""The program container: code with what the runtime must know to launch it, as bytes and back.

Layout, little endian, every section padded with zeros to 8 bytes:

    offset  bytes
    0       8      magic "TINYTPU" and a zero byte
    8       2      container version
    10      2      number of sections
    12      4      CRC-32 of everything from offset 16 on
    16      16     ISA hash
    32             sections, each: 4 bytes tag, 4 bytes payload length, payload, padding

    tag     payload
    NAME    program name, UTF-8
    CONF    name of the Config preset it was assembled for, UTF-8
    VMEM    uint32: bytes of VMEM used, from 0
    ARGS    per argument: uint8 register number from ARG_BASE, uint8 kind, uint16 buffer number, grid axis
            or length of the variable's name, then that name in UTF-8
    CODE    uint64 words
    SRC     assembly text, UTF-8; optional
"""
from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ..config import Config
from ..isa import encoding as enc
from ..isa.encoding import BKind, MemType
from ..isa.table import OPS
from .errors import ContainerError

MAGIC, VERSION = b"TINYTPU\0", 1
_HEADER = struct.Struct("<8sHHI16s")
_SECTION = struct.Struct("<4sI")
_ARG = struct.Struct("<BBH")
_CRC_FROM = 16
_REQUIRED = ("NAME", "CONF", "VMEM", "ARGS", "CODE")
_KNOWN = (*_REQUIRED, "SRC")


def isa_hash() -> bytes:
  """16 bytes that change whenever a program's words would mean something else: operations, operands, encoding."""
  rows = [(op.name, op.code, op.slot, op.operands) for op in OPS.values()]
  fields = [tuple(f) for f in enc.FIELDS.values()]
  text = repr((rows, fields, enc.PACKET_WORDS, [(k.name, int(k)) for k in (*BKind, *MemType)]))
  return hashlib.sha256(text.encode()).digest()[:16]


class ArgKind(IntEnum):
  """What an argument register receives: a buffer's HBM byte address, a variable's value, a dimension of the launch grid."""
  BUF = 0
  VAR = 1
  GRID = 2


@dataclass(frozen=True)
class Arg:
  """Argument register `Config.ARG_BASE + register` receives `value`: buffer number (BUF), name (VAR) or grid axis (GRID)."""
  register: int
  kind: ArgKind
  value: int | str

  def __str__(self) -> str:
    return f".arg {self.register} {self.kind.name.lower()} {self.value}"


@dataclass(frozen=True, eq=False)
class Program:
  """An assembled program.

  Attributes:
    words: uint64, word 0 is the entry. name: kernel name. args: argument registers, by number. vmem_bytes: VMEM used.
    config: name of the preset it was assembled for. source: its assembly text, or None.
  """
  words: np.ndarray
  name: str = "kernel"
  args: tuple[Arg, ...] = ()
  vmem_bytes: int = 0
  config: str = "4x4"
  source: str | None = None

  def __eq__(self, other: object) -> bool:
    return isinstance(other, Program) and self.to_bytes() == other.to_bytes()

  def code_bytes(self) -> bytes:
    """The code as it lies in HBM: 8 bytes a word, little endian. It belongs at a multiple of `Config.ibuf_block_bytes`."""
    return self.words.astype("<u8").tobytes()

  def to_bytes(self) -> bytes:
    """The container, see the module's layout."""
    payloads = {
      "NAME": self.name.encode(), "CONF": self.config.encode(), "VMEM": struct.pack("<I", self.vmem_bytes),
      "ARGS": b"".join(_pack_arg(arg) for arg in self.args), "CODE": self.code_bytes()}
    if self.source is not None:
      payloads["SRC"] = self.source.encode()
    body = b"".join(_SECTION.pack(tag.ljust(4).encode(), len(p)) + p + bytes(-len(p) % 8) for tag, p in payloads.items())
    header = _HEADER.pack(MAGIC, VERSION, len(payloads), 0, isa_hash())
    crc = zlib.crc32(header[_CRC_FROM:] + body)
    return _HEADER.pack(MAGIC, VERSION, len(payloads), crc, isa_hash()) + body

  @classmethod
  def from_bytes(cls, data: bytes) -> Program:
    """The program in a container.

    Raises:
      ContainerError: not a container, another version or instruction set, damage; names section and byte offset.
    """
    data = bytes(data)
    if len(data) < _HEADER.size or not data.startswith(MAGIC):
      raise ContainerError(f"header at offset 0: not a TinyTPU program ({len(data)} bytes, starting with {data[:8]!r})")
    _, version, count, crc, isa = _HEADER.unpack_from(data)
    if version != VERSION:
      raise ContainerError(f"header at offset 8: container version {version}, this TinyTPU reads {VERSION}; assemble it again")
    if isa != isa_hash():
      raise ContainerError(f"header at offset 16: made for instruction set {isa.hex()[:8]}, this one is {isa_hash().hex()[:8]}; "
                           "assemble it again")
    sections = _sections(data, count)
    if crc != zlib.crc32(data[_CRC_FROM:]):
      raise ContainerError(f"header at offset 12: checksum does not match the {len(data)} bytes: the file is damaged")
    for tag in _REQUIRED:
      if tag not in sections:
        raise ContainerError(f"section {tag} is missing (end of file at offset {len(data)})")
    code, at = sections["CODE"]
    if len(code) % enc.WORD_BYTES:
      raise ContainerError(f"section CODE at offset {at}: {len(code)} bytes are not whole words of {enc.WORD_BYTES}")
    vmem, at = sections["VMEM"]
    if len(vmem) != 4:
      raise ContainerError(f"section VMEM at offset {at}: expected 4 bytes, found {len(vmem)}")
    return cls(np.frombuffer(code, "<u8").astype(np.uint64), _text(sections, "NAME"), _unpack_args(*sections["ARGS"]),
               struct.unpack("<I", vmem)[0], _text(sections, "CONF"), _text(sections, "SRC") if "SRC" in sections else None)

  def dump(self) -> str:
    """Every record in readable text: header, arguments, section sizes, disassembly with word indices."""
    from .disassembler import disassemble
    source = "none" if self.source is None else f"{len(self.source.encode())} bytes"
    lines = [
      f"program    {self.name}", f"config     {self.config}", f"container  version {VERSION}, {len(self.to_bytes())} bytes",
      f"ISA hash   {isa_hash().hex()}", f"VMEM       {self.vmem_bytes} bytes",
      f"code       {len(self.words)} words, {len(self.code_bytes())} bytes",
      f"source     {source}", f"arguments  {len(self.args)}"]
    lines += [f"  s{Config.ARG_BASE + arg.register}  {_describe(arg)}" for arg in self.args]
    return "\n".join(lines) + "\n\n" + disassemble(self.words, addresses=True)


def _describe(arg: Arg) -> str:
  return {ArgKind.BUF: f"address of buffer {arg.value}", ArgKind.VAR: f"value of variable {arg.value}",
          ArgKind.GRID: f"grid size along axis {arg.value}"}[arg.kind]


def _pack_arg(arg: Arg) -> bytes:
  name = str(arg.value).encode() if arg.kind == ArgKind.VAR else b""
  return _ARG.pack(arg.register, arg.kind, len(name) if arg.kind == ArgKind.VAR else int(arg.value)) + name


def _unpack_args(data: bytes, base: int) -> tuple[Arg, ...]:
  args, at = [], 0
  while at < len(data):
    where = f"section ARGS at offset {base + at}"
    if len(data) - at < _ARG.size:
      raise ContainerError(f"{where}: argument record cut short")
    register, kind, value = _ARG.unpack_from(data, at)
    at += _ARG.size
    if kind not in list(ArgKind):
      raise ContainerError(f"{where}: unknown argument kind {kind}")
    if register >= Config.SREGS - Config.ARG_BASE:
      raise ContainerError(f"{where}: argument register {register} is not 0 to {Config.SREGS - Config.ARG_BASE - 1}")
    if kind != ArgKind.VAR:
      args.append(Arg(register, ArgKind(kind), value))
      continue
    if len(data) - at < value:
      raise ContainerError(f"{where}: variable name cut short")
    args.append(Arg(register, ArgKind(kind), _utf8(data[at:at + value], where)))
    at += value
  return tuple(args)


def _sections(data: bytes, count: int) -> dict[str, tuple[bytes, int]]:
  """Payload and its offset by tag."""
  found: dict[str, tuple[bytes, int]] = {}
  at = _HEADER.size
  for _ in range(count):
    if len(data) - at < _SECTION.size:
      raise ContainerError(f"section header at offset {at}: file cut short")
    raw, length = _SECTION.unpack_from(data, at)
    tag = raw.decode("latin-1").rstrip()
    if tag not in _KNOWN or tag in found:
      raise ContainerError(f"section at offset {at}: {'second' if tag in found else 'unknown'} section {tag!r}")
    at += _SECTION.size
    if len(data) - at < length + -length % 8:
      raise ContainerError(f"section {tag} at offset {at}: {length} bytes announced, {len(data) - at} left in the file")
    found[tag] = data[at:at + length], at
    at += length + -length % 8
  if at != len(data):
    raise ContainerError(f"end of sections at offset {at}: {len(data) - at} bytes too many")
  return found


def _text(sections: dict[str, tuple[bytes, int]], tag: str) -> str:
  return _utf8(sections[tag][0], f"section {tag} at offset {sections[tag][1]}")


def _utf8(data: bytes, where: str) -> str:
  try:
    return data.decode()
  except UnicodeDecodeError as error:
    raise ContainerError(f"{where}: not UTF-8 ({error.reason} at byte {error.start})") from None
