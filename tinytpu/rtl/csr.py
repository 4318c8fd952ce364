"""Control and status registers: the host's side of the chip."""
from __future__ import annotations

from enum import IntEnum

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature

from ..config import Config
from ..isa.counters import COUNTERS
from .interfaces import scalar_result, tile_bits
from .issue import fault_record
from .select import part
from .window import Space

__all__ = ["Csr", "CsrBlock", "Status", "csr_port", "window_select"]


class Csr(IntEnum):
  """Byte addresses, 32 bits each. Registers are written only while no program runs (a write meanwhile is dropped)."""
  GO = 0x00              # W: any value launches; while the window fetches, as soon as it has
  STATUS = 0x04          # R: Status
  PROGRAM = 0x08         # RW: byte address of word 0, a multiple of Config.ibuf_block_bytes
  ENTRY = 0x0C           # RW: word index of the first group
  LIMIT_LO = 0x10        # RW: cycle of the watchdog's fault, 0 for none
  LIMIT_HI = 0x14
  INVALIDATE = 0x18      # W: any value empties the instruction buffer
  FAULT_CAUSE = 0x20     # R: isa.faults.Fault, of the last launch
  FAULT_PC = 0x24
  FAULT_INFO = 0x28
  FAULT_CYCLE_LO = 0x30
  FAULT_CYCLE_HI = 0x34
  CYCLES_LO = 0x38       # R: cycles of the last launch
  CYCLES_HI = 0x3C
  WINDOW = 0x40          # W: `window_select`: fetch a tile into WINDOW_DATA; dropped while FETCHING
  COUNTER = 0x100        # R: counters in the order of COUNTERS, low and high word each
  SREG = 0x200           # RW: the scalar registers (read as 0 while a program runs)
  WINDOW_DATA = 0x400    # R: the words of the tile fetched last


class Status(IntEnum):
  """Bits of STATUS."""
  RUNNING = 1     # a launch, or what it left behind, is under way
  FETCHING = 2    # the window is fetching


def window_select(space: Space, index: int) -> int:
  """The value to write to WINDOW for tile `index` of `space`."""
  return space << 28 | index


def csr_port() -> Signature:
  """The host's bus, seen from the host. Write: `write` with `address` and `wdata`; read: `rdata` belongs to the `address` of
  the cycle before. Addresses are multiples of 4; those that name no register read as 0."""
  return Signature({"address": Out(32), "write": Out(1), "wdata": Out(32), "rdata": In(32)})


class CsrBlock(wiring.Component):
  """Registers between host and core.

  Members:
    port: In(csr_port()).
    launch, invalidate, window_request: Out(1), pulses. program, entry: Out(32), limit: Out(64).
    window_space: Out(Space), window_index: Out(28), window_tile: In(tile), window_busy: In(1).
    counter: Out(4), counter_value: In(64). scalar: Out(6), scalar_value: In(32), scalar_write: Out(scalar_result).
    core_busy: In(1), cycles: In(64), fault: In(fault_record()): from the core. busy: Out(1), it is busy, or a launch waits for the window.
  """

  def __init__(self, config: Config):
    self.config = config
    super().__init__({
      "port": In(csr_port()), "launch": Out(1), "invalidate": Out(1), "program": Out(32), "entry": Out(32), "limit": Out(64),
      "window_request": Out(1), "window_space": Out(Space), "window_index": Out(28), "window_tile": In(tile_bits(config)),
      "window_busy": In(1), "counter": Out((len(COUNTERS) - 1).bit_length()), "counter_value": In(64), "scalar": Out(6),
      "scalar_value": In(32), "scalar_write": Out(scalar_result()), "core_busy": In(1), "busy": Out(1),
      "cycles": In(64), "fault": In(fault_record())})

  def elaborate(self, platform) -> Module:
    m = Module()
    address, wdata = self.port.address, self.port.wdata
    word = Signal(30)
    write = Signal()
    waiting = Signal()  # a launch, until the window has fetched
    m.d.comb += [self.busy.eq(self.core_busy | waiting), word.eq(address[2:]), write.eq(self.port.write & ~self.busy)]

    def at(register: Csr) -> int:
      return register >> 2

    go = Signal()
    m.d.sync += waiting.eq(go & self.window_busy)
    counter_words = 2 * len(COUNTERS)
    in_counters = (word >= at(Csr.COUNTER)) & (word < at(Csr.COUNTER) + counter_words)
    in_scalars = (word >= at(Csr.SREG)) & (word < at(Csr.SREG) + Config.SREGS)
    in_window = (word >= at(Csr.WINDOW_DATA)) & (word < at(Csr.WINDOW_DATA) + self.config.width)
    m.d.comb += [
      go.eq((write & (word == at(Csr.GO))) | waiting), self.launch.eq(go & ~self.window_busy),
      self.invalidate.eq(write & (word == at(Csr.INVALIDATE))),
      self.window_request.eq(write & (word == at(Csr.WINDOW)) & ~self.window_busy),
      self.window_index.eq(wdata), self.window_space.eq(wdata[28:]),
      self.counter.eq(word[1:] - (at(Csr.COUNTER) >> 1)), self.scalar.eq(word - at(Csr.SREG)),
      self.scalar_write.valid.eq(write & in_scalars), self.scalar_write.reg.eq(self.scalar), self.scalar_write.data.eq(wdata)]
    for register, target in ((Csr.PROGRAM, self.program), (Csr.ENTRY, self.entry), (Csr.LIMIT_LO, self.limit[:32]),
                             (Csr.LIMIT_HI, self.limit[32:])):
      with m.If(write & (word == at(register))):
        m.d.sync += target.eq(wdata)

    value = Signal(32)
    status = (self.busy * Status.RUNNING) | (self.window_busy * Status.FETCHING)
    reads = {
      Csr.STATUS: status, Csr.PROGRAM: self.program, Csr.ENTRY: self.entry, Csr.LIMIT_LO: self.limit[:32],
      Csr.LIMIT_HI: self.limit[32:], Csr.FAULT_CAUSE: self.fault.cause, Csr.FAULT_PC: self.fault.pc,
      Csr.FAULT_INFO: self.fault.info, Csr.FAULT_CYCLE_LO: self.fault.cycle[:32], Csr.FAULT_CYCLE_HI: self.fault.cycle[32:],
      Csr.CYCLES_LO: self.cycles[:32], Csr.CYCLES_HI: self.cycles[32:]}
    with m.Switch(word):
      for register, source in reads.items():
        with m.Case(at(register)):
          m.d.comb += value.eq(source)
      with m.Default():
        m.d.comb += value.eq(0)
    width = self.config.width
    tile = part(self.window_tile, word[:(width - 1).bit_length()], 32)
    m.d.sync += self.port.rdata.eq(
      Mux(in_counters, Mux(word[0], self.counter_value[32:], self.counter_value[:32]),
          Mux(in_scalars, Mux(self.busy, 0, self.scalar_value), Mux(in_window, tile, value))))
    return m
