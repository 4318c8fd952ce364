"""Clock domains at rest, as the chip's harness lets them."""
from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import EnableInserter, Module
from amaranth.lib import wiring


class Resting(wiring.Component):
  """`unit` (same members), with each of its clock `domains` ticking only while the output `<domain>_enable` is high."""

  def __init__(self, unit: wiring.Component, domains: Sequence[str]) -> None:
    self.unit, self.domains = unit, domains
    super().__init__(unit.signature)

  def elaborate(self, platform: object) -> Module:
    m = Module()
    m.submodules.unit = EnableInserter({domain: getattr(self.unit, f"{domain}_enable") for domain in self.domains})(self.unit)
    wiring.connect(m, wiring.flipped(self), self.unit)
    return m
