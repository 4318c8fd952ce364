"""Operands of byte matrix steps: the four int8 values of a work item as one word.

A row-major A, or a B that lies transposed, has them side by side: one load of words fetches them. A row-major B has them in four rows.
There `matmul` gives neighbouring columns to four tiles, so that four words hold what four operands need, and the vector unit
transposes 4 x 4 bytes; where it could not, a word holds values of four neighbouring lanes, and the cross-lane unit transposes. Words
must be aligned, and whether buffers are is known at launch only: a program that loads words has a second version without.
Anything else is packed by the vector unit.
"""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from tinygrad.dtype import AddrSpace, dtypes
from tinygrad.uop.ops import Ops, UOp

from ..mir.builder import Builder, Val, imm
from ..mir.ir import Reg
from ..types import BYTES
from ..uops import constant
from .arithmetic import Values
from .memory import Memory
from .uniformity import Index, pattern, split


@dataclass
class Words:
  """Loads of words in place of four loads of int8. index: an INDEX of the buffer; at: word offsets, one int64 array of shape
  (waves * width,) a load; uniform: (coefficient in words, UOp); gate: of all lanes, or None. One load: its words are the operand, or
  (`transpose`) are once 4 x 4 bytes have changed places between lanes. Four loads: their bytes number `byte` are."""
  index: UOp
  uniform: list[tuple[int, UOp]]
  gate: UOp | None
  at: list[np.ndarray]
  transpose: bool = False
  byte: int = 0


def _strides(at: np.ndarray, side: int) -> tuple[int, int, int] | None:
  """Strides of row, group of four lanes and lane within it that make up the offsets of a wave (shape (side * side,)), if they do."""
  e = np.arange(side * side)
  row, group, lane = (int(at[n] - at[0]) if n < at.size else 0 for n in (side, BYTES if side > BYTES else at.size, 1))
  made = e // side * row + e % side // BYTES * group + e % BYTES * lane
  return (row, group, lane) if np.array_equal(at - at[0], made) else None


class Packing:
  """Operands of the byte matrix steps of one kernel.

  Args: uops: its linear program. aligned: whether words may be loaded.
  Attributes:
    absorbed: loads of bytes that need not be done, since words are loaded in their place.
  """

  def __init__(self, values: Values, builder: Builder, memory: Memory, uops: list[UOp], aligned: bool):
    self.values, self.b, self.memory, self.lanes = values, builder, memory, values.lanes
    stacks = list(dict.fromkeys(s for u in uops if u.op is Ops.WMMA and u.src[0].dtype == dtypes.int8 for s in u.src[:2]))
    self.words: dict[UOp, Words] = {}
    if stacks and aligned and not self._stored_before(uops, stacks[-1]):
      self.words = {s: w for s in stacks if (w := self._words(s)) is not None}
    users = Counter(s for u in uops for s in u.src)
    served = Counter(e for s in self.words for e in s.src)
    self.absorbed = {e for e, n in served.items() if n == users[e]}

  def bases(self) -> list[Reg]:
    """The registers of the buffer addresses that must be multiples of a word."""
    buffers = dict.fromkeys(w.index.src[0] for w in self.words.values())
    return list(dict.fromkeys(self.memory.bases[b].regs[0] for b in buffers))

  def _stored_before(self, uops: list[UOp], stack: UOp) -> bool:
    """Whether memory changes before an operand is made: loads may not move down then."""
    return any(u.op is Ops.STORE and u.src[0].src[0].addrspace is not AddrSpace.REG for u in uops[:uops.index(stack)])

  # -- words ----------------------------------------------------------------------------------------
  def _words(self, stack: UOp) -> Words | None:
    """The word load that fetches the elements of an operand, if there is one."""
    if len(stack.src) != BYTES or any(e.op is not Ops.LOAD or e.src[0].src[0].op is not Ops.PARAM for e in stack.src):
      return None
    first = stack.src[0]
    indices = [split(self.lanes, e.src[0].src[1]) for e in stack.src]
    gates = {e.src[2] if len(e.src) > 2 else None for e in stack.src}
    zero = all(len(e.src) < 3 or constant(e.src[1]) == 0 for e in stack.src)
    if len({e.src[0].src[0] for e in stack.src}) != 1 or len(gates) != 1 or not zero \
        or any(i.mixed or i.uniform != indices[0].uniform for i in indices) or any(coef % BYTES for coef, _ in indices[0].uniform):
      return None
    side = self.lanes.config.lanes
    at = np.stack([i.fixed + i.const for i in indices])  # (element, waves * width): the byte each is at
    gate = gates.pop()
    uniform = [(coef // BYTES, u) for coef, u in indices[0].uniform]
    aligned, word = at % BYTES, at // BYTES
    if not aligned[0].any() and (at == at[0] + np.arange(BYTES)[:, None]).all():
      return self._reachable(Words(first.src[0], uniform, gate, [word[0]]))
    if (aligned == aligned[0, 0]).all():
      return self._reachable(Words(first.src[0], uniform, gate, list(word), byte=int(aligned[0, 0])))
    # Element n of lane 4g + m is wanted; lane 4g + n of the same row loads it, as byte m.
    groups = at.reshape(BYTES, -1, side // BYTES, BYTES)  # (element n, row, g, lane m)
    loaded = groups[..., 0]
    if not (loaded % BYTES).any() and (groups == loaded[..., None] + np.arange(BYTES)).all() and (gate is None or self._by_row(gate)):
      return self._reachable(Words(first.src[0], uniform, gate, [np.moveaxis(loaded, 0, -1).reshape(-1) // BYTES], transpose=True))
    return None

  def _reachable(self, w: Words) -> Words | None:
    """`w` if its loads have addresses that the machine can form or `_offsets` can compute."""
    config = self.lanes.config
    waves = [wave for at in w.at for wave in at.reshape(-1, config.width)]
    return w if all(pattern(config, wave, config.width).form != "x" or _strides(wave, config.lanes) for wave in waves) else None

  def _by_row(self, gate: UOp) -> bool:
    """Whether a gate is the same in all lanes of a row of the tile. Errs towards no."""
    if gate.op is Ops.AND:
      return all(self._by_row(s) for s in gate.src)
    if gate.op is not Ops.CMPLT or any(s.dtype not in dtypes.ints for s in gate.src):
      return False
    return all(self._row_index(split(self.lanes, s)) for s in gate.src)

  def _row_index(self, index: Index) -> bool:
    rows = index.fixed.reshape(-1, self.lanes.config.lanes)
    return not index.mixed and bool((rows == rows[:, :1]).all())

  def _load(self, w: Words, at: np.ndarray) -> Val:
    """The words of one load; those that other operands of the same scope need too are loaded once."""
    known = self.b.scopes[-1].known
    key = ("words", w.index.src[0], *(x for term in w.uniform for x in term), w.gate, at.tobytes())
    waves = at.reshape(-1, self.lanes.config.width)
    if (*key, 0) not in known:
      gate = None if w.gate is None else self.values.value(w.gate)
      spread = None
      if any(pattern(self.lanes.config, wave, len(wave)).form == "x" for wave in waves):
        spread = Val("v", tuple(self._offsets(wave) for wave in waves))
      loaded = self.memory.words(w.index, w.uniform, waves, gate, spread)
      known.update({(*key, n): reg for n, reg in enumerate(loaded.regs)})
    return Val("v", tuple(known[*key, n] for n in range(len(waves))), depth=self.b.depth)

  def _offsets(self, at: np.ndarray) -> Reg:
    """The offsets of a wave in a register."""
    strides = _strides(at, self.lanes.config.lanes)
    assert strides is not None
    ids, side = self.b.vector("vlid"), self.lanes.config.lanes.bit_length() - 1
    row, lane = self.b.vector("vshr", ids, imm(side)), self.b.vector("vand", ids, imm(BYTES - 1))
    group = self.b.vector("vand", self.b.vector("vshr", ids, imm(2)), imm(self.lanes.config.lanes // BYTES - 1))
    total = imm(int(at[0]))
    for part, stride in zip((row, group, lane), strides, strict=True):
      total = self.b.vector("vadd", self.b.vector("vmul", part, imm(stride)), total)
    return self.b.to_vector(total).regs[0]

  # -- operands -------------------------------------------------------------------------------------
  def operand(self, stack: UOp) -> tuple[Val, ...]:
    """The values of a STACK, an operand of a WMMA: one per element, but of int8 one word."""
    if (w := self.words.get(stack)) is not None:
      words = [self._load(w, at) for at in w.at]
      return (self._column(words, w.byte) if len(words) > 1 else self.b.cross("xtrb", "v", words[0]) if w.transpose else words[0],)
    elements = tuple(self.values.value(element) for element in stack.src)
    if stack.dtype != dtypes.int8:
      return elements
    packed = self.b.vector("vshl", elements[3], imm(24))
    for i in (2, 1, 0):
      byte = self.b.vector("vand", elements[i], imm(255))
      packed = self.b.vector("vor", packed, self.b.vector("vshl", byte, imm(8 * i)) if i else byte)
    return (packed,)

  def _column(self, words: list[Val], byte: int) -> Val:
    """Bytes number `byte` of four words, as a word: halfwords, then bytes change places, and operands that need the other bytes share
    the operations."""
    vector, low, even = self.b.vector, imm(0xFFFF), imm(0x00FF00FF)

    def halves(a: Val, b: Val) -> Val:
      if byte < 2:
        return vector("vor", vector("vand", a, low), vector("vshl", b, imm(16)))
      return vector("vor", vector("vshr", a, imm(16)), vector("vand", b, imm(0xFFFF0000)))
    x, y = halves(words[0], words[2]), halves(words[1], words[3])
    if byte % 2:
      return vector("vor", vector("vand", vector("vshr", x, imm(8)), even), vector("vand", y, imm(0xFF00FF00)))
    return vector("vor", vector("vand", x, even), vector("vshl", vector("vand", y, even), imm(8)))
