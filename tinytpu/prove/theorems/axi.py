"""AXI's handshakes: what is offered stays as it is until it is taken, whatever the other side and the core do."""
from __future__ import annotations

from collections.abc import Callable

from amaranth.hdl import Assert, Cover, Signal, Value
from amaranth.lib import wiring

from tinytpu.config import preset
from tinytpu.rtl.axi_lite import AxiLite
from tinytpu.rtl.axi_memory import AxiMemory

from ..mutants import Mutant
from ..proof import Invariant, Theorem
from ..spec import Spec

CONFIG = preset("4x4,hbm_latency=4")


def stable(unit: Callable[[], wiring.Component], channels: dict[str, tuple[str, ...]], bus: str) -> Callable[[], Spec]:
  """In the cycle after one with `valid` but not `ready`, `valid` still is, and all fields of the channel are as they were."""
  def spec() -> Spec:
    component = unit()
    s, port = Spec(component), getattr(component, bus)
    for channel, fields in channels.items():
      valid, ready = getattr(port, f"{channel}valid"), getattr(port, f"{channel}ready")
      waits = Signal(name=f"{channel}_waits")
      s.m.d.sync += waits.eq(valid & ~ready)
      same: list[Value] = []
      for name in fields:
        value: Signal = getattr(port, channel + name)
        before = Signal(value.shape(), name=f"{channel}{name}_before")
        s.m.d.sync += before.eq(value)
        same.append(value == before)
      s.m.d.comb += [Assert(~waits | valid, f"{channel}valid falls before {channel}ready")]
      s.m.d.comb += [Assert(~waits | equal, f"{channel}{name} changes before {channel}ready") for name, equal in zip(fields, same,
        strict=True)]
      s.m.d.comb += Cover(waits & valid & ready, f"channel {channel.upper()} waits, then goes on")
    return s
  return spec


def memory(data_bits: int) -> Callable[[], wiring.Component]:
  """The manager on a bus of so many bits."""
  return lambda: AxiMemory(CONFIG, data_bits)


def lite() -> Spec:
  """An answer to a read is made only while none waits to be taken."""
  s = stable(AxiLite, {"b": ("resp",), "r": ("data", "resp")}, "bus")()
  answers = s.signals["fsm_state"] == 1
  s.m.d.comb += Assert(~answers | (s.signals["has_ar"] & ~s.signals["bus__rvalid"]), "an answer without a request, or onto another")
  return s


_READS, _WRITES = ("addr", "len", "size", "burst", "cache"), ("data", "strb", "last")
_SOURCE = "AMBA AXI (IHI 0022), A3.2.1"

THEOREMS = [
  *(Theorem(f"axi.memory_{beats}", f"The manager's channels AR, AW and W hold what they offer until it is taken ({beats} "
            f"beat{'s' * (beats > 1)} a line).", _SOURCE,
            Invariant(stable(memory(512 // beats), {"ar": _READS, "aw": _READS, "w": _WRITES}, "axi"), 1, reach=8),
            (Mutant("axi_memory", "free.eq(~axi.arvalid | axi.arready)", "free.eq(1)"),
             Mutant("axi_memory", "with m.If(axi.wready & axi.wvalid):", "with m.If(axi.wvalid):"),
             Mutant("axi_memory", "with m.If(axi.awready):", "with m.If(axi.awready | axi.wready):")), quick=beats == 4)
    for beats in (1, 4)),
  Theorem("axi.lite", "The subordinate's answers B and R stay until the host takes them, and so does their content.", _SOURCE,
          Invariant(lite, 1, reach=8),
          (Mutant("axi_lite", "with m.If(bus.rready):", "with m.If(bus.rready | bus.bready):"),
           Mutant("axi_lite", "read_waits.eq(has_ar & ~bus.rvalid)", "read_waits.eq(has_ar)")), quick=True),
]
