"""Where operations come from: in text, containers and linked programs, and what each of them refuses."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytpu.asm import ContainerError, Program, TasmError, assemble, disassemble
from tinytpu.asm.link import Call as Launch
from tinytpu.asm.link import link
from tinytpu.asm.origins import Call, Origin, Origins, tidy

TEXT = """.kernel k
.uop 0 LOAD float ; relu a b.py:3 ; add.backward <stdin>:4
.uop 1 ADD
.from 0 ; 0 1
  smov s1, 4 ; vmov v2, 5
loop:
  .from - ; 1
  nop ; halt
"""
WORDS = st.text(st.characters(exclude_categories=("C", "Z"), exclude_characters="#;"), min_size=1, max_size=9)
TEXTS = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
UOPS = st.lists(st.builds(Origin, TEXTS, st.lists(st.builds(Call, WORDS, TEXTS), max_size=3).map(tuple)), min_size=1, max_size=4)


@st.composite
def programs(draw: st.DrawFn) -> Program:
  words = draw(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=9))
  uops = draw(UOPS)
  numbers = [draw(st.sets(st.integers(0, len(uops) - 1))) for _ in words]
  return Program(np.array(words, np.uint64), origins=Origins(tuple(uops), tuple(tuple(sorted(n)) for n in numbers)))


@given(programs())
def test_containers_and_text_keep_them(program: Program) -> None:
  assert Program.from_bytes(program.to_bytes()).origins == program.origins
  assert replace(assemble(disassemble(program)), source=None) == program


def test_text() -> None:
  program = assemble(TEXT)
  assert program.origins == Origins(
    (Origin("LOAD float", (Call("relu", "a b.py:3"), Call("add.backward", "<stdin>:4"))), Origin("ADD")), ((0,), (0, 1), (), (1,)))
  assert program.origins.of(0, 2) == list(program.origins.uops) and program.origins.of(2, 1) == []
  dump = program.dump()
  assert "  0  LOAD float ; relu a b.py:3 ; add.backward <stdin>:4\n" in dump and "smov s1, 4 ; vmov v2, 5  # @0; from 0 ; 0 1\n" in dump
  plain = assemble("\n".join(line for line in TEXT.splitlines() if ".uop" not in line and ".from" not in line))
  assert plain.origins is None and plain.words.tolist() == program.words.tolist() and "UOps" not in plain.dump()


def test_padding_comes_from_nothing() -> None:
  program = assemble(".uop 0 A\n.from 0 ; 0 ; 0\nsmov s1, 1 ; vmov v1, 1 ; nop\n.from 0 ; 0\nsmov s1, 1 ; halt")
  assert program.origins is not None and program.origins.words == ((0,), (0,), (0,), (), (0,), (0,))


@pytest.mark.parametrize("text, message", [
  (".uop 1 x", "expected UOp 0, they are numbered from 0 on, found 1"), (".uop 0", "expected .uop N TEXT"),
  (".uop x y", "expected .uop N TEXT"), (".uop 0 x ; y", "expected METHOD WHERE, found 'y'"),
  (".uop 0 x ;", "expected METHOD WHERE, found nothing"), (".uop 0 " + "x" * 2000, "has 2000 bytes, at most 1023 fit"),
  (".uop 0 x\n.from 0 ; 0\nnop", "UOps of 2 operations, the next group has 1"), (".uop 0 x\n.from 1", "no .uop 1 stands before"),
  (".from x", "expected numbers of UOps"), (".from", "expected numbers of UOps"), (".from -\n.from -", "no group between two .from"),
  ("halt\n.from -", "no group after .from"),
])
def test_what_texts_cannot_say(text: str, message: str) -> None:
  with pytest.raises(TasmError, match=message):
    assemble(text if "halt" in text else text + "\nhalt")


@pytest.mark.parametrize("origins, message", [
  (Origins((), ((),)), "it names no UOp"), (Origins((Origin("a"),), ()), "operations of 0 words, the code has 1"),
  (Origins((Origin("a"),), ((1,),)), "word 0: UOps"), (Origins((Origin("a"), Origin("b")), ((1, 0),)), "word 0: UOps"),
  (Origins((Origin("a#"),), ((),)), "UOp 0: a text must be"), (Origins((Origin(" a"),), ((),)), "UOp 0: a text must be"),
  (Origins((Origin("a", (Call("a b", "c"),)),), ((),)), "UOp 0: a method is one word, not 'a b'"),
  (Origins(tuple(Origin(str(n)) for n in range(256)), (tuple(range(256)),)), "word 0: 256 UOps, at most 255 can be named"),
])
def test_what_no_container_can_hold(origins: Origins, message: str) -> None:
  with pytest.raises(ContainerError, match=f"section FROM: {message}"):
    Program(np.array([0], np.uint64), origins=origins).to_bytes()


def test_damage_is_named() -> None:
  data = Origins((Origin("ab", (Call("c", "d"),)),), ((0,),)).to_bytes()
  for end in range(len(data)):
    with pytest.raises(ContainerError, match="section FROM at offset .*: cut short"):
      Origins.from_bytes(data[:end], 1, 0)
  with pytest.raises(ContainerError, match=f"section FROM at offset {7 + len(data)}: 1 bytes too many"):
    Origins.from_bytes(data + b"x", 1, 7)
  with pytest.raises(ContainerError, match="not UTF-8"):
    Origins.from_bytes(data.replace(b"ab", b"\xff\xff"), 1, 0)


def test_linked_programs_keep_them() -> None:
  """Of both versions, of a program that is called twice, and of one that tells nothing."""
  both = assemble(".uop 0 A\n.uop 1 B\n.from 0\nvmov v1, 1\n.from 1\nhalt\n.direct\n.from 1\nvmov v2, 2\nhalt")
  other = assemble(".uop 0 C\n.from 0\nvmov v3, 3\nhalt")
  linked = link([Launch(both, []), Launch(assemble("vmov v4, 4\nhalt"), []), Launch(both, [], direct=True), Launch(other, [])])
  assert linked.origins is not None and [str(u) for u in linked.origins.uops] == ["A", "B", "C"]
  assert len(linked.origins.words) == len(linked.words)
  from tinytpu.asm.disassembler import group_at
  told = {group_at(linked.words, at): numbers for at, numbers in enumerate(linked.origins.words) if "vmov" in group_at(linked.words, at)}
  assert told == {"vmov v1, 1": (0,), "vmov v4, 4": (), "vmov v2, 2": (1,), "vmov v3, 3": (2,)}
  assert link([Launch(assemble("halt"), [])]).origins is None


def test_any_text_can_be_made_tidy() -> None:
  assert tidy(" a#b;c\n") == "a?b?c?" and tidy("") == tidy("  ") == "?" and len(tidy("é" * 1000).encode()) == 1022
