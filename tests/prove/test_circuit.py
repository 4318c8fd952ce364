"""Terms mean what Amaranth's simulator does: the same component, the same inputs, cycle after cycle."""
from __future__ import annotations

import random
from typing import Any

import pytest
from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from tinytpu.config import preset
from tinytpu.prove.circuit import Circuit, deep
from tinytpu.prove.proof import _Solver
from tinytpu.prove.terms import Terms
from tinytpu.rtl.axi_lite import AxiLite
from tinytpu.rtl.conflict import BankSchedule
from tinytpu.rtl.decode import Decode
from tinytpu.rtl.dma import DmaEngine
from tinytpu.rtl.fetch import Fetch
from tinytpu.rtl.float_add import FAdd32
from tinytpu.rtl.float_convert import FConvert32
from tinytpu.rtl.float_mul import FMul32
from tinytpu.rtl.issue import Issue


class Everything(wiring.Component):
  """Each kind of cell and operator, signed and unsigned, on operands of several widths."""

  def __init__(self) -> None:
    super().__init__({"a": In(7), "b": In(7), "n": In(3), "o": Out(200)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    a, b, n, x, y = self.a, self.b, self.n, self.a.as_signed(), self.b.as_signed()
    m.submodules.memory = memory = Memory(shape=8, depth=8, init=range(8))
    write, read, through = memory.write_port(granularity=4), memory.read_port(), memory.read_port(domain="comb")
    shown = memory.read_port(transparent_for=(write,))
    m.submodules.table = table = Memory(shape=5, depth=6, init=[3, 1, 4, 1, 5, 9])
    fixed = table.read_port(domain="comb")
    m.d.comb += [write.addr.eq(n), write.data.eq(self.a + self.b), write.en.eq(b[:2]), read.addr.eq(b), read.en.eq(a[0]),
      through.addr.eq(a),
                 shown.addr.eq(n), shown.en.eq(a[1]), fixed.addr.eq(Mux(n < 6, n, 0))]
    count, matched, switched = Signal(9, init=5), Signal(), Signal(6)
    m.d.sync += count.eq(count + x)
    with m.If(a.matches("1--0-1-", 3)):
      m.d.sync += matched.eq(~matched)
    with m.Switch(n):
      with m.Case(0, 5):
        m.d.comb += switched.eq(a)
      with m.Case("1-0"):
        m.d.comb += switched[2:5].eq(b)
        with m.If(a[3]):
          m.d.comb += switched[0].eq(1)
      with m.Default():
        m.d.comb += switched.eq(33)
    values = [a + b, a - b, x * y, a & b, a | b, a ^ b, ~a, -x, (x >> n), (a >> n), (a << n)[:9], x < y, a <= b, x > b, a >= y, a == b,
      x != y,
              Mux(a[0], x, b), a.any(), a.all(), a.xor(), a.bit_select(n, 4), a.word_select(n[:2], 3), count, matched, switched, read.data,
              through.data, shown.data, fixed.data]
    position = 0
    for value in values:
      m.d.comb += self.o[position:position + len(value)].eq(value)
      position += len(value)
    assert position <= 200
    return m


UNITS = {
  "everything": Everything, "float_add": FAdd32, "float_mul": FMul32, "float_convert": FConvert32, "issue": Issue, "axi_lite": AxiLite,
  "decode": Decode,
  "banks": lambda: BankSchedule(preset("4x4,vector_lanes=4")),
  "fetch": lambda: Fetch(preset("4x4,hbm_latency=4,ibuf_blocks=2,ibuf_block_lines=1,vector_lanes=8")),
  "dma": lambda: DmaEngine(preset("4x4,hbm_latency=4,vector_lanes=4"), False)}


def simulated(component: wiring.Component, inputs: list[dict[str, int]]) -> list[dict[str, int]]:
  """All outputs in every cycle, from the first state on."""
  ports = {"__".join(map(str, path)): (member.flow, value) for path, member, value in component.signature.flatten(component)}
  top, seen = Module(), []
  top.submodules.unit = component
  top.d.sync += Signal().eq(1)  # combinational units have no clock of their own

  async def bench(ctx: Any) -> None:
    for values in inputs:
      for name, value in values.items():
        ctx.set(ports[name][1].as_value() if hasattr(ports[name][1], "as_value") else ports[name][1], value)
      seen.append({name: int(ctx.get(value.as_value() if hasattr(value, "as_value") else value)) for name, (flow,
        value) in ports.items() if flow is Out})
      await ctx.tick()
  simulator = Simulator(top)
  simulator.add_clock(1e-6)
  simulator.add_testbench(bench)
  simulator.run()
  return seen


@pytest.mark.parametrize("name", UNITS)
@deep()
def test_terms_are_what_the_simulator_computes(name: str) -> None:
  random.seed(name)
  cycles = 12
  circuit = Circuit(UNITS[name](), Terms(), powered=True)
  widths = {port: circuit.netlist.top.ports_i[port][1] for port in circuit.inputs()}
  inputs = [{port: random.choice([random.getrandbits(width), random.getrandbits(width) & 7, 0, (1 << width) - 1]) for port,
    width in widths.items()}
            for _ in range(cycles)]
  for t, values in enumerate(inputs):
    for port, value in values.items():
      circuit.bind(port, t, value)
  solver = _Solver(circuit.terms, 60)
  outputs = [{port: circuit.output(port, t) for port in circuit.netlist.top.ports_o} for t in range(cycles)]
  assert solver.ask() is True
  found = [{port: solver.value(term) for port, term in terms.items()} for terms in outputs]
  expected = simulated(UNITS[name](), inputs)
  for t in range(cycles):
    for port in found[t]:
      mask = (1 << outputs[t][port].sort().bv_size()) - 1
      assert found[t][port] == expected[t][port] & mask, (t, port)
