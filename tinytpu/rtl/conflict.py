"""Which elements of an access VMEM's banks serve in a cycle."""
from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .align import low_bits
from .float_common import name
from .select import part
from .shift import any_of, shifted

__all__ = ["BankSchedule", "row_bits"]


def row_bits(config: Config) -> int:
  """Bits of a word's place in its bank."""
  return (config.vmem_words // config.vector_lanes - 1).bit_length()


class BankSchedule(wiring.Component):
  """Combinational: each bank serves the lowest pending element of a beat and every other that is in the same word.

  Rows are routed to their banks as shifts into 64-bit chunks, ORed together: a decoder and an OR tree in hardware, single machine
  operations without branches in simulation, where one-hot selections of every element by every bank took four times as long.

  An access repeated until nothing is pending so takes as many cycles as there are distinct words in the bank that has most.

  Members (P = vector_lanes):
    alone: In(1), a bank serves no other element than its lowest: one element per cycle and bank.
    pending: In(P), elements of the beat still to be served; addresses: In(32) per element, byte addresses within VMEM.
    served: Out(P), those served now.
    used: Out(P), one bit per bank; rows: Out(row_bits) per bank, the word in it (zero if not used).
  """

  def __init__(self, config: Config) -> None:
    self.config = config
    n = config.vector_lanes
    super().__init__({
      "alone": In(1), "pending": In(n), "addresses": In(32).array(n), "served": Out(n), "used": Out(n),
      "rows": Out(row_bits(config)).array(n)})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    n, low, row = self.config.vector_lanes, low_bits(self.config), row_bits(self.config)
    field = 16 if row <= 16 else 32  # rows are routed in 64-bit chunks of this many bits each
    per = 64 // field
    place, chunk = slice(0, per.bit_length() - 1), slice(per.bit_length() - 1, None)
    slots = [name(m, a[2:low], f"slot{e}") for e, a in enumerate(self.addresses)]
    rows = [a[low:low + row] for a in self.addresses]

    claimed: Value = Const(0, n)
    leading: list[Value] = []
    routed: list[list[Value]] = [[] for _ in range(n // per)]
    for e, slot in enumerate(slots):
      leads = name(m, self.pending[e] & ~(claimed >> slot)[0], f"leads{e}")
      leading.append(leads)
      claimed = name(m, (claimed | (self.pending[e] << slot))[:n], f"claimed{e}")
      moved = name(m, shifted(Mux(leads, rows[e], 0), slot[place], field, 64), f"moved{e}")
      for q, terms in enumerate(routed):
        terms.append(Mux(slot[chunk] == q, moved, 0) if len(routed) > 1 else moved)
    chunks = [name(m, any_of(terms), f"chunk{q}") for q, terms in enumerate(routed)]
    grants = name(m, Cat(*chunks), "grants")

    m.d.comb += self.used.eq(claimed)
    m.d.comb += [port.eq(chunks[b // per][field * (b % per):][:row]) for b, port in enumerate(self.rows)]
    for e, slot in enumerate(slots):
      granted = name(m, part(grants, slot, field), f"granted{e}")
      m.d.comb += self.served[e].eq(Mux(self.alone, leading[e], self.pending[e] & (granted[:row] == rows[e])))
    return m
