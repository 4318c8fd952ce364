"""The check of arithmetic in bench/, on few operands: it agrees, covers what it says, and sees one wrong bit."""
from __future__ import annotations

import numpy as np
import pytest

from bench import float_bits
from tests.rtl.conftest import SPECIALS, Operands
from tinytpu.isa.table import OPS


@pytest.mark.parametrize("name", float_bits.OPERATIONS)
def test_agrees(name):
  checked, wrong, first = float_bits.check(name, 1, False, Operands(1))
  assert (checked >= 1 << 16, wrong, first) == (True, 0, "")


def test_covers_the_float_operations_and_divisions():
  transcendental = {op.name for op in OPS.values() if op.timing == "TRANS"}
  wanted = {op.name for op in OPS.values() if op.slot == "V" and (op.name.startswith("vf") or op.timing in ("DIV", "FLOAT"))}
  assert wanted - transcendental <= float_bits.OPERATIONS.keys()


def test_pairs_of_special_values():
  a, b = next(float_bits.operands_of("vfadd", 1, False, Operands(1)))
  seen = set(zip(a.tolist(), b.tolist(), strict=True))
  assert all((x, y) in seen for x in SPECIALS.tolist() for y in SPECIALS.tolist())


@pytest.mark.parametrize(("name", "dropped", "kind"), [("vf2h", 13, np.float16), ("vf2b", 16, None)])
def test_ties(name, dropped, kind):
  """Every finite result of the format is the result of some tie or neighbour: a rounding that is off anywhere would show."""
  got = np.unique(float_bits.simulate(name, float_bits.ties(dropped)))
  words = np.arange(1 << 16, dtype=np.uint32)
  exponent = words >> 10 & 31 if kind else words >> 7 & 255
  finite = words[exponent != (31 if kind else 255)]
  assert np.isin(finite, got).all()


def test_one_wrong_bit_is_seen(monkeypatch):
  right = float_bits.OPERATIONS["vfmul"]

  def off(a, b):
    result = right(a, b).copy()
    result[777] ^= 1
    return result

  monkeypatch.setitem(float_bits.OPERATIONS, "vfmul", off)
  checked, wrong, first = float_bits.check("vfmul", 1, False, Operands(1))
  assert wrong == 1 and ", not " in first
