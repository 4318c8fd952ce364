"""Arithmetic of the simulator against numpy, bit for bit: `python -m bench.float_bits [--count N] [--seed S] [--all] [OPERATION ...]`.

Each operation, through the simulator's own dispatch, on all pairs of special values (zeros, subnormals, limits of every format,
infinities, NaNs) and on N random operands, 10^7 by default, of which many are subnormal, near to each other, near the ends of the
range or ties of rounding. Conversions to float16 and bfloat16 get all their ties and the neighbours of those as well, or with --all
all 2^32 inputs; from them, all 2^16. Exit code 1 if anything differs. Results go to bench/history.jsonl.
"""
from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

from tests.iss.reference import FLOAT, UNARY, s, u, word
from tests.rtl.conftest import Operands
from tinytpu.isa.table import OPS
from tinytpu.iss.lanes import INNER, vector
from tinytpu.iss.layout import INDEX

from .history import append

CHUNK = 1 << 18
Reference = Callable[..., np.ndarray]


def _quotients(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Quotient toward zero and remainder of int64 arrays; -1 and the dividend where b is zero."""
  divisor = np.where(b == 0, 1, b)
  quotient = np.abs(a) // np.abs(divisor) * np.where((a < 0) == (b < 0), 1, -1)
  return np.where(b == 0, -1, quotient), np.where(b == 0, a, a - quotient * divisor)


def _floored(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """The same rounded down."""
  divisor = np.where(b == 0, 1, b)
  return np.where(b == 0, -1, a // divisor), np.where(b == 0, a, a % divisor)


DIVISIONS: dict[str, Reference] = {
  "vdiv": lambda a, b: word(_quotients(s(a), s(b))[0]), "vrem": lambda a, b: word(_quotients(s(a), s(b))[1]),
  "vdivu": lambda a, b: word(_quotients(u(a), u(b))[0]), "vremu": lambda a, b: word(_quotients(u(a), u(b))[1]),
  "vfldiv": lambda a, b: word(_floored(s(a), s(b))[0]), "vflmod": lambda a, b: word(_floored(s(a), s(b))[1])}
ROUNDINGS = {"vf2h": 13, "vroundh": 13, "vf2b": 16, "vroundb": 16}
"""Conversions to sixteen bits, and the bits of a float32 that they drop (more where the result is subnormal)."""
UNARY_FLOATS = [name for name in UNARY if name.startswith(("vf", "vi2f", "vu2f", "vh2f", "vb2f", "vround"))]
OPERATIONS: dict[str, Reference] = FLOAT | {name: UNARY[name] for name in UNARY_FLOATS} | DIVISIONS


def simulate(name: str, *operands: np.ndarray) -> np.ndarray:
  """What the simulator makes of arrays of words (uint32, any length)."""
  n = len(operands[0])
  rows = np.zeros((3, -(-n // INNER) * INNER), np.uint32)
  for row, operand in zip(rows[1:], operands, strict=False):
    row[:n] = operand
  vector(rows, int(INDEX[OPS[name].code]), 0, 1, 2 if len(operands) > 1 else 1, 1, rows.shape[1] // INNER)
  return rows[0, :n]


def ties(dropped: int) -> np.ndarray:
  """All float32 words half-way between two that lack their `dropped` last bits, of subnormal results too, and both their neighbours."""
  middles = [np.arange(1 << (32 - dropped), dtype=np.uint32) << np.uint32(dropped) | np.uint32(1 << (dropped - 1))]
  if dropped == 13:  # float16: of results below 2^-14, bit by bit more is dropped
    for exponent in range(102, 113):
      more = 126 - exponent
      kept = np.arange(1 << max(23 - more, 0), dtype=np.uint32) << np.uint32(more) | np.uint32(1 << (more - 1))
      positive = np.uint32(exponent << 23) | kept & np.uint32(0x7FFFFF)
      middles += [positive, positive | np.uint32(1 << 31)]
  middle = np.concatenate(middles)
  return np.concatenate([middle, middle - np.uint32(1), middle + np.uint32(1)])


def operands_of(name: str, count: int, everything: bool, operands: Operands) -> Iterator[tuple[np.ndarray, ...]]:
  """What an operation is checked on, in pieces."""
  if name in ("vh2f", "vb2f"):
    yield (np.arange(1 << 16, dtype=np.uint32) | operands.raw(1 << 16) << np.uint32(16),)  # the upper half is ignored
    return
  if name in ROUNDINGS:
    if everything:
      for first in range(0, 1 << 32, CHUNK):
        yield (np.arange(first, first + CHUNK, dtype=np.int64).astype(np.uint32),)
      return
    yield (ties(ROUNDINGS[name]),)
  done = 0
  while done < count:
    if name in DIVISIONS:
      piece: tuple[np.ndarray, ...] = operands.integer_pairs(CHUNK)
    elif name in FLOAT:
      piece = operands.pairs(CHUNK // 2)
    elif name in ("vi2f", "vu2f"):
      piece = (operands.integer_pairs(CHUNK)[0],)
    else:
      piece = (operands.words(CHUNK),)
    yield piece
    done += len(piece[0])


def check(name: str, count: int, everything: bool, operands: Operands) -> tuple[int, int, str]:
  """Inputs checked, how many differ, and the first that does."""
  checked, wrong, first = 0, 0, ""
  with np.errstate(all="ignore"):
    for piece in operands_of(name, count, everything, operands):
      got, expected = simulate(name, *piece), OPERATIONS[name](*piece)
      bad = np.flatnonzero(got != expected)
      if len(bad) and not first:
        at = bad[0]
        first = f"{' '.join(f'{x[at]:08x}' for x in piece)}: {got[at]:08x}, not {expected[at]:08x}"
      checked, wrong = checked + len(got), wrong + len(bad)
  return checked, wrong, first


def main(arguments: list[str]) -> int:
  """Check the operations named, or all; the number of those that differ."""
  parser = argparse.ArgumentParser(prog="python -m bench.float_bits", description="Arithmetic of the simulator against numpy.")
  parser.add_argument("operations", nargs="*", metavar="OPERATION", help=f"of {', '.join(OPERATIONS)}")
  parser.add_argument("--count", type=int, default=10_000_000, help="random operands of each operation")
  parser.add_argument("--seed", type=int, default=None)
  parser.add_argument("--all", action="store_true", help="all 2^32 inputs of conversions to sixteen bits")
  options = parser.parse_args(arguments)
  if unknown := [n for n in options.operations if n not in OPERATIONS]:
    parser.error(f"no operation {unknown[0]!r}; there are: {', '.join(OPERATIONS)}")
  seed = int(np.random.SeedSequence().generate_state(1)[0]) if options.seed is None else options.seed
  console = Console()
  table = Table(title=f"Bits against numpy, seed {seed}")
  for column in ("operation", "inputs", "wrong", "seconds", "first that differs"):
    table.add_column(column, justify="left" if column.startswith(("operation", "first")) else "right")
  results: dict[str, object] = {"seed": seed}
  failed = 0
  for name in options.operations or OPERATIONS:
    started = time.perf_counter()
    checked, wrong, first = check(name, options.count, options.all, Operands(seed))
    table.add_row(name, f"{checked:,}", str(wrong), f"{time.perf_counter() - started:.1f}", first)
    results[name] = {"inputs": checked, "wrong": wrong}
    failed += wrong > 0
  console.print(table)
  append("float_bits", results)
  return failed


if __name__ == "__main__":
  sys.exit(min(main(sys.argv[1:]), 1))
