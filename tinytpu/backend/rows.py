"""Products with few rows or columns on the matrix unit, vectors among them.

tinygrad's tensor-core opt wants an axis for M and one for N, and refuses to pad an axis to more than four times its size. So an axis that
is shorter is padded here, and a vector gets one, of which only the first index counts. A sum too short for the matrix unit
to make up for the rows that it computes in vain stays where it is.
"""
from __future__ import annotations

from tinygrad.codegen.opt.postrange import Scheduler
from tinygrad.dtype import Invalid
from tinygrad.uop.ops import AxisType, Ops, UOp

from ..config import Config
from .products import may_pad, product

MIN_K = 4
"""Least length of the sum, in tile sides. Measured on 4x4: from here on vectors of any length are faster on the matrix unit."""


def fit_rows(k: Scheduler, config: Config) -> Scheduler:
  """The kernel, if it is a product with an axis that tinygrad would not pad, with that axis padded to a tile; else the kernel as it is."""
  factors = product(k)
  if factors is None or all(r.vmax + 1 < MIN_K * config.lanes for r in k.reduceops[0].src[1:]):
    return k
  a, b = (set(f.ranges) for f in factors)
  for i, own in enumerate((a - b, b - a)):
    if len(own) == 1 and (rng := next(iter(own))).arg[-1] is AxisType.GLOBAL and rng.vmax + 1 <= config.lanes // 4 and may_pad(k, rng):
      return _padded(k, rng, config.lanes)
    if not own and (b - a if i == 0 else a - b):
      return _with_axis(k, factors[i], config.lanes) or k
  return k


def _padded(k: Scheduler, rng: UOp, size: int) -> Scheduler:
  """The kernel with an output axis padded, as tinygrad's own PADTO does it."""
  longer = UOp.range(size, *rng.arg, dtype=rng.dtype)
  stored = {u.src[0] for u in k.ast.backward_slice if u.op is Ops.STORE}
  replaced = {rng: longer}
  for access in (b for b in k.bufs if rng in b.src[1].backward_slice_with_self):
    replaced[access] = _gated(access, longer < rng.vmax + 1, access in stored)
  return _with_ast(k, k.ast.substitute(replaced))


def _with_axis(k: Scheduler, vector: UOp, size: int) -> Scheduler | None:
  """The kernel with an axis more. Beyond its index 0 the vector's loads are gated off, and nothing is stored."""
  ends, stores = ([u for u in k.ast.backward_slice if u.op is op] for op in (Ops.END, Ops.STORE))
  loads = [u for u in vector.backward_slice_with_self if u.op is Ops.INDEX]
  if len(ends) != 1 or len(stores) != 1 or not loads:
    return None
  row = UOp.range(size, max(r.arg[0] for r in k.ast.backward_slice if r.op is Ops.RANGE) + 1, AxisType.GLOBAL)
  repeated = vector.substitute({u: _gated(u, row < 1, False) for u in loads})
  reduce = k.reduceops[0]
  mul = reduce.src[0].src[0] if reduce.src[0].op is Ops.CAST else reduce.src[0]
  wider = reduce.substitute({mul: mul.replace(src=tuple(repeated if f is vector else f for f in mul.src))})
  store = stores[0].replace(src=(_gated(stores[0].src[0], row < 1, True), *(s.substitute({reduce: wider}) for s in stores[0].src[1:])))
  end = ends[0].substitute({stores[0]: store})
  return _with_ast(k, k.ast.substitute({ends[0]: end.replace(src=(*end.src, row))}))


def _with_ast(k: Scheduler, ast: UOp) -> Scheduler:
  changed = k.copy()
  changed.ast = ast
  return changed.copy()  # which counts the new ranges


def _gated(access: UOp, gate: UOp, stored: bool) -> UOp:
  """An INDEX with another gate; not valid without it, if it is loaded from."""
  at = access.src[1]
  index = access.replace(src=(access.src[0], at.get_idx().valid(gate & at.get_valid())))
  return index if stored else gate.where(index, UOp.const(Invalid, access.dtype))
