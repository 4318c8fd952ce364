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
    BUFS    per buffer that is used: uint16 number, uint8 access, uint8 1 if it must start at a word, uint32 bytes; optional
    WAYS    uint32 word of the version in device memory; uint64 estimated cycles of the first version, uint64 of that one; optional
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

MAGIC, VERSION = b"TINYTPU\0", 2
_HEADER = struct.Struct("<8sHHI16s")
_SECTION = struct.Struct("<4sI")
_ARG = struct.Struct("<BBH")
_BUF = struct.Struct("<HBBI")
_WAYS = struct.Struct("<IQQ")
_CRC_FROM = 16
_REQUIRED = ("NAME", "CONF", "VMEM", "ARGS", "CODE")
_KNOWN = (*_REQUIRED, "BUFS", "WAYS", "SRC")


def isa_hash() -> bytes:
  """16 bytes that change whenever a program's words would mean something else: operations, operands, encoding."""
  rows = [(op.name, op.code, op.slot, op.operands) for op in OPS.values()]
  fields = [tuple(f) for f in enc.FIELDS.values()]
  text = repr((rows, fields, enc.PACKET_WORDS, [(k.name, int(k)) for k in (*BKind, *MemType)]))
  return hashlib.sha256(text.encode()).digest()[:16]


class ArgKind(IntEnum):
  """What an argument register receives: a buffer's HBM byte address, a variable's value, a dimension of the launch grid, the VMEM byte
  address of a buffer's copy there, the bytes that the program must bring to it (0: they are there)."""
  BUF = 0
  VAR = 1
  GRID = 2
  VMEM = 3
  FILL = 4


class Access(IntEnum):
  """What a program does with a buffer: reads it; writes all of it, whatever was in it; anything else, so that its contents count."""
  IN = 0
  OUT = 1
  INOUT = 2


@dataclass(frozen=True)
class Buf:
  """A buffer that the program uses, by number, and how many of its bytes. words: whether the first version needs it to start at a word."""
  number: int
  bytes: int
  access: Access
  words: bool = False

  @property
  def writes(self) -> bool:
    """Whether the program writes to it."""
    return self.access is not Access.IN

  def __str__(self) -> str:
    return f".buf {self.number} {self.bytes} {self.access.name.lower()}{' words' if self.words else ''}"


@dataclass(frozen=True)
class Arg:
  """Argument register `Config.ARG_BASE + register` receives `value`: buffer number (BUF, VMEM, FILL), name (VAR) or grid axis (GRID)."""
  register: int
  kind: ArgKind
  value: int | str

  def __str__(self) -> str:
    return f".arg {self.register} {self.kind.name.lower()} {self.value}"


@dataclass(frozen=True, eq=False)
class Program:
  """An assembled program.

  It may have two versions. The first takes buffers with an argument of kind VMEM to be in VMEM, and buffers that it writes not to overlap
  others; the second, from word `direct` on (0: there is none), works on device memory alone and needs neither.

  Attributes:
    words: uint64, word 0 is the entry. name: kernel name. args: argument registers, by number. vmem_bytes: VMEM used, from 0.
    config: name of the preset it was assembled for. source: its assembly text, or None. bufs: the buffers it uses, if it tells.
    direct: see above. cycles: estimates of the first version's and the other's cycles, for whoever chooses; without filling VMEM.
  """
  words: np.ndarray
  name: str = "kernel"
  args: tuple[Arg, ...] = ()
  vmem_bytes: int = 0
  config: str = "4x4"
  source: str | None = None
  bufs: tuple[Buf, ...] = ()
  direct: int = 0
  cycles: tuple[int, int] = (0, 0)

  def __eq__(self, other: object) -> bool:
    return isinstance(other, Program) and self.to_bytes() == other.to_bytes()

  def code_bytes(self) -> bytes:
    """The code as it lies in HBM: 8 bytes a word, little endian. It belongs at a multiple of `Config.ibuf_block_bytes`."""
    return self.words.astype("<u8").tobytes()

  def to_bytes(self) -> bytes:
    """The container, see the module's layout."""
    payloads = {
      "NAME": self.name.encode(), "CONF": self.config.encode(), "VMEM": struct.pack("<I", self.vmem_bytes),
      "ARGS": b"".join(_pack_arg(arg) for arg in self.args),
      "CODE": self.code_bytes()}
    if self.bufs:
      payloads["BUFS"] = b"".join(_BUF.pack(b.number, b.access, b.words, b.bytes) for b in self.bufs)
    if self.direct:
      payloads["WAYS"] = _WAYS.pack(self.direct, *self.cycles)
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
    ways = sections.get("WAYS", (bytes(_WAYS.size), 0))
    for tag, (payload, at), size in (("VMEM", sections["VMEM"], 4), ("WAYS", ways, _WAYS.size)):
      if len(payload) != size:
        raise ContainerError(f"section {tag} at offset {at}: expected {size} bytes, found {len(payload)}")
    direct, first_cycles, direct_cycles = _WAYS.unpack(ways[0])
    if direct > len(code) // enc.WORD_BYTES:
      raise ContainerError(f"section WAYS at offset {ways[1]}: word {direct} is beyond the code")
    return cls(np.frombuffer(code, "<u8").astype(np.uint64), _text(sections, "NAME"), _unpack_args(*sections["ARGS"]),
               struct.unpack("<I", sections["VMEM"][0])[0], _text(sections, "CONF"),
               _text(sections, "SRC") if "SRC" in sections else None,
               _unpack_bufs(*sections.get("BUFS", (b"", 0))), direct, (first_cycles, direct_cycles))

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
    lines += [f"buffer {b.number}   {b.bytes} bytes, {b.access.name.lower()}{', at words' if b.words else ''}" for b in self.bufs]
    if self.direct:
      lines.append(f"versions   from word 0: {self.cycles[0]} cycles estimated; from {self.direct}, in device memory: {self.cycles[1]}")
    return "\n".join(lines) + "\n\n" + disassemble(self.words, addresses=True)


def _describe(arg: Arg) -> str:
  return {ArgKind.BUF: f"address of buffer {arg.value}", ArgKind.VAR: f"value of variable {arg.value}",
          ArgKind.GRID: f"grid size along axis {arg.value}", ArgKind.VMEM: f"VMEM address of buffer {arg.value}",
          ArgKind.FILL: f"bytes of buffer {arg.value} to bring to VMEM"}[arg.kind]


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


def _unpack_bufs(data: bytes, base: int) -> tuple[Buf, ...]:
  if len(data) % _BUF.size:
    raise ContainerError(f"section BUFS at offset {base}: {len(data)} bytes are not whole records of {_BUF.size}")
  bufs = []
  for i, (number, access, words, size) in enumerate(_BUF.iter_unpack(data)):
    if access not in list(Access):
      raise ContainerError(f"section BUFS at offset {base + i * _BUF.size}: unknown access {access}")
    bufs.append(Buf(number, size, Access(access), bool(words)))
  return tuple(bufs)


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
