"""Assembly text to a program: lines, labels, directives. One line is one issue group."""
from __future__ import annotations

import re

from ..config import Config, ConfigError, preset
from ..isa.encoding import CHAIN
from ..isa.instruction import EncodeError, Instr, Label, Raw, lay_out, pack
from .errors import ParseError, TasmError, quote, shorten
from .lexer import decimal
from .names import character, name_fault
from .operands import MAX_LABEL, parse_operation
from .origins import MAX_PER_OPERATION, Origin, Origins, parse_from, parse_uop
from .program import Access, Arg, ArgKind, Buf, Program

_LABEL = re.compile(r"\s*([A-Za-z_$][\w.$]*)\s*:")
_DIRECTIVE = re.compile(r"\s*(\.[A-Za-z]+)\b")
DIRECTIVES = {".kernel": ".kernel NAME", ".config": ".config PRESET",
              ".arg": ".arg N buf K, .arg N var NAME, .arg N grid AXIS, .arg N vmem K or .arg N fill K",
              ".vmem": ".vmem BYTES", ".buf": ".buf K BYTES in, out or inout, and perhaps words", ".cycles": ".cycles FIRST DIRECT",
              ".direct": ".direct alone", ".uop": ".uop N TEXT, and perhaps ; METHOD WHERE",
              ".from": ".from NUMBERS ; ..., of each operation of the next group"}
_DIRECT = Label(".direct")  # no name that a text can give
ARG_REGISTERS = Config.SREGS - Config.ARG_BASE


def assemble(text: str, config: Config | None = None, *, file: str = "<tasm>", keep_source: bool = True) -> Program:
  """Assemble TASM text (grammar: docs/asm.md). A byte order mark at its start is left out.

  Args:
    text: the program. config: machine that it is for; None: the preset that its `.config` names, or 4x4.
    file: name for error messages. keep_source: whether the program carries `text`.

  Raises:
    TasmError: any fault of the text, with file, line, column and what was expected.
  """
  return _Assembler(text.removeprefix("\ufeff"), config, file).run(keep_source)


class _Assembler:
  """State of one assembly: directives seen, groups, and where in the text each operation stands."""

  def __init__(self, text: str, config: Config | None, file: str):
    self.text, self.asked, self.file = text, config, file
    self.config = config or Config()
    self.lines = [line.removesuffix("\r") for line in text.split("\n")]
    self.name: str | None = None
    self.vmem = 0
    self.bufs: dict[int, Buf] = {}
    self.cycles = (0, 0)
    self.args: dict[int, Arg] = {}
    self.groups: list[list[Instr | Raw] | Label] = []
    self.places: list[list[tuple[int, int, int]]] = []  # per group: (line, column, length) of each operation
    self.directives: dict[str, tuple[int, int, int]] = {}  # the place of each that is allowed once
    self.uops: list[Origin] = []
    self.origins: dict[int, list[tuple[int, ...]]] = {}  # by group
    self.waiting: tuple[list[tuple[int, ...]], tuple[int, int, int]] | None = None  # a .from whose group has not come, and its place

  def run(self, keep_source: bool) -> Program:
    for number, line in enumerate(self.lines):
      self._line(number, line)
    if self.vmem > self.config.vmem_bytes:
      raise self._error(f"{self.vmem} bytes of VMEM asked for, {self.config.name} has {self.config.vmem_bytes}",
                        *self.directives[".vmem"])
    if not any(isinstance(group, list) for group in self.groups):
      raise self._error("the text holds no operation: a program has at least one", len(self.lines) - 1, 0)
    try:
      words = pack(self.groups)
    except EncodeError as error:
      places = self.places[error.group or 0]
      raise self._error(str(error), *places[min(error.position or 0, len(places) - 1)]) from None
    self.layout = lay_out(self.groups)
    direct = self.layout.labels.get(_DIRECT.name, 0)
    if direct == len(words):
      raise self._error("no version after .direct", *self.directives[".direct"])
    if ".cycles" in self.directives and not direct:
      raise self._error(".cycles compares two versions, and .direct begins no second one", *self.directives[".cycles"])
    return Program(words, self.name or "kernel", tuple(self.args[n] for n in sorted(self.args)), self.vmem, self.config.name,
                   self.text if keep_source else None, tuple(self.bufs[n] for n in sorted(self.bufs)), direct, self.cycles,
                   self._origins(len(words)))

  def _origins(self, words: int) -> Origins | None:
    """Where the operations come from, if the text tells."""
    if self.waiting is not None:
      raise self._error("no group after .from", *self.waiting[1])
    if not self.uops:
      return None
    found: list[tuple[int, ...]] = [()] * words
    for group, numbers in self.origins.items():
      start = self.layout.starts[group]
      found[start:start + len(numbers)] = numbers
    return Origins(tuple(self.uops), tuple(found))

  def _error(self, message: str, line: int, column: int, length: int = 1) -> TasmError:
    return TasmError(message, self.file, line + 1, column + 1, self.lines[line], length)

  def _line(self, number: int, whole: str) -> None:
    if (at := next((i for i, c in enumerate(whole) if "\ud800" <= c <= "\udfff"), -1)) >= 0:
      raise self._error(f"{character(whole[at])} is half a character", number, at)
    line, at = whole.split("#", 1)[0].rstrip(" \t"), 0
    if not line.isprintable() and (bad := next((i for i, c in enumerate(line) if c != "\t" and not c.isprintable()), -1)) >= 0:
      raise self._error(f"{character(line[bad])} outside a comment: expected printable characters, spaces and tabs", number, bad)
    while match := _LABEL.match(line, at):
      if len(match[1]) > MAX_LABEL:
        raise self._error(f"expected a label of at most {MAX_LABEL} characters, found {quote(match[1])}", number, match.start(1))
      self.groups.append(Label(match[1]))
      self.places.append([(number, match.start(1), len(match[1]))])
      at = match.end()
    if not line[at:].strip():
      return
    directive = _DIRECTIVE.match(line, at)
    if directive and directive[1] != ".word":
      self._directive(number, line, directive)
    else:
      self._group(number, line, at)

  def _group(self, number: int, line: str, at: int) -> None:
    group: list[Instr | Raw] = []
    places = []
    for part in line[at:].split(";"):
      text = part.strip()
      column = at + len(part) - len(part.lstrip())
      if not text:
        raise self._error("expected an operation, found nothing", number, min(column, max(0, len(line) - 1)))
      try:
        group.append(parse_operation(text))
      except ParseError as error:
        raise self._error(str(error), number, column + error.column, error.length) from None
      places.append((number, column, len(text)))
      at += len(part) + 1
    for op, place in zip(group[:-1], places, strict=False):
      if isinstance(op, Raw) and not CHAIN.get(op.word):
        raise self._error("a word within a group needs its chain bit (bit 0) set", *place)
    if self.waiting is not None:
      numbers, place = self.waiting
      if len(numbers) != len(group):
        raise self._error(f"UOps of {len(numbers)} operations, the next group has {len(group)}", *place)
      self.origins[len(self.groups)], self.waiting = numbers, None
    self.groups.append(group)
    self.places.append(places)

  def _directive(self, number: int, line: str, match: re.Match[str]) -> None:
    name, words = match[1], line[match.end():].split()
    column = match.start(1)
    if name not in DIRECTIVES:
      raise self._error(f"unknown directive {quote(name)}: expected {', '.join(DIRECTIVES)} or .word", number, column, len(name))
    place = number, column, len(line) - column
    bad = self._error(f"expected {DIRECTIVES[name]}", *place)
    if name == ".arg":
      kinds = {kind.name.lower(): kind for kind in ArgKind}
      if len(words) != 3 or (register := decimal(words[0])) is None or words[1] not in kinds:
        raise bad
      return self._arg(place, register, kinds[words[1]], words[2])
    if name == ".buf":
      return self._buf(place, words, bad)
    if name in (".uop", ".from"):
      return self._origin(place, name, line[match.end():])
    if name in self.directives:
      raise self._error(f"second {name}: one text is one program", number, column, len(name))
    self.directives[name] = number, column, len(name)
    if len(words) != {".direct": 0, ".cycles": 2}.get(name, 1):
      raise bad
    if name == ".kernel":
      if fault := name_fault(words[0]):
        raise self._error(fault, *place)
      self.name = words[0]
    elif name == ".config":
      self._config(place, words[0])
    elif name == ".direct":
      if not any(isinstance(group, list) for group in self.groups):
        raise self._error("no version before .direct", number, column, len(name))
      self.groups.append(_DIRECT)
      self.places.append([(number, column, len(name))])
    else:
      numbers = [n for word in words if (n := decimal(word)) is not None]
      if len(numbers) != len(words):
        raise bad
      if max(numbers) >= 1 << 64:
        raise self._error(f"expected {DIRECTIVES[name]}, numbers below 2^64", *place)
      if name == ".vmem":
        self.vmem = numbers[0]
      else:
        self.cycles = numbers[0], numbers[1]

  def _config(self, place: tuple[int, int, int], name: str) -> None:
    try:
      named = preset(name)
    except ConfigError as error:
      raise self._error(str(error), *place) from None
    if self.asked and self.asked.name != name:
      raise self._error(f"the text is for preset {shorten(name)}, not {self.asked.name}", *place)
    self.config = self.asked or named

  def _buf(self, place: tuple[int, int, int], words: list[str], bad: TasmError) -> None:
    accesses = {access.name.lower(): access for access in Access}
    numbers = [decimal(word) for word in words[:2]]
    if len(words) < 3 or words[2] not in accesses or words[3:] not in ([], ["words"]):
      raise bad
    buffer, size = numbers
    if buffer is None or size is None:
      raise bad
    if buffer > 0xFFFF or size >= 1 << 32:
      raise self._error("expected a buffer number up to 65535 and bytes below 2^32", *place)
    if buffer in self.bufs:
      raise self._error(f"buffer {buffer} is described twice", *place)
    self.bufs[buffer] = Buf(buffer, size, accesses[words[2]], len(words) == 4)

  def _origin(self, place: tuple[int, int, int], name: str, text: str) -> None:
    try:
      if name == ".uop":
        number, uop = parse_uop(text)
        if number != len(self.uops):
          raise ValueError(f"expected UOp {len(self.uops)}, they are numbered from 0 on, found {shorten(str(number))}")
        return self.uops.append(uop)
      if self.waiting is not None:
        raise ValueError("no group between two .from")
      numbers = parse_from(text)
      if (unknown := max((n for part in numbers for n in part), default=-1)) >= len(self.uops):
        raise ValueError(f"no .uop {shorten(str(unknown))} stands before")
      if max(map(len, numbers)) > MAX_PER_OPERATION:
        raise ValueError(f"at most {MAX_PER_OPERATION} UOps of an operation can be named")
      self.waiting = numbers, place
    except ValueError as error:
      raise self._error(str(error), *place) from None

  def _arg(self, place: tuple[int, int, int], register: int, kind: ArgKind, word: str) -> None:
    if register >= ARG_REGISTERS:
      raise self._error(f"expected an argument register (0 to {ARG_REGISTERS - 1}), found {shorten(str(register))}", *place)
    if register in self.args:
      raise self._error(f"argument {register} is given twice", *place)
    value: str | int | None = word if kind == ArgKind.VAR else decimal(word)
    if kind == ArgKind.VAR and (fault := name_fault(word)):
      raise self._error(fault, *place)
    if value is None or isinstance(value, int) and value > 0xFFFF:
      what = "grid axis" if kind == ArgKind.GRID else "buffer number"
      raise self._error(f"expected a {what} (0 to 65535), found {quote(word)}", *place)
    self.args[register] = Arg(register, kind, value)
