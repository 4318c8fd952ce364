"""The matrix unit: what is held stays held, and clocks that rest change nothing of it."""
from __future__ import annotations

from amaranth.hdl import Assert, Cover, Signal

from tinytpu.config import preset
from tinytpu.rtl.mxu import HOLDING, MATRIX_CLOCKS, MatrixUnit
from tinytpu.rtl.opcodes import is_op

from ..mutants import Mutant
from ..proof import Invariant, Theorem
from ..spec import Spec


def held() -> Spec:
  """Only mmld changes the held tile, and a step that uses it takes it as it is when it issues; the unit's clocks rest when they may."""
  unit = MatrixUnit(preset("4x4"))
  s = Spec(unit)
  s.ticks = {domain: getattr(unit, f"{domain}_enable") for domain in MATRIX_CLOCKS}
  issue, register, waiting = unit.issue, s.signals["held"], s.signals["waiting_b"]
  tile, known, loads, uses, used = Signal.like(issue.a), Signal(), Signal(), Signal(), Signal()
  s.m.d.comb += [loads.eq(issue.start & is_op(issue.code, "mmld")), uses.eq(issue.start & is_op(issue.code, *HOLDING))]
  with s.m.If(loads):
    s.m.d.sync += [tile.eq(issue.a), known.eq(1)]  # what the program has loaded last
  s.m.d.sync += used.eq(uses & known)
  s.m.d.comb += [
    Assert(~known | (register == tile), "the held tile is not the one that was loaded last"),
    Assert(~used | (waiting == tile), "a step takes another tile than the held one"),
    Cover(used & (tile != 0), "a step uses a tile that was loaded")]
  return s


THEOREMS = [Theorem(
  "matrix.held", "The tile of the last mmld stays until the next one, whatever steps and moves come between, and steps that use it get it; "
  "with clocks at rest, too.",
  "docs/timing.md, Units, Matrix unit", Invariant(held, 1, reach=5),
  (Mutant("mxu", "with m.If(load):", "with m.If(load | begin):"),
   Mutant("mxu", "matrix_operands_enable.eq(step | load | running)", "matrix_operands_enable.eq(step | running)"),
   Mutant("mxu", "is_op(issue.code, *HOLDING), held, issue.b", "is_op(issue.code, *HOLDING), waiting[1], issue.b")))]
