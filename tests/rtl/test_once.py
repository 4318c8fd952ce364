"""Modules generated once: one text, as many instances as placed, each with its own state, in its own domains."""
from __future__ import annotations

import re

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from tinytpu.rtl.once import VerilogPlatform, place
from tinytpu.rtl.verilate import UnitSim


class Sum(wiring.Component):
  """total += x every cycle, with one register more in domain `slow`."""

  def __init__(self) -> None:
    super().__init__({"x": In(8), "total": Out(16), "last": Out(8)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    m.d.sync += self.total.eq(self.total + self.x)
    m.d.slow += self.last.eq(self.x)
    return m


class Three(wiring.Component):
  """Three sums of different inputs."""

  def __init__(self) -> None:
    super().__init__({"x": In(8), "slow_enable": Out(1)} | {f"{name}{n}": Out(16) for n in range(3) for name in ("total", "last")})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    m.d.comb += self.slow_enable.eq(self.x[0])
    for n in range(3):
      part = place(m, platform, f"sum{n}", "sum", Sum)
      m.d.comb += [part.x.eq(self.x + n), getattr(self, f"total{n}").eq(part.total), getattr(self, f"last{n}").eq(part.last)]
    return m


def expected(x: np.ndarray) -> dict[str, np.ndarray]:
  """Outputs before each edge, with `slow` ticking after odd x only."""
  outputs = {}
  for n in range(3):
    y = (x + n) % 256
    outputs[f"total{n}"] = np.concatenate([[0], np.cumsum(y)[:-1]]) % 2**16
    last = [0]
    for value, odd in zip(y, x % 2, strict=True):
      last.append(int(value) if odd else last[-1])
    outputs[f"last{n}"] = np.array(last[:-1])
  return outputs


def test_verilog():
  x = np.random.default_rng(1).integers(0, 256, 500)
  sim = UnitSim(Three(), "Three", gated=["slow"])
  assert re.findall(r"^module \\?([\w.]+)", sim.verilog, flags=re.M) == ["Three", "Three.sum"]
  assert re.findall(r"^  \\Three.sum +(\w+)", sim.verilog, flags=re.M) == ["sum0", "sum1", "sum2"]
  out = sim.run({"x": x})
  for name, values in expected(x).items():
    np.testing.assert_array_equal(out[name], values, err_msg=name)


def test_plain_submodule_elsewhere():
  """In Amaranth's own simulator the components themselves are the submodules."""
  x = np.random.default_rng(2).integers(0, 256, 50)
  top = Three()
  totals = {name: values for name, values in expected(x).items() if name.startswith("total")}
  seen: dict[str, list[int]] = {name: [] for name in totals}

  async def bench(ctx):
    for value in x:
      ctx.set(top.x, int(value))
      for name in totals:
        seen[name].append(ctx.get(getattr(top, name)))
      await ctx.tick()

  sim = Simulator(top)
  sim.add_clock(1e-6)
  sim.add_clock(1e-6, domain="slow")
  sim.add_testbench(bench)
  sim.run()
  assert seen == {name: values.tolist() for name, values in totals.items()}


class Constant(wiring.Component):
  """o = value."""

  def __init__(self, value: int) -> None:
    self.value = value
    super().__init__({"o": Out(8)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    m.d.comb += self.o.eq(self.value)
    return m


@pytest.mark.parametrize("make,args,message", [
  (Constant, (4,), r"two components share the label 'c': Constant\(3\) and Constant\(4\); give one of them another label"),
  (lambda: Constant(3), (), r"share the label 'c': Constant\(3\) and .*<lambda>\(\)"),
])
def test_two_components_under_one_label(make, args, message):
  platform = VerilogPlatform("Pair")
  name, component, ports = platform.module("c", Constant, (3,))
  with pytest.raises(ValueError, match=message):
    platform.module("c", make, args)
  assert platform.module("c", Constant, (3,)) == (name, component, ports) and ports == ["o"]
  assert platform.module("d", Constant, (4,))[0] != name and platform.texts.keys() == {"c", "d"}
