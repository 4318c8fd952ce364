"""Reductions across lanes: a UOp of ours, its way through tinygrad's passes, and the operations it becomes.

`across(op, value, lane)` combines what the work items that differ in one local id alone hold, and gives the result to all of
them: the cross-lane unit's tree where they fill rows, columns or the whole tile, the vector ALU between waves.
"""
from __future__ import annotations

from typing import NamedTuple

from tinygrad import codegen
from tinygrad.dtype import DType
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat

from .builder import Val, imm
from .select import MEMORY_TYPE, ROUND, RULES, kind
from .values import Values


class Across(NamedTuple):
  """Argument of the CUSTOM UOp: `op` combines, ADD, MAX or MUL."""
  op: Ops


TREES: dict[tuple[Ops, str], str] = {
  (Ops.ADD, "f"): "xfsum", (Ops.MUL, "f"): "xfprod", (Ops.MAX, "f"): "xfmax", (Ops.MAX, "i"): "xmax", (Ops.MAX, "u"): "xmaxu",
  **{(Ops.ADD, k): "xsum" for k in "iu"}, **{(Ops.MUL, k): "xprod" for k in "iu"},
  (Ops.ADD, "b"): "xmax", (Ops.MAX, "b"): "xmax", (Ops.MUL, "b"): "xmin"}
"""Reductions of the cross-lane unit, without their last letter, by operation and kind of the operand."""


def reducible(op: Ops, dtype: DType) -> bool:
  """Whether a reduction may be spread over the lanes: sums and products of 16-bit floats round after every step, which the trees do not."""
  if dtype in ROUND:
    return op is Ops.MAX
  return dtype in MEMORY_TYPE


def across(op: Ops, value: UOp, lane: UOp) -> UOp:
  """The reduction of `value` over the local range `lane`."""
  return UOp(Ops.CUSTOM, value.dtype, (value, lane), Across(op))


# -- through tinygrad ---------------------------------------------------------------------------------
def _load(u: UOp) -> UOp | None:
  if not isinstance(u.arg, Across) or (value := codegen.maybe_load(u.src[0])) is u.src[0]:
    return None
  return u.replace(src=(value, *u.src[1:]))


def _scalars(u: UOp) -> UOp | None:
  """One reduction for each element of an upcast value."""
  if not isinstance(u.arg, Across) or not u.src[0].shape:
    return None
  value, n = u.src[0], u.src[0].max_numel()
  flat = value.reshape(n)
  return UOp.stack(*(u.replace(src=(flat.index(UOp.const(i)), *u.src[1:])) for i in range(n))).reshape(value.shape)


def install() -> None:
  """Teach tinygrad's two passes that name every UOp with operands, loading and devectorisation, about ours."""
  if not getattr(codegen, "tinytpu_across", False):
    codegen.tinytpu_across = True  # type: ignore[attr-defined]
    codegen.pm_add_loads = codegen.pm_add_loads + PatternMatcher([(UPat(Ops.CUSTOM, name="u"), _load)])
    codegen.devectorizer2 = codegen.devectorizer2 + PatternMatcher([(UPat(Ops.CUSTOM, name="u"), _scalars)])


# -- lowering -----------------------------------------------------------------------------------------
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
  combine = RULES[u.arg.op, kind(u.dtype)].vector
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
