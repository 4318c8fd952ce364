"""Selections: parts of wide values by number, and how they come out as Verilog."""
from __future__ import annotations

import numpy as np
import pytest
from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tinytpu.rtl.select import part, tree
from tinytpu.rtl.verilate import UnitSim


class Selections(wiring.Component):
  """Words and pairs of a port, a register and a concatenation; a tree; and shifts that are no selections."""

  def __init__(self) -> None:
    super().__init__({"a": In(512), "i": In(4), "of_port": Out(32), "of_register": Out(64), "of_words": Out(32), "other": Out(32),
                      "of_tree": Out(32), "shifted": Out(512), "beyond": Out(32)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    register, words, sums = Signal(512), [self.a.word_select(k, 32) for k in range(16)], Signal(512)
    m.d.sync += register.eq(self.a)
    m.d.comb += [
      sums.eq(Cat(*((word + k)[:32] for k, word in enumerate(words)))), self.of_port.eq(part(self.a, self.i, 32)),
      self.of_register.eq(part(register, self.i[:3], 64)), self.of_words.eq(part(sums, self.i, 32)),
      self.other.eq(part(sums, ~self.i, 32)), self.of_tree.eq(tree(words, self.i)), self.shifted.eq(self.a >> Cat(Const(0, 5), self.i)),
      self.beyond.eq(self.a.bit_select(Cat(Const(0, 5), self.i, 1), 32))]
    return m


def test_selections():
  rng, n = np.random.default_rng(3), 200
  sim = UnitSim(Selections(), "Selections")
  a, i = rng.integers(0, 1 << 32, (n, 16), np.uint32), rng.integers(0, 16, n)
  out, rows = sim.run({"a": a, "i": i}), np.arange(n)
  for name in ("of_port", "of_tree"):
    np.testing.assert_array_equal(out[name], a[rows, i], err_msg=name)
  np.testing.assert_array_equal(out["of_register"][1:], a.view(np.uint64)[rows[:-1], i[1:] % 8])
  sums = a + np.arange(16, dtype=np.uint32)
  np.testing.assert_array_equal(out["of_words"], sums[rows, i])
  np.testing.assert_array_equal(out["other"], sums[rows, 15 - i])
  for row in range(n):
    np.testing.assert_array_equal(out["shifted"][row], [*a[row, i[row]:], *[0] * i[row]])
  assert not out["beyond"].any()
  assert sim.verilog.count("+: 32]") == 3 and sim.verilog.count("+: 64]") == 1  # the shifts are left alone


@pytest.mark.parametrize("width, bits", [(32, 3), (16, 4)])
def test_part_refuses(width, bits):
  with pytest.raises(ValueError, match=f"takes a value of {width << bits} bits, not 512"):
    part(Signal(512), Signal(bits), width)


def test_tree_refuses():
  with pytest.raises(ValueError, match="takes 4 values, not 3"):
    tree([Signal(8)] * 3, Signal(2))
