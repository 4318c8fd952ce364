"""Hostile files: `python -m bench.hostile [--n N] [--seed S] [--output FOLDER]`.

N mutations (5,000 by default) of containers, with the checksum repaired: each is refused with ContainerError, or is a program whose
container and whose disassembly, assembled, are the same bytes again. N mutated and random texts: each ends in a TasmError of three short,
printable lines, or in a program for which the same holds. Exit code 1 if any does not; the smallest input that fails is written.
"""
from __future__ import annotations

import argparse
import random
import struct
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tinytpu.asm import ContainerError, Program, TasmError, assemble, disassemble
from tinytpu.asm.assembler import DIRECTIVES
from tinytpu.isa.table import OPS

GOLDEN = Path(__file__).parents[1] / "tests" / "backend" / "golden"
TWO_WAYS = """.kernel two
.config 8x8
.arg 0 buf 0
.arg 1 vmem 0
.arg 2 fill 0
.arg 3 var n
.arg 4 grid 2
.buf 0 64 inout words
.buf 1 12 in
.cycles 7 9
.vmem 1024
again:
  smov s1, 5 ; vfadd v1, v2, 1.5 ; hld.w v3, [s32 + s1 - 4] ? v4
  bne s1, s2, again
  halt
.direct
  loop s35, done
  vld2.f16 v1, [s2 + s3 - 4 : s4, s5] ; nop
  lend
done:
  .word 0xffffffffffffff00
  halt
"""
_PIECES = [
  *DIRECTIVES, ".word", *OPS, "smov", "v1", "s0", "s63", "v64", "p15", "q3", "p16", "0x", "0b1", "1e400", "1e39", "1.5", *"-+@[]:;,?#",
  "\n", "\r\n", "\r", "\t", " ", "  ", "\x0c", "\u2028", "\x85", "\0", "\x1b[31m", "\ufeff", "\u0663", "\ud800", "\u202e", "inf", "nan",
  ".swap", ".w", ".u8", "in", "out", "inout", "words", "buf", "var", "grid", "vmem", "fill", "4x4", "8x8", "label:", "a" * 2000, "9" * 5000,
  "0" * 5000, str(1 << 64), str(1 << 32), "65536", "4294967295", "-2147483649", "[/bold]"]
T = TypeVar("T", bytes, str)


def texts() -> list[str]:
  """Programs that the backend made, and one with everything that a container holds."""
  programs = (".kernel " + part for path in sorted(GOLDEN.iterdir()) for part in path.read_text().split(".kernel ")[1:])
  return [TWO_WAYS, *(program for program in programs if len(program) < 3000)][:12]


def containers() -> list[bytes]:
  """The same assembled, with and without their source."""
  return [assemble(text, keep_source=keep).to_bytes() for text in texts() for keep in (False, True)]


# -- what must hold -------------------------------------------------------------------------------------
def container_fault(data: bytes) -> str:
  """What is wrong with how a container is treated; "" if nothing."""
  try:
    program = Program.from_bytes(data, "k.tpu")
  except ContainerError as error:
    return _line_fault(str(error))
  except Exception as error:
    return f"{type(error).__name__}: {error}"
  if program.to_bytes() != data:
    return "another container than the one read"
  return _text_fault(program)


def text_fault(text: str) -> str:
  """What is wrong with how a text is treated; "" if nothing."""
  try:
    program = assemble(text, file="k.tasm")
  except TasmError as error:
    lines = str(error).split("\n")
    where = 1 <= error.line <= len(text.split("\n")) and 1 <= error.column <= len(error.source) + 1
    return "not three lines" if len(lines) != 3 else "" if where else f"no such place: {error.line}:{error.column}"
  except Exception as error:
    return f"{type(error).__name__}: {error}"
  return container_fault(program.to_bytes())


def _line_fault(message: str) -> str:
  return "" if message.startswith("k.tpu: ") and message.isprintable() and len(message) < 700 else f"a bad message: {message[:200]!r}"


def _text_fault(program: Program) -> str:
  """The program's text, assembled, must give its container; the source within is its own affair."""
  try:
    again = assemble(disassemble(program))
  except TasmError as error:
    return f"its text is refused: {error}"
  same = replace(again, source=program.source).to_bytes() == program.to_bytes()
  return "" if same else "its text assembles to another container"


# -- mutations --------------------------------------------------------------------------------------------
def repaired(data: bytes) -> bytes:
  """A container with its checksum made right."""
  return data[:12] + struct.pack("<I", zlib.crc32(data[16:])) + data[16:] if len(data) >= 16 else data


def mutated(rng: random.Random, samples: list[bytes]) -> bytes:
  """One to four changes of a container: bits, bytes, splices of another, lengths, cuts, and sections moved, doubled or left out."""
  data = bytearray(rng.choice(samples))
  for _ in range(rng.choice((1, 1, 1, 2, 4))):
    kind, at = rng.randrange(8), rng.randrange(len(data) or 1)
    tags = [i for tag in (b"NAME", b"CONF", b"VMEM", b"ARGS", b"CODE", b"BUFS", b"WAYS", b"SRC ") if (i := data.find(tag)) >= 0]
    if rng.random() < .5:  # nearer to the records than to the code and the source, which are most of a container
      at = min(len(data) - 1, rng.choice(tags or [0]) + rng.randrange(24))
    if kind < 2:
      data[at:at + 1] = bytes([data[at] ^ 1 << rng.randrange(8)]) if data else b""
    elif kind == 2:
      data[at:at + 1] = bytes([rng.choice((0, 1, 10, 13, 32, 35, 127, 255, rng.randrange(256)))])
    elif kind == 3:
      other, size = rng.choice(samples), rng.randrange(1, 65)
      start = rng.randrange(len(other))
      data[at:at + rng.choice((0, size))] = other[start:start + size]
    elif kind == 4 and tags:
      start = rng.choice(tags) + 4
      data[start:start + 4] = struct.pack("<I", rng.choice((0, 1, 3, 7, 8, 9, 1 << 31, (1 << 32) - 1, rng.randrange(256))))
    elif kind == 5:
      del data[at:at + rng.choice((1, 8, 16, len(data)))]
    elif kind == 6 and len(tags) > 1:
      start, end = sorted(rng.sample(tags, 2))
      section = data[start:end]
      to = rng.choice([*tags, len(data)])
      if rng.random() < .5:
        del data[start:end]
      data[to:to] = section
      data[10:12] = struct.pack("<H", (data[10] + rng.choice((-1, 0, 1))) % 256)
    elif kind == 7:
      data[at:at] = bytes(rng.choice((1, 4, 8)))
  return repaired(bytes(data))


def random_text(rng: random.Random, samples: list[str]) -> str:
  """A text with one to six changes, or pieces of the language in any order."""
  if rng.random() < .3:
    return "".join(rng.choice(_PIECES) + rng.choice((" ", " ", "", ", ", "\n")) for _ in range(rng.randrange(12)))
  text = rng.choice(samples)
  for _ in range(rng.choice((1, 1, 2, 6))):
    lines = text.split("\n")
    at, row = rng.randrange(len(text) + 1), rng.randrange(len(lines))
    kind = rng.randrange(7)
    if kind == 0:
      text = text[:at] + rng.choice(_PIECES) + text[at:]
    elif kind == 1:
      text = text[:at] + rng.choice(_PIECES) + text[at + rng.randrange(1, 9):]
    elif kind == 2:
      text = text[:at] + text[at + rng.randrange(1, 9):]
    elif kind == 3:
      text = "\n".join(lines[:row] + rng.choice(samples).split("\n")[:3] + lines[row:])
    elif kind == 4:
      text = "\n".join(lines[:row] + lines[row + 1:])
    elif kind == 5:
      text = "\n".join([*lines[:row + 1], lines[row], *lines[row + 1:]])
    else:
      text = text[:at] + chr(rng.choice((rng.randrange(128), rng.randrange(0x110000)))) + text[at + 1:]
  return text


# -- runs -------------------------------------------------------------------------------------------------
def smallest(data: T, fault: Callable[[T], str]) -> T:
  """What is left of a failing input when everything is taken away without which it still fails."""
  size = len(data) // 2
  while size:
    at = 0
    while at < len(data):
      if fault(shorter := data[:at] + data[at + size:]):
        data = shorter
      else:
        at += size
    size //= 2
  return data


def failures(n: int, seed: int, told: Counter[str]) -> Iterator[tuple[str, int, bytes | str, str]]:
  """What fails among `n` containers and `n` texts: (what, its own seed, the smallest input, the fault). told: counts what happens."""
  packed, written = containers(), texts()
  for number in range(seed, seed + n):
    data = mutated(random.Random(f"container {number}"), packed)
    if container_fault(data):
      small = smallest(data, lambda d: container_fault(repaired(d)))
      yield "container", number, repaired(small), container_fault(repaired(small))
    told[f"containers {'refused' if _refused(data) else 'read'}"] += 1
    text = random_text(random.Random(f"text {number}"), written)
    if text_fault(text):
      small_text = smallest(text, text_fault)
      yield "text", number, small_text, text_fault(small_text)
    told[f"texts {'refused' if _refused(text) else 'assembled'}"] += 1


def _refused(what: bytes | str) -> bool:
  try:
    Program.from_bytes(what) if isinstance(what, bytes) else assemble(what)
    return False
  except Exception:
    return True


def main() -> None:
  """The command."""
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--n", type=int, default=5000, help="containers, and as many texts")
  parser.add_argument("--seed", type=int, default=0, help="seed of the first")
  parser.add_argument("--output", type=Path, default=Path(), help="folder for the smallest inputs that fail")
  options = parser.parse_args()
  counts: Counter[str] = Counter()
  failed = 0
  print(f"hostile: {options.n} containers and {options.n} texts, seeds {options.seed} to {options.seed + options.n - 1}")
  for what, seed, data, fault in failures(options.n, options.seed, counts):
    path = options.output / f"hostile-{seed}.{'tpu' if isinstance(data, bytes) else 'tasm'}"
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
    print(f"{what} {seed}: {fault}\n  smallest input: {path}, {len(data)} {'bytes' if isinstance(data, bytes) else 'characters'}")
    failed += 1
  print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())) + f"; {failed} treated wrongly")
  sys.exit(bool(failed))


if __name__ == "__main__":
  main()
