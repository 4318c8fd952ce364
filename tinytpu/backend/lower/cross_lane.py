"""Reductions across lanes (`uops.across`): the cross-lane unit's tree where they fill rows, columns or the whole tile, and the vector ALU
between waves."""
from __future__ import annotations

from tinygrad.uop.ops import Ops, UOp

from ..mir.builder import Val, imm
from ..types import kind
from ..uops import TREES, keeps_nan, reducible
from .arithmetic import Values
from .rules import RULES


def lower(values: Values, u: UOp) -> Val:
  """The operations of an `across`.

  Raises:
    UnsupportedError: an id whose work items do not lie a power of two apart, or a dtype without such a reduction.
  """
  lanes, b = values.lanes, values.b
  lane = u.src[1]
  while lane.op is Ops.CAST:
    lane = lane.src[0]
  tree = TREES.get((u.arg.op, kind(u.dtype)))
  if tree is None or not reducible(u.arg.op, u.dtype):
    raise values.fail(u, "the cross-lane unit has no such reduction")
  v = b.to_vector(values.value(u.src[0]))
  if lane.op is Ops.CONST:  # an id of one value
    return v
  if lane.op is not Ops.SPECIAL or lane.arg[0] != "l":
    raise values.fail(u, "only a local id can be reduced over")
  axis = int(lane.arg[-1])
  below, size = 1, lanes.sizes[axis]
  for n in lanes.sizes[:axis]:
    below *= n
  if below & below - 1 or size & size - 1:
    raise values.fail(u, f"work items {below} apart, {size} of them: both must be powers of two")
  combine = "vfmax" if keeps_nan(u.arg.op, u.dtype) else RULES[u.arg.op, kind(u.dtype)].vector
  width = lanes.config.width
  steps = [below << i for i in range(size.bit_length() - 1)]  # distances between those to combine
  regs = [v.at(w) for w in range(lanes.waves)]
  for step in (s // width for s in steps if s >= width):
    regs = [b.vector(combine, Val("v", (regs[w & ~step],), depth=v.depth), Val("v", (regs[w | step],), depth=v.depth)).regs[0]  # type: ignore[arg-type]
            for w in range(lanes.waves)]
  out = Val("v", tuple(dict.fromkeys(regs)) if len(set(regs)) == 1 else tuple(regs), depth=v.depth)  # type: ignore[arg-type]
  inside = {s for s in steps if s < width}
  for letter, part in _parts(lanes.config.lanes, width):
    if part <= inside:
      inside -= part
      out = b.cross(tree + letter, "v", out)
      break
  for step in sorted(inside):
    out = b.vector(combine, out, b.cross("xperm", "v", out, b.vector("vxor", b.vector("vlid"), imm(step))))
  return values.wrap(out, u.dtype)


def _parts(lanes: int, width: int) -> list[tuple[str, set[int]]]:
  """What the unit reduces at once, the largest first: letter of its mnemonic, distances that it spans."""
  row = {1 << i for i in range(lanes.bit_length() - 1)}
  tile = {1 << i for i in range(width.bit_length() - 1)}
  return [("t", tile), ("r", row), ("c", tile - row)]
