"""Instruction words against hand-placed bits; group rules; packing into packets."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytpu.config import Config
from tinytpu.isa.encoding import BKind, MemType
from tinytpu.isa.instruction import DecodeError, EncodeError, Instr, Label, Raw, check_group, decode, encode, ins, lay_out, pack, unpack
from tinytpu.isa.table import OPS, SLOTS, is_memory

NOP, HALT = 0x01 << 1, 0x02 << 1


@pytest.mark.parametrize("instr, word", [  # shifts as drawn in docs/isa.md, codes as in its tables
  (ins("halt"), 0x02 << 1),
  (ins("sadd", d=1, a=2, imm=-3), 0xFFFFFFFD << 32 | 2 << 27 | 2 << 15 | 1 << 9 | 0x20 << 1),
  (ins("ssub", d=63, a=62, bkind=BKind.SREG, b=61, swap=True), 61 << 32 | 1 << 29 | 1 << 27 | 62 << 15 | 63 << 9 | 0x21 << 1),
  (ins("vsel", d=1, a=2, bkind=BKind.VREG, b=3, c=4), 3 << 32 | 4 << 21 | 2 << 15 | 1 << 9 | 0x60 << 1),
  (ins("beq", a=5, c=6, imm=7), 7 << 32 | 6 << 21 | 5 << 15 | 0x05 << 1),
  (ins("mmf", d=15, a=1, b=2), 2 << 32 | 1 << 15 | 15 << 9 | 0xD0 << 1),
  (ins("vld2", d=1, a=2, x=3, r=4, c2=5, off=-1, masked=True, c=6, mtype=MemType.BF16),
   0x3FFF << 50 | 5 << 44 | 4 << 38 | 3 << 32 | 6 << 28 | 1 << 27 | 6 << 21 | 2 << 15 | 1 << 9 | 0xE1 << 1),
  (ins("dmai", c=1, c2=2, a=3, r=4, d=5, x=6), 2 << 44 | 4 << 38 | 6 << 32 | 1 << 21 | 3 << 15 | 5 << 9 | 0xF8 << 1),
  (ins("dmao", c=1, c2=2, a=3, r=4, d=5, x=6, z=7, zh=8, zv=9),
   8 << 56 | 7 << 50 | 2 << 44 | 4 << 38 | 6 << 32 | 9 << 27 | 1 << 21 | 3 << 15 | 5 << 9 | 0xF9 << 1),
])
def test_words_by_hand(instr: Instr, word: int) -> None:
  assert encode(instr) == word
  assert encode(instr, chain=True) == word | 1
  assert encode(decode(word)[0]) == word


@st.composite
def instructions(draw: st.DrawFn) -> Instr:
  """A random instruction in the form that `decode` gives: unused fields at their defaults."""
  op = draw(st.sampled_from(list(OPS.values())))
  fields: dict[str, object] = {}
  register = st.integers(0, 63)
  for kind in op.operands:
    if kind in ("b", "k"):
      bkind = draw(st.sampled_from([BKind.VREG, BKind.SREG, BKind.IMM] if kind == "b" else [BKind.SREG, BKind.IMM]))
      fields["bkind"] = bkind
      fields |= {"imm": draw(st.integers(0, 2**32 - 1))} if bkind == BKind.IMM else {"b": draw(register)}
      fields["swap"] = op.swappable and draw(st.booleans())
    elif kind in ("imm", "to"):
      fields["imm"] = draw(st.integers(0, 2**32 - 1))
    elif kind == "dma":
      fields |= {name: draw(register) for name in ("c", "c2", "a", "r", "d", "x", "z", "zh")} | {"zv": draw(st.integers(0, 31))}
    elif kind.startswith("mem"):
      names = {"mem": "ax", "mem2": ("a", "x", "r", "c2"), "memx": "axr"}[kind]
      fields |= {name: draw(register) for name in names}
      types = [MemType.W] if op.words_only else list(MemType)
      fields |= {"off": draw(st.integers(-8192, 8191)), "mtype": draw(st.sampled_from(types)), "masked": draw(st.booleans())}
      if fields["masked"]:
        fields["c"] = draw(register)
    else:
      fields[{"s": "d", "m": "d"}.get(kind[1], kind[1])] = draw(st.integers(0, {"p": 15, "q": 3}.get(kind[0], 63)))
  return Instr(op, **fields)  # type: ignore[arg-type]


@given(instructions(), st.booleans())
def test_decode_undoes_encode(instr: Instr, chain: bool) -> None:
  assert decode(encode(instr, chain)) == (instr, chain)


@given(st.integers(0, 2**64 - 1))
def test_decode_takes_any_word_or_says_why(word: int) -> None:
  try:
    instr, chain = decode(word)
  except DecodeError as error:
    assert str(error)
    return
  assert decode(encode(instr, chain)) == (instr, chain)


@pytest.mark.parametrize("instr, message", [
  (ins("sadd", d=64), "d must be 0 to 63"),
  (ins("sadd", imm=1 << 32), "immediate must be"),
  (ins("sadd", bkind=BKind.VREG), "not a vector register"),
  (ins("mmf", d=16), "PSUM bucket must be 0 to 15"),
  (ins("vld", off=8192), "off must be -8192 to 8191"),
  (ins("vmov", swap=True), "cannot be swapped"),
])
def test_fields_out_of_range(instr: Instr, message: str) -> None:
  with pytest.raises(EncodeError, match=message) as caught:
    encode(instr)
  assert instr.op.name in str(caught.value)


@pytest.mark.parametrize("word, message", [
  (0, "unknown operation code 0x00"), (0xFF << 1, "0xff"), (3 << 27 | 0x50 << 1, "vadd: flexible operand of kind 3"),
  (0 << 27 | 0x20 << 1, "sadd: flexible operand of kind 0"), (7 << 28 | 0xE0 << 1, "vld: unknown element type 7")])
def test_words_that_are_no_instruction(word: int, message: str) -> None:
  with pytest.raises(DecodeError, match=message):
    decode(word)


def test_registers_touched() -> None:
  assert ins("vsel", d=1, a=2, bkind=BKind.SREG, b=3, c=4).reads() == [("v", 2), ("v", 4), ("s", 3)]
  assert ins("vadd", d=1, a=2, imm=3).reads() == [("v", 2)]
  assert ins("vst2", d=9, a=1, x=0, r=3, c2=4, masked=True, c=5).reads() == [("v", 9), ("s", 1), ("s", 3), ("s", 4), ("v", 5)]
  assert ins("vst", d=9, a=1).writes() == []
  assert ins("mmf", d=3, a=1, b=2).reads() == [("p", 3), ("v", 1), ("v", 2)]
  assert ins("mmf", d=3, a=1, b=2).writes() == [("p", 3)]
  assert ins("sadd", d=0, a=0).reads() == ins("sadd", d=0, a=0).writes() == []


def test_group_rules() -> None:
  check_group([ins("halt"), ins("sadd", d=1), ins("vadd", d=1), ins("xtos", d=2)])
  with pytest.raises(EncodeError, match="vadd and vsub both need slot V") as caught:
    check_group([ins("vadd", d=1), ins("vsub", d=2)])
  assert caught.value.position == 1
  with pytest.raises(EncodeError, match="vadd and vld both write v3"):
    check_group([ins("vadd", d=3), ins("vld", d=3)])
  with pytest.raises(EncodeError, match="at most 4"):
    check_group([ins("nop")] * 5)
  with pytest.raises(EncodeError, match="at least one"):
    check_group([])


def test_no_operation_needs_two_slots_or_writes_two_registers() -> None:
  assert {op.slot for op in OPS.values()} == set(SLOTS) | {""}
  assert all(len(Instr(op).writes()) <= 1 for op in OPS.values())
  assert all(is_memory(op) == (op.name.rstrip("2x") in ("vld", "vst", "vatom", "hld", "hst")) for op in OPS.values())


def test_padding_extends_the_group_before() -> None:
  words = pack([[ins("sadd", d=1), ins("vadd", d=1)], [ins("sadd", d=2), ins("vadd", d=2), ins("halt")]])
  assert [int(w) & 0x1FF for w in words] == [0x20 << 1 | 1, 0x50 << 1 | 1, NOP | 1, NOP, 0x20 << 1 | 1, 0x50 << 1 | 1, HALT]
  assert words.dtype == np.uint64


@given(st.lists(st.integers(1, 4), max_size=20))
def test_no_group_crosses_a_packet(sizes: list[int]) -> None:
  groups = [[ins("nop")] * size for size in sizes]
  layout = lay_out(groups)
  words = pack(groups)
  assert len(words) == layout.words
  for start, size, pad in zip(layout.starts, sizes, layout.pads, strict=True):
    assert start // 4 == (start + size + pad - 1) // 4
  assert [len(g) for g in unpack(words)] == [size + pad for size, pad in zip(sizes, layout.pads, strict=True)]


def test_labels() -> None:
  words = pack([Label("start"), [ins("nop")] * 3, Label("next"), [ins("jmp", target="end"), ins("nop")], [ins("jmp", target="start")],
                [ins("jmp", target="next")], Label("end")])
  assert [int(w) >> 32 for w in words if int(w) >> 1 & 0xFF == 0x04] == [8, 0, 4]
  with pytest.raises(EncodeError, match="label 'x' is not defined") as caught:
    pack([[ins("nop")], [ins("nop"), ins("jmp", target="x")]])
  assert (caught.value.group, caught.value.position) == (1, 1)
  with pytest.raises(EncodeError, match="label 'x' is defined twice"):
    pack([Label("x"), Label("x")])


def test_raw_words_are_kept() -> None:
  assert [int(w) for w in pack([[Raw(2**64 - 1)], [Raw(0)]])] == [2**64 - 1, 0]


def test_encoding_fits_the_registers() -> None:
  assert Config.VREGS == Config.SREGS == 64 and Config.PSUMS == 16
