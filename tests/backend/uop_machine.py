"""What the backend makes of a UOp, evaluated: its machine IR on arrays of words, by the table's own reference functions."""
from __future__ import annotations

from collections.abc import Mapping
from inspect import signature

import numba
import numpy as np
from tinygrad.dtype import DType, dtypes
from tinygrad.uop.ops import UOp

from tinytpu.backend.lower.arithmetic import Values
from tinytpu.backend.lower.uniformity import Lanes
from tinytpu.backend.mir.builder import Builder, Val
from tinytpu.backend.mir.ir import S0, Inst, Reg, walk
from tinytpu.config import preset
from tinytpu.isa.table import OPS

PLACE = {"va": 0, "sa": 0, "b": 1, "vb": 1, "k": 1, "vc": 2, "sc": 2}
"""Kind of an operand: the reference function's parameter."""


class Varying(Lanes):
  """Lanes in which nothing is known to be uniform, so that the vector unit's peepholes apply."""

  def uniform(self, u: UOp) -> bool:
    return False


def emitted(u: UOp, leaves: list[UOp], file: str = "v") -> tuple[Val, list[Reg], list[Inst]]:
  """The backend's value of `u`, registers that stand for `leaves` (vector or, with "s", scalar), and the operations between them."""
  builder = Builder()
  values = Values("check", builder, (Varying if file == "v" else Lanes)(preset("4x4"), [16]))
  regs = [Reg(file) for _ in leaves]
  values.known.update({leaf: Val(file, (reg,)) for leaf, reg in zip(leaves, regs, strict=True)})
  return values.value(u), regs, list(walk(builder.scopes[0].items))


def words(u: UOp, given: Mapping[UOp, np.ndarray], file: str = "v") -> np.ndarray:
  """The register contents, uint32, that the operations for `u` compute from `given`."""
  value, regs, items = emitted(u, list(given), file)
  known: dict[Reg, np.ndarray] = {S0: np.uint32(0)}
  known.update({reg: in_register(x, leaf.dtype) for reg, (leaf, x) in zip(regs, given.items(), strict=True)})
  for x in items:
    operands = [np.uint32(0)] * 3
    for of, s in zip(x.op.operands[1:], x.srcs, strict=True):
      operands[PLACE[of]] = known[s] if isinstance(s, Reg) else np.uint32(s & 0xFFFFFFFF)
    assert x.dst is not None
    known[x.dst] = compute(x.op.name, operands)
  return known[value.regs[0]] if value.file != "i" else np.uint32(value.imm)


def in_register(x: np.ndarray, dtype: DType) -> np.ndarray:
  """How registers hold values: integers extended to words, 16-bit floats as float32."""
  return np.asarray(x, np.float32).view(np.uint32) if dtype in dtypes.floats else np.asarray(x).astype(np.int64).astype(np.uint32)


_compiled: dict[object, numba.np.ufunc.DUFunc] = {}


def compute(name: str, operands: list[np.ndarray]) -> np.ndarray:
  """An operation of the table on arrays of words a, b, c."""
  ref = OPS[name].ref
  assert ref is not None, f"{name} is not lane by lane"
  count = len(signature(ref).parameters)
  if ref not in _compiled:
    listed = ", ".join("abc"[:count])
    _compiled[ref] = numba.vectorize([numba.uint32(*[numba.uint32] * count)])(eval(f"lambda {listed}: ref({listed})", {"ref": ref}))
  with np.errstate(all="ignore"):
    return _compiled[ref](*operands[:count])
