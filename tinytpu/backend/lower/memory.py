"""Memory access: from an index to the address form of a load or store, with the masks that guard it."""
from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
from tinygrad.dtype import AddrSpace, dtypes
from tinygrad.uop.ops import Ops, UOp

from ...isa import encoding as enc
from ...isa.encoding import MemType
from ..mir.builder import Builder, Val, imm
from ..mir.ir import Mem, Reach, Reg
from ..mir.traffic import scattered, traffic
from ..types import TYPES
from .arithmetic import Values
from .bounds import within
from .uniformity import Index, Lanes, Pattern, pattern, split

_OFF_MAX = (1 << enc.OFF.width - 1) - 1
_PREFIX = {AddrSpace.GLOBAL: "h", AddrSpace.LOCAL: "v"}


@dataclass
class WaveAccess:
  """One wave's part of an access."""
  form: str
  mem: Mem
  lines: int


class Memory:
  """Loads and stores of one kernel. `bases`: byte address of every buffer, as a value."""

  def __init__(self, values: Values, builder: Builder, lanes: Lanes):
    self.values, self.b, self.lanes = values, builder, lanes
    self.bases: dict[UOp, Val] = {}

  def _place(self, index: UOp) -> tuple[str, Reg, MemType]:
    """Memory ("h" or "v"), base register and element type of an INDEX."""
    buffer, dtype = self._buffer(index), index.dtype
    if buffer not in self.bases or index.op is not Ops.INDEX or len(index.src) != 2:
      raise self.values.fail(index, "only one-dimensional elements of parameters and local buffers can be addressed")
    self.values.check(index, dtype)
    base = self.b.to_scalar(self.bases[buffer]).regs[0]
    return _PREFIX[buffer.addrspace], base, TYPES[dtype].memory

  @staticmethod
  def _buffer(index: UOp) -> UOp:
    buffer = index.src[0]
    while buffer.op in (Ops.AFTER, Ops.BITCAST):
      buffer = buffer.src[0]
    return buffer

  def _sum(self, terms: list[tuple[int, UOp]], scalar: bool) -> Val:
    """The sum of coefficient * UOp, on one of the two units; 0 if there are none. Terms of outer scopes are added first, so that
    their sum leaves the loop."""
    apply = self.b.scalar if scalar else self.b.vector
    stem = "s" if scalar else "v"
    parts = []
    for coef, u in terms:
      v = self.values.value(u)
      v = v if scalar else self.b.to_vector(v)
      coef &= 0xFFFFFFFF
      if coef != 1:
        v = apply(stem + "shl", v, imm(coef.bit_length() - 1)) if coef & coef - 1 == 0 else apply(stem + "mul", v, imm(coef))
      parts.append(v)
    parts.sort(key=lambda v: v.depth)
    total = parts[0] if parts else imm(0)
    for v in parts[1:]:
      total = apply(stem + "add", total, v)
    return total

  def accesses(self, index: UOp, gate: Val | None, store: bool) -> tuple[str, list[WaveAccess]]:
    """The accesses of an INDEX: memory prefix, and one `WaveAccess` per wave, or a single one where all waves do the same."""
    prefix, base, mtype = self._place(index)
    parts = split(self.lanes, index.src[1])
    x = self._sum(parts.uniform, scalar=True)
    waves, width = self.lanes.waves, self.lanes.config.width
    gather = self._sum(parts.mixed, scalar=False) if parts.mixed else None
    patterns = [Pattern("x", active=width)] * waves if gather else [
      pattern(self.lanes.config, parts.fixed[w * width:(w + 1) * width], self.lanes.active(w)) for w in range(waves)]
    if any(p.form == "x" for p in patterns):
      gather = self._gather(parts, gather)
    uniform = all(p == patterns[0] for p in patterns) and patterns[0].form == "2" and not patterns[0].r and not patterns[0].c
    once = (uniform or gather is not None and gather.waves == 1 and patterns[0].form == "x") and (gate is None or gate.waves == 1)
    guard = store or bool(parts.mixed)
    sole = waves - 1 if store else 0  # a store's last value stays; a load serves all waves, and the first has every lane at work
    found = [self._access(base, mtype, x, parts, patterns[w], gather, self.mask(gate, guard, patterns[w].active, w), w)
             for w in ((sole,) if once else range(waves))]
    reach = self._reach(parts, mtype.bytes)
    for a in found:
      a.mem.reach = reach
    return prefix, found

  def _reach(self, parts: Index, size: int) -> Reach | None:
    """What an index of elements of `size` bytes may reach; None: it may wrap."""
    low, high = parts.const + int(parts.fixed.min()), parts.const + int(parts.fixed.max())
    first, last = low, high
    steps = []
    for coef, u in (*parts.uniform, *parts.mixed):
      v = self.values.known.get(u)
      least, most = self.values.intervals.of(u)
      ends = coef * least, coef * most
      first, last = first + min(ends), last + max(ends)
      if u.op in (Ops.RANGE, Ops.SPECIAL) and isinstance(v, Val) and v.file == "s":
        steps.append((v.regs[0], coef * size, most))
      else:
        low, high = low + min(ends), high + max(ends)
    return Reach(low * size, high * size + size - 1, tuple(steps)) if -1 << 31 <= first and last < 1 << 31 else None

  def _gather(self, parts: Index, mixed: Val | None) -> Val:
    fixed = self._sum(parts.fixed_terms, scalar=False) if parts.fixed_terms else None
    if mixed is None or fixed is None:
      out = mixed or fixed
      assert out is not None
      return out
    return self.b.vector("vadd", mixed, fixed)

  def _access(self, base: Reg, mtype: MemType, x: Val, parts: Index, p: Pattern, gather: Val | None, mask: Reg | None,
              wave: int) -> WaveAccess:
    off = start = parts.const + p.start
    if not -_OFF_MAX <= off <= _OFF_MAX:
      low = (off + (_OFF_MAX + 1) // 2) // (_OFF_MAX + 1) * (_OFF_MAX + 1)  # shared by neighbouring accesses
      x, off = self.b.scalar("sadd", x, imm(low)), off - low
    mem = Mem(base, mtype, self.b.to_scalar(x).regs[0], off)
    rows, size = self.lanes.config.sublanes, mtype.bytes
    line = self.lanes.config.line_bytes
    known = all(coef * size % line == 0 for coef, _ in parts.uniform)  # buffers start at the start of a line
    span = size * self.lanes.config.width
    lines = -(-(start * size % line + span) // line) if known else -(-span // line) + (span > line // 2)
    if p.form == "2":
      mem.r, mem.c = (self.b.to_scalar(imm(s)).regs[0] for s in (p.r, p.c))
      lines = min(rows, 1 + abs(p.r) * size * rows // line) * min(rows, 1 + abs(p.c) * size * rows // line)
    elif p.form == "x":
      assert gather is not None
      mem.index = self.b.to_vector(gather).at(wave)  # type: ignore[assignment]
      lines = rows
    mem.mask = mask
    if p.offsets is not None:
      mem.traffic = traffic(self.lanes.config, (parts.const + p.offsets[:p.active]) * size)
    else:
      mem.traffic = scattered(self.lanes.config)
    return WaveAccess(p.form, mem, lines)

  def mask(self, gate: Val | None, guard: bool, active: int, wave: int) -> Reg | None:
    """The mask of an access of which `active` lanes fit its address form; guard: lanes without a work item must do nothing."""
    mask = None
    active = min(active, self.lanes.active(wave)) if guard else active
    if active < self.lanes.config.width:
      mask = self.b.vector("vlt", self.b.vector("vlid"), imm(active))
    if gate is not None and (gate.file != "i" or not gate.imm):
      own = self.b.to_vector(gate)
      own = Val("v", (own.at(wave),), depth=own.depth)  # type: ignore[arg-type]
      mask = own if mask is None else self.b.vector("vand", mask, own)
    return None if mask is None else mask.regs[0]

  def words(self, index: UOp, uniform: list[tuple[int, UOp]], waves: np.ndarray, gate: Val | None, spread: Val | None) -> Val:
    """Words of a buffer of narrower elements, all lanes at work; 0 where gated off.

    Args:
      index: any INDEX of the buffer. uniform: (coefficient in words, UOp). waves: word offsets, int64 of shape (waves, width).
      spread: the same in registers, for waves that no address form fits.
    """
    prefix, base, _ = self._place(index)
    x = self._sum(uniform, scalar=True)
    regs = []
    for w, at in enumerate(waves):
      p = pattern(self.lanes.config, at, len(at))
      a = self._access(base, MemType.W, x, Index(uniform, [], at, [], 0), p, spread, self.mask(gate, False, p.active, w), w)
      regs.append(self.b.load(f"{prefix}ld{a.form}", a.mem, a.lines))
    return Val("v", tuple(regs), depth=self.b.depth)

  def _inside(self, u: UOp) -> Val | None:
    """Where the element that a LOAD names is one of its buffer; None: wherever its gate holds."""
    index, gate = u.src[0], u.src[2] if len(u.src) > 2 else None
    buffer = self._buffer(index)
    elements = buffer.max_numel() * itemsize(buffer) // max(1, index.dtype.itemsize)
    if len(index.src) != 2 or within(self.lanes, index.src[1], gate, elements):
      return None
    return self.values.value(index.src[1].cast(dtypes.uint32).alu(Ops.CMPLT, UOp.const(elements, dtypes.uint32)))

  def load(self, u: UOp, around: Val | None) -> Val:
    """LOAD(index[, alternative, gate]) from HBM or VMEM. around: gate of what is around it; where that is 0 the value is any."""
    gate = self.values.value(u.src[2]) if len(u.src) > 2 else None
    alternative = self.values.value(u.src[1]) if len(u.src) > 2 else imm(0)
    parts = [g for g in (gate, around, self._inside(u)) if g is not None]
    both = None if not parts else reduce(lambda a, b: self.values.apply("vand", "sand", a, b), parts)
    prefix, accesses = self.accesses(u.src[0], both, store=False)
    regs = tuple(self.b.load(f"{prefix}ld{a.form}", a.mem, a.lines if prefix == "h" else a.mem.traffic.conflicts) for a in accesses)
    v = Val("v", regs, depth=self.b.depth)
    if gate is None or alternative.file == "i" and alternative.imm == 0:
      return v
    return self.b.vector("vsel", self.b.to_vector(gate), v, alternative)

  def store(self, u: UOp, gate: Val | None) -> None:
    """STORE(index, value) to HBM or VMEM, under the gates of the IFs around it."""
    data = self.b.to_vector(self.values.value(u.src[1]))
    prefix, accesses = self.accesses(u.src[0], gate, store=True)
    if len(accesses) == 1 and data.waves > 1:  # one address for all work items: the last wave's value stays, as the last element's does
      data = Val("v", data.regs[-1:], depth=data.depth)
    for w, a in enumerate(accesses):
      self.b.store(f"{prefix}st{a.form}", data.at(w), a.mem, a.lines)  # type: ignore[arg-type]


def itemsize(buffer: UOp) -> int:
  """Bytes of an element of a buffer."""
  return 1 if buffer.dtype == dtypes.bool else buffer.dtype.itemsize


def local_bytes(buffer: UOp) -> int:
  """Bytes of a LOCAL buffer, rounded up to a word."""
  return -(-buffer.max_numel() * itemsize(buffer) // 4) * 4
