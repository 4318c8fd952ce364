"""Assembly text: each operand form, literals, directives, and errors with their places."""
from __future__ import annotations

import struct

import pytest

from tinytpu.asm import Arg, ArgKind, TasmError, assemble
from tinytpu.config import preset
from tinytpu.isa.encoding import BKind, MemType
from tinytpu.isa.instruction import Instr, decode, ins

V, S = BKind.VREG, BKind.SREG


def one(text: str) -> Instr:
  words = assemble(text).words
  assert len(words) == 1
  return decode(int(words[0]))[0]


@pytest.mark.parametrize("text, instr", [
  ("nop", ins("nop")),
  ("trap 0x12", ins("trap", imm=0x12)),
  ("dwaiti 2", ins("dwaiti", imm=2)),
  ("jmp @5", ins("jmp", imm=5)),
  ("bne s1, s2, @0x10", ins("bne", a=1, c=2, imm=16)),
  ("loop s3, @9", ins("loop", a=3, imm=9)),
  ("sadd s1, s2, s3", ins("sadd", d=1, a=2, bkind=S, b=3)),
  ("sadd s1, s2, -5", ins("sadd", d=1, a=2, imm=2**32 - 5)),
  ("ssub s1, 5, s2", ins("ssub", d=1, a=2, imm=5, swap=True)),
  ("ssub.swap s1, s2, s3", ins("ssub", d=1, a=3, bkind=S, b=2, swap=True)),
  ("ssel s1, s2, s3, s4", ins("ssel", d=1, a=2, bkind=S, b=3, c=4)),
  ("ssel s1, s2, 7, s4", ins("ssel", d=1, a=2, imm=7, c=4)),
  ("ssel s1, s2, s4, 7", ins("ssel", d=1, a=2, imm=7, c=4, swap=True)),
  ("smov s1, s2", ins("sadd", d=1, bkind=S, b=2)),
  ("smov s1, -1", ins("sadd", d=1, imm=2**32 - 1)),
  ("scyc s7", ins("scyc", d=7)),
  ("vadd v1, v2, v3", ins("vadd", d=1, a=2, bkind=V, b=3)),
  ("vadd v1, v2, s3", ins("vadd", d=1, a=2, bkind=S, b=3)),
  ("vsub v1, s3, v2", ins("vsub", d=1, a=2, bkind=S, b=3, swap=True)),
  ("vsub v1, 5, v2", ins("vsub", d=1, a=2, imm=5, swap=True)),
  ("vsub.swap v1, v2, v3", ins("vsub", d=1, a=3, bkind=V, b=2, swap=True)),
  ("vsel v1, v2, v3, v4", ins("vsel", d=1, a=2, bkind=V, b=3, c=4)),
  ("vsel v1, v2, 1, v4", ins("vsel", d=1, a=2, imm=1, c=4)),
  ("vsel v1, v2, v4, s5", ins("vsel", d=1, a=2, bkind=S, b=5, c=4, swap=True)),
  ("vmov v1, s2", ins("vmov", d=1, bkind=S, b=2)),
  ("vlid v63", ins("vlid", d=63)),
  ("vf2i v1, v2", ins("vf2i", d=1, a=2)),
  ("xbcr v1, v2, 3", ins("xbcr", d=1, a=2, imm=3)),
  ("xperm v1, v2, v3", ins("xperm", d=1, a=2, b=3)),
  ("xtos s1, v2, s3", ins("xtos", d=1, a=2, bkind=S, b=3)),
  ("mmf p15, v2, v3", ins("mmf", d=15, a=2, b=3)),
  ("ppop v1, p2", ins("ppop", d=1, a=2)),
  ("ppush p1, v2", ins("ppush", d=1, a=2)),
  ("vld.w v1, [s2]", ins("vld", d=1, a=2)),
  ("vld.w v1, [s2 + s3 + 8]", ins("vld", d=1, a=2, x=3, off=8)),
  ("vld.i8 v1, [s2 - 4]", ins("vld", d=1, a=2, off=-4, mtype=MemType.I8)),
  ("vst.u16 v1, [s2+s3]", ins("vst", d=1, a=2, x=3, mtype=MemType.U16)),
  ("vld2.f16 v1, [s2 + s3 - 4 : s4, s5]", ins("vld2", d=1, a=2, x=3, off=-4, r=4, c2=5, mtype=MemType.F16)),
  ("hstx.bf16 v1, [s2 : v6] ? v7", ins("hstx", d=1, a=2, r=6, masked=True, c=7, mtype=MemType.BF16)),
  ("hldx.u8 v1, [s2 + s3 + 0x10 : v6]", ins("hldx", d=1, a=2, x=3, off=16, r=6, mtype=MemType.U8)),
  ("dmai [s1 : s2], [s3 : s4], s5, s6", ins("dmai", c=1, c2=2, a=3, r=4, d=5, x=6)),
  ("dmao [s1 : s2, s31], [s3 : s4, s63], s5, s6, s7", ins("dmao", c=1, c2=2, zv=31, a=3, r=4, zh=63, d=5, x=6, z=7)),
])
def test_operand_forms(text: str, instr: Instr) -> None:
  assert one(text) == instr
  assert one(" " + text.replace(", ", " ,\t") + "  # comment") == instr


@pytest.mark.parametrize("literal, bits", [
  ("0", 0), ("4294967295", 2**32 - 1), ("-2147483648", 2**31), ("0xFFFFFFFF", 2**32 - 1), ("-0x1", 2**32 - 1), ("0b101", 5), ("+7", 7),
  ("1.5", 0x3FC00000), ("-0.0", 0x80000000), ("1e-3", struct.unpack("<I", struct.pack("<f", 1e-3))[0]),
  (".5", 0x3F000000), ("2.", 0x40000000),
  ("1E5", struct.unpack("<I", struct.pack("<f", 1e5))[0]), ("1.401298464324817e-45", 1), ("3.4028234663852886e+38", 0x7F7FFFFF),
  ("inf", 0x7F800000), ("-inf", 0xFF800000), ("nan", 0x7FC00000)])
def test_literals(literal: str, bits: int) -> None:
  assert one(f"vmov v1, {literal}").imm == bits


def test_groups_labels_and_comments() -> None:
  program = assemble("""
    # a loop
    smov s1, 3 ; vmov v1, 0
  again: loop s1, done   # label before a group
    vadd v1, v1, 1 ; xtr v2, v1 ; vld.w v3, [s0]
    lend
  done: also:
    halt
  """)
  codes = [int(w) >> 1 & 0xFF for w in program.words]
  chains = [int(w) & 1 for w in program.words]
  assert codes == [0x20, 0x61, 0x0B, 0x01, 0x50, 0xC3, 0xE0, 0x0C, 0x02]
  assert chains == [1, 0, 1, 0, 1, 1, 0, 0, 0]
  assert decode(int(program.words[2]))[0].imm == 8


def test_directives() -> None:
  program = assemble(".kernel E_4\n.arg 2 grid 1\n.arg 0 buf 3\n.arg 1 var start\n.vmem 4096\nhalt", file="x.tasm")
  assert (program.name, program.vmem_bytes, program.config) == ("E_4", 4096, "4x4")
  assert program.args == (Arg(0, ArgKind.BUF, 3), Arg(1, ArgKind.VAR, "start"), Arg(2, ArgKind.GRID, 1))
  assert assemble("halt", keep_source=False).source is None


@pytest.mark.parametrize("text, line, column, message", [
  ("vadd v1, v64, v2", 1, 10, r"expected a vector register \(v0 to v63\) or a scalar register \(s0 to s63\), found 'v64'"),
  ("halt\n  vadd v1, v2", 2, 14, "expected ',', found the end of the operation"),
  ("vadd v1, 3, s2", 1, 13, "at least one is a vector register"),
  ("sadd s1, s2, v3", 1, 14, r"expected a scalar register \(s0 to s63\), found 'v3'"),
  ("mmf p16, v1, v2", 1, 5, r"expected a PSUM bucket \(p0 to p15\), found 'p16'"),
  ("vsl v1, v2, 3", 1, 1, "unknown operation 'vsl'; nearest: "),
  ("sadd s1, s2, 1 ; vld v1, [s2]", 1, 18, "vld needs an element type .*, found none"),
  ("vld.q v1, [s2]", 1, 1, "vld needs an element type .*, found 'q'"),
  ("vld.w v1, [v2]", 1, 12, "expected a scalar register"),
  ("vld.w v1, [s2 + 9000]", 1, 15, "offset 9000 does not fit: expected -8192 to 8191"),
  ("vld2.w v1, [s2]", 1, 15, "expected ':' and two scalar registers"),
  ("vldx.w v1, [s2 : s3]", 1, 18, "expected a vector register"),
  ("vld.w v1, [s2] ? s3", 1, 18, "expected a vector register"),
  ("vadd.w v1, v2, v3", 1, 1, "vadd takes no suffix, found 'w'"),
  ("vmov.swap v1, 3", 1, 1, "vmov takes no suffix, found 'swap'"),
  ("vadd v1, v2, 1e39", 1, 14, "1e39 does not fit float32; write inf"),
  ("sadd s1, s2, 4294967296", 1, 14, "does not fit 32 bits"),
  ("trap 1.5", 1, 6, "expected an integer, found '1.5'"),
  ("vadd v1, v2, 08x", 1, 14, "'08x' is no register, number"),
  ("vadd v1, v2, v03", 1, 14, "found 'v03'"),
  ("vadd v1, v2 v3", 1, 13, "expected ',', found 'v3'"),
  ("vadd v1, v2, v3 v4", 1, 17, "expected the end of the operation, found 'v4'"),
  ("jmp 5", 1, 5, "expected a label or @ and a word index"),
  ("halt\nsadd s1, s1, 1 ; jmp nowhere", 2, 18, "label 'nowhere' is not defined"),
  ("a: halt\na: halt", 2, 1, "label 'a' is defined twice"),
  ("vadd v1, v2, v3 ; vsub v4, v2, v3", 1, 19, "vadd and vsub both need slot V"),
  ("vadd v1, v2, v3 ; vld.w v1, [s2]", 1, 19, "vadd and vld both write v1"),
  ("nop ; nop ; nop ; nop ; nop", 1, 1, "1 to 4 operations, not 5"),
  ("nop ; ; nop", 1, 7, "expected an operation, found nothing"),
  (".word 0x1_0", 1, 7, "is no register, number"),
  (".word 0x10000000000000000", 1, 7, "does not fit 64 bits"),
  (".word 0x2 ; halt", 1, 1, "needs its chain bit"),
  (".kernel", 1, 1, "expected .kernel NAME"),
  (".kernel a\n.kernel b", 2, 1, "second .kernel"),
  (".vmem lots", 1, 1, "expected .vmem BYTES"),
  (".vmem 262145", 1, 1, "262145 bytes of VMEM asked for, 4x4 has 262144"),
  (".arg 0 buffer 1", 1, 1, "expected .arg N buf K"),
  (".arg 32 buf 1", 1, 1, r"expected an argument register \(0 to 31\), found 32"),
  (".arg 1 buf 1\n.arg 1 buf 2", 2, 1, "argument 1 is given twice"),
  (".arg 1 grid x", 1, 1, "expected a grid axis"),
  (".arg 1 fill x", 1, 1, "expected a buffer number"),
  (".buf 1 64", 1, 1, "expected .buf K BYTES in, out or inout"),
  (".buf 1 64 in word", 1, 1, "expected .buf K BYTES in, out or inout"),
  (".buf 1 64 in\n.buf 1 64 in", 2, 1, "buffer 1 is described twice"),
  (".buf 1 4294967296 in", 1, 1, "bytes below 2"),
  (".direct\nhalt", 1, 1, "no version before .direct"),
  ("halt\n.direct\nhalt\n.direct", 4, 1, "second .direct"),
  ("halt\n.direct", 2, 1, "no version after .direct"), ("halt\n.direct\nlast:", 2, 1, "no version after .direct"),
  ("a:\n.direct\nhalt", 2, 1, "no version before .direct"),
  (".cycles 5 6\nhalt", 1, 1, ".cycles compares two versions"), (".cycles 5 6\n.cycles 5 6\nhalt", 2, 1, "second .cycles"),
  (".vmem 64\n.vmem 128\nhalt", 2, 1, "second .vmem"), (".config 9x9\nhalt", 1, 1, "unknown preset '9x9'; presets: 4x4"),
  (".config 8x8\n.config 8x8\nhalt", 2, 1, "second .config"),
  ("", 1, 1, "the text holds no operation: a program has at least one"), ("\ufeff", 1, 1, "the text holds no operation"),
  ("# nothing\n.kernel k\na:", 3, 1, "the text holds no operation"),
  ("vmov v1, 1e400", 1, 10, "1e400 does not fit float32; write inf"), ("vmov v1, -1e400", 1, 10, "write -inf"),
  ("vmov v1, 3.4028236e38", 1, 10, "does not fit float32"), ("vmov v1, \u0663", 1, 10, "is no register, number"),
  (".arg \u0663 buf 0", 1, 1, "expected .arg N buf K"), (".vmem \u00b2", 1, 1, "expected .vmem BYTES"),
  ("vfadd v3, v1, 1", 1, 15, "vfadd takes floats: write 1.0, or 0x1 if these bits are meant"),
  ("vfmul v3, -2, v1", 1, 11, "vfmul takes floats: write -2.0, or 0xfffffffe if"),
  ("vfeq v3, v1, +07", 1, 14, "vfeq takes floats: write 07.0, or 0x7"),
  ("halt \x0c", 1, 6, r"U\+000C outside a comment: expected printable characters, spaces and tabs"),
  ("halt\u2028halt", 1, 5, r"U\+2028 outside"), ("halt\rhalt", 1, 5, r"U\+000D outside"), ("vadd\u00a0v1, v2, 3", 1, 5, r"U\+00A0 outside"),
  ("halt\x00", 1, 5, r"U\+0000 outside"), ("\x1b[31mhalt", 1, 1, r"U\+001B outside"), ("# \ud800", 1, 3, r"U\+D800 is half a character"),
  (".kernel a\u202eb", 1, 10, r"U\+202E outside"), ("halt\ufeff", 1, 5, r"U\+FEFF outside"),
  (".cycles 5", 1, 1, "expected .cycles FIRST DIRECT"),
  (".data 5", 1, 1, "unknown directive '.data'"),
])
def test_errors_name_the_place(text: str, line: int, column: int, message: str) -> None:
  with pytest.raises(TasmError, match=message) as caught:
    assemble(text, file="f.tasm")
  error = caught.value
  assert (error.line, error.column) == (line, column)
  first, source, caret = str(error).split("\n")
  assert first.startswith(f"f.tasm:{line}:{column}: ")
  shown = text.removeprefix("\ufeff").split("\n")[line - 1]
  assert source == "  " + shown if shown.isprintable() else source.isprintable()
  assert caret.index("^") == column + 1


NINES = "9" * 5000


@pytest.mark.parametrize("text, column, message", [
  (f"sadd s1, s2, {NINES}", 14, "9{60}... does not fit 32 bits"), (f"sadd s1, s2, -{NINES}", 14, "-9{59}... does not fit 32 bits"),
  (f"sadd s1, s2, 0x{NINES}", 14, "0x9{58}... does not fit 32 bits"), (f"vmov v1, {NINES}.0", 10, "9{60}... does not fit float32"),
  (f".word {NINES}", 7, "9{60}... does not fit 64 bits"), (f"sadd s{NINES}, s2, s3", 6, "expected a scalar register .*, found 's9{59}...'"),
  (f"vld.w v1, [s1 + {NINES}]", 15, "does not fit 32 bits"), (f"jmp @{NINES}", 6, "does not fit 32 bits"),
  (f"trap {NINES}", 6, "does not fit"),
  (f".vmem {NINES}", 1, "numbers below 2.64"), (f".cycles {NINES} 1", 1, "numbers below 2.64"),
  (f".cycles 1 {1 << 64}", 1, "numbers below 2.64"), (f".buf {NINES} 1 in", 1, "a buffer number up to 65535"),
  (f".buf 1 {NINES} in", 1, "bytes below 2.32"), (f".arg {NINES} buf 0", 1, r"expected an argument register \(0 to 31\), found"),
  (f".arg 0 buf {NINES}", 1, r"expected a buffer number \(0 to 65535\), found '9{60}...'"),
  (f".arg 0 var {'x' * 70000}", 1, "a name must have at most 1023 bytes, and 'x{60}...' has 70000"),
  (f".kernel {'x' * 70000}", 1, "a name must have at most 1023 bytes"), (f".config {'x' * 70000}", 1, "unknown preset 'x{60}'"),
  (f".{'x' * 70000}", 1, "unknown directive '.x{59}...'"), ("x" * 10**6, 1, "unknown operation 'x{60}...'"),
  (f"vld.{'x' * 70000} v1, [s1]", 1, "found 'x{60}...'"), (f"jmp {'x' * 70000}", 5, "a label of at most 255 characters, found 'x{60}...'"),
  (f"jmp {'x' * 255}", 1, "label 'x{255}' is not defined"),
  (f"{'x' * 256}: halt", 1, "a label of at most 255 characters, found 'x{60}...'"),
  ("\u00e9" * 70000, 1, "'\u00e9{60}...' is no register, number"),
  ("vadd v1, v2" + " " * 10**6 + "v3", 1000012, "expected ',', found 'v3'")])
def test_huge_things_end_in_short_messages(text: str, column: int, message: str) -> None:
  with pytest.raises(TasmError, match=message) as caught:
    assemble(text + "\nhalt", file="f.tasm")
  assert (caught.value.line, caught.value.column) == (1, column)
  lines = str(caught.value).split("\n")
  assert len(lines) == 3 and all(line.isprintable() and len(line) < 700 for line in lines)
  assert lines[2].index("^") < 130


def test_numbers_may_have_leading_zeros() -> None:
  assert one(f"sadd s1, s2, {'0' * 5000}7").imm == 7
  assert assemble(f".vmem {'0' * 5000}64\nhalt").vmem_bytes == 64


def test_only_line_feeds_split_lines() -> None:
  """Whatever else Python takes for a line's end stays within a comment."""
  text = "halt # a\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\rhalt"
  assert len(assemble(text).words) == 1
  with pytest.raises(TasmError) as caught:
    assemble(text + "\n  oops")
  assert (caught.value.line, caught.value.column) == (2, 3)


def test_line_ends_of_other_systems_and_a_byte_order_mark() -> None:
  text = ".kernel k\n  sadd s1, s2, 3\nhalt\n"
  program = assemble(text, keep_source=False)
  assert assemble("\ufeff" + text.replace("\n", "\r\n"), keep_source=False) == program
  assert assemble("\ufeff" + text).source == text


def test_escapes_of_terminals_are_not_echoed() -> None:
  with pytest.raises(TasmError) as caught:
    assemble("halt # \x1b[31m\n vadd # \x1b]0;title\x07\u202e", file="\x1b[2J\n.tasm")
  assert len(str(caught.value).split("\n")) == 3 and str(caught.value).replace("\n", "").isprintable()


def test_floats_may_be_given_as_bits() -> None:
  for literal, bits in (("0x3f800000", 0x3F800000), ("0b1", 1), ("1.0", 0x3F800000), ("1e0", 0x3F800000), ("0", 0), ("-0", 0),
                        ("inf", 0x7F800000)):
    assert one(f"vfadd v1, v2, {literal}").imm == bits
  assert one("vfldiv v1, v2, 7").imm == 7  # its name begins like theirs, and it divides integers


def test_the_text_may_name_its_preset() -> None:
  text = ".config 8x8\n.vmem 300000\nhalt"
  assert assemble(text).config == "8x8" and assemble(text, preset("8x8")).config == "8x8"
  assert assemble("halt", preset("8x8")).config == "8x8" and assemble("halt").config == "4x4"
  with pytest.raises(TasmError, match="the text is for preset 8x8, not 4x4"):
    assemble(text, preset("4x4"))


def test_caret_stands_under_tabs() -> None:
  with pytest.raises(TasmError) as caught:
    assemble("\tsadd\ts1, s2, v3")
  assert str(caught.value).split("\n")[2] == "  \t    \t         ^^".replace("         ^^", "        ^^")
