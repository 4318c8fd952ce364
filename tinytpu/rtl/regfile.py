"""The register files: scalar and vector, read asynchronously in the cycle of issue, one write port per result bus."""
from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .interfaces import scalar_result, tile_bits, vector_result

__all__ = ["SCALAR_WRITES", "VECTOR_WRITES", "ScalarFile", "VectorFile"]

SCALAR_WRITES = ("alu", "slow", "cross", "host")
VECTOR_WRITES = ("vector", "cross", "load", "hbm")


class _File(wiring.Component):
  """Registers with an asynchronous read port `<name>_reg` (In(6)) -> `<name>` per entry of `reads` and a write port per
  entry of `writes`. A write at the end of a cycle is read from the next one on; two writes of one register in one cycle
  must not happen (the scoreboard keeps results of one register apart)."""

  def __init__(self, width: int, depth: int, reads: tuple[str, ...], writes: dict[str, wiring.Signature], *, zero: bool):
    self.width, self.depth, self.reads, self.writes, self.zero = width, depth, reads, tuple(writes), zero
    index = range(depth)
    super().__init__({f"{r}_reg": In(index) for r in reads} | {r: Out(width) for r in reads}
                     | {f"write_{w}": In(s) for w, s in writes.items()})

  def elaborate(self, platform) -> Module:
    m = Module()
    m.submodules.registers = registers = memory.Memory(shape=self.width, depth=self.depth, init=[])
    for name in self.reads:
      port = registers.read_port(domain="comb")
      m.d.comb += [port.addr.eq(getattr(self, f"{name}_reg")), getattr(self, name).eq(port.data)]
    for name in self.writes:
      write, port = getattr(self, f"write_{name}"), registers.write_port()
      enable = write.valid & (write.reg != 0) if self.zero else write.valid
      m.d.comb += [port.addr.eq(write.reg), port.data.eq(write.data), port.en.eq(enable)]
    return m


class ScalarFile(_File):
  """64 words; register 0 reads as zero. Write ports `SCALAR_WRITES`: ALU, slow results (multiply, divide), the
  cross-lane unit, the host (only while no program runs).

  Args:
    reads: names of the read ports.
  """

  def __init__(self, reads: tuple[str, ...]):
    super().__init__(32, Config.SREGS, reads, {w: scalar_result().flip() for w in SCALAR_WRITES}, zero=True)


class VectorFile(_File):
  """64 tiles. Write ports `VECTOR_WRITES`: vector ALU, cross-lane and matrix unit, VMEM loads, direct HBM loads.

  Args:
    reads: names of the read ports.
  """

  def __init__(self, config: Config, reads: tuple[str, ...]):
    super().__init__(tile_bits(config), config.VREGS, reads, {w: vector_result(config).flip() for w in VECTOR_WRITES}, zero=False)
