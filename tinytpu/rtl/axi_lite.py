"""AXI4-Lite to the control and status registers."""
from __future__ import annotations

from enum import IntEnum

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature

from .csr import Csr, Status, csr_port

__all__ = ["ADDRESS_BITS", "AxiCsr", "AxiLite", "BusError", "Response", "axi_lite"]

ADDRESS_BITS = 12
"""The registers take 4 KiB of the host's address space."""


class Response(IntEnum):
  """xRESP of AXI."""
  OKAY = 0
  EXOKAY = 1
  SLVERR = 2
  DECERR = 3


class AxiCsr(IntEnum):
  """Byte addresses of registers that the wrapper has beside `csr.Csr`."""
  ERROR = 0x800   # RW: BusError, of all accesses since it was cleared; ones that are written clear their bits, also while a program runs


class BusError(IntEnum):
  """Bits of AxiCsr.ERROR: what a launch computed since then is not to be trusted."""
  READ = 1        # device memory answered a read with another response than OKAY
  WRITE = 2       # the same of a write


def axi_lite() -> Signature:
  """AXI4-Lite with 32 data bits, seen from the host."""
  return Signature({
    "awaddr": Out(ADDRESS_BITS), "awprot": Out(3), "awvalid": Out(1), "awready": In(1),
    "wdata": Out(32), "wstrb": Out(4), "wvalid": Out(1), "wready": In(1),
    "bresp": In(2), "bvalid": In(1), "bready": Out(1),
    "araddr": Out(ADDRESS_BITS), "arprot": Out(3), "arvalid": Out(1), "arready": In(1),
    "rdata": In(32), "rresp": In(2), "rvalid": In(1), "rready": Out(1)})


class AxiLite(wiring.Component):
  """One access at a time, a read after a write and a write after a read if both wait. Registers are in the core's clock domain, so an
  access takes effect when the core's clock ticks.

  A write takes all four bytes: with none enabled nothing is written, with some of them nothing is and the response is SLVERR.

  Members:
    bus: In(axi_lite()). csr: Out(csr_port()).
    tick: In(1), the core's clock ticks at the end of this cycle.
    writing: In(1), device memory has not yet confirmed every write: STATUS says that the launch is under way.
    error: In(2), BusError; clear: Out(2), bits to clear at the end of this cycle.
  """

  def __init__(self) -> None:
    super().__init__({"bus": In(axi_lite()), "csr": Out(csr_port()), "tick": In(1), "writing": In(1), "error": In(2), "clear": Out(2)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    bus, csr = self.bus, self.csr
    waddress, wdata, strobes, raddress = (Signal.like(x, name=n) for x, n in (
      (bus.awaddr, "waddress"), (bus.wdata, "wdata"), (bus.wstrb, "strobes"), (bus.araddr, "raddress")))
    has_aw, has_w, has_ar = Signal(), Signal(), Signal()
    for valid, ready, has, loads in (
        (bus.awvalid, bus.awready, has_aw, [waddress.eq(bus.awaddr)]), (bus.arvalid, bus.arready, has_ar, [raddress.eq(bus.araddr)]),
        (bus.wvalid, bus.wready, has_w, [wdata.eq(bus.wdata), strobes.eq(bus.wstrb)])):
      m.d.comb += ready.eq(~has)
      with m.If(valid & ready):
        m.d.sync += [has.eq(1), *loads]

    write_waits, read_waits, wrote = Signal(), Signal(), Signal()
    whole, ours = Signal(), Signal()
    m.d.comb += [write_waits.eq(has_aw & has_w & ~bus.bvalid), read_waits.eq(has_ar & ~bus.rvalid), whole.eq(strobes.all())]
    with m.If(bus.bready):
      m.d.sync += bus.bvalid.eq(0)
    with m.If(bus.rready):
      m.d.sync += bus.rvalid.eq(0)
    m.d.comb += csr.wdata.eq(wdata)
    with m.FSM():
      with m.State("idle"):
        with m.If(write_waits & ~(read_waits & wrote)):
          m.d.comb += [csr.address.eq(waddress), ours.eq(waddress[2:] == AxiCsr.ERROR >> 2), csr.write.eq(whole & ~ours),
                       self.clear.eq(Mux(ours & whole & self.tick, wdata[:2], 0))]
          with m.If(self.tick):
            m.d.sync += [has_aw.eq(0), has_w.eq(0), wrote.eq(1), bus.bvalid.eq(1),
                         bus.bresp.eq(Mux(whole | ~strobes.any(), Response.OKAY, Response.SLVERR))]
        with m.Elif(read_waits):
          m.d.comb += csr.address.eq(raddress)
          with m.If(self.tick):
            m.next = "answer"
      with m.State("answer"):  # the registers' answer is there until the core's next tick
        m.d.sync += [has_ar.eq(0), wrote.eq(0), bus.rvalid.eq(1),
                     bus.rdata.eq(Mux(raddress[2:] == AxiCsr.ERROR >> 2, self.error,
                                      csr.rdata | Mux(raddress[2:] == Csr.STATUS >> 2, self.writing * Status.RUNNING, 0)))]
        m.next = "idle"
    return m
