"""Scalar and vector ALU operations against numpy and Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.iss.reference import FLOAT, INTEGER, INTEGERS, NAN, SPECIALS, TRANSCENDENTAL, UNARY, WORDS, half_round, pairs, random_words
from tests.iss.support import IMM, SREG, VREG, W
from tinytpu.isa.instruction import ins
from tinytpu.isa.table import OPS

MILLION = 1_000_000
OTHER_V, OTHER_S = {"vsel", "vmov", "vlid", "vaxr"}, {"ssel", "scyc", "sldx", "sldep"}


def check(result: np.ndarray, expected: np.ndarray, *operands: np.ndarray) -> None:
  wrong = np.flatnonzero(result != expected)
  assert not wrong.size, (
    f"{len(wrong)} wrong, first: {[hex(o[wrong[0]]) for o in operands]} gave {result[wrong[0]]:#x}, not {expected[wrong[0]]:#x}"
  )


def test_every_operation_has_a_test():
  tested = {"v" + n for n in INTEGER} | WORDS.keys() | FLOAT.keys() | UNARY.keys() | TRANSCENDENTAL.keys() | OTHER_V
  assert tested == {op.name for op in OPS.values() if op.slot == "V"}
  assert {"s" + n for n in INTEGER} | OTHER_S == {op.name for op in OPS.values() if op.slot == "S"}


@pytest.mark.parametrize("name", [*("v" + name for name in INTEGER), *WORDS])
def test_integer(iss, name):
  rng = np.random.default_rng(1)
  reference = WORDS[name] if name in WORDS else INTEGER[name[1:]]
  n = 20_000 if OPS[name].timing == "DIV" else MILLION
  a, b = rng.integers(0, 1 << 32, (2, n), dtype=np.uint32)
  b = np.where(rng.random(n) < 0.5, b >> rng.integers(0, 32, n, dtype=np.uint32), b).astype(np.uint32)
  a, b = (np.concatenate(x) for x in zip(pairs(INTEGERS), (a, b), strict=True))
  check(iss.lanes(name, a, b), reference(a, b), a, b)


@pytest.mark.parametrize("swap", [False, True])
def test_half_round(iss, swap):
  a, b, c = np.random.default_rng(7).integers(0, 1 << 32, (3, MILLION), dtype=np.uint32)
  check(iss.lanes("vaxr", a, b, c, swap=swap), half_round(a, c, b) if swap else half_round(a, b, c), a, b, c)


def test_threefry(iss):
  """A round is vadd and vaxr: Threefry-2x32 of twenty rounds gives the published answers."""
  # Known answers of Random123: counter, key, result, 32-bit words, low ones first.
  cases = np.array([
    [0, 0, 0, 0, 0x6B200159, 0x99BA4EFE], [*[0xFFFFFFFF] * 4, 0x1CB996FC, 0xBB002BE7],
    [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xC4923A9C, 0x483DF7A0]], np.uint32)
  tiles = np.zeros((4, W), np.uint32)
  tiles[:, :len(cases)] = cases[:, :4].T
  iss.set_vregs(1, tiles)  # x0, x1, key0, key1
  v = {"bkind": VREG}
  keys = [3, 4, 5]
  groups = [[ins("vxor", d=5, a=3, b=4, **v)], [ins("vxor", d=5, a=5, imm=0x1BD11BDA)], [ins("vadd", d=1, a=1, b=3, **v)],
            [ins("vadd", d=2, a=2, b=4, **v)]]
  for block in range(5):
    for rotation in ((13, 15, 26, 6), (17, 29, 16, 24))[block % 2]:
      groups += [[ins("vadd", d=6, a=1, b=2, **v)], [ins("vaxr", d=2, a=2, imm=rotation, c=1)], [ins("vmov", d=1, b=6, **v)]]
    groups += [[ins("vadd", d=1, a=1, b=keys[(block + 1) % 3], **v)], [ins("vadd", d=2, a=2, b=keys[(block + 2) % 3], **v)],
               [ins("vadd", d=2, a=2, imm=block + 1)]]
  assert iss.run([*groups, [ins("halt")]]).fault is None
  assert (iss.state("vregs")[1:3, :len(cases)].T == cases[:, 4:]).all()


@pytest.mark.parametrize("name", FLOAT)
def test_float(iss, name):
  rng = np.random.default_rng(2)
  a, b = random_words(rng, MILLION), random_words(rng, MILLION)
  a, b = (np.concatenate(x) for x in zip(pairs(SPECIALS), (a, b), strict=True))
  with np.errstate(all="ignore"):
    expected = FLOAT[name](a, b)
  check(iss.lanes(name, a, b), expected, a, b)


@pytest.mark.parametrize("name", UNARY)
def test_unary(iss, name):
  a = np.concatenate([SPECIALS, INTEGERS, np.arange(1 << 16, dtype=np.uint32), random_words(np.random.default_rng(3), MILLION)])
  with np.errstate(all="ignore"):
    expected = UNARY[name](a)
  check(iss.lanes(name, a), expected, a)


@pytest.mark.parametrize("name", TRANSCENDENTAL)
def test_transcendental(iss, name):
  """Within one unit in the last place of double precision, specials exactly; tests/isa has the bounds, and the large arguments."""
  rng = np.random.default_rng(6)
  low, high = {"vfexp2": (-160, 140), "vflog2": (0, 1e6)}.get(name, (-1e4, 1e4))
  a = np.concatenate([SPECIALS, rng.uniform(low, high, MILLION).astype(np.float32).view(np.uint32)])
  with np.errstate(all="ignore"):
    exact = TRANSCENDENTAL[name](a.view(np.float32).astype(np.float64))
    nearest = exact.astype(np.float32)
    got = iss.lanes(name, a)
    special = ~np.isfinite(nearest) | (exact == 0)
    expected = np.where(special, np.where(np.isnan(nearest), NAN, nearest.view(np.uint32)), got)
    error = np.abs(got.view(np.float32) - exact) / np.spacing(np.abs(nearest)).astype(np.float64)
  check(got, expected, a)
  large = np.isin(name, ("vfsin", "vfcos")) & (np.abs(a.view(np.float32)) > 1e15)  # double precision does not reduce them better
  assert (~special & ~large).sum() > MILLION // 2 and error[~special & ~large].max() < 1


def test_products_are_rounded_before_sums(iss):
  """A fused multiply-add of these would differ: nothing contracts the simulator's multiplications and additions."""
  rng = np.random.default_rng(4)
  a, b, c = (rng.normal(0, 1, 160).astype(np.float32) for _ in range(3))
  product = iss.lanes("vfmul", a.view(np.uint32), b.view(np.uint32))
  result = iss.lanes("vfadd", product, c.view(np.uint32))
  fused = (a.astype(np.float64) * b + c).astype(np.float32)
  expected = a * b + c
  assert (fused != expected).any()
  check(result, expected.view(np.uint32))


@pytest.mark.parametrize("name", INTEGER)
def test_scalar(iss, name):
  a, b = pairs(INTEGERS)
  expected = INTEGER[name](a, b)
  groups = []
  for i in range(16):  # sixteen pairs per launch: all arguments
    groups += [[ins("s" + name, d=1 + i, a=32 + 2 * (i % 16), b=33 + 2 * (i % 16), bkind=SREG)]]
  for start in range(0, len(a), 16):
    args = np.stack([a[start : start + 16], b[start : start + 16]], 1).reshape(-1)
    assert iss.run([*groups, [ins("halt")]], [int(x) for x in args]).fault is None
    check(iss.state("sregs")[1:17], expected[start : start + 16], a[start : start + 16], b[start : start + 16])


def test_scalar_operand_forms(iss):
  assert iss.scalar("ssub", 7, 3) == 4
  assert iss.scalar("ssub", 7, 3, swap=True) == 0xFFFFFFFC
  assert iss.scalar("ssub", 7, 3, bkind=IMM, imm=10) == 0xFFFFFFFD
  assert iss.scalar("ssub", 7, 3, bkind=IMM, imm=10, swap=True) == 3
  assert iss.scalar("ssel", 2, 5, 9) == 5
  assert iss.scalar("ssel", 0, 5, 9) == 9
  assert iss.scalar("ssel", 2, 5, 9, swap=True) == 9
  assert iss.scalar("ssel", 0, 5, 9, swap=True) == 5


def test_s0_is_zero(iss):
  iss.run(
    [[ins("sadd", d=0, imm=5)], [ins("smul", d=0, a=32, imm=5)], [ins("xtos", d=0, a=1)], [ins("sadd", d=1, a=0, imm=1)], [ins("halt")]],
    [3],
  )
  assert list(iss.state("sregs")[:2]) == [0, 1]


def test_scyc_counts_from_launch(iss):
  iss.warm([[ins("scyc", d=1)], [ins("nop")], [ins("scyc", d=2)], [ins("halt")]])
  assert list(iss.state("sregs")[1:3]) == [1, 3]


def test_vector_operand_forms(iss):
  rng = np.random.default_rng(5)
  a, b, c = rng.integers(0, 100, (3, W), dtype=np.uint32)
  a[::3] = 0
  iss.set_vregs(1, np.stack([a, b, c]))
  iss.run([[ins("sadd", d=5, imm=77)], [ins("halt")]])
  u32 = np.uint32
  assert (iss.vector("vsub", a=1, b=2, bkind=VREG) == a - b).all()
  assert (iss.vector("vsub", a=1, b=2, bkind=VREG, swap=True) == b - a).all()
  assert (iss.vector("vsub", a=1, b=5, bkind=SREG) == a - u32(77)).all()
  assert (iss.vector("vsub", a=1, b=5, bkind=SREG, swap=True) == u32(77) - a).all()
  assert (iss.vector("vsub", a=1, imm=3, bkind=IMM, swap=True) == u32(3) - a).all()
  assert (iss.vector("vsel", a=1, b=2, c=3, bkind=VREG) == np.where(a != 0, b, c)).all()
  assert (iss.vector("vsel", a=1, b=2, c=3, bkind=VREG, swap=True) == np.where(a != 0, c, b)).all()
  assert (iss.vector("vsel", a=1, imm=9, c=3, bkind=IMM, swap=True) == np.where(a != 0, c, 9)).all()
  assert (iss.vector("vmov", b=2, bkind=VREG) == b).all()
  assert (iss.vector("vmov", b=5, bkind=SREG) == 77).all()
  assert (iss.vector("vmov", imm=-1, bkind=IMM) == 0xFFFFFFFF).all()
  assert (iss.vector("vlid") == np.arange(W)).all()


def test_groups_read_before_they_write(iss):
  """Swap of two registers in one group, and a scalar operation whose result another of its group must not see."""
  tiles = np.arange(2 * W, dtype=np.uint32).reshape(2, W)
  iss.set_vregs(1, tiles)
  iss.run([[ins("vmov", d=1, b=2, bkind=VREG), ins("xrot", d=2, a=1), ins("sadd", d=1, a=0, imm=5), ins("vld", d=3, a=1)], [ins("halt")]])
  assert (iss.state("vregs")[1:3] == tiles[::-1]).all()
