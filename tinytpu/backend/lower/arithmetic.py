"""Values: one UOp to one operation, or the short sequences of `rules`, on the scalar unit where all operands allow it."""
from __future__ import annotations

import math

import numpy as np
from tinygrad.dtype import AddrSpace, DType, dtypes
from tinygrad.uop.ops import GroupOp, Ops, UOp

from ..errors import UnsupportedError
from ..mir.builder import Builder, Val, imm
from ..mir.ir import Origin
from ..types import TYPES, kind, rounding
from ..uops import constant, integer
from .bounds import intervals
from .division import divide, divides
from .peephole import Fused, fuse
from .rules import Rule, cast_sequence, cast_wraps, operand_dtype, rule_of
from .uniformity import Lanes


class Values:
  """Computes UOps of a program on demand into a `Builder`. What must happen in program order (loads, matrix steps, loop counters,
  arguments) is put into `known` by the lowering, the rest is pure."""

  def __init__(self, kernel: str, builder: Builder, lanes: Lanes):
    self.kernel, self.b, self.lanes = kernel, builder, lanes
    self.known: dict[UOp, Val | tuple[Val, ...]] = {}
    self.places: dict[UOp, int] = {}  # of the program's UOps, if what comes of them is to be noted
    self.intervals = intervals(lanes)

  def fail(self, u: UOp, why: str) -> UnsupportedError:
    """An error that names UOp, dtypes and kernel."""
    sources = ", ".join(f"{s.op.name} {s.dtype}" for s in u.src)
    return UnsupportedError(f"{u.op.name} of {u.dtype} ({sources}) in kernel {self.kernel}: {why}")

  def check(self, u: UOp, dtype: DType) -> None:
    """Raise if registers cannot hold a dtype."""
    if dtype not in TYPES:
      raise self.fail(u, f"{dtype} is not supported; make the tensor with another dtype, e.g. Tensor(data, dtype=dtypes.float32), "
                      f"one of {', '.join(d.name for d in TYPES)}, long, ulong")

  def value(self, u: UOp) -> Val:
    """The value of a UOp.

    Raises:
      UnsupportedError: no rule, or a dtype that registers cannot hold.
    """
    stack = [u]
    while stack:  # depth first without recursion: expressions thousands of UOps deep exist
      top = stack[-1]
      if top in self.known:
        stack.pop()
        continue
      todo = [s for s in self._operands(top) if s not in self.known]
      if todo:
        stack.extend(reversed(todo))
      else:
        around, self.b.origin = self.b.origin, self.origin(top)
        self.known[top] = self._compute(top)
        self.b.origin = around
        stack.pop()
    if isinstance(v := self.known[u], tuple):
      if len(v) != 1:
        raise self.fail(u, f"a value of {len(v)} elements where one is needed")
      return v[0]
    return v

  def origin(self, *uops: UOp) -> Origin:
    """Of what is made of UOps, as `Inst.origin` has it; that of what is emitted now, if none of them is noted."""
    return self.places and tuple(sorted(self.places[u] for u in uops if u in self.places)) or self.b.origin

  def _operands(self, u: UOp) -> tuple[UOp, ...]:
    if constant(u) is not None or u.op is Ops.SPECIAL:
      return ()
    if (fused := self._fused(u)) is not None:
      return fused.leaves()
    return u.src[:1] if u.op in (Ops.INDEX, Ops.AFTER) else u.src

  def _compute(self, u: UOp) -> Val | tuple[Val, ...]:
    if (c := constant(u)) is not None:
      return imm(self.bits(u, c, u.dtype))
    if u.op is Ops.SPECIAL and u.arg[0] == "l":
      return self._local_id(int(u.arg[-1]))
    if u.op is Ops.STACK:
      return tuple(self.value(s) for s in u.src)
    if u.op is Ops.AFTER:
      return self.known[u.src[0]]
    if u.op is Ops.INDEX and u.src[0].addrspace in (AddrSpace.ALU, None):  # None: made of constants
      return self._element(u)
    if u.op is Ops.CAST:
      return self._cast(u)
    if u.op is Ops.BITCAST:
      return self._bitcast(u)
    if (fused := self._fused(u)) is not None:
      return self.wrap(self._fuse(fused), u.dtype)
    if u.op in GroupOp.ALU:
      return self._alu(u)
    raise self.fail(u, "the backend has no rule for this UOp")

  def bits(self, u: UOp, value: object, dtype: DType) -> int:
    """The 32-bit register contents of a constant."""
    if dtype in dtypes.weaks:
      dtype = dtypes.float32 if isinstance(value, float) else dtypes.int32
    self.check(u, dtype)
    if dtype in dtypes.floats:
      x = np.float32(value)  # type: ignore[arg-type]
      if math.isnan(x):
        return 0x7FC00000
      if dtype == dtypes.float16:
        with np.errstate(over="ignore"):
          x = np.float32(np.float16(value))  # type: ignore[arg-type]
      word = int(x.view(np.uint32))
      if dtype == dtypes.bfloat16 and not math.isinf(x):
        word = (word + 0x7FFF + (word >> 16 & 1)) & 0xFFFF0000
      return word
    if dtype == dtypes.bool:
      return int(bool(value))
    n = int(value)  # type: ignore[call-overload]
    size = 8 * dtype.itemsize
    n &= (1 << size) - 1
    if dtype not in dtypes.uints and n >> size - 1:
      n -= 1 << size
    return n & 0xFFFFFFFF

  def _element(self, u: UOp) -> Val:
    source, at = self.known[u.src[0]], integer(u.src[1])
    if not isinstance(source, tuple) or at is None or not 0 <= at < len(source):
      raise self.fail(u, "only constant elements of a stack can be taken")
    return source[at]

  # -- lanes ----------------------------------------------------------------------------------------
  def lane_ids(self) -> Val:
    """The flattened local id of every lane."""
    width, b = self.lanes.config.width, self.b
    ids = b.vector("vlid")
    out = [ids.regs[0] if w == 0 else b.vector("vadd", ids, imm(w * width)).regs[0] for w in range(self.lanes.waves)]
    if self.lanes.count % width:
      out[-1] = b.vector("vmin", Val("v", (out[-1],)), imm(self.lanes.count - 1)).regs[0]
    return Val("v", tuple(out))

  def _local_id(self, axis: int) -> Val:
    sizes, v = self.lanes.sizes, self.lane_ids()
    below = math.prod(sizes[:axis])
    if below > 1:
      v = self.b.vector("vshr", v, imm(below.bit_length() - 1)) if below & below - 1 == 0 else self.b.vector("vdivu", v, imm(below))
    if axis + 1 < len(sizes):
      n = sizes[axis]
      v = self.b.vector("vand", v, imm(n - 1)) if n & n - 1 == 0 else self.b.vector("vremu", v, imm(n))
    return v

  def _fused(self, u: UOp) -> Fused | None:
    return None if u.op not in GroupOp.ALU or self.lanes.uniform(u) else fuse(u)

  def _fuse(self, fused: Fused) -> Val:
    operands = (imm(s) if isinstance(s, int) else self._fuse(s) if isinstance(s, Fused) else self.value(s) for s in fused.operands)
    return self.b.vector(fused.vector, *operands)

  # -- arithmetic -----------------------------------------------------------------------------------
  def apply(self, vector: str, scalar: str, *operands: Val) -> Val:
    """An operation on the scalar unit if it exists there and no operand is a vector, else on the vector unit."""
    if scalar and all(o.file in "si" for o in operands):
      return self.b.scalar(scalar, *operands)
    return self.b.vector(vector, *operands)

  def wrap(self, v: Val, dtype: DType) -> Val:
    """Bring a 32-bit result back into a narrow integer, if the dtype is one."""
    for stem, by in TYPES[dtype].wrap:
      v = self.apply("v" + stem, "s" + stem, v, imm(by))
    return v

  def round(self, v: Val, dtype: DType) -> Val:
    """Round a float32 result to a 16-bit float, if the dtype is one."""
    return self.b.vector(name, v) if (name := rounding(dtype)) else v

  def _alu(self, u: UOp) -> Val:
    operand = operand_dtype(u)
    self.check(u, operand)
    if (rule := rule_of(u)) is None:
      raise self.fail(u, "no instruction computes this")
    names = {chr(ord("a") + i): self.value(s) for i, s in enumerate(u.src)}
    if (d := divides(u)) is not None and names["a"].file == "v":
      positive = kind(u.dtype) == "i" and self.intervals.of(u.src[0])[0] >= 0
      return self.wrap(divide(self.b, u, names["a"], d, positive), u.dtype)
    if u.op in (Ops.SHL, Ops.SHR):
      return self._shift(u, rule, *names.values())
    order = rule.order if rule.order is not None else tuple(names)
    v = self.apply(rule.vector, rule.scalar, *(names[o] if isinstance(o, str) else imm(o) for o in order))
    if rule.wraps:
      v = self.wrap(v, u.dtype)
    return self.round(v, u.dtype) if rule.rounds else v

  def _shift(self, u: UOp, rule: Rule, a: Val, n: Val) -> Val:
    """A shift of `a` by `n`. The machine takes counts modulo 32; by 32 bits or more nothing is left, or the sign. (tinygrad makes a 64-bit
    shift one of 32 bits where it sees that the numbers are short, whatever the count.)"""
    least, most = self.intervals.of(u.src[1])
    far, signed = not 0 <= least <= most < 32, u.op is Ops.SHR and kind(u.dtype) == "i"
    if far and n.file == "i":
      if not signed:
        return imm(0)
      n = imm(31)
    elif far and signed:
      n = self.apply("vminu", "sminu", n, imm(31))
    v = self.apply(rule.vector, rule.scalar, a, n)
    if far and not signed:
      near = self.apply("vltu", "sltu", n, imm(32))
      v = self.apply("vand", "sand", v, self.apply("vsub", "ssub", imm(0), near))
    return self.wrap(v, u.dtype) if rule.wraps else v

  def _cast(self, u: UOp) -> Val:
    source, v = u.src[0].dtype, self.value(u.src[0])
    self.check(u, source)
    self.check(u, u.dtype)
    for stem, by in cast_sequence(source, u.dtype):
      scalar = "s" + stem if stem == "ne" else ""
      v = self.apply("v" + stem, scalar, v, *(() if by is None else (imm(by),)))
    return self.wrap(v, u.dtype) if cast_wraps(source, u.dtype) else v

  def _bitcast(self, u: UOp) -> Val:
    source, v = u.src[0].dtype, self.value(u.src[0])
    self.check(u, source)
    self.check(u, u.dtype)
    if source.itemsize != u.dtype.itemsize:
      raise self.fail(u, "a bitcast needs dtypes of one size")
    if source == u.dtype:
      return v
    if pack := TYPES[source].pack:
      v = self.b.vector(pack, v)
    if unpack := TYPES[u.dtype].unpack:
      return self.b.vector(unpack, v)
    return v if u.dtype in dtypes.floats else self.wrap(v, u.dtype)
