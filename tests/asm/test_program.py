"""The container: every record there and back, damage named by section and offset, the documented layout byte by byte."""
from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytpu.asm import Arg, ArgKind, ContainerError, Program, assemble, disassemble, isa_hash
from tinytpu.asm.program import Access, Buf

NAMES = st.text(st.characters(exclude_categories=("C", "Z"), exclude_characters="#"), min_size=1, max_size=20)
ARGS = st.one_of(
  st.builds(Arg, st.integers(0, 31), st.sampled_from([k for k in ArgKind if k != ArgKind.VAR]), st.integers(0, 65535)),
  st.builds(Arg, st.integers(0, 31), st.just(ArgKind.VAR), NAMES))
BUFS = st.builds(Buf, st.integers(0, 65535), st.integers(0, 2**32 - 1), st.sampled_from(Access), st.booleans())
PROGRAMS = st.builds(
  Program, st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=9).map(lambda w: np.array(w, np.uint64)), NAMES,
  st.lists(ARGS, max_size=4, unique_by=lambda a: a.register).map(lambda args: tuple(sorted(args, key=lambda a: a.register))),
  st.integers(0, 2**18), st.sampled_from(["4x4", "8x8", "4x4,hbm_latency=200"]), st.none() | st.text(max_size=50),
  st.lists(BUFS, max_size=3, unique_by=lambda b: b.number).map(lambda bufs: tuple(sorted(bufs, key=lambda b: b.number))))
TWO_WAYS = ".kernel k\n.arg 0 buf 0\n.arg 1 vmem 0\n.arg 2 fill 0\n.buf 0 64 inout words\n.cycles 7 9\n  halt\n.direct\n  nop ; halt\n"


@given(PROGRAMS)
def test_every_record_survives(program: Program) -> None:
  again = Program.from_bytes(program.to_bytes())
  assert again.words.tolist() == program.words.tolist() and again.words.dtype == np.uint64
  for field in ("name", "args", "vmem_bytes", "config", "source", "bufs"):
    assert getattr(again, field) == getattr(program, field)
  assert again == program
  assert replace(assemble(disassemble(program)), source=program.source).to_bytes() == program.to_bytes()


def test_layout_byte_by_byte() -> None:
  program = Program(np.array([0x0102030405060708], np.uint64), "ab", (Arg(1, ArgKind.BUF, 258), Arg(3, ArgKind.VAR, "xyz")), 5, "4x4", None)
  sections = (b"NAME" + b"\2\0\0\0" + b"ab\0\0\0\0\0\0" + b"CONF" + b"\3\0\0\0" + b"4x4\0\0\0\0\0"
              + b"VMEM" + b"\4\0\0\0" + b"\5\0\0\0\0\0\0\0"
              + b"ARGS" + b"\x0b\0\0\0" + b"\1\0\2\1" + b"\3\1\3\0xyz" + bytes(5)
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
  (damaged(16, b"\0\0\0\0"), "offset 16: made for instruction set 00000000[0-9a-f]{24}, this one is [0-9a-f]{32};"),
  (damaged(112, b"\xff", fix_checksum=False), "offset 12: checksum"),
  (damaged(32, b"NAMX"), "section at offset 32: unknown section 'NAMX'"),
  (damaged(48, b"NAME"), "section at offset 48: second section 'NAME'"),
  (damaged(36, b"\xff\xff"), "section NAME at offset 40: 65535 bytes announced"),
  (damaged(10, b"\4"), "end of sections at offset 104: 16 bytes too many"),
  (damaged(10, b"\6"), "section header at offset 120: file cut short"),
  (damaged(40, b"\xff"), "section NAME at offset 40: not UTF-8"),
  (damaged(68, b"\3"), "section VMEM at offset 72: expected 4 bytes, found 3"),
  (damaged(89, b"\7"), "section ARGS at offset 88: unknown argument kind 7"),
  (damaged(88, b"\x20"), "section ARGS at offset 88: argument register 32 is not 0 to 31"),
  (damaged(94, b"\2"), "section ARGS at offset 92: variable name cut short"),
  (damaged(84, b"\x0a"), "section ARGS at offset 97: argument record cut short"),
  (damaged(46, b"x"), "section NAME: the padding at offset 41 is not zero"),
  (damaged(40, b"\n"), r"section NAME at offset 40: a name must be printable, .* holds U\+000A"),
  (damaged(40, b"#"), "section NAME at offset 40: .* holds '#'"), (damaged(40, b" "), "section NAME at offset 40: .* holds ' '"),
  (damaged(36, b"\0"), r"section at offset 40: unknown section 'k\\x00\\x00\\x00'"),
  (damaged(96, b"\x1b"), r"section ARGS at offset 88: argument 1: .* holds U\+001B"),
  (damaged(92, b"\0"), "section ARGS at offset 88: argument register 0 is not 1 to 31: registers ascend and none is given twice"),
  (damaged(56, b"5x5"), "section CONF at offset 56: unknown preset '5x5'"),
  (damaged(72, b"\1\0\4"), "section VMEM at offset 72: 262145 bytes of VMEM, 4x4 has 262144"),
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
  for bad, change, message in ((data.index(b"BUFS") + 11, b"\2", "section BUFS at offset .*: the mark for words is 2, not 0 or 1"),
                               (data.index(b"WAYS") + 8, b"\3", "section WAYS at offset .*: word 3 is beyond the code"),
                               (data.index(b"WAYS") + 8, b"\2", "section WAYS at offset .*: word 2 is within an issue group"),
                               (data.index(b"WAYS") + 8, b"\0", "section WAYS at offset .*: cycles .* or 0 without a second version"),
                               (data.index(b"BUFS") + 10, b"\x09", "section BUFS at offset .*: unknown access 9"),
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


def test_messages_name_the_file() -> None:
  for data in (b"", damaged(46, b"x")):
    with pytest.raises(ContainerError, match="^dir/k.tpu: "):
      Program.from_bytes(data, "dir/k.tpu")


def test_sections_in_another_order_are_refused() -> None:
  data = damaged(0, b"")
  swapped = data[:32] + data[48:64] + data[32:48] + data[64:]
  with pytest.raises(ContainerError, match="not as this program's container has it"):
    Program.from_bytes(swapped[:12] + struct.pack("<I", zlib.crc32(swapped[16:])) + swapped[16:])


WORDS = np.array([2, 2], np.uint64)


@pytest.mark.parametrize("program, message", [
  (Program(WORDS, "a b"), "section NAME: a name must be printable"), (Program(WORDS, "\ud800"), r"section NAME: .* holds U\+D800"),
  (Program(WORDS, ""), "section NAME: a name must not be empty"),
  (Program(WORDS, "ä" * 512), "section NAME: .*at most 1023 bytes, and .* has 1024"),
  (Program(WORDS, args=(Arg(0, ArgKind.VAR, "x\u2028"),)), r"section ARGS: argument 0: .* holds U\+2028"),
  (Program(WORDS, args=(Arg(0, ArgKind.BUF, 1), Arg(0, ArgKind.BUF, 2))), "section ARGS: argument register 0 is not 1 to 31"),
  (Program(WORDS, args=(Arg(0, ArgKind.BUF, 65536),)), "section ARGS: argument 0: buf 65536 is not 0 to 65535"),
  (Program(WORDS, vmem_bytes=-1), "section VMEM"), (Program(WORDS, config="9x9"), "section CONF: unknown preset"),
  (Program(WORDS[:0]), "section CODE: a program has at least one word"),
  (Program(WORDS, bufs=(Buf(1, 1, Access.IN), Buf(1, 1, Access.IN))), "section BUFS: buffer 1 is not 2 to 65535"),
  (Program(WORDS, bufs=(Buf(1, 1 << 32, Access.IN),)), "section BUFS: buffer 1: 4294967296 bytes"),
  (Program(WORDS, direct=2), "section WAYS: word 2 is beyond"), (Program(WORDS, direct=1, cycles=(1 << 64, 0)), "section WAYS: cycles"),
  (Program(WORDS, cycles=(1, 1)), "section WAYS: cycles"),
  (Program(WORDS, source="\udfff"), "section SRC: the source holds half a character")])
def test_what_no_container_can_hold_is_not_written(program: Program, message: str) -> None:
  with pytest.raises(ContainerError, match=message) as caught:
    program.to_bytes()
  assert str(caught.value).isprintable() and len(str(caught.value)) < 300
