"""What may be padded, and which matrix products may take the matrix unit: what tinygrad's tensor-core opt takes for granted, checked.

Padding K gates loads, so that they give 0 beyond its end; but a product is summed there all the same, and what is computed from
no load (an index, a constant), or from 0 to something else (x + 1, exp x), would count. And each operand must vary along the part
of K that a work item holds, which a repeated operand may not.
"""
from __future__ import annotations

import math

from tinygrad.codegen.opt.postrange import Scheduler
from tinygrad.uop.ops import Ops, UOp


def product(k: Scheduler) -> tuple[UOp, UOp] | None:
  """The factors of a kernel's first reduction, if it is a sum of products."""
  reduce = k.reduceops[0] if k.reduceops else None
  if reduce is None or reduce.arg[0] is not Ops.ADD or len(reduce.src) < 2:
    return None
  mul = reduce.src[0].src[0] if reduce.src[0].op is Ops.CAST else reduce.src[0]
  return (mul.src[0], mul.src[1]) if mul.op is Ops.MUL else None


def padding_is_harmless(k: Scheduler, along: UOp) -> bool:
  """Whether more of the axis `along` adds nothing to the first reduction: both factors of its product are 0 beyond the end."""
  factors = product(k)
  return factors is not None and all(_vanishes(factor, along) for factor in factors)


def _vanishes(u: UOp, along: UOp) -> bool:
  """Whether a value is 0 wherever the loads along a range are gated off. Errs towards no."""
  if u.op is Ops.INDEX:
    return along in u.src[1].backward_slice_with_self
  if u.op is Ops.CONST:
    return u.val == 0
  if u.op in (Ops.CAST, Ops.NEG):
    return _vanishes(u.src[0], along)
  if u.op is Ops.WHERE:
    return all(_vanishes(s, along) for s in u.src[1:])
  if u.op is Ops.MUL and any(s.op is Ops.CONST and math.isfinite(s.val) for s in u.src):
    return any(_vanishes(s, along) for s in u.src)
  if u.op in (Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX):
    return all(_vanishes(s, along) for s in u.src)
  return False


def operands_vary(k: Scheduler) -> bool:
  """Whether, after the tensor-core opt, each operand depends on the elements that it packs."""
  step = next(u for u in k.ast.backward_slice if u.op is Ops.WMMA)
  for operand, axes in zip(step.src, step.arg[4], strict=False):
    present = {u.arg[0] for u in operand.simplify().backward_slice_with_self if u.op is Ops.RANGE}
    if any(number not in present for number, size in axes if size > 1):
      return False
  return True
