"""What an index depends on: the lane, the loops, memory. From it follow the address forms.

Terms of an index are *uniform* (the same in every lane, computable on the scalar unit), *fixed* (depending on the
local ids alone, so a known number in every lane) or *mixed* (anything else, known at run time only).
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from tinygrad.dtype import AddrSpace, dtypes
from tinygrad.uop.ops import Ops, UOp

from ...config import Config
from ..uops import integer
from .rules import rule_of

FOLD: dict[Ops, Callable[..., np.ndarray]] = {
  Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply, Ops.AND: np.bitwise_and, Ops.OR: np.bitwise_or, Ops.XOR: np.bitwise_xor,
  Ops.SHL: np.left_shift, Ops.SHR: np.right_shift, Ops.MAX: np.maximum, Ops.NEG: np.negative,
  Ops.CMPLT: np.less, Ops.CMPNE: np.not_equal, Ops.CMPEQ: np.equal, Ops.WHERE: np.where,
  Ops.CDIV: lambda a, b: np.trunc(a / b).astype(np.int64), Ops.CMOD: np.fmod}
"""Integer UOps on int64 arrays; what leaves its dtype, a divisor of 0 and odd shifts are for the caller to refuse."""
_LIMIT = 1 << 31


class Lanes:
  """Lane facts of one kernel.

  Attributes:
    sizes: local sizes, lidx0 (fastest) first. count: work items of a group. waves: tiles needed to hold them.
    Ids beyond `count` repeat the last work item's, so addresses made of ids alone are good in every lane; what such lanes hold
    is not defined, so they store nothing and use no address that depends on data.
  """

  def __init__(self, config: Config, sizes: list[int]):
    self.config, self.sizes = config, sizes
    self.count = int(np.prod(sizes)) if sizes else 1
    self.waves = -(-self.count // config.width)
    self.ids = np.minimum(np.arange(self.waves * config.width), self.count - 1).astype(np.int64)
    self._fixed: dict[UOp, np.ndarray | None] = {}
    self._uniform: dict[UOp, bool] = {}
    self._alike: dict[UOp, bool] = {}

  def active(self, wave: int) -> int:
    """Lanes of a wave that hold work items. (A lone work item fills its wave: all lanes do the same.)"""
    width = self.config.width
    return width if self.count == 1 else min(width, self.count - wave * width)

  def local(self, axis: int) -> np.ndarray:
    """The local id of an axis in every lane, int64 of shape (waves * width,)."""
    return self.ids // int(np.prod(self.sizes[:axis], dtype=np.int64)) % self.sizes[axis]

  def fixed(self, u: UOp) -> np.ndarray | None:
    """The value in every lane if it depends on local ids alone, as int64 of shape (waves * width,); else None."""
    if u not in self._fixed:
      self._fixed[u] = self._fold(u)
    return self._fixed[u]

  def _fold(self, u: UOp) -> np.ndarray | None:
    if u.op is Ops.CONST and (n := integer(u)) is not None:
      return np.full(self.ids.shape, n, np.int64)
    if u.op is Ops.SPECIAL and u.arg[0] == "l":
      return self.local(int(u.arg[-1]))
    if u.op is Ops.CAST and (u.dtype in dtypes.ints or u.dtype in (dtypes.weakint, dtypes.bool)):
      v = self.fixed(u.src[0])
      fits = v is not None and (u.dtype in dtypes.weaks or u.dtype.min <= v.min() and v.max() <= u.dtype.max)
      return v if fits else None
    if u.op not in FOLD or u.dtype not in (*dtypes.ints, dtypes.bool, dtypes.weakint):
      return None
    srcs = [self.fixed(s) for s in u.src]
    if any(s is None for s in srcs) or u.op in (Ops.CDIV, Ops.CMOD) and not np.all(srcs[1]):
      return None
    if u.op in (Ops.SHL, Ops.SHR) and not (np.all(srcs[1] >= 0) and np.all(srcs[1] < 32)):  # type: ignore[operator]
      return None
    v = FOLD[u.op](*srcs).astype(np.int64)
    low, high = (0, 1) if u.dtype == dtypes.bool else (max(u.dtype.min, -_LIMIT), min(u.dtype.max, _LIMIT - 1))
    return v if low <= v.min() and v.max() <= high else None  # what wraps is left to the machine

  def uniform(self, u: UOp) -> bool:
    """Whether a value is the same in every lane and can be computed on the scalar unit."""
    if u not in self._uniform:
      self._uniform[u] = self._is_uniform(u)
    return self._uniform[u]

  def alike(self, u: UOp) -> bool:
    """Whether a value is the same in every lane, wherever it is computed. Errs towards no."""
    if u not in self._alike:
      at_once = u.op is not Ops.SPECIAL and (u.op is not Ops.LOAD or u.src[0].src[0].addrspace is AddrSpace.GLOBAL)
      self._alike[u] = self.uniform(u) or at_once and bool(u.src) and all(
        self.alike(s) for s in (u.src if u.op is not Ops.LOAD else (u.src[0].src[1], *u.src[1:])))
    return self._alike[u]

  def _is_uniform(self, u: UOp) -> bool:
    if u.op is Ops.CONST:
      return isinstance(u.val, (int, bool))
    if u.op is Ops.SPECIAL:
      return u.arg[0] == "g"
    if u.op is Ops.RANGE:
      return True
    if u.op is Ops.PARAM:
      return u.addrspace is AddrSpace.ALU
    if u.dtype in dtypes.floats:
      return False
    if u.op is Ops.CAST:
      return u.src[0].dtype not in dtypes.floats and self.uniform(u.src[0])
    rule = rule_of(u) if u.src else None
    return rule is not None and bool(rule.scalar) and all(self.uniform(s) for s in u.src)


@dataclass
class Index:
  """An index split by what its terms depend on; each sum is taken modulo 2^32.
  uniform, mixed: (coefficient, UOp); fixed: int64 per lane (waves * width); fixed_terms: the UOps that make it up."""
  uniform: list[tuple[int, UOp]]
  mixed: list[tuple[int, UOp]]
  fixed: np.ndarray
  fixed_terms: list[tuple[int, UOp]]
  const: int


def split(lanes: Lanes, index: UOp) -> Index:
  """Split an int32 index into its terms."""
  out = Index([], [], np.zeros(lanes.ids.shape, np.int64), [], 0)

  def add(coef: int, u: UOp) -> None:
    if (c := integer(u)) is not None:
      out.const += coef * c
    elif (f := lanes.fixed(u)) is not None:
      if np.all(f == f[0]):
        out.const += coef * int(f[0])
      else:
        out.fixed += coef * f
        out.fixed_terms.append((coef, u))
    elif u.dtype not in (dtypes.int32, dtypes.uint32, dtypes.weakint):  # what is narrower wraps before it is an address
      (out.uniform if lanes.uniform(u) else out.mixed).append((coef, u))
    elif u.op in (Ops.ADD, Ops.SUB):
      add(coef, u.src[0])
      add(coef if u.op is Ops.ADD else -coef, u.src[1])
    elif u.op is Ops.NEG:
      add(-coef, u.src[0])
    elif u.op is Ops.MUL and (c := integer(u.src[1])) is not None:
      add(coef * c, u.src[0])
    elif u.op is Ops.SHL and (c := integer(u.src[1])) is not None and 0 <= c < 32:
      add(coef << c, u.src[0])
    else:
      (out.uniform if lanes.uniform(u) else out.mixed).append((coef, u))
  add(1, index)
  return out


@dataclass(frozen=True)
class Pattern:
  """How the lanes of one wave step through memory: form "" (consecutive), "2" (strides r and c) or "x" (index per lane);
  start: element of lane 0; active: lanes that hold, the others must be masked off; offsets: elements of all lanes, if known."""
  form: str
  start: int = 0
  r: int = 0
  c: int = 0
  active: int = -1
  offsets: np.ndarray | None = field(default=None, compare=False)


def pattern(config: Config, fixed: np.ndarray, active: int) -> Pattern:
  """The address form of one wave's fixed offsets (int64 of shape (width,)), of which only the first `active` lanes matter."""
  width, lanes = config.width, config.lanes
  for n in dict.fromkeys((width, active)):
    start, v = int(fixed[0]), fixed[:n] - fixed[0]
    e = np.arange(n)
    if n > 1 and np.array_equal(v, e):
      return Pattern("", start, active=n, offsets=fixed)
    r, c = int(v[lanes]) if n > lanes else 0, int(v[1]) if n > 1 else 0
    if np.array_equal(v, e // lanes * r + e % lanes * c):
      return Pattern("2", start, r, c, n, fixed)
  return Pattern("x", active=width, offsets=fixed)
