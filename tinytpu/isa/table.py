"""The instruction set as data: one row per operation, the single source for assembler, disassembler,
simulator, RTL decoder, compiler and the reference page.

An operation sits in a *slot*; a group holds at most one operation per slot and at most `Config.GROUP`
operations. All of a group's operands are read before any of its results is written. `operands` lists
what the assembly text shows, in order, as `KIND` strings:

    vd va vb vc        vector register in field d, a, b, c (vd is the result; vs is data to store, in d)
    sd sa sb sc        scalar register in field d, a, b, c
    pd pa              PSUM bucket in field d (result) or a; pm is a bucket in d that is read and written
    qd qa              predicate in field d (result) or a
    b                  flexible: vector register, scalar register or immediate (fields bkind, b / imm)
    k                  flexible without the vector: scalar register or immediate
    imm                32-bit immediate
    to                 branch target: word index within the program (field imm)
    mem mem2 memx      memory operand: contiguous, 2-D strided, gathered; carries element type and mask
    dma                scalar registers: c, c2, zv (VMEM address, row pitch, plane pitch), a, r, zh (the same of HBM), d (bytes per row),
                       x (rows), z (planes; one if that is s0)
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from . import packed
from . import semantics as sem
from . import transcendental as trans


@dataclass(frozen=True)
class Op:
  """One operation.

  Attributes:
    name: mnemonic. code: 8-bit operation code. slot: engine slot, a key of `SLOTS`.
    operands: operand kinds in the order of the assembly text.
    timing: its class in `isa.timing` (result latency), or "" where no register is written.
    doc: semantics in words; a, b, c are the operands, i the sublane, j the lane.
    ref: per-lane (or scalar) reference function on 32-bit words, of the operands that the slot's
      datapath takes (a, b, c in that order, as many as it has parameters); None for memory, control
      and cross-lane operations, whose semantics need more than one element.
  """
  name: str
  code: int
  slot: str
  operands: tuple[str, ...]
  timing: str
  doc: str
  ref: Callable[..., int] | None = None

  @property
  def swappable(self) -> bool:
    """Whether operands may change places (field swap)."""
    return bool(self.swaps)

  @property
  def swaps(self) -> str:
    """The operands that the field swap exchanges: "ab", or "bc" of operations with a third operand; "" if it is ignored."""
    if not ("b" in self.operands and "va" in self.operands or "k" in self.operands and "sa" in self.operands):
      return ""
    return "bc" if "vc" in self.operands or "sc" in self.operands else "ab"

  @property
  def words_only(self) -> bool:
    """Whether the only element type is W."""
    return self.name.startswith("vatom")


class Access(NamedTuple):
  """A register touched by an operation: file "v", "s", "p" or "q", and the field that holds its number."""
  file: str
  field: str


SLOTS = {
  "C": "control: loops, branches, predicates, waits, halt",
  "S": "scalar ALU",
  "V": "vector ALU",
  "X": "cross-lane unit and matrix unit",
  "L": "VMEM load",
  "T": "VMEM store, direct HBM access, DMA",
}

_ROWS: list[Op] = []


def _op(name: str, code: int, slot: str, operands: str, timing: str, doc: str, ref: Callable[..., int] | None = None) -> None:
  _ROWS.append(Op(name, code, slot, tuple(operands.split()), timing, doc, ref))


_f: Callable[..., int]

# -- control (0x00 stays illegal, so that empty memory faults) ----------------------------------------
_op("nop", 0x01, "", "", "", "nothing; fills a packet, takes no slot")
_op("halt", 0x02, "C", "", "", "end the program when everything outstanding has finished")
_op("trap", 0x03, "C", "imm", "", "fault TRAP with info = imm")
_op("jmp", 0x04, "C", "to", "", "go to `to`")
_op("beq", 0x05, "C", "sa sc to", "", "go to `to` if a == c")
_op("bne", 0x06, "C", "sa sc to", "", "go to `to` if a != c")
_op("blt", 0x07, "C", "sa sc to", "", "go to `to` if a < c, signed")
_op("bge", 0x08, "C", "sa sc to", "", "go to `to` if a >= c, signed")
_op("bltu", 0x09, "C", "sa sc to", "", "go to `to` if a < c, unsigned")
_op("bgeu", 0x0A, "C", "sa sc to", "", "go to `to` if a >= c, unsigned")
_op("loop", 0x0B, "C", "sa to", "", "if a > 0 (signed): push (next group, a) on the loop stack; else go to `to`")
_op("lend", 0x0C, "C", "", "", "innermost loop: count down; if passes remain go to its start, else pop it")
_op("fence", 0x0D, "C", "", "", "wait until every direct HBM store has reached memory and every direct HBM load has returned")
_op("dwaiti", 0x0E, "C", "imm", "", "wait until at most imm inbound (HBM to VMEM) DMA transfers are unfinished")
_op("dwaito", 0x0F, "C", "imm", "", "wait until at most imm outbound (VMEM to HBM) DMA transfers are unfinished")
_op("pset0", 0x10, "C", "qd sa", "SCALAR", "predicate d = 1 if a == 0 else 0")
_op("pset1", 0x11, "C", "qd sa", "SCALAR", "predicate d = 1 if a != 0 else 0")
_op("bp", 0x12, "C", "qa to", "", "go to `to` if predicate a is 1")
_op("bnp", 0x13, "C", "qa to", "", "go to `to` if predicate a is 0")
_op("barrier", 0x14, "C", "", "", "wait until nothing at all is outstanding: no result, VMEM access, direct HBM access or DMA transfer")

# -- scalar ALU ---------------------------------------------------------------------------------------
for _i, (_n, _d, _f) in enumerate((
    ("sadd", "a + b", sem.add), ("ssub", "a - b", sem.sub), ("sand", "a & b", sem.and_), ("sor", "a | b", sem.or_),
    ("sxor", "a ^ b", sem.xor), ("sshl", "a << (b mod 32)", sem.shl), ("sshr", "a >> (b mod 32), logical", sem.shr),
    ("ssar", "a >> (b mod 32), arithmetic", sem.sar), ("smin", "smaller of a, b, signed", sem.min_),
    ("smax", "larger of a, b, signed", sem.max_), ("sminu", "smaller of a, b, unsigned", sem.minu),
    ("smaxu", "larger of a, b, unsigned", sem.maxu), ("slt", "1 if a < b, signed, else 0", sem.lt),
    ("sltu", "1 if a < b, unsigned, else 0", sem.ltu), ("seq", "1 if a == b else 0", sem.eq), ("sne", "1 if a != b else 0", sem.ne))):
  _op(_n, 0x20 + _i, "S", "sd sa k", "SCALAR", _d, _f)
_op("ssel", 0x30, "S", "sd sa k sc", "SCALAR", "b if a != 0 else c (with swap: c if a != 0 else b)", sem.sel)
_op("scyc", 0x31, "S", "sd", "SCALAR", "cycles since launch, at issue")
_op("sldx", 0x33, "S", "sd k", "SCALAR", "passes done of the active loop b levels out (0: the innermost); 0 if there is none")
_op("sldep", 0x34, "S", "sd", "SCALAR", "active loops")
_op("smul", 0x32, "S", "sd sa k", "SMUL", "a * b, low 32 bits", sem.mul)
_DIVS = (("div", "a / b, rounded toward zero; x / 0 = -1", sem.div), ("rem", "remainder of div, sign of a; x rem 0 = x", sem.rem),
         ("divu", "a / b, unsigned; x / 0 = 2^32 - 1", sem.divu), ("remu", "remainder of divu; x rem 0 = x", sem.remu),
         ("fldiv", "a / b, rounded down; x / 0 = -1", sem.fldiv), ("flmod", "modulo of fldiv, sign of b; x mod 0 = x", sem.flmod))
for _i, (_n, _d, _f) in enumerate(_DIVS):
  _op("s" + _n, 0x38 + _i, "S", "sd sa k", "SDIV", _d, _f)

# -- vector ALU, integer ------------------------------------------------------------------------------
for _i, (_n, _d, _f) in enumerate((
    ("vadd", "a + b", sem.add), ("vsub", "a - b", sem.sub), ("vand", "a & b", sem.and_), ("vor", "a | b", sem.or_),
    ("vxor", "a ^ b", sem.xor), ("vshl", "a << (b mod 32)", sem.shl), ("vshr", "a >> (b mod 32), logical", sem.shr),
    ("vsar", "a >> (b mod 32), arithmetic", sem.sar), ("vmin", "smaller of a, b, signed", sem.min_),
    ("vmax", "larger of a, b, signed", sem.max_), ("vminu", "smaller of a, b, unsigned", sem.minu),
    ("vmaxu", "larger of a, b, unsigned", sem.maxu), ("vlt", "1 if a < b, signed, else 0", sem.lt),
    ("vltu", "1 if a < b, unsigned, else 0", sem.ltu), ("veq", "1 if a == b else 0", sem.eq), ("vne", "1 if a != b else 0", sem.ne))):
  _op(_n, 0x50 + _i, "V", "vd va b", "ALU", _d, _f)
_op("vsel", 0x60, "V", "vd va b vc", "ALU", "b if a != 0 else c (with swap: c if a != 0 else b)", sem.sel)
_op("vmov", 0x61, "V", "vd b", "ALU", "b", sem.mov)
_op("vlid", 0x62, "V", "vd", "ALU", "element index: sublane * lanes + lane")
_op("vmul", 0x63, "V", "vd va b", "IMUL", "a * b, low 32 bits", sem.mul)
for _i, (_n, _d, _f) in enumerate((
    ("vmulh", "a * b, signed, high 32 bits", sem.mulh), ("vmulhu", "a * b, unsigned, high 32 bits", sem.mulhu))):
  _op(_n, 0x64 + _i, "V", "vd va b", "IMUL", _d, _f)
_op("vaxr", 0x6E, "V", "vd va b vc", "ALU", "(a rotated left by b mod 32) ^ (a + c), half a round of Threefry (swap: b and c)",
    sem.axr)
for _i, (_n, _d, _f) in enumerate((
    ("vrotl", "a rotated left by b mod 32 bits", sem.rotl), ("vrotr", "a rotated right by b mod 32 bits", sem.rotr),
    ("vabsd", "absolute value of a - b, signed, as an unsigned number", sem.absd),
    ("vabsdu", "absolute value of a - b, unsigned", sem.absdu),
    ("vadds", "a + b, signed, saturating", sem.adds), ("vsubs", "a - b, signed, saturating", sem.subs),
    ("vaddsu", "a + b, unsigned, saturating", sem.addsu), ("vsubsu", "a - b, unsigned, 0 if negative", sem.subsu))):
  _op(_n, 0x70 + _i, "V", "vd va b", "ALU", _d, _f)
for _i, (_n, _d, _f) in enumerate((
    ("vclz", "zeros above the highest one of a; 32 for 0", sem.clz), ("vctz", "zeros below the lowest one of a; 32 for 0", sem.ctz),
    ("vpopc", "ones in a", sem.popc), ("vbswap", "a with its bytes in reverse order", sem.bswap),
    ("vabs", "absolute value of a; -2^31 stays", sem.abs_), ("vsign", "-1, 0 or 1 by the sign of a", sem.sign))):
  _op(_n, 0x78 + _i, "V", "vd va", "ALU", _d, _f)
for _i, (_n, _d, _f) in enumerate((
    ("adds", "a + b, saturating", packed.adds), ("subs", "a - b, saturating", packed.subs), ("min", "smaller of a, b", packed.min_),
    ("max", "larger of a, b", packed.max_), ("eq", "1 if a == b else 0", packed.eq), ("lt", "1 if a < b else 0", packed.lt),
    ("absd", "absolute value of a - b, as an unsigned byte", packed.absd), ("mul", "a * b, low byte", packed.mul),
    ("mulh", "a * b, high byte", packed.mulh))):
  _op("vb4" + _n, 0x80 + _i, "V", "vd va b", "ALU", f"each of the four signed bytes: {_d}", _f)
for _i, (_n, _d, _f) in enumerate((
    ("neg", "-a, saturating", packed.neg), ("abs", "absolute value of a, saturating", packed.abs_),
    ("relu", "larger of a, 0", packed.relu), ("sign", "-1, 0 or 1 by the sign of a", packed.sign))):
  _op("vb4" + _n, 0x8C + _i, "V", "vd va", "ALU", f"each of the four signed bytes: {_d}", _f)
for _i, (_n, _d, _f) in enumerate(_DIVS):
  _op("v" + _n, 0x68 + _i, "V", "vd va b", "DIV", _d, _f)

# -- vector ALU, float32 ------------------------------------------------------------------------------
for _i, (_n, _d, _f) in enumerate((
    ("vflt", "1 if a < b else 0; false if unordered", sem.flt), ("vfle", "1 if a <= b else 0; false if unordered", sem.fle),
    ("vfeq", "1 if a == b else 0; false if unordered", sem.feq), ("vfne", "1 if a != b else 0; true if unordered", sem.fne),
    ("vfmax", "IEEE 754-2019 maximum: NaN if either is, +0 above -0", sem.fmax),
    ("vfmin", "IEEE 754-2019 minimum: NaN if either is, -0 below +0", sem.fmin),
    ("vfsmax", "a if b < a, else b, as a comparison and a choice: b if unordered or both are zeros", sem.fsmax),
    ("vfsmin", "a if a < b, else b, as a comparison and a choice: b if unordered or both are zeros", sem.fsmin))):
  _op(_n, 0x90 + _i, "V", "vd va b", "ALU", _d, _f)
for _i, (_n, _d, _f) in enumerate((
    ("vf2h", "float32 to float16 bits, to nearest even", sem.f2h), ("vh2f", "float16 bits (low half) to float32", sem.h2f),
    ("vf2b", "float32 to bfloat16 bits, to nearest even", sem.f2b), ("vb2f", "bfloat16 bits (low half) to float32", sem.b2f),
    ("vroundh", "float32 rounded to a float16 value", sem.roundh), ("vroundb", "float32 rounded to a bfloat16 value", sem.roundb))):
  _op(_n, 0x98 + _i, "V", "vd va", "ALU", _d, _f)
for _i, (_n, _d, _f) in enumerate((
    ("vfabs", "absolute value of a; NaN for NaN", sem.fabs), ("vfneg", "-a; NaN for NaN", sem.fneg),
    ("vfsign", "-1.0, +0.0 or 1.0 by the sign of a; +0.0 for both zeros, NaN for NaN", sem.fsign))):
  _op(_n, 0xB4 + _i, "V", "vd va", "ALU", _d, _f)
for _i, (_n, _d, _f) in enumerate((("vfadd", "a + b", sem.fadd), ("vfsub", "a - b", sem.fsub), ("vfmul", "a * b", sem.fmul))):
  _op(_n, 0xA0 + _i, "V", "vd va b", "FLOAT", _d, _f)
for _i, (_n, _d, _f) in enumerate((
    ("vi2f", "int32 to float32", sem.i2f), ("vu2f", "uint32 to float32", sem.u2f),
    ("vf2i", "float32 to int32, toward zero, saturating, NaN to 0", sem.f2i),
    ("vf2u", "float32 to uint32, toward zero, saturating, NaN to 0", sem.f2u),
    ("vftrunc", "float32 rounded to an integral float32, toward zero", sem.ftrunc))):
  _op(_n, 0xA4 + _i, "V", "vd va", "FLOAT", _d, _f)
_op("vfdiv", 0xAC, "V", "vd va b", "DIV", "a / b", sem.fdiv)
_op("vfrcp", 0xAD, "V", "vd va", "DIV", "1 / a", sem.frcp)
_op("vfsqrt", 0xAE, "V", "vd va", "DIV", "square root of a; -0 for -0, NaN below", sem.fsqrt)
for _i, (_n, _d, _f) in enumerate((
    ("vfexp2", "2 to the power a; integers exact, subnormal results kept", trans.exp2),
    ("vflog2", "binary logarithm of a; powers of two exact, -infinity for zeros, NaN below", trans.log2),
    ("vfsin", "sine of a radians, any finite a; NaN for infinities", trans.sin),
    ("vfcos", "cosine of a radians, any finite a; NaN for infinities", trans.cos))):
  _op(_n, 0xB0 + _i, "V", "vd va", "TRANS", f"{_d}; at most 0.64 units in the last place off", _f)

# -- cross-lane ---------------------------------------------------------------------------------------
_op("xbcr", 0xC0, "X", "vd va k", "XLU", "d[i][j] = a[k mod sublanes][j]: one sublane to all")
_op("xbcc", 0xC1, "X", "vd va k", "XLU", "d[i][j] = a[i][k mod lanes]: one lane to all")
_op("xbce", 0xC2, "X", "vd va k", "XLU", "d[e] = a[k mod width]: one element to all")
_op("xtr", 0xC3, "X", "vd va", "XLU", "d[i][j] = a[j][i]: transpose")
_op("xrot", 0xC4, "X", "vd va k", "XLU", "d[e] = a[(e + k) mod width]: rotate the flattened tile")
_op("xperm", 0xC5, "X", "vd va vb", "XLU", "d[e] = a[b[e] mod width]: general permute")
_op("xtrb", 0xC6, "X", "vd va", "XLU",
    "4 x 4 bytes of every four neighbouring lanes transposed: byte n of d[i][4g + m] = byte m of a[i][4g + n]")
_op("xtrh", 0xC7, "X", "vd va", "XLU",
    "2 x 2 halfwords of every two neighbouring lanes transposed: half n of d[i][2g + m] = half m of a[i][2g + n]")
_op("xtos", 0xC8, "X", "sd va k", "X2S", "scalar d = a[k mod width]")
_op("xany", 0xC9, "X", "sd va", "X2S", "scalar d = 1 if any element of a != 0 else 0")
_op("xall", 0xCA, "X", "sd va", "X2S", "scalar d = 1 if every element of a != 0 else 0")

_TREE = "the elements of {what}, as a balanced binary tree in the order of elements: ((e0 . e1) . (e2 . e3)) . ..., to all of {where}"
_WHOLE = {"r": ("each sublane", "it"), "c": ("each lane", "it"), "t": ("the tile", "the tile")}
_FREE = iter((*range(0x40, 0x48), *range(0xB8, 0xC0), *range(0x18, 0x20), *range(0xCB, 0xD0), 0xDF, 0x3E, 0x3F, 0x35, 0x36, 0x37, 0x15))
"""Codes of the reductions: what other slots have left."""
for _n, _t, _d in (
    ("xsum", "XRED", "sum, modulo 2^32, of "), ("xprod", "XRED", "product, modulo 2^32, of "), ("xmax", "XRED", "largest, signed, of "),
    ("xmin", "XRED", "smallest, signed, of "), ("xfsum", "XFRED", "float32 sum of "), ("xfprod", "XFRED", "float32 product of "),
    ("xfmax", "XRED", "vfmax of "), ("xfmin", "XRED", "vfmin of ")):
  for _dim, (_what, _where) in _WHOLE.items():
    _op(_n + _dim, next(_FREE), "X", "vd va", _t + ("T" if _dim == "t" else ""), _d + _TREE.format(what=_what, where=_where))
for _n, _d, _codes in (("xmaxu", "largest", (0x16, 0x17, 0x66)), ("xminu", "smallest", (0x67, 0x6F, 0x7E))):
  for (_dim, (_what, _where)), _c in zip(_WHOLE.items(), _codes, strict=True):
    _op(_n + _dim, _c, "X", "vd va", "XREDT" if _dim == "t" else "XRED", f"{_d}, unsigned, of " + _TREE.format(what=_what, where=_where))
_PLACE = {"r": "lane number", "c": "sublane number", "t": "element index"}
for _n, _d in (("xamax", "largest, signed,"), ("xamin", "smallest, signed,"), ("xfamax", "largest float32 (a NaN before all)"),
               ("xfamin", "smallest float32 (a NaN before all)")):
  for _dim, (_what, _where) in _WHOLE.items():
    _op(_n + _dim, next(_FREE), "X", "vd va", "XREDT" if _dim == "t" else "XRED",
        f"{_PLACE[_dim]} of the {_d} element of {_what}, the lowest of equals, to all of {_where}")

# -- matrix unit --------------------------------------------------------------------------------------
_SUM = "d[i][j] = {c} + ((p0 + p1) + (p2 + p3)) [+ the next four, and so on], rounded after every operation; "
_STEPS = (
  ("mmf", "MM", "float32 matrix step: " + _SUM + "pk = a[i][k] * {b}[k][j]"),
  ("mmi", "MM", "int8 matrix step: d[i][j] = {c} + sum over k and the four signed bytes n of a[i][k].n * {b}[k][j].n, modulo 2^32"),
  ("mmh", "MM16", "float16 matrix step: " + _SUM + "p(2k + n) = a[i][k].n * {b}[k][j].n of the halfwords n = 0 (low), 1, in float32"),
  ("mmb", "MM16", "bfloat16 matrix step: " + _SUM + "p(2k + n) = a[i][k].n * {b}[k][j].n of the halfwords n = 0 (low), 1, in float32"))
for (_n, _t, _d), _c, _w in zip(_STEPS, (0xD0, 0xD2, 0xD4, 0xD6), (0x48, 0x4A, 0x4C, 0x4E), strict=True):
  _zero = "0" if _n == "mmi" else "+0"
  _op(_n, _c, "X", "pm va vb", _t, _d.format(c="d[i][j]", b="b"))
  _op(_n + "z", _c + 1, "X", "pd va vb", _t, _d.format(c=_zero, b="b"))
  _op(_n + "w", _w, "X", "pm va", _t, _d.format(c="d[i][j]", b="w") + "; w is the held tile")
  _op(_n + "wz", _w + 1, "X", "pd va", _t, _d.format(c=_zero, b="w") + "; w is the held tile")
_op("mmld", 0xDA, "X", "va", "", "hold tile a in the array, as w of the steps that issue later")
_op("ppop", 0xD8, "X", "vd pa", "PPOP", "d = bucket a")
_op("ppopr", 0xDB, "X", "vd pa k", "PPOP", "d[i][j] = bucket a[k mod sublanes][j]: one row of the bucket to all sublanes")
_op("ppopz", 0xDC, "X", "vd pa", "PPOP", "d = bucket a, which becomes zero")
_op("pclr", 0xDD, "X", "pd", "PCLR", "bucket d = 0")
_op("pclra", 0xDE, "X", "", "", "every bucket = 0")
_op("ppush", 0xD9, "X", "pd va", "PPUSH", "bucket d = a")

# -- memory -------------------------------------------------------------------------------------------
_ADDR = {
  "mem": "element e at a + size * (x + off + e)",
  "mem2": "element (i, j) at a + size * (x + off + i * r + j * c2)",
  "memx": "element e at a + size * (x + off + index[e])",
}
for _i, (_m, _k) in enumerate((("", "mem"), ("2", "mem2"), ("x", "memx"))):
  _op("vld" + _m, 0xE0 + _i, "L", f"vd {_k}", "LOAD", f"load from VMEM: {_ADDR[_k]}; 0 where masked off")
  _op("vst" + _m, 0xE8 + _i, "T", f"vs {_k}", "", f"store to VMEM: {_ADDR[_k]}; on equal addresses the highest element wins")
  _op("vatom" + _m, 0xEC + _i, "T", f"vs {_k}", "", f"add to VMEM, words only: {_ADDR[_k]}; elements with equal addresses are all added")
  _op("hld" + _m, 0xF0 + _i, "T", f"vd {_k}", "HBM_ISSUE", f"load from HBM: {_ADDR[_k]}; 0 where masked off")
  _op("hst" + _m, 0xF4 + _i, "T", f"vs {_k}", "", f"store to HBM: {_ADDR[_k]}; on equal addresses the highest element wins")
_op("dmai", 0xF8, "T", "dma", "", "start an inbound transfer HBM to VMEM, plane by plane, row by row; returns at once, see dwaiti")
_op("dmao", 0xF9, "T", "dma", "", "start an outbound transfer VMEM to HBM, plane by plane, row by row; returns at once, see dwaito")

OPS: dict[str, Op] = {op.name: op for op in _ROWS}
BY_CODE: dict[int, Op] = {op.code: op for op in _ROWS}
FLOATS = frozenset(("vflt", "vfle", "vfeq", "vfne", "vfmax", "vfmin", "vfsmax", "vfsmin", "vfadd", "vfsub", "vfmul", "vfdiv"))
"""Operations whose flexible operand is a float32."""

_KIND_ACCESS: dict[str, tuple[tuple[Access, ...], tuple[Access, ...]]] = {  # kind: (reads, writes)
  "vd": ((), (Access("v", "d"),)), "sd": ((), (Access("s", "d"),)), "pd": ((), (Access("p", "d"),)),
  "qd": ((), (Access("q", "d"),)), "qa": ((Access("q", "a"),), ()),
  "pm": ((Access("p", "d"),), (Access("p", "d"),)), "pa": ((Access("p", "a"),), ()), "vs": ((Access("v", "d"),), ()),
  "va": ((Access("v", "a"),), ()), "vb": ((Access("v", "b"),), ()), "vc": ((Access("v", "c"),), ()),
  "sa": ((Access("s", "a"),), ()), "sb": ((Access("s", "b"),), ()), "sc": ((Access("s", "c"),), ()),
  "b": ((), ()), "k": ((), ()), "imm": ((), ()), "to": ((), ()),  # b and k: by bkind, see encoding
  "mem": ((Access("s", "a"), Access("s", "x")), ()),
  "mem2": ((Access("s", "a"), Access("s", "x"), Access("s", "r"), Access("s", "c2")), ()),
  "memx": ((Access("s", "a"), Access("s", "x"), Access("v", "r")), ()),
  "dma": (tuple(Access("s", f) for f in ("c", "c2", "zv", "a", "r", "zh", "d", "x", "z")), ()),
}


def reads(op: Op, bkind: int = 2, masked: bool = False) -> tuple[Access, ...]:
  """Registers that `op` reads, given its `bkind` field (encoding.BKind) and whether it is masked (register in c)."""
  out = tuple(a for kind in op.operands for a in _KIND_ACCESS[kind][0])
  if ("b" in op.operands or "k" in op.operands) and bkind != 2:
    out += (Access("v" if bkind == 0 else "s", "b"),)
  return out + ((Access("v", "c"),) if masked and is_memory(op) else ())


def writes(op: Op) -> tuple[Access, ...]:
  """Registers that `op` writes."""
  return tuple(a for kind in op.operands for a in _KIND_ACCESS[kind][1])


def is_memory(op: Op) -> bool:
  """Whether `op` has a memory operand (and so an element type and a mask)."""
  return any(k in ("mem", "mem2", "memx") for k in op.operands)


def check_table(rows: list[Op] | None = None) -> None:
  """Check the table itself.

  Raises:
    ValueError: names, codes or references that clash, codes out of range, unknown slots, kinds or timings.
  """
  from . import timing
  rows = _ROWS if rows is None else rows
  seen: dict[object, str] = {}
  for op in rows:
    for key in (op.name, op.code):
      if key in seen:
        raise ValueError(f"{op.name}: {key!r} is taken by {seen[key]}")
      seen[key] = op.name
    if not 0 < op.code < 256:
      raise ValueError(f"{op.name}: code {op.code:#x} is not 1 to 255")
    if op.slot not in SLOTS and op.name != "nop":
      raise ValueError(f"{op.name}: unknown slot {op.slot!r}")
    if unknown := [k for k in op.operands if k not in _KIND_ACCESS]:
      raise ValueError(f"{op.name}: unknown operand kind {unknown[0]!r}")
    if op.timing and op.timing not in timing.CLASSES:
      raise ValueError(f"{op.name}: unknown timing {op.timing!r}")
    if bool(writes(op)) != bool(op.timing):
      raise ValueError(f"{op.name}: a result needs a latency, and no result none")


check_table()
