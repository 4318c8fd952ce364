"""The program container: code with what the runtime must know to launch it, as bytes and back.

Layout, little endian, every section padded with zeros to 8 bytes. Sections stand in this order, arguments and buffers by number, so a
program has one container:

    offset  bytes
    0       8      magic "TINYTPU" and a zero byte
    8       2      container version
    10      2      number of sections
    12      4      CRC-32 of everything from offset 16 on
    16      16     ISA hash
    32             sections, each: 4 bytes tag, 4 bytes payload length, payload, padding

    tag     payload
    NAME    program name, UTF-8; which names there can be: `names.name_fault`
    CONF    name of the Config preset it was assembled for, UTF-8
    VMEM    uint32: bytes of VMEM used, from 0
    ARGS    per argument: uint8 register number from ARG_BASE, uint8 kind, uint16 buffer number, grid axis
            or length of the variable's name, then that name in UTF-8
    CODE    uint64 words
    BUFS    per buffer that is used: uint16 number, uint8 access, uint8 1 if it must start at a word, uint32 bytes; optional
    WAYS    uint32 word of the version in device memory; uint64 estimated cycles of the first version, uint64 of that one; optional
    FROM    where each word comes from: `origins.Origins.to_bytes`; optional
    SRC     assembly text, UTF-8; optional
"""
from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ..config import Config, ConfigError, preset
from ..isa import encoding as enc
from ..isa.encoding import BKind, MemType
from ..isa.table import OPS
from .errors import ContainerError, quote, shorten
from .names import name_fault
from .origins import Origins

MAGIC, VERSION = b"TINYTPU\0", 2
_HEADER = struct.Struct("<8sHHI16s")
_SECTION = struct.Struct("<4sI")
_ARG = struct.Struct("<BBH")
_BUF = struct.Struct("<HBBI")
_WAYS = struct.Struct("<IQQ")
_CRC_FROM = 16
_REQUIRED = ("NAME", "CONF", "VMEM", "ARGS", "CODE")
_KNOWN = (*_REQUIRED, "BUFS", "WAYS", "FROM", "SRC")


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
    origins: where its operations come from, or None.
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
  origins: Origins | None = None

  def __eq__(self, other: object) -> bool:
    return isinstance(other, Program) and self.to_bytes() == other.to_bytes()

  def code_bytes(self) -> bytes:
    """The code as it lies in HBM: 8 bytes a word, little endian. It belongs at a multiple of `Config.ibuf_block_bytes`."""
    return self.words.astype("<u8").tobytes()

  def faults(self) -> Iterator[tuple[str, str]]:
    """What no container can hold, as (section, fault). What has none has assembly text too, which assembles to the same."""
    if fault := name_fault(self.name):
      yield "NAME", fault
    vmem = None
    try:
      vmem = preset(self.config).vmem_bytes
    except ConfigError as error:
      yield "CONF", str(error)
    if vmem is not None and not 0 <= self.vmem_bytes <= vmem:
      yield "VMEM", f"{self.vmem_bytes} bytes of VMEM, {self.config} has {vmem}"
    before = -1
    for arg in self.args:
      if not before < arg.register < Config.SREGS - Config.ARG_BASE:
        yield "ARGS", (f"argument register {arg.register} is not {before + 1} to {Config.SREGS - Config.ARG_BASE - 1}: "
                       "registers ascend and none is given twice")
      before = arg.register
      if arg.kind == ArgKind.VAR and (fault := name_fault(arg.value)):
        yield "ARGS", f"argument {arg.register}: {fault}"
      if arg.kind != ArgKind.VAR and not (isinstance(arg.value, int) and 0 <= arg.value <= 0xFFFF):
        yield "ARGS", f"argument {arg.register}: {arg.kind.name.lower()} {arg.value!r} is not 0 to 65535"
    if not len(self.words):
      yield "CODE", "a program has at least one word"
    before = -1
    for buf in self.bufs:
      if not before < buf.number <= 0xFFFF:
        yield "BUFS", f"buffer {buf.number} is not {before + 1} to 65535: numbers ascend and none is given twice"
      before = buf.number
      if not 0 <= buf.bytes < 1 << 32:
        yield "BUFS", f"buffer {buf.number}: {buf.bytes} bytes are not 0 to 2^32 - 1"
    if not 0 <= self.direct < max(1, len(self.words)):
      yield "WAYS", f"word {self.direct} is beyond the code"
    elif self.direct % enc.PACKET_WORDS and enc.CHAIN.get(int(self.words[self.direct - 1])):
      yield "WAYS", f"word {self.direct} is within an issue group"
    if not all(0 <= cycles < (1 << 64 if self.direct else 1) for cycles in self.cycles):
      yield "WAYS", f"cycles {self.cycles} are not 0 to 2^64 - 1, or 0 without a second version"
    if self.origins is not None and (fault := self.origins.fault(len(self.words))):
      yield "FROM", fault
    if self.source is not None and any("\ud800" <= c <= "\udfff" for c in self.source):
      yield "SRC", "the source holds half a character"

  def to_bytes(self) -> bytes:
    """The container, see the module's layout.

    Raises:
      ContainerError: no container can hold the program, see `faults`; names the section.
    """
    for tag, fault in self.faults():
      raise ContainerError(f"section {tag}: {fault}")
    return self._pack()

  def _pack(self) -> bytes:
    payloads = {
      "NAME": self.name.encode(), "CONF": self.config.encode(), "VMEM": struct.pack("<I", self.vmem_bytes),
      "ARGS": b"".join(_pack_arg(arg) for arg in self.args),
      "CODE": self.code_bytes()}
    if self.bufs:
      payloads["BUFS"] = b"".join(_BUF.pack(b.number, b.access, b.words, b.bytes) for b in self.bufs)
    if self.direct:
      payloads["WAYS"] = _WAYS.pack(self.direct, *self.cycles)
    if self.origins is not None:
      payloads["FROM"] = self.origins.to_bytes()
    if self.source is not None:
      payloads["SRC"] = self.source.encode()
    body = b"".join(_SECTION.pack(tag.ljust(4).encode(), len(p)) + p + bytes(-len(p) % 8) for tag, p in payloads.items())
    header = _HEADER.pack(MAGIC, VERSION, len(payloads), 0, isa_hash())
    crc = zlib.crc32(header[_CRC_FROM:] + body)
    return _HEADER.pack(MAGIC, VERSION, len(payloads), crc, isa_hash()) + body

  @classmethod
  def from_bytes(cls, data: bytes, file: str | None = None) -> Program:
    """The program in a container. file: its name, for error messages.

    Raises:
      ContainerError: not a container, another version or instruction set, damage; names the file, section and byte offset.
    """
    try:
      return cls._unpack(bytes(data))
    except ContainerError as error:
      raise ContainerError(f"{shorten(file, 500)}: {error}" if file else str(error)) from None

  @classmethod
  def _unpack(cls, data: bytes) -> Program:
    if len(data) < _HEADER.size or not data.startswith(MAGIC):
      raise ContainerError(f"header at offset 0: not a TinyTPU program ({len(data)} bytes, starting with {data[:8]!r})")
    _, version, count, crc, isa = _HEADER.unpack_from(data)
    if version != VERSION:
      raise ContainerError(f"header at offset 8: container version {version}, this TinyTPU reads {VERSION}; assemble it again")
    if isa != isa_hash():
      raise ContainerError(f"header at offset 16: made for instruction set {isa.hex()}, this one is {isa_hash().hex()}; "
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
    origins = Origins.from_bytes(sections["FROM"][0], len(code) // enc.WORD_BYTES, sections["FROM"][1]) if "FROM" in sections else None
    program = cls(np.frombuffer(code, "<u8").astype(np.uint64), _text(sections, "NAME"), _unpack_args(*sections["ARGS"]),
                  struct.unpack("<I", sections["VMEM"][0])[0], _text(sections, "CONF"),
                  _text(sections, "SRC") if "SRC" in sections else None,
                  _unpack_bufs(*sections.get("BUFS", (b"", 0))), direct, (first_cycles, direct_cycles), origins)
    for tag, fault in program.faults():
      raise ContainerError(f"section {tag} at offset {sections[tag][1]}: {fault}")
    if (same := program._pack()) != data:  # an empty optional section, or sections in another order
      at = next((i for i, (a, b) in enumerate(zip(same, data, strict=False)) if a != b and i >= _CRC_FROM), _CRC_FROM)
      raise ContainerError(f"section at offset {at - at % 8}: not as this program's container has it")
    return program

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
    if self.origins is not None:
      lines += ["UOps       named at the ends of lines, for each operation of the group", self.origins.shown()]
    return "\n".join(lines) + "\n\n" + disassemble(self.words, addresses=True, origins=self.origins)


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
    if words > 1:
      raise ContainerError(f"section BUFS at offset {base + i * _BUF.size}: the mark for words is {words}, not 0 or 1")
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
    tag = raw.decode("latin-1").rstrip(" ")
    if tag not in _KNOWN or tag in found:
      raise ContainerError(f"section at offset {at}: {'second' if tag in found else 'unknown'} section {quote(tag)}")
    at += _SECTION.size
    if len(data) - at < length + -length % 8:
      raise ContainerError(f"section {tag} at offset {at}: {length} bytes announced, {len(data) - at} left in the file")
    found[tag] = data[at:at + length], at
    at += length
    if any(data[at:at + -length % 8]):
      raise ContainerError(f"section {tag}: the padding at offset {at} is not zero")
    at += -length % 8
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
