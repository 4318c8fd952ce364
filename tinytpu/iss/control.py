"""Slot C: branches, the loop stack, waits, and the faults of control operations. Issued groups give it their word."""
from __future__ import annotations

import numpy as np

from ..config import Config
from ..isa import encoding as enc
from ..isa import timing
from ..isa.faults import Fault
from ..isa.table import OPS
from . import layout as lay
from .jit import jit

i32, i64 = np.int32, np.int64
DEPTH, PREDICATES = int(lay.Ctl.DEPTH), int(lay.Ctl.PREDICATES)
DMAI, DMAO, UNIT = int(lay.Unit.DMAI), int(lay.Unit.DMAO), lay.UNIT
DMA_QUEUE, DMA_NEXT, LOOP_DEPTH = timing.DMA_QUEUE, lay.DMA_NEXT, Config.LOOP_DEPTH
LOOP_OVERFLOW, LOOP_UNDERFLOW, TRAP = int(Fault.LOOP_OVERFLOW), int(Fault.LOOP_UNDERFLOW), int(Fault.TRAP)
_NAMES = "halt trap jmp beq bne blt bge bltu bgeu loop lend fence dwaiti dwaito pset0 pset1 bp bnp barrier".split()
HALT, TRAP_OP, JMP, BEQ, BNE, BLT, BGE, BLTU, BGEU, LOOP, LEND, FENCE_OP, DWAITI, DWAITO, PSET0, PSET1, BP, BNP, BARRIER = (
  OPS[n].code for n in _NAMES)
SLDX, SLDEP = OPS["sldx"].code, OPS["sldep"].code
if unknown := {op.name for op in OPS.values() if op.slot == "C"} - set(_NAMES):
  raise TypeError(f"the simulator does not know slot C operations {sorted(unknown)}: extend iss.control")

_CODE, _A, _C, _D, _IMM = enc.CODE.lsb, enc.A.lsb, enc.C.lsb, enc.D.lsb, enc.IMM.lsb
PREDICATE = Config.PREDICATES - 1
REG, CODE_MASK, WORD = enc.A.mask, enc.CODE.mask, enc.IMM.mask


@jit
def control_fault(word, depth):
  """(cause, info) of a fault that a control operation raises whatever its operands."""
  code = (word >> _CODE) & CODE_MASK
  if code == TRAP_OP:
    return TRAP, (word >> _IMM) & WORD
  if code == LOOP and depth == LOOP_DEPTH:
    return LOOP_OVERFLOW, 0
  if code == LEND and depth == 0:
    return LOOP_UNDERFLOW, 0
  return 0, 0


@jit
def waits(slot_c, slot_t, dma, fence, tail):
  """First cycle in which fences, barriers, DMA waits and a full DMA queue let the group issue."""
  at = 0
  if slot_c != 0:
    code, n = (slot_c >> _CODE) & CODE_MASK, (slot_c >> _IMM) & WORD
    if code == FENCE_OP:
      at = fence
    elif code == BARRIER:
      at = tail
    elif (code == DWAITI or code == DWAITO) and n < DMA_QUEUE:
      queue = 0 if code == DWAITI else 1
      at = dma[queue, (dma[queue, DMA_NEXT] - 1 - n) % DMA_QUEUE]
  if slot_t != 0:
    unit = UNIT[(slot_t >> _CODE) & CODE_MASK]
    if unit == DMAI or unit == DMAO:
      queue = 0 if unit == DMAI else 1
      at = max(at, dma[queue, dma[queue, DMA_NEXT]])
  return at


@jit
def loop_state(code, distance, loop_total, loop_count, depth):
  """Value of the scalar operations that read the loop stack: passes done of the loop `distance` levels out, or the depth."""
  if code == SLDEP:
    return depth
  return loop_total[depth - 1 - distance] - loop_count[depth - 1 - distance] if distance < depth else 0


@jit
def branch(word, sregs, loop_start, loop_total, loop_count, ctl, following):
  """Perform a control operation other than waits; returns the word index of the next group."""
  code, target = (word >> _CODE) & CODE_MASK, (word >> _IMM) & WORD
  if code == LEND:
    top = ctl[DEPTH] - 1
    loop_count[top] -= 1
    if loop_count[top] > 0:
      return loop_start[top]
    ctl[DEPTH] = top
    return following
  a, c = sregs[(word >> _A) & REG], sregs[(word >> _C) & REG]
  if code == LOOP:
    if i32(a) <= 0:
      return target
    loop_start[ctl[DEPTH]], loop_total[ctl[DEPTH]], loop_count[ctl[DEPTH]] = following, i64(a), i64(a)
    ctl[DEPTH] += 1
    return following
  if code == PSET0 or code == PSET1:
    bit = 1 << ((word >> _D) & PREDICATE)
    ctl[PREDICATES] = ctl[PREDICATES] | bit if (a == 0) == (code == PSET0) else ctl[PREDICATES] & ~bit
    return following
  taken = False
  if code == BP or code == BNP:
    taken = bool((ctl[PREDICATES] >> ((word >> _A) & PREDICATE)) & 1 == (1 if code == BP else 0))
  elif code == JMP:
    taken = True
  elif code == BEQ:
    taken = bool(a == c)
  elif code == BNE:
    taken = bool(a != c)
  elif code == BLT:
    taken = bool(i32(a) < i32(c))
  elif code == BGE:
    taken = bool(i32(a) >= i32(c))
  elif code == BLTU:
    taken = bool(a < c)
  elif code == BGEU:
    taken = bool(a >= c)
  return target if taken else following
