"""Axes made longer, or added.

tinygrad's own PADTO refuses to make an axis more than four times as long, and calls what loads beyond an axis's end give invalid, and
with it whatever a gate of theirs (a `pad` with a value, a `cat`) chooses in their place. Here they give 0.
"""
from __future__ import annotations

from tinygrad.codegen.opt.postrange import Scheduler
from tinygrad.uop.ops import AxisType, Ops, UOp


def lengthen(k: Scheduler, sizes: dict[UOp, int]) -> None:
  """Give axes of a kernel, in place, other sizes, none smaller: loads beyond their ends give 0, stores are dropped. Of a reduced axis the
  caller answers for what is summed up there."""
  longer = {rng: rng.replace(src=(rng.src[0].const_like(size),)) for rng, size in sizes.items()}
  gated = {}
  for access in k.bufs:
    gate = None
    for rng in sizes:
      if rng in access.src[1].get_idx().backward_slice_with_self:
        inside = longer[rng] < rng.vmax + 1
        gate = inside if gate is None else gate & inside
    if gate is not None:
      gated[access] = with_gate(access, gate)
  k.ast = k.ast.substitute({**gated, **longer})


def with_axis(k: Scheduler, factor: UOp, size: int) -> Scheduler | None:
  """The kernel with an axis more, along which a factor of its first reduction varies, in name: beyond index 0 the factor's loads give 0,
  and nothing is stored. None if the kernel has several outputs, or the factor loads nothing."""
  ends, stores = ([u for u in k.ast.backward_slice if u.op is op] for op in (Ops.END, Ops.STORE))
  loads = [u for u in factor.backward_slice_with_self if u.op is Ops.INDEX]
  if len(ends) != 1 or len(stores) != 1 or not loads:
    return None
  row = UOp.range(size, max(u.arg[0] for u in k.ast.backward_slice if u.op is Ops.RANGE) + 1, AxisType.GLOBAL)
  repeated = factor.substitute({u: with_gate(u, row < 1) for u in loads})
  reduce = k.reduceops[0]
  mul = reduce.src[0].src[0] if reduce.src[0].op is Ops.CAST else reduce.src[0]
  wider = reduce.substitute({mul: mul.replace(src=tuple(repeated if f is factor else f for f in mul.src))})
  target, *values = stores[0].src
  store = stores[0].replace(src=(with_gate(target, row < 1), *(v.substitute({reduce: wider}) for v in values)))
  end = ends[0].substitute({stores[0]: store})
  wide = k.copy()
  wide.ast = k.ast.substitute({ends[0]: end.replace(src=(*end.src, row))})
  return wide.copy()  # which counts the new axis


def with_gate(access: UOp, gate: UOp) -> UOp:
  """An INDEX with another gate."""
  at = access.src[1]
  return access.replace(src=(access.src[0], at.get_idx().valid(gate & at.get_valid())))
