"""The HBM ports of a chip as one AXI4 manager: the core's clock waits while memory takes longer than the core expects."""
from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature

from ..config import Config, ConfigError
from .axi_lite import BusError
from .chip import HBM_PORTS
from .float_common import name
from .interfaces import hbm_port, line_bits
from .memory import BlankMemory

__all__ = ["AxiMemory", "axi4", "check_data_bits"]

READERS = ("fetch", "dma_in", "vector")
"""Ports that read, in the order in which reads of one cycle are made and answered."""
ORDER = (*READERS, "dma_out")
"""All ports in the order in which requests of one cycle are made: all reads come before all writes."""
MOST_WRITES = 63
"""Writes without response after which the core waits."""


def check_data_bits(config: Config, data_bits: int | None) -> int:
  """Bits of the AXI data bus: `data_bits`, or if that is None those of a line, at most 512.

  Raises:
    ConfigError: not 32, 64, ..., 1024, or wider than a line.
  """
  line = line_bits(config)
  bits = min(line, 512) if data_bits is None else data_bits
  if bits not in (32, 64, 128, 256, 512, 1024) or bits > line:
    raise ConfigError(f"an AXI bus of {bits} bits cannot be: preset {config.name} takes powers of two from 32 to {min(line, 1024)}")
  return bits


def axi4(data_bits: int) -> Signature:
  """AXI4 with 64 address bits and no identifiers, seen from the manager."""
  address = {"addr": 64, "len": 8, "size": 3, "burst": 2, "lock": 1, "cache": 4, "prot": 3, "qos": 4, "valid": 1}
  return Signature({
    **{f"{channel}{field}": Out(width) for channel in ("aw", "ar") for field, width in address.items()}, "awready": In(1), "arready": In(1),
    "wdata": Out(data_bits), "wstrb": Out(data_bits // 8), "wlast": Out(1), "wvalid": Out(1), "wready": In(1),
    "bresp": In(2), "bvalid": In(1), "bready": Out(1),
    "rdata": In(data_bits), "rresp": In(2), "rlast": In(1), "rvalid": In(1), "rready": Out(1)})


class LineQueue(wiring.Component):
  """First in, first out, of lines; must not be filled beyond its depth.

  Members: i: In(line), enter: In(1); o: Out(line), there: Out(1), `o` is the head; leave: In(1), drop it.
  """

  def __init__(self, bits: int, depth: int) -> None:
    self.bits, self.depth = bits, depth
    super().__init__({"i": In(bits), "enter": In(1), "o": Out(bits), "there": Out(1), "leave": In(1)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    m.submodules.lines = lines = BlankMemory(shape=self.bits, depth=1 << (self.depth - 1).bit_length())
    write = lines.write_port()
    read = lines.read_port(transparent_for=(write,))
    tail, head = Signal.like(write.addr), Signal.like(write.addr)
    following = name(m, (head + self.leave)[:len(head)], "following")
    m.d.comb += [write.addr.eq(tail), write.data.eq(self.i), write.en.eq(self.enter), read.addr.eq(following), read.en.eq(1),
                 self.o.eq(read.data)]
    count = Signal(range(self.depth + 1))
    m.d.comb += self.there.eq(count != 0)
    m.d.sync += [head.eq(following), tail.eq(tail + self.enter), count.eq(count + self.enter - self.leave)]
    return m


class AxiMemory(wiring.Component):
  """Serves the HBM ports of a core whose clock ticks only at the end of cycles with `tick`.

  In each of its cycles the core's requests are passed on one after the other. The core's clock ticks when all are and the answers due
  in this cycle, those of the core's cycle hbm_latency before, have come: so to the core every answer takes exactly hbm_latency
  cycles, and as long as memory answers within that time and the core makes one request a cycle, it never waits.

  Memory is read and written in the order of requests: a read waits for the responses of all writes before it, a write for the data of
  all reads before it. A line is one burst (INCR) of as many beats as it takes, aligned to its size. Fetches beyond device memory,
  which give zeros, read its first line instead.

  Args:
    data_bits: of the bus, see `check_data_bits`.

  Members:
    fetch, vector, dma_in, dma_out: In(hbm_port). tick: Out(1), depends on `axi` in the same cycle.
    base: In(64), where device memory begins on the bus, a multiple of a line; constant while a program runs.
    axi: Out(axi4(data_bits)). writing: Out(1), memory has not yet confirmed every write.
    error: Out(2), BusError, clear: In(2), bits to clear.
  """

  def __init__(self, config: Config, data_bits: int) -> None:
    self.config, self.data_bits = config, check_data_bits(config, data_bits)
    self.beats = line_bits(config) // data_bits
    super().__init__({**{port: In(hbm_port(config)) for port in HBM_PORTS}, "base": In(64), "axi": Out(axi4(data_bits)),
                      "tick": Out(1), "writing": Out(1), "error": Out(2), "clear": In(2)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    axi = self.axi
    size = (self.data_bits // 8).bit_length() - 1
    for channel in ("aw", "ar"):
      for field, value in (("len", self.beats - 1), ("size", size), ("burst", 1), ("cache", 3)):
        m.d.comb += getattr(axi, channel + field).eq(value)

    # The request to pass on: of those that the core makes in this cycle of its, the first not served.
    served = Signal(len(ORDER))
    requested = name(m, Cat(*(getattr(self, port).valid for port in ORDER)), "requested")
    wanted = name(m, requested & ~served, "wanted")
    first = name(m, wanted & (~wanted + 1)[:len(ORDER)], "first")
    outside = name(m, self.fetch.line >= self.config.hbm_bytes // self.config.line_bytes, "outside")
    lines = [Mux(outside, 0, self.fetch.line), *(getattr(self, port).line for port in ORDER[1:])]
    line = name(m, sum((Mux(bit, value, 0) for bit, value in zip(first, lines, strict=True)), Const(0, 32))[:32], "line")
    address = name(m, (self.base + (line << (self.config.line_bytes - 1).bit_length()))[:64], "address")
    writing = name(m, first[3] | (first[2] & self.vector.write), "writing")
    reads, writes = Signal(range(len(READERS) * (self.config.hbm_latency + 1) + 1)), Signal(range(MOST_WRITES + 1))
    read_free, write_free = Signal(), Signal()
    read_now = name(m, (wanted != 0) & ~writing & read_free & (writes == 0), "read_now")
    write_now = name(m, (wanted != 0) & writing & write_free & (reads == 0) & (writes != MOST_WRITES), "write_now")
    left = name(m, wanted & ~Mux(read_now | write_now, first, 0), "left")

    line_back, due_there = self._reads(m, read_free, read_now, address, outside)
    self._writes(m, write_free, write_now, address, first[3])
    m.d.comb += [self.tick.eq((left == 0) & due_there), axi.bready.eq(1), self.writing.eq(writes != 0)]
    m.d.sync += [
      served.eq(Mux(self.tick, 0, served | (wanted & ~left))), reads.eq(reads + read_now - line_back),
      writes.eq(writes + write_now - axi.bvalid),
      self.error.eq(self.error & ~self.clear | Mux(axi.rvalid & (axi.rresp != 0), BusError.READ, 0)
                    | Mux(axi.bvalid & (axi.bresp != 0), BusError.WRITE, 0))]
    return m

  def _reads(self, m: Module, free: Signal, now: Value, address: Value, outside: Value) -> tuple[Value, Value]:
    """Channels AR and R: in this cycle a line has come; the answers due to the core are there."""
    axi, latency, bits = self.axi, self.config.hbm_latency, line_bits(self.config)
    m.d.comb += free.eq(~axi.arvalid | axi.arready)
    with m.If(free):
      m.d.sync += axi.arvalid.eq(now)
    with m.If(now):
      m.d.sync += axi.araddr.eq(address)

    # All reads have one order, so beats need no names: lines queue up as they come.
    m.submodules.queue = queue = LineQueue(bits, len(READERS) * (latency + 1))
    whole = name(m, axi.rvalid & axi.rlast, "whole")
    m.d.comb += [axi.rready.eq(1), queue.enter.eq(whole)]
    if self.beats == 1:
      m.d.comb += queue.i.eq(axi.rdata)
    else:
      before = Signal(bits - self.data_bits, reset_less=True)  # beats of the line, the latest on top
      m.d.comb += queue.i.eq(Cat(before, axi.rdata))
      with m.If(axi.rvalid):
        m.d.sync += before.eq(queue.i[self.data_bits:])

    # What is due: who read in each of the core's last cycles, and whether a fetch was beyond memory.
    asked = Cat(*(getattr(self, port).valid & ~getattr(self, port).write for port in READERS), outside)
    history, taken = Signal(len(asked) * latency), Signal(len(READERS))
    due = history[-len(asked):]
    missing = name(m, due[:len(READERS)] & ~taken, "missing")
    rest = name(m, missing & (missing - 1)[:len(READERS)], "rest")  # without the first of them, which the queue's head is for
    # The head serves the last one that is due from where it is; those before it are taken out.
    early = name(m, (rest != 0) & queue.there, "early")
    m.d.comb += queue.leave.eq(early | (self.tick & (missing != 0)))
    m.d.sync += taken.eq(Mux(self.tick, 0, taken | Mux(early, missing & ~rest, 0)))
    with m.If(self.tick):
      m.d.sync += history.eq(Cat(asked, history))
    for index, port in enumerate(READERS):
      value: Value = queue.o
      if index < len(READERS) - 1:
        held = Signal(bits, name=f"{port}_held", reset_less=True)
        with m.If(early & ~taken[index]):
          m.d.sync += held.eq(queue.o)
        value = Mux(taken[index], held, value)
      m.d.comb += getattr(self, port).rdata.eq(Mux(due[-1], 0, value) if port == "fetch" else value)
    return whole, name(m, (rest == 0) & ((missing == 0) | queue.there), "due_there")

  def _writes(self, m: Module, free: Signal, now: Value, address: Value, outbound: Value) -> None:
    """Channels AW and W: one line at a time, in registers."""
    axi, bits = self.axi, line_bits(self.config)
    data, strobes = Signal(bits, reset_less=True), Signal(bits // 8, reset_less=True)
    beat = Signal(range(self.beats))
    m.d.comb += [
      axi.wdata.eq(data[:self.data_bits]), axi.wstrb.eq(strobes[:self.data_bits // 8]), axi.wlast.eq(beat == self.beats - 1),
      free.eq((~axi.awvalid | axi.awready) & (~axi.wvalid | (axi.wready & axi.wlast)))]
    with m.If(axi.awready):
      m.d.sync += axi.awvalid.eq(0)
    with m.If(axi.wready & axi.wvalid):
      m.d.sync += [axi.wvalid.eq(~axi.wlast), beat.eq(Mux(axi.wlast, 0, beat + 1)), data.eq(data >> self.data_bits),
                   strobes.eq(strobes >> self.data_bits // 8)]
    with m.If(now):
      m.d.sync += [
        axi.awvalid.eq(1), axi.awaddr.eq(address), axi.wvalid.eq(1), data.eq(Mux(outbound, self.dma_out.data, self.vector.data)),
        strobes.eq(Mux(outbound, self.dma_out.bytemask, self.vector.bytemask))]
