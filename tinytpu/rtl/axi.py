"""The chip for integration: registers on AXI4-Lite, device memory on AXI4."""
from __future__ import annotations

from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Instance, Module, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature

from ..config import Config
from .axi_lite import AxiLite, axi_lite
from .axi_memory import AxiMemory, axi4, check_data_bits
from .chip import GATED_DOMAINS, HBM_PORTS, Chip
from .once import VerilogPlatform

__all__ = ["CLOCK_GATE", "AxiChip"]

CLOCK_GATE = """module tinytpu_clock_gate(clk, enable, gated);
  // Replace by the technology's own: BUFGCE on an FPGA, a clock gating cell in silicon.
  input clk;
  input enable;
  output gated;
  reg open = 1'b0;
  always @(negedge clk)
    open <= enable;
  assign gated = clk & open;
endmodule
"""
"""Default of the clock gate: `gated` has the high phase of those cycles of `clk` in whose low phase `enable` has been high. Without a
latch: the register changes at the falling edge, when `gated` is low."""


def _ports(prefix: str, signature: Signature, flow: type[In] | type[Out]) -> dict[str, object]:
  """The members of `signature`, called as tools expect them: prefix_name."""
  signature = signature if flow is Out else signature.flip()
  return {f"{prefix}_{member}": (In if port.flow is In else Out)(port.shape) for member, port in signature.members.items()}


class AxiChip(wiring.Component):
  """`Chip` with standard buses; the same programs do the same in the same number of core cycles.

  All of the core is in the clock domain `core`, a gated copy of `sync` that rests while device memory takes longer than
  Config.hbm_latency. After reset of `sync` the core is kept in reset until its delay lines have run empty, during which the host's
  accesses wait.

  Args:
    data_bits: width of the AXI4 bus, see `axi_memory.check_data_bits`.

  Members:
    s_axil_*: subordinate, `axi_lite.axi_lite`. m_axi_*: manager, `axi_memory.axi4`.
    memory_base: In(64), bus address of device memory, a multiple of a line. busy: Out(1), a program runs, or memory has not yet confirmed
    all that it wrote.
    error: Out(2), register AxiCsr.ERROR.
  """

  def __init__(self, config: Config, data_bits: int | None = None) -> None:
    self.config, self.data_bits = config, check_data_bits(config, data_bits)
    super().__init__({**_ports("s_axil", axi_lite(), In), **_ports("m_axi", axi4(self.data_bits), Out), "memory_base": In(64),
                      "busy": Out(1), "error": Out(2)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    if isinstance(platform, VerilogPlatform):
      platform.texts["clock_gate"] = CLOCK_GATE
    m.domains.core = core = ClockDomain()
    waits = Signal(range(self.config.hbm_latency + 4), init=self.config.hbm_latency + 3)
    resetting = Signal()
    m.d.comb += [resetting.eq(waits != 0), core.rst.eq(resetting)]
    with m.If(resetting):
      m.d.sync += waits.eq(waits - 1)

    m.submodules.chip = chip = DomainRenamer(dict.fromkeys(("sync", *GATED_DOMAINS), "core"))(Chip(self.config))
    m.submodules.control = control = AxiLite()
    m.submodules.memory = memory = ResetInserter(resetting)(AxiMemory(self.config, self.data_bits))
    enable = Signal()
    m.d.comb += [enable.eq(resetting | memory.tick), control.tick.eq(memory.tick & ~resetting)]
    m.submodules.gate = Instance("tinytpu_clock_gate", i_clk=ClockSignal(), i_enable=enable, o_gated=core.clk)

    wiring.connect(m, control.csr, chip.csr)
    for port in HBM_PORTS:
      wiring.connect(m, getattr(chip, port), getattr(memory, port))
    for prefix, bus, outward in (("s_axil", control.bus, axi_lite().flip()), ("m_axi", memory.axi, axi4(self.data_bits))):
      for member, port in outward.members.items():
        ours, inner = getattr(self, f"{prefix}_{member}"), getattr(bus, member)
        m.d.comb += ours.eq(inner) if port.flow is Out else inner.eq(ours)
    m.d.comb += [memory.base.eq(self.memory_base), memory.clear.eq(control.clear), control.error.eq(memory.error),
                 self.error.eq(memory.error), control.writing.eq(memory.writing),
                 self.busy.eq(chip.busy | memory.writing)]
    return m
