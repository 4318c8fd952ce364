"""The container: every record there and back, damage named by section and offset, the documented layout byte by byte."""
from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytpu.asm import Arg, ArgKind, ContainerError, Program, assemble, isa_hash
from tinytpu.asm.program import Access, Buf

ARGS = st.one_of(
  st.builds(Arg, st.integers(0, 31), st.sampled_from([k for k in ArgKind if k != ArgKind.VAR]), st.integers(0, 65535)),
  st.builds(Arg, st.integers(0, 31), st.just(ArgKind.VAR), st.text(max_size=20)))
PROGRAMS = st.builds(
  Program, st.lists(st.integers(0, 2**64 - 1), max_size=9).map(lambda w: np.array(w, np.uint64)), st.text(max_size=20),
  st.lists(ARGS, max_size=4).map(tuple), st.integers(0, 2**32 - 1), st.text(max_size=8), st.none() | st.text(max_size=50),
  st.lists(st.builds(Buf, st.integers(0, 65535), st.integers(0, 2**32 - 1), st.sampled_from(Access), st.booleans()), max_size=3).map(tuple))
TWO_WAYS = ".kernel k\n.arg 0 buf 0\n.arg 1 vmem 0\n.arg 2 fill 0\n.buf 0 64 inout words\n.cycles 7 9\n  halt\n.direct\n  nop ; halt\n"


@given(PROGRAMS)
def test_every_record_survives(program: Program) -> None:
  again = Program.from_bytes(program.to_bytes())
  assert again.words.tolist() == program.words.tolist() and again.words.dtype == np.uint64
  for field in ("name", "args", "vmem_bytes", "config", "source", "bufs"):
    assert getattr(again, field) == getattr(program, field)
  assert again == program


def test_layout_byte_by_byte() -> None:
  program = Program(np.array([0x0102030405060708], np.uint64), "ab", (Arg(3, ArgKind.VAR, "xyz"), Arg(1, ArgKind.BUF, 258)), 5, "4x4", None)
  sections = (b"NAME" + b"\2\0\0\0" + b"ab\0\0\0\0\0\0" + b"CONF" + b"\3\0\0\0" + b"4x4\0\0\0\0\0"
              + b"VMEM" + b"\4\0\0\0" + b"\5\0\0\0\0\0\0\0"
              + b"ARGS" + b"\x0b\0\0\0" + b"\3\1\3\0xyz" + b"\1\0\2\1" + bytes(5)
              + b"CODE" + b"\x08\0\0\0" + bytes([8, 7, 6, 5, 4, 3, 2, 1]))
  header = b"TINYTPU\0" + b"\2\0" + b"\5\0" + struct.pack("<I", zlib.crc32(isa_hash() + sections)) + isa_hash()
  assert program.to_bytes() == header + sections


def damaged(at: int, new: bytes, fix_checksum: bool = True) -> bytes:
  """A valid container with bytes replaced."""
  data = bytearray(assemble(".kernel k\n.arg 0 buf 1\n.arg 1 var n\nhalt", keep_source=False).to_bytes())
  data[at:at + len(new)] = new
  if fix_checksum:
    data[12:16] = struct.pack("<I", zlib.crc32(bytes(data[16:])))
  return bytes(data)


# offsets: header 0..31, NAME 32, CONF 48, VMEM 64, ARGS 80 (payload 88), CODE 104 (payload 112)
@pytest.mark.parametrize("data, message", [
  (b"", "header at offset 0: not a TinyTPU program"),
  (b"ELF" + bytes(60), "header at offset 0"),
  (damaged(8, b"\x09"), "offset 8: container version 9"),
  (damaged(16, b"\0\0\0\0"), "offset 16: made for instruction set 00000000"),
  (damaged(112, b"\xff", fix_checksum=False), "offset 12: checksum"),
  (damaged(32, b"NAMX"), "section at offset 32: unknown section 'NAMX'"),
  (damaged(48, b"NAME"), "section at offset 48: second section 'NAME'"),
  (damaged(36, b"\xff\xff"), "section NAME at offset 40: 65535 bytes announced"),
  (damaged(10, b"\4"), "end of sections at offset 104: 16 bytes too many"),
  (damaged(10, b"\6"), "section header at offset 120: file cut short"),
  (damaged(40, b"\xff"), "section NAME at offset 40: not UTF-8"),
  (damaged(68, b"\3"), "section VMEM at offset 72: expected 4 bytes, found 3"),
  (damaged(89, b"\7"), "section ARGS at offset 88: unknown argument kind 7"),
  (damaged(88, b"\x20"), "section ARGS at offset 88: argument register 32"),
  (damaged(94, b"\2"), "section ARGS at offset 92: variable name cut short"),
  (damaged(84, b"\x0a"), "section ARGS at offset 97: argument record cut short"),
  (damaged(108, b"\7"), "section CODE at offset 112: 7 bytes are not whole words"),
])
def test_damage_is_named(data: bytes, message: str) -> None:
  with pytest.raises(ContainerError, match=message):
    Program.from_bytes(data)


def test_two_versions_survive() -> None:
  program = assemble(TWO_WAYS)
  again = Program.from_bytes(program.to_bytes())
  assert (again.direct, again.cycles, again.bufs) == (1, (7, 9), (Buf(0, 64, Access.INOUT, words=True),)) and again == program
  data = program.to_bytes()
  for bad, change, message in ((data.index(b"BUFS") + 10, b"\x09", "section BUFS at offset .*: unknown access 9"),
                               (data.index(b"BUFS") + 4, b"\7", "section BUFS at offset .*: 7 bytes are not whole records of 8"),
                               (data.index(b"WAYS") + 8, b"\x44", "section WAYS at offset .*: word 68 is beyond the code"),
                               (data.index(b"WAYS") + 4, b"\x13", "section WAYS at offset .*: expected 20 bytes, found 19")):
    broken = data[:bad] + change + data[bad + 1:]
    with pytest.raises(ContainerError, match=message):
      Program.from_bytes(broken[:12] + struct.pack("<I", zlib.crc32(broken[16:])) + broken[16:])


def test_missing_section() -> None:
  data = damaged(0, b"")[:104]
  data = data[:10] + b"\4\0" + struct.pack("<I", zlib.crc32(data[16:])) + data[16:]
  with pytest.raises(ContainerError, match="section CODE is missing"):
    Program.from_bytes(data)


def test_every_cut_is_noticed() -> None:
  data = damaged(0, b"")
  for length in range(len(data)):
    with pytest.raises(ContainerError):
      Program.from_bytes(data[:length])


def test_dump_shows_every_record() -> None:
  text = assemble(".kernel k\n.arg 0 buf 7\n.arg 1 var n\n.arg 2 grid 1\n.vmem 64\nhalt").dump()
  for part in ("k", "4x4", "64 bytes", "1 words", "s32  address of buffer 7", "s33  value of variable n", "s34  grid size along axis 1",
               isa_hash().hex(), "halt  # @0"):
    assert part in text
