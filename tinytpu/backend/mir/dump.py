"""TINYTPU_DUMP=folder: how each kernel became a program, stage by stage, and what its launches took.

    folder/KERNEL-HASH/  0-uops.txt       tinygrad's linear UOps, as they reach the renderer
                         1-lowered.txt    machine IR on virtual registers (v%7), loops indented
                         2-pipelined.txt  after pipelining of matrix loops
                         3-staged.txt     with buffers in VMEM
                         4-allocated.txt  linear, on physical registers, spills included; `.direct`: the version in device memory
                         5-groups.txt     the TASM text: one issue group a line
                         6-encoded.txt    every word, disassembled
                         cycles.jsonl     one line a launch: cycles and event counters

HASH is of the encoded program. A kernel that is refused leaves the stages it reached in KERNEL-refused, and the error.
"""
from __future__ import annotations

import hashlib
import io
import json
import os
from contextlib import redirect_stdout
from pathlib import Path
from types import TracebackType

from tinygrad.uop.ops import UOp
from tinygrad.uop.render import print_uops

from ...asm.program import Program
from ...config import Config
from .ir import Code, Inst, Label, Loop
from .text import operation


def folder() -> Path | None:
  """Where to dump; None: nowhere."""
  return Path(name) if (name := os.environ.get("TINYTPU_DUMP")) else None


def _place(kernel: str, tag: str) -> Path:
  root = folder()
  assert root is not None
  place = root / f"{kernel}-{tag}"
  place.mkdir(parents=True, exist_ok=True)
  return place


def _tag(program: Program) -> str:
  return hashlib.sha256(program.code_bytes()).hexdigest()[:8]


def launched(program: Program, cycles: int, counters: dict[str, int]) -> None:
  """Note a launch, if dumping is on."""
  if folder() is not None:
    with (_place(program.name, _tag(program)) / "cycles.jsonl").open("a") as f:
      f.write(json.dumps({"cycles": cycles, **counters}) + "\n")


def tree(items: list[Inst | Loop], indent: str = "") -> list[str]:
  """Lines of a block of machine IR."""
  lines = []
  for item in items:
    if isinstance(item, Inst):
      lines.append(indent + operation(item))
      continue
    head = f"loop {item.counter} below {item.count}"
    if item.until is not None or item.given is not None:
      head = f"repeat while {item.until} != 0" if item.given is None else f"if {item.given} != 0"
    lines += [f"{indent}{head}:", *tree(item.body, indent + "  ")]
  return lines


class Dump:
  """Collects a kernel's stages and writes them when the `with` block ends. Costs nothing while dumping is off."""

  def __init__(self, kernel: str, config: Config):
    self.kernel, self.config, self.on = kernel, config, folder() is not None
    self.stages: list[tuple[str, str]] = []

  def __enter__(self) -> Dump:
    return self

  def uops(self, uops: list[UOp]) -> None:
    """tinygrad's UOps."""
    if self.on:
      out = io.StringIO()
      with redirect_stdout(out):
        print_uops(uops)
      self.stages.append(("0-uops.txt", out.getvalue()))

  def block(self, stage: str, items: list[Inst | Loop]) -> None:
    """Machine IR with its loops."""
    if self.on:
      self.stages.append((stage, "\n".join(tree(items)) + "\n"))

  def code(self, stage: str, *versions: Code) -> None:
    """Linear machine IR of a program's versions."""
    if self.on:
      texts = ["\n".join(f"{x.name}:" if isinstance(x, Label) else f"  {operation(x)}" for x in code.items) + "\n" for code in versions]
      self.stages.append((stage, ".direct\n".join(texts)))

  def text(self, text: str) -> None:
    """The TASM text."""
    if self.on:
      self.stages.append(("5-groups.txt", text))

  def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
    if not self.on:
      return
    if error is None:
      from ...asm import assemble, disassemble
      program = assemble(self.stages[-1][1], self.config)
      self.stages.append(("6-encoded.txt", disassemble(program.words)))
      place = _place(self.kernel, _tag(program))
    else:
      place = _place(self.kernel, "refused")
      self.stages.append(("error.txt", f"{type(error).__name__}: {error}\n"))
    for name, text in self.stages:
      (place / name).write_text(text)
