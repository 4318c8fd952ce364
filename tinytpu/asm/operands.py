"""One operation's text to an instruction: the operand syntax of each kind in the ISA table."""
from __future__ import annotations

import re
from difflib import get_close_matches
from functools import lru_cache

from ..config import Config
from ..isa import encoding as enc
from ..isa.encoding import BKind, MemType
from ..isa.instruction import EncodeError, Instr, Raw, encode
from ..isa.table import FLOATS, OPS, Op, is_memory
from .errors import ParseError, quote, shorten
from .lexer import FLOAT_NAMES, SIGN, Token, float_bits, integer, is_float, tokenize

FILES = {"v": ("vector register", Config.VREGS), "s": ("scalar register", Config.SREGS), "p": ("PSUM bucket", Config.PSUMS),
         "q": ("predicate", Config.PREDICATES)}
TYPES = {t.name.lower(): t for t in MemType}
SWAP_SUFFIX = "swap"
MAX_LABEL = 255
"""Characters of a label's name."""
_REGISTER = re.compile(r"([vspq])([0-9]+)\Z")
REGISTER_FIELD = {"d": "d", "a": "a", "b": "b", "c": "c", "m": "d", "s": "d"}
"""Field of a register operand, by the second letter of its kind."""
FLEXIBLE = {"b": "vs", "k": "s"}
"""Files that a flexible operand of each kind may name."""

Value = tuple[str, int]  # ("v" | "s" | "p" | "q", number) or ("imm", bits)


class _Reader:
  """A cursor over the tokens of one operation."""

  def __init__(self, text: str):
    self.tokens, self.at = tokenize(text), 0

  @property
  def here(self) -> Token:
    return self.tokens[self.at]

  def next(self) -> Token:
    token = self.here
    self.at += token.kind != "end"
    return token

  def fail(self, expected: str, token: Token | None = None) -> ParseError:
    token = token or self.here
    found = quote(token.text) if token.kind != "end" else "the end of the operation"
    return ParseError(f"expected {expected}, found {found}", token.column, len(token.text) or 1)

  def accept(self, text: str) -> bool:
    if self.here.text != text:
      return False
    self.at += 1
    return True

  def expect(self, text: str, what: str = "") -> None:
    if not self.accept(text):
      raise self.fail(what or repr(text))

  def register(self, files: str) -> Value:
    """A register of one of `files` (letters).

    Raises:
      ParseError: something else, or a number out of range.
    """
    expected = " or ".join(f"a {FILES[f][0]} ({f}0 to {f}{FILES[f][1] - 1})" for f in files)
    token = self.here
    match = _REGISTER.match(token.text) if token.kind == "name" else None
    if match is None or match[1] not in files:
      raise self.fail(expected)
    if integer(match[2]) >= FILES[match[1]][1] or match[2] != str(integer(match[2])):
      raise self.fail(expected)
    self.at += 1
    return match[1], int(match[2])

  def number(self, floats: bool, what: str) -> int:
    """A literal as 32 bits: integers from -2^31 to 2^32 - 1 in two's complement; floats, if allowed, as float32."""
    start = self.here
    negative = self.accept("-")
    if not negative:
      self.accept("+")
    token = self.here
    text = ("-" if negative else "") + token.text
    if token.kind == "name" and token.text in FLOAT_NAMES and floats:
      self.at += 1
      return FLOAT_NAMES[token.text] | (SIGN if negative and token.text == "inf" else 0)
    if token.kind != "number" or is_float(token.text) and not floats:
      raise self.fail(what, token)
    self.at += 1
    length = token.column + len(token.text) - start.column
    if is_float(token.text):
      try:
        return float_bits(text)
      except OverflowError:
        infinity = "-inf" if negative else "inf"
        raise ParseError(f"{shorten(text)} does not fit float32; write {infinity} for infinity", start.column, length) from None
    value = -integer(token.text) if negative else integer(token.text)
    if not -(1 << 31) <= value < 1 << 32:
      raise ParseError(f"{shorten(text)} does not fit 32 bits: expected {-(1 << 31)} to {(1 << 32) - 1}", start.column, length)
    return value & 0xFFFFFFFF

  def flexible(self, files: str, op: Op) -> Value:
    """A register of one of `files`, or an immediate; of operations on floats a float or, in hexadecimal or binary, its bits."""
    start = self.here
    if start.kind == "name" and _REGISTER.match(start.text):
      return self.register(files)
    kinds = [f"a {FILES[f][0]}" for f in files] + ["an immediate"]
    bits = self.number(True, ", ".join(kinds[:-1]) + " or " + kinds[-1])
    last = self.tokens[self.at - 1]
    if op.name in FLOATS and bits and last.kind == "number" and last.text.isdecimal():
      length = last.column + len(last.text) - start.column
      number = ("-" if start.text == "-" else "") + last.text
      raise ParseError(f"{op.name} takes floats: write {shorten(number)}.0, or {bits:#x} if these bits are meant", start.column, length)
    return "imm", bits


@lru_cache(maxsize=1 << 16)
def parse_operation(text: str) -> Instr | Raw:
  """The instruction of one operation's text, such as "vadd v1, v2, 5". A branch to a label keeps it as `target`.

  Raises:
    ParseError: with column and length relative to `text`.
  """
  reader = _Reader(text)
  token = reader.next()
  if token.text == ".word":
    return _raw(reader)
  if token.kind != "name":
    raise reader.fail("an operation", token)
  name, _, suffix = token.text.partition(".")
  fields: dict[str, object]
  if name == "smov":
    op, fields = OPS["sadd"], {"a": 0, "d": reader.register("s")[1]}
    reader.expect(",")
    fields |= _flexible_fields(reader.flexible("s", op))
  elif name not in OPS:
    raise ParseError(f"unknown operation {quote(name)}{_nearest(name)}", token.column, len(token.text))
  else:
    op = OPS[name]
    fields = _suffix_fields(op, suffix, token)
    swap = bool(fields.pop("swap", False))
    fields |= _operands(reader, op, swap)
    suffix = ""
  if suffix:
    raise ParseError(f"{name} takes no suffix, found {quote(suffix)}", token.column, len(token.text))
  if reader.here.kind != "end":
    raise reader.fail("the end of the operation")
  instr = Instr(op, **fields)  # type: ignore[arg-type]
  try:
    encode(instr)
  except EncodeError as error:
    raise ParseError(str(error), 0, len(text)) from None
  return instr


def _raw(reader: _Reader) -> Raw:
  token = reader.here
  if token.kind != "number" or is_float(token.text):
    raise reader.fail("a 64-bit word")
  reader.next()
  if (word := integer(token.text)) >= 1 << 8 * enc.WORD_BYTES:
    raise ParseError(f"{shorten(token.text)} does not fit 64 bits", token.column, len(token.text))
  if reader.here.kind != "end":
    raise reader.fail("the end of the operation")
  return Raw(word)


def _suffix_fields(op: Op, suffix: str, token: Token) -> dict[str, object]:
  if is_memory(op):
    types = [name for name, mtype in TYPES.items() if mtype == MemType.W or not op.words_only]
    if suffix not in types:
      names = ", ".join(f"{op.name}.{t}" for t in types)
      found = quote(suffix) if suffix else "none"
      raise ParseError(f"{op.name} needs an element type ({names}), found {found}", token.column, len(token.text))
    return {"mtype": TYPES[suffix]}
  if suffix and not (suffix == SWAP_SUFFIX and op.swappable):
    raise ParseError(f"{op.name} takes no suffix, found {quote(suffix)}", token.column, len(token.text))
  return {"swap": bool(suffix)}


def _operands(reader: _Reader, op: Op, swap: bool) -> dict[str, object]:
  fields: dict[str, object] = {}
  pair = swap_pair(op)
  for position, kind in enumerate(op.operands):
    if pair and position == pair[1]:
      continue  # read along with its partner
    if position:
      reader.expect(",")
    if pair and position == pair[0]:
      fields |= _swappable(reader, op, op.operands[position:position + 2], swap)
    elif kind in ("b", "k"):
      fields |= _flexible_fields(reader.flexible(FLEXIBLE[kind], op))
    elif kind == "imm":
      fields["imm"] = reader.number(False, "an integer")
    elif kind == "to":
      fields |= _branch_target(reader)
    elif kind == "dma":
      fields |= _dma(reader)
    elif kind in ("mem", "mem2", "memx"):
      fields |= _memory(reader, kind)
    else:
      fields[REGISTER_FIELD[kind[1]]] = reader.register(kind[0])[1]
  return fields


def swap_pair(op: Op) -> tuple[int, int] | None:
  """Positions, in the text, of the two operands of `op` that field swap exchanges (neighbours), or None."""
  if not op.swappable:
    return None
  flexible = next(i for i, kind in enumerate(op.operands) if kind in FLEXIBLE)
  return (flexible, flexible + 1) if flexible + 1 < len(op.operands) else (flexible - 1, flexible)


def _swappable(reader: _Reader, op: Op, kinds: tuple[str, ...], swap: bool) -> dict[str, object]:
  """Two operands of which one is flexible and one must be a register. Text order is the order of meaning: where the flexible
  one does not stand in its place of the table, or the text says so, field swap is set."""
  fixed = next(i for i, kind in enumerate(kinds) if kind not in FLEXIBLE)
  files, file = FLEXIBLE[kinds[1 - fixed]], kinds[fixed][0]
  tokens, values = [], []
  for position in range(2):
    if position:
      reader.expect(",")
    tokens.append(reader.here)
    values.append(reader.flexible(files, op))
  swap = swap or values[fixed][0] != file
  at = 1 - fixed if swap else fixed
  if values[at][0] != file:
    raise reader.fail(f"a {FILES[file][0]} (of these two operands at least one is a {FILES[file][0]})", tokens[at])
  return {REGISTER_FIELD[kinds[fixed][1]]: values[at][1], "swap": swap} | _flexible_fields(values[1 - at])


def _flexible_fields(value: Value) -> dict[str, object]:
  if value[0] == "imm":
    return {"bkind": BKind.IMM, "imm": value[1]}
  return {"bkind": BKind.VREG if value[0] == "v" else BKind.SREG, "b": value[1]}


def _branch_target(reader: _Reader) -> dict[str, object]:
  if reader.accept("@"):
    return {"imm": reader.number(False, "a word index")}
  if reader.here.kind != "name":
    raise reader.fail("a label or @ and a word index")
  if len(reader.here.text) > MAX_LABEL:
    raise reader.fail(f"a label of at most {MAX_LABEL} characters")
  return {"target": reader.next().text}


def _scalar(reader: _Reader) -> int:
  return reader.register("s")[1]


def _memory(reader: _Reader, kind: str) -> dict[str, object]:
  """[base + x + offset], [base + x + offset : row, column] or [base + x + offset : index], then perhaps ? mask."""
  fields: dict[str, object] = {}
  reader.expect("[", "'[' and a memory operand")
  fields["a"] = _scalar(reader)
  if reader.here.text == "+" and reader.tokens[reader.at + 1].kind == "name":
    reader.next()
    fields["x"] = _scalar(reader)
  if reader.here.text in ("+", "-"):
    token = reader.here
    bits = reader.number(False, "an offset in elements")
    fields["off"] = off = bits - (1 << 32) if bits >> 31 and token.text == "-" else bits
    low, high = -(1 << enc.OFF.width - 1), (1 << enc.OFF.width - 1) - 1
    if not low <= off <= high:
      raise ParseError(f"offset {off} does not fit: expected {low} to {high} elements", token.column)
  if kind != "mem":
    reader.expect(":", "':' and two scalar registers (row and column pitch)" if kind == "mem2" else "':' and an index register")
    fields["r"] = _scalar(reader) if kind == "mem2" else reader.register("v")[1]
    if kind == "mem2":
      reader.expect(",")
      fields["c2"] = _scalar(reader)
  reader.expect("]")
  if reader.accept("?"):
    fields |= {"masked": True, "c": reader.register("v")[1]}
  return fields


def _dma(reader: _Reader) -> dict[str, object]:
  """[VMEM address : pitch], [HBM address : pitch], bytes per row, rows; with planes [VMEM address : row pitch, plane pitch],
  [HBM address : row pitch, plane pitch], bytes per row, rows, planes."""
  fields: dict[str, object] = {}
  planes: bool | None = None
  for base, pitch, plane, what in (("c", "c2", "zv", "VMEM"), ("a", "r", "zh", "HBM")):
    reader.expect("[", f"'[' and a {what} address and pitch")
    fields[base] = _scalar(reader)
    reader.expect(":", f"':' and the {what} pitch")
    fields[pitch] = _scalar(reader)
    planes = reader.here.text == "," if planes is None else planes
    if planes:
      reader.expect(",", f"',' and the {what} plane pitch")
      token = reader.here
      fields[plane] = number = _scalar(reader)
      if number > (highest := enc.FIELDS[plane].mask):
        raise reader.fail(f"one of s0 to s{highest} as the {what} plane pitch", token)
    reader.expect("]")
    reader.expect(",")
  fields["d"] = _scalar(reader)
  reader.expect(",")
  fields["x"] = _scalar(reader)
  if planes:
    reader.expect(",", "',' and the number of planes")
    fields["z"] = _scalar(reader)
  return fields


def _nearest(name: str) -> str:
  close = get_close_matches(name, OPS, n=3, cutoff=0.6) if len(name) < 20 else []  # its time grows with the square of the length
  return f"; nearest: {', '.join(close)}" if close else ""
