"""Decode: every operation in its slot, group extent, and every way of being illegal."""
from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tinytpu.isa import encoding as enc
from tinytpu.isa.instruction import Instr, Raw, encode, ins
from tinytpu.isa.table import BY_CODE, OPS, SLOTS
from tinytpu.rtl.decode import Decode
from tinytpu.rtl.verilate import UnitSim, lint

HALT = encode(ins("halt"))


@pytest.fixture(scope="module")
def unit() -> UnitSim:
  return UnitSim(Decode(), "Decode")


def run(unit: UnitSim, packets: list[list[int]], offsets: list[int] | int = 0) -> dict[str, np.ndarray]:
  """Decode packets of up to four words (the rest is halt), one per cycle."""
  words = np.array([p + [HALT] * (4 - len(p)) for p in packets], np.uint64)
  return unit.run({"packet": words.view(np.uint32), "offset": np.broadcast_to(offsets, len(packets))})


def chained(*operations: Instr | Raw) -> list[int]:
  last = len(operations) - 1
  return [encode(op, i < last) if isinstance(op, Instr) else op.word | (i < last) for i, op in enumerate(operations)]


def test_every_operation_alone(unit):
  """Each goes to its slot whole; nothing else is in the group; it takes one word and is legal."""
  ops = list(OPS.values())
  words = [encode(Instr(op, d=1, a=2, c=3)) for op in ops]
  out = run(unit, [[word] for word in words])
  for slot in SLOTS:
    assert out[f"group__{slot}__valid"].tolist() == [op.slot == slot for op in ops]
    for i, op in enumerate(ops):
      if op.slot == slot:
        assert out[f"group__{slot}__word"][i] == words[i], op.name
  assert not out["group__illegal"].any() and (out["group__length"] == 1).all()


def test_unknown_codes(unit):
  codes = [code for code in range(256) if code not in BY_CODE]
  assert run(unit, [[enc.CODE.put(code)] for code in codes])["group__illegal"].all()


def test_extent(unit):
  """All offsets and chain bits: length, and a chain across the packet's end."""
  cases = list(product(range(4), range(16)))
  nop = OPS["nop"].code << enc.CODE.lsb
  out = run(unit, [[nop | (chains >> i & 1) for i in range(4)] for _, chains in cases], [offset for offset, _ in cases])
  for i, (offset, chains) in enumerate(cases):
    end = next((j for j in range(offset, 4) if not chains >> j & 1), None)
    assert out["group__illegal"][i] == (end is None)
    if end is not None:
      assert out["group__length"][i] == end - offset + 1


def test_full_groups_at_every_place(unit):
  """Four operations of different slots, in every order and from every offset, are found in their slots."""
  rng = np.random.default_rng(3)
  pool = [ins("sadd", d=1, a=2, imm=7), ins("vadd", d=1, a=2, imm=8), ins("xtr", d=2, a=3), ins("vld", d=3, a=4), ins("vst", d=4, a=5),
          ins("jmp", imm=9), ins("nop")]
  groups, offsets = [], []
  for _ in range(200):
    offset = int(rng.integers(4))
    picked = [pool[i] for i in rng.permutation(len(pool))[:4 - offset]]
    groups.append(picked)
    offsets.append(offset)
  out = run(unit, [[HALT | 1] * offset + chained(*g) for g, offset in zip(groups, offsets, strict=True)], offsets)
  assert not out["group__illegal"].any()
  for i, g in enumerate(groups):
    for slot in SLOTS:
      mine = [op for op in g if op.op.slot == slot]
      assert out[f"group__{slot}__valid"][i] == len(mine)
      if mine:
        assert out[f"group__{slot}__word"][i] & ~np.uint64(1) == encode(mine[0])


LEGAL = [
  [ins("vadd", d=1, imm=0), ins("xtr", d=2), ins("vld", d=3), ins("hld", d=4)],
  [ins("sadd", d=1, imm=0), ins("vadd", d=1, imm=0)],                       # one number, two files
  [ins("sadd", d=1, imm=0), ins("xtos", d=2, imm=0)],
  [ins("vadd", d=1, imm=0), ins("vst", d=1), ins("mmf", d=1)],              # only one of them writes v1
  [ins("nop"), ins("nop"), ins("nop"), ins("nop")],
  [ins("vadd", d=1, bkind=enc.BKind.VREG), ins("sadd", d=1, bkind=enc.BKind.SREG)],
  [Raw(encode(ins("xtr", d=1, a=2)) | enc.BKIND.put(3))],                    # unused fields are ignored
  [Raw(encode(ins("jmp")) | enc.DTYPE.put(15))],
]
ILLEGAL = [
  [ins("sadd", d=1, imm=0), ins("ssub", d=2, imm=0)],                       # one slot twice
  [ins("halt"), ins("nop"), ins("jmp")],
  [ins("vst"), ins("dmai")],
  [ins("vadd", d=9, imm=0), ins("xtr", d=9)],                               # one register written twice
  [ins("vld", d=9), ins("hld", d=9)],
  [ins("ppop", d=63), ins("vld", d=63)],
  [ins("sadd", d=5, imm=0), ins("xany", d=5)],
  [Raw(encode(ins("vadd", d=1, imm=0)) | enc.BKIND.put(3))],
  [Raw(encode(ins("sadd", d=1, imm=0)) & ~enc.BKIND.put(3))],               # a vector as operand k
  [Raw(encode(ins("xrot", d=1, imm=0)) & ~enc.BKIND.put(3))],
  [Raw(encode(ins("vld", d=1)) | enc.DTYPE.put(7))],
  [Raw(encode(ins("hst2", d=1)) | enc.DTYPE.put(15))],
  [ins("nop"), Raw(0)],
]


def test_legal_groups(unit):
  assert run(unit, [chained(*g) for g in LEGAL])["group__illegal"].tolist() == [0] * len(LEGAL)


def test_illegal_groups(unit):
  assert run(unit, [chained(*g) for g in ILLEGAL])["group__illegal"].tolist() == [1] * len(ILLEGAL)


def test_all_element_types(unit):
  words = [encode(ins("vldx", d=1)) & ~enc.DTYPE.put(15) | enc.DTYPE.put(t) for t in range(16)]
  assert run(unit, [[w] for w in words])["group__illegal"].tolist() == [t > max(enc.MemType) for t in range(16)]


def test_lint(unit):
  assert lint(unit.verilog, "Decode") == []
