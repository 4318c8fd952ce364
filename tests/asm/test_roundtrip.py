"""Disassembly assembles to the same words, whatever they are."""
from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tests.isa.test_instruction import instructions
from tinytpu.asm import Program, assemble, disassemble
from tinytpu.asm.disassembler import group_at, operation_text
from tinytpu.isa.instruction import Instr, decode, encode, pack
from tinytpu.isa.table import OPS

CODES = st.sampled_from([op.code for op in OPS.values()])
WORDS = st.one_of(
  st.integers(0, 2**64 - 1),
  st.builds(lambda high, code, chain: high << 9 & 2**64 - 1 | code << 1 | chain, st.integers(0, 2**55 - 1), CODES, st.integers(0, 1)),
  st.builds(encode, instructions(), st.booleans()))


@given(st.lists(WORDS, min_size=1, max_size=24))
@example([1])
@example([2**64 - 1] * 4)
def test_any_words(words: list[int]) -> None:
  assert assemble(disassemble(words)).words.tolist() == words


@given(instructions())
def test_one_operation(instr: Instr) -> None:
  """Text of an instruction gives that instruction, without falling back to raw words."""
  text = operation_text(instr)
  assert ".word" not in text
  assert decode(int(assemble(text).words[0]))[0] == instr


@given(st.integers(0, 2**32 - 1))
@example(0x7FC00001)
@example(0x80000000)
@example(1)
def test_float_immediates_keep_their_bits(bits: int) -> None:
  instr = Instr(OPS["vfadd"], d=1, a=2, imm=bits)
  assert decode(int(assemble(operation_text(instr)).words[0]))[0].imm == bits


def test_text_is_stable_and_readable() -> None:
  text = """.kernel k
.arg 0 buf 1
.vmem 64
L0:
  smov s1, 5 ; vfadd v1, 1.5, v2
  loop s1, L4 ; nop
L4:
  bne s1, s2, L0
  jmp @99
  .word 0x0000000000000000  # unknown operation code 0x00
  halt
"""
  program = assemble(text)
  assert disassemble(program) == text
  assert disassemble(Program(program.words), addresses=True).splitlines()[2] == "  smov s1, 5 ; vfadd v1, 1.5, v2  # @0"


def test_two_versions() -> None:
  text = """.kernel k
.config 4x4,hbm_latency=200
.arg 0 buf 0
.arg 1 vmem 0
.arg 2 fill 0
.buf 0 64 out
.buf 1 12 in words
.cycles 10 20
L0:
  jmp L0
.direct
L1:
  jmp L1
"""
  assert disassemble(assemble(text)) == text


def test_integer_divisions_are_not_printed_as_floats() -> None:
  assert operation_text(decode(int(assemble("vfldiv v1, v2, 7").words[0]))[0]) == "vfldiv v1, v2, 7"


def test_unused_bits_and_broken_groups_are_said() -> None:
  halt = encode(Instr(OPS["halt"]))
  assert "halt with unused bits set" in disassemble([halt | 1 << 40])
  assert "both need slot C" in disassemble([halt | 1, halt])
  assert "chain across the packet's" in disassemble([halt | 1])


def test_group_at() -> None:
  words = pack([[Instr(OPS["nop"])] * 3, [Instr(OPS["halt"]), Instr(OPS["sadd"], d=1, imm=2)]])
  assert group_at(words, 4) == "halt ; smov s1, 2"
  assert group_at(words, 99) == ""
  assert group_at(np.array([1], np.uint64), 0).startswith(".word 0x0000000000000001  # ")
