"""Linked programs do what they do one after the other: same memory, same predicates, whatever their arguments."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tinytpu.asm import assemble
from tinytpu.asm.link import Call, Spill, link
from tinytpu.config import preset
from tinytpu.machine import open_engine

CONFIG = preset("4x4")
ENTRY, TABLE, DATA = 0, 0x40004, 0x80000

# Adds s33 to the tile at s32, s34 times, with a loop, a branch and a predicate that is left set.
ADDS = """.kernel adds
.arg 0 buf 0
.arg 1 var step
.arg 2 var times
  beq s34, s0, done
  hld.w v1, [s32 + s0]
  bp q1, wrong
  loop s34, out
  vadd v1, v1, s33 ; lend
out:
  pset0 q1, s0
  hst.w v1, [s32 + s0] ; halt
wrong:
  trap 9
done:
  halt
"""
# Doubles the tile at s32. Its one word after a full packet checks the filling of packets.
TWICE = """.kernel twice
.arg 0 buf 0
  hld.w v1, [s32 + s0]
  vadd v1, v1, v1
  hst.w v1, [s32 + s0]
  nop
  halt
"""


def run(words: list[np.ndarray], args: list[list[int]], kind: str = "iss", table: Sequence[int] = ()) -> tuple[np.ndarray, list[int]]:
  engine = open_engine(CONFIG, kind)
  engine.hbm[DATA:DATA + 64].view(np.uint32)[:] = np.arange(16)
  engine.hbm[TABLE:TABLE + 4 * len(table)].view(np.uint32)[:] = table
  cycles = []
  for code, values in zip(words, args, strict=True):
    data = code.astype("<u8").tobytes()
    engine.hbm[ENTRY:ENTRY + len(data)] = np.frombuffer(data, np.uint8)
    result = engine.launch(ENTRY, values, invalidate=True, limit=100_000)
    assert result.fault is None, result.fault
    cycles.append(result.cycles)
  memory = engine.hbm[DATA:DATA + 64].view(np.uint32).copy()
  engine.close()
  return memory, cycles


CALLS = [(ADDS, [DATA, 3, 2]), (TWICE, [DATA]), (ADDS, [DATA, -1, 5]), (ADDS, [DATA, 1 << 31, 0]), (TWICE, [DATA]), (ADDS, [DATA, 7, 1])]


@pytest.mark.parametrize("kind", ["iss", "rtl"])
def test_linked_programs_do_the_same(kind: str) -> None:
  programs = [(assemble(text, CONFIG), values) for text, values in CALLS]
  apart, cycles = run([p.words for p, _ in programs], [v for _, v in programs], kind)
  want = ((np.arange(16) + 6) * 2 - 5) * 2 + 7
  np.testing.assert_array_equal(apart, want)
  together, one = run([link([Call(*p) for p in programs]).words], [[]], kind)
  np.testing.assert_array_equal(together, want)
  assert one[0] < sum(cycles)


def test_arguments_from_a_table() -> None:
  program = assemble(ADDS, CONFIG)
  linked = link([Call(program, values) for values in ([DATA, 1, 1], [DATA, None, None], [None, 2, None])], TABLE)
  assert linked.cells == [(1, 1), (1, 2), (2, 0), (2, 2)]
  for table, total in (([10, 3, DATA, 1], 1 + 30 + 2), ([7, 1, DATA, 4], 1 + 7 + 8)):
    memory, _ = run([linked.words], [[]], table=table)
    np.testing.assert_array_equal(memory, np.arange(16) + total)


def test_more_arguments_than_a_tile_holds() -> None:
  sums = assemble(".kernel sums\n" + "\n".join(f".arg {n} var v{n}" for n in range(32)) + "\nsadd s1, s0, 0\n"
                  + "\n".join(f"sadd s1, s1, s{32 + n}" for n in range(1, 32)) + "\nvmov v1, s1\nhst.w v1, [s32 + s0]\nhalt", CONFIG)
  values = [n * n + 1 for n in range(1, 32)]
  memory, _ = run([link([Call(sums, [None] * 32)], TABLE).words], [[]], table=[DATA, *values])
  np.testing.assert_array_equal(memory, np.full(16, sum(values)))


def test_a_place_belongs_to_a_call() -> None:
  linked = link([Call(assemble(text, CONFIG), values) for text, values in CALLS])
  assert [linked.call_at(start) for start in linked.starts] == list(range(len(CALLS)))
  assert [linked.call_at(start - 1) for start in linked.starts[1:]] == list(range(len(CALLS) - 1))


def test_presets_do_not_mix() -> None:
  with pytest.raises(ValueError, match="not of none"):
    link([])


# Two versions, each with a branch of its own: the first adds 1, the second, which does not start a packet, 100.
WAYS = """.kernel ways
.arg 0 buf 0
.buf 0 64 inout
.cycles 40 50
  hld.w v1, [s32 + s0]
  jmp one
  trap 1
one:
  vadd v1, v1, 1
  hst.w v1, [s32 + s0] ; halt
.direct
  hld.w v1, [s32 + s0]
  jmp two
  trap 2
two:
  vadd v1, v1, 100
  hst.w v1, [s32 + s0] ; halt
"""


@pytest.mark.parametrize("kind", ["iss", "rtl"])
@pytest.mark.parametrize("ways", [[True], [False, True, True, False], [True, False, True]])
def test_either_version(kind: str, ways: list[bool]) -> None:
  program = assemble(WAYS, CONFIG)
  assert program.direct % 4, "it should start within a packet"
  memory, _ = run([link([Call(program, [DATA], direct) for direct in ways]).words], [[]], kind)
  np.testing.assert_array_equal(memory, np.arange(16) + sum(100 if direct else 1 for direct in ways))


@pytest.mark.parametrize("kind", ["iss", "rtl"])
def test_spills_come_after_the_call_before(kind: str) -> None:
  """What a call left in VMEM is in device memory when the next one reads it there."""
  keep = assemble(".kernel keep\n.arg 0 buf 0\nhld.w v1, [s32 + s0]\nvadd v1, v1, 5\nvadd v2, v1, 5\n"
                  "vst.w v1, [s0 + s0 + 64]\nvst.w v2, [s0 + s0 + 80]\nhalt", CONFIG)
  spills = [Spill(320, DATA, 32), Spill(256 + 32, DATA + 32, 32)]
  linked = link([Call(keep, [DATA]), Call(assemble(TWICE, CONFIG), [DATA], spills=spills)])
  memory, _ = run([linked.words], [[]], kind)
  want = np.arange(16) + np.where(np.arange(16) < 8, 10, 5)
  np.testing.assert_array_equal(memory, want * 2)
