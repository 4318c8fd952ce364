"""Assembly text to a program: lines, labels, directives. One line is one issue group."""
from __future__ import annotations

import re

from ..config import PRESETS, Config
from ..isa.encoding import CHAIN
from ..isa.instruction import EncodeError, Instr, Label, Raw, lay_out, pack
from .errors import ParseError, TasmError
from .operands import parse_operation
from .program import Access, Arg, ArgKind, Buf, Program

_LABEL = re.compile(r"\s*([A-Za-z_$][\w.$]*)\s*:")
_DIRECTIVE = re.compile(r"\s*(\.[A-Za-z]+)\b")
DIRECTIVES = {".kernel": ".kernel NAME", ".arg": ".arg N buf K, .arg N var NAME, .arg N grid AXIS, .arg N vmem K or .arg N fill K",
              ".vmem": ".vmem BYTES", ".buf": ".buf K BYTES in, out or inout, and perhaps words", ".cycles": ".cycles FIRST DIRECT",
              ".direct": ".direct alone"}
_DIRECT = Label(".direct")  # no name that a text can give
ARG_REGISTERS = Config.SREGS - Config.ARG_BASE


def assemble(text: str, config: Config | None = None, *, file: str = "<tasm>", keep_source: bool = True) -> Program:
  """Assemble TASM text (grammar: docs/asm.md).

  Args:
    text: the program. config: machine that it is for (default: preset 4x4). file: name for error messages.
    keep_source: whether the program carries `text`.

  Raises:
    TasmError: any fault of the text, with file, line, column and what was expected.
  """
  return _Assembler(text, config or PRESETS["4x4"], file).run(keep_source)


class _Assembler:
  """State of one assembly: directives seen, groups, and where in the text each operation stands."""

  def __init__(self, text: str, config: Config, file: str):
    self.text, self.config, self.file = text, config, file
    self.lines = text.splitlines()
    self.name: str | None = None
    self.vmem: int | None = None
    self.bufs: dict[int, Buf] = {}
    self.cycles: tuple[int, int] | None = None
    self.args: dict[int, Arg] = {}
    self.groups: list[list[Instr | Raw] | Label] = []
    self.places: list[list[tuple[int, int, int]]] = []  # per group: (line, column, length) of each operation

  def run(self, keep_source: bool) -> Program:
    for number, line in enumerate(self.lines):
      self._line(number, line.split("#", 1)[0].rstrip())
    try:
      words = pack(self.groups)
    except EncodeError as error:
      places = self.places[error.group or 0]
      raise self._error(str(error), *places[min(error.position or 0, len(places) - 1)]) from None
    direct = lay_out(self.groups).labels[_DIRECT.name] if _DIRECT in self.groups else 0
    return Program(words, self.name or "kernel", tuple(self.args[n] for n in sorted(self.args)), self.vmem or 0, self.config.name,
                   self.text if keep_source else None, tuple(self.bufs[n] for n in sorted(self.bufs)), direct,
                   self.cycles if self.cycles and direct else (0, 0))

  def _error(self, message: str, line: int, column: int, length: int = 1) -> TasmError:
    return TasmError(message, self.file, line + 1, column + 1, self.lines[line], length)

  def _line(self, number: int, line: str) -> None:
    at = 0
    while match := _LABEL.match(line, at):
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
    self.groups.append(group)
    self.places.append(places)

  def _directive(self, number: int, line: str, match: re.Match[str]) -> None:
    name, words = match[1], line[match.end():].split()
    column = match.start(1)
    if name not in DIRECTIVES:
      raise self._error(f"unknown directive {name!r}: expected {', '.join(DIRECTIVES)} or .word", number, column, len(name))
    bad = self._error(f"expected {DIRECTIVES[name]}", number, column, len(line.strip()) if column == 0 else len(line) - column)
    if name == ".kernel":
      if len(words) != 1:
        raise bad
      if self.name is not None:
        raise self._error("second .kernel: one text is one program", number, column, len(name))
      self.name = words[0]
    elif name == ".vmem":
      if len(words) != 1 or not words[0].isdecimal():
        raise bad
      if (vmem := int(words[0])) > self.config.vmem_bytes:
        raise self._error(f"{vmem} bytes of VMEM asked for, {self.config.name} has {self.config.vmem_bytes}", number, column, len(name))
      self.vmem = vmem
    elif name == ".direct":
      if words:
        raise bad
      if _DIRECT in self.groups or not self.groups:
        raise self._error("second .direct" if self.groups else "no version before .direct", number, column, len(name))
      self.groups.append(_DIRECT)
      self.places.append([(number, column, len(name))])
    elif name == ".cycles":
      if len(words) != 2 or not all(w.isdecimal() for w in words):
        raise bad
      self.cycles = int(words[0]), int(words[1])
    elif name == ".buf":
      self._buf(number, column, len(line) - column, words, bad)
    else:
      kinds = {kind.name.lower(): kind for kind in ArgKind}
      if len(words) != 3 or not words[0].isdecimal() or words[1] not in kinds:
        raise bad
      self._arg(number, column, len(line) - column, int(words[0]), kinds[words[1]], words[2])

  def _buf(self, number: int, column: int, length: int, words: list[str], bad: TasmError) -> None:
    accesses = {access.name.lower(): access for access in Access}
    numeric = len(words) >= 3 and words[0].isdecimal() and words[1].isdecimal()
    if not numeric or words[2] not in accesses or words[3:] not in ([], ["words"]):
      raise bad
    if (buffer := int(words[0])) > 0xFFFF or int(words[1]) >= 1 << 32:
      raise self._error("expected a buffer number up to 65535 and bytes below 2^32", number, column, length)
    if buffer in self.bufs:
      raise self._error(f"buffer {buffer} is described twice", number, column, length)
    self.bufs[buffer] = Buf(buffer, int(words[1]), accesses[words[2]], len(words) == 4)

  def _arg(self, number: int, column: int, length: int, register: int, kind: ArgKind, value: str) -> None:
    if register >= ARG_REGISTERS:
      raise self._error(f"expected an argument register (0 to {ARG_REGISTERS - 1}), found {register}", number, column, length)
    if register in self.args:
      raise self._error(f"argument {register} is given twice", number, column, length)
    if kind != ArgKind.VAR and (not value.isdecimal() or int(value) > 0xFFFF):
      what = "grid axis" if kind == ArgKind.GRID else "buffer number"
      raise self._error(f"expected a {what} (0 to 65535), found {value!r}", number, column, length)
    self.args[register] = Arg(register, kind, value if kind == ArgKind.VAR else int(value))
