"""The chip: one core behind its control and status registers, with four HBM ports."""
from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .core import CLOCK_ENABLES, Core
from .csr import CsrBlock, csr_port
from .interfaces import hbm_port, tile_bits
from .trace import trace_port
from .verilate import GENERATED, Waiver

__all__ = ["GATED_DOMAINS", "HBM_PORTS", "WAIVERS", "Chip"]

HBM_PORTS = ("fetch", "vector", "dma_in", "dma_out")
"""The HBM ports: instruction fetch, direct access, inbound and outbound DMA."""

GATED_DOMAINS = tuple(CLOCK_ENABLES)
"""Clock domains that may rest in cycles whose `<domain>_enable` output is low; their clocks tick with `sync`'s otherwise."""

WAIVERS = (*GENERATED, Waiver("CASEINCOMPLETE", "a generated process gives its outputs a value before its cases: nothing is latched"))
"""What Verilator's lint may say about the whole design."""


class Chip(wiring.Component):
  """Top of the design.

  Args:
    traced: with a trace port, which only simulation has a use for.

  Members:
    csr: In(csr_port()). busy: Out(1), a program runs (Status.RUNNING).
    window_busy: Out(1), window_tile: Out(tile): the state window, wide (the words are in Csr.WINDOW_DATA as well).
    fetch, vector, dma_in, dma_out: Out(hbm_port).
    <domain>_enable: Out(1), for each of `GATED_DOMAINS`.
    trace: Out(trace_port()), if traced.
  """

  def __init__(self, config: Config, traced: bool = False):
    self.config, self.traced = config, traced
    super().__init__({"csr": In(csr_port()), "busy": Out(1), "window_busy": Out(1), "window_tile": Out(tile_bits(config))}
                     | {port: Out(hbm_port(config)) for port in HBM_PORTS}
                     | {f"{domain}_enable": Out(1) for domain in GATED_DOMAINS} | ({"trace": Out(trace_port())} if traced else {}))

  def elaborate(self, platform) -> Module:
    m = Module()
    m.submodules.core = core = Core(self.config, self.traced)
    m.submodules.csr_block = csr = CsrBlock(self.config)
    wiring.connect(m, wiring.flipped(self.csr), csr.port)
    for port in HBM_PORTS:
      wiring.connect(m, wiring.flipped(getattr(self, port)), getattr(core, port))
    for name in ("launch", "invalidate", "program", "entry", "limit", "window_request", "window_space", "window_index", "counter",
                 "scalar"):
      m.d.comb += getattr(core, name).eq(getattr(csr, name))
    for name in ("window_tile", "window_busy", "counter_value", "scalar_value", "cycles"):
      m.d.comb += getattr(csr, name).eq(getattr(core, name))
    m.d.comb += [csr.core_busy.eq(core.busy), self.busy.eq(csr.busy)]
    m.d.comb += [getattr(core.scalar_write, name).eq(getattr(csr.scalar_write, name)) for name in ("valid", "reg", "data")]
    m.d.comb += [getattr(csr.fault, name).eq(getattr(core.fault, name)) for name in ("cause", "pc", "cycle", "info")]
    m.d.comb += [getattr(self, f"{domain}_enable").eq(getattr(core, f"{domain}_enable")) for domain in GATED_DOMAINS]
    m.d.comb += [self.window_busy.eq(core.window_busy), self.window_tile.eq(core.window_tile)]
    if self.traced:
      wiring.connect(m, wiring.flipped(self.trace), core.trace)
    return m
