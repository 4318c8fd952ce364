"""The issue loop: group after group, each given the cycle in which it issues, then executed; idle cycles are not stepped.

Every waiting condition of docs/timing.md is a cycle from which it holds (`ready`), except the reservations of shared
write ports, which are bitmaps relative to the last issue.
"""
from __future__ import annotations

import numpy as np

from ..config import Config
from ..isa import encoding as enc
from ..isa import timing
from ..isa.faults import Fault
from ..isa.stalls import FAULT as FAULT_EVENT
from . import layout as lay
from .control import HALT, SLDEP, SLDX, branch, control_fault, loop_state, waits
from .cross import MMLD, PCLR, PCLRA, PPOP, PPOPR, PPOPZ, PPUSH, XALL, XANY, XPERM, XTOS, cross, pop, to_scalar
from .decode import decode, refill
from .hbm import direct_access, start_transfer
from .jit import jit
from .lanes import INNER, scalar, vector
from .matrix import matrix_step
from .permit import permit
from .reduce import reduction
from .trace import blame, note, note_group
from .vmem import vmem_atomic, vmem_load, vmem_store

u32, i64 = np.uint32, np.int64

# Python enumerations and dataclass fields are not constants to Numba; module globals that hold integers are.
(PROGRAM, LIMIT, PC, LOOK, STATUS, TAIL, FENCE, DEPTH, BASE, VPORT, SPORT, XPORT, FAULT, FAULT_PC, FAULT_CYCLE, FAULT_INFO, END,
 _) = (int(m) for m in lay.Ctl)
WIDTH, SIDE, VMEM_BYTES, _, _, BLOCK_SHIFT, BLOCKS, _, REFILL, BEAT_SHIFT = (int(m) for m in lay.Geometry)
STATE, WORDS, DEPS, VLAT, SLAT, XLAT, SPECIAL = (int(m) for m in lay.Meta)
VSTORE, VATOMIC, HLOAD, HSTORE = int(lay.Unit.VSTORE), int(lay.Unit.VATOMIC), int(lay.Unit.HLOAD), int(lay.Unit.HSTORE)
VDIV, PSUM, VMEM, V0, P0 = lay.VDIV, lay.PSUM, lay.VMEM, lay.V0, lay.P0
PSUM_ROW, HELD_ROW, B_ROW, V_ROW, X_ROW, L_ROW, T_ROW = (
  lay.PSUM_ROW, lay.HELD_ROW, lay.B_ROW, lay.V_ROW, lay.X_ROW, lay.L_ROW, lay.T_ROW)
C, S, V, X, L, T = lay.C, lay.S, lay.V, lay.X, lay.L, lay.T
FORM, UNIT, BUSY, SWAP, INDEX, FLEX = lay.FORM, lay.UNIT, lay.BUSY, lay.SWAP, lay.INDEX, lay.FLEX
STEP, FORMAT, CLEAR, HELD, REDUCTION, ALONG = lay.STEP, lay.FORMAT, lay.CLEAR, lay.HELD, lay.REDUCTION, lay.ALONG
N_GROUPS, N_SLOT_C, N_DIV, N_MXU, N_VMEM, N_HBM, N_DMA, N_REFILL = (
  lay.COUNTER[n] for n in ("groups", "slot_C", "div_ops", "mxu_steps", "vmem_cycles", "hbm_lines", "dma_lines", "refills"))
DMA_NEXT = lay.DMA_NEXT
LOAD, WORD_BYTES = timing.LOAD, enc.WORD_BYTES
ILLEGAL, WATCHDOG = int(Fault.ILLEGAL), int(Fault.WATCHDOG)

_CODE, _A, _B, _C, _D, _IMM, _BKIND, _SWAP = (
  f.lsb for f in (enc.CODE, enc.A, enc.B, enc.C, enc.D, enc.IMM, enc.BKIND, enc.SWAP))
REG, CODE_MASK, BKIND_MASK, WORD = enc.A.mask, enc.CODE.mask, enc.BKIND.mask, enc.IMM.mask
B_VREG, B_SREG, BUCKET = int(enc.BKind.VREG), int(enc.BKind.SREG), Config.PSUMS - 1


@jit
def flexible(word, sregs):
  """Value of a flexible operand that is a scalar register or an immediate (int64, 0 to 2^32 - 1)."""
  if (word >> _BKIND) & BKIND_MASK == B_SREG:
    return i64(sregs[(word >> _B) & REG])
  return (word >> _IMM) & WORD


@jit
def vector_slot(word, sregs, R, blocks):
  """Slot V into V_ROW."""
  code = (word >> _CODE) & CODE_MASK
  a, b, c = (word >> _A) & REG, (word >> _B) & REG, (word >> _C) & REG
  if FLEX[code] != 0:
    if (word >> _BKIND) & BKIND_MASK != B_VREG:
      b, value = B_ROW, u32(flexible(word, sregs))
      for i in range(blocks):
        for j in range(INNER):
          R[B_ROW, INNER * i + j] = value
    if (word >> _SWAP) & 1 and SWAP[code] != 0:
      if SWAP[code] == 1:
        a, b = b, a
      else:
        b, c = c, b
  vector(R, INDEX[code], V_ROW, a, b, c, blocks)


@jit
def scalar_slot(word, sregs, t):
  """Value of slot S's operation in cycle t."""
  code = (word >> _CODE) & CODE_MASK
  a, b, c = sregs[(word >> _A) & REG], u32(flexible(word, sregs)), sregs[(word >> _C) & REG]
  if (word >> _SWAP) & 1 and SWAP[code] != 0:
    if SWAP[code] == 1:
      a, b = b, a
    else:
      b, c = c, b
  return scalar(INDEX[code], a, b, c, t)


@jit
def copy_row(R, to, source, blocks):
  """Copy a row of R."""
  for i in range(blocks):
    for j in range(INNER):
      R[to, INNER * i + j] = R[source, INNER * i + j]


@jit
def fault(ctl, trace, present, blamed, cause, pc, cycle, info):
  """Record a fault and stop. present, blamed: when the group was present, and what it waited for."""
  if trace is not None:
    note(trace, FAULT_EVENT, cycle, pc, 0, present, ctl[LOOK], blamed, 0, 0, 0)
  ctl[STATUS], ctl[FAULT], ctl[FAULT_PC], ctl[FAULT_CYCLE], ctl[FAULT_INFO], ctl[END] = 2, cause, pc, cycle, info, cycle


@jit
def run(ctl, geo, sregs, R, F, B, ready, vmem8, vmem16, vmem32, hbm8, hbm16, hbm32, hbm64, tags, text, slots, deps, meta, latency, interval,
        loop_start, loop_total, loop_count, dma, counts, memo, address, count, words, ranges, trace, budget):
  """Run at most `budget` groups, or to the end of the launch (ctl[STATUS] != 0).

  Args: see `tinytpu.machine.iss`, which owns the arrays; `layout` says what is where; ranges: a table of `permit`; trace: what
    `iss.trace` fills, or None, which makes another function of it.
  """
  width, side, beat_shift = geo[WIDTH], geo[SIDE], geo[BEAT_SHIFT]
  blocks, block_words = width // INNER, (1 << geo[BLOCK_SHIFT]) // WORD_BYTES
  checking = ranges.shape[0] != 0
  for _ in range(budget):
    pc, look = ctl[PC], ctl[LOOK]

    # -- front end: look-up, refill, decoding -------------------------------------------------------
    byte = ctl[PROGRAM] + WORD_BYTES * pc
    block = byte >> geo[BLOCK_SHIFT]
    index = block & (geo[BLOCKS] - 1)
    present = look + 1
    if tags[index] != block:
      refill(text, meta, hbm64, index, block, block_words)
      tags[index] = block
      counts[N_REFILL] += 1
      present += geo[REFILL]
    if ctl[STATUS] != 0:
      return      # the group after a faulting one was looked up, and no more
    g = index * block_words + ((byte // WORD_BYTES) & (block_words - 1))
    if meta[g, STATE] == 0:
      decode(text, slots, deps, meta, latency, interval, g, pc)
    if present >= ctl[LIMIT]:
      fault(ctl, trace, present, 0, WATCHDOG, pc, ctl[LIMIT], 0)
      return
    if meta[g, STATE] == 2:
      fault(ctl, trace, present, 0, ILLEGAL, pc, present, 0)
      return
    word_c, word_t = slots[g, C], slots[g, T]

    # -- issue: the first cycle in which every condition holds ------------------------------------------
    t = present
    if meta[g, SPECIAL] != 0:
      if word_c != 0:
        cause, info = control_fault(word_c, ctl[DEPTH])
        if cause != 0:
          fault(ctl, trace, present, 0, cause, pc, present, info)
          return
      t = max(t, waits(word_c, word_t, dma, ctl[FENCE], ctl[TAIL]))
    for i in range(meta[g, DEPS]):
      t = max(t, ready[deps[g, i]])
    vlat, slat, xlat = i64(meta[g, VLAT]), i64(meta[g, SLAT]), i64(meta[g, XLAT])
    if vlat | slat | xlat:
      ahead = t - ctl[BASE]
      vport = ctl[VPORT] >> ahead if ahead < 63 else 0
      sport = ctl[SPORT] >> ahead if ahead < 63 else 0
      xport = ctl[XPORT] >> ahead if ahead < 63 else 0
      divided = ready[VDIV]  # when a vector division's result is due
      while ((vlat != 0 and ((vport >> vlat) & 1 or t + vlat == divided)) or (slat != 0 and (sport >> slat) & 1)
             or (xlat != 0 and (xport >> xlat) & 1)):
        vport, sport, xport, t = vport >> 1, sport >> 1, xport >> 1, t + 1
      if vlat != 0:
        vport |= 1 << vlat
      if slat != 0:
        sport |= 1 << slat
      if xlat != 0:
        xport |= 1 << xlat
    blamed = 0
    if trace is not None:
      last = min(t, ctl[LIMIT]) - 1
      if last >= present:
        blamed = blame(last, g, deps, meta, ready, trace[2], word_c, word_t, dma, ctl)
    if t >= ctl[LIMIT]:
      fault(ctl, trace, present, blamed, WATCHDOG, pc, ctl[LIMIT], 0)
      return
    if vlat | slat | xlat:
      ctl[BASE], ctl[VPORT], ctl[SPORT], ctl[XPORT] = t, vport, sport, xport
    counts[N_GROUPS] += 1
    tail = ctl[TAIL]
    if trace is not None:
      lines, transfers = counts[N_HBM] + counts[N_DMA], dma[0, DMA_NEXT] + dma[1, DMA_NEXT]

    # -- execution: operands are read before results are written back below -------------------------------
    word_s, word_v, word_x, word_l = slots[g, S], slots[g, V], slots[g, X], slots[g, L]
    value_s, value_x = u32(0), u32(0)
    row_x = -1          # vector register that slot X writes
    scalar_x = 0        # scalar register that slot X writes
    write_l, write_t = -1, -1
    if word_s != 0:
      code = (word_s >> _CODE) & CODE_MASK
      if code == SLDX or code == SLDEP:
        value_s = u32(loop_state(code, flexible(word_s, sregs), loop_total, loop_count, ctl[DEPTH]))
      else:
        value_s = scalar_slot(word_s, sregs, t)
      counts[N_SLOT_C + S] += 1
    if word_v != 0:
      vector_slot(word_v, sregs, R, blocks)
      counts[N_SLOT_C + V] += 1
    if word_x != 0:
      counts[N_SLOT_C + X] += 1
      code, d, a, b = (word_x >> _CODE) & CODE_MASK, (word_x >> _D) & REG, (word_x >> _A) & REG, (word_x >> _B) & REG
      done = t + latency[code]
      if interval[code] > 1:
        ready[BUSY[code]] = t + interval[code]
      if STEP[code] != 0:
        d &= BUCKET
        matrix_step(R, F, B, FORMAT[code], d, a, HELD_ROW if HELD[code] != 0 else b, side, CLEAR[code] != 0)
        ready[P0 + d], ready[PSUM] = done, max(ready[PSUM], done)
        counts[N_MXU] += 1
        tail = max(tail, done)
      elif code == MMLD:
        copy_row(R, HELD_ROW, a, blocks)
      elif code == PPUSH:
        d &= BUCKET
        copy_row(R, PSUM_ROW + d, a, blocks)
        ready[P0 + d], ready[PSUM] = done, max(ready[PSUM], done)
        tail = max(tail, done)
      elif code == PPOP or code == PPOPR or code == PPOPZ:
        pop(R, code, PSUM_ROW + (a & BUCKET), flexible(word_x, sregs) if code == PPOPR else 0, width, side)
        row_x = d
      elif code == PCLR:
        R[PSUM_ROW + (d & BUCKET), :] = 0
      elif code == PCLRA:
        R[PSUM_ROW:PSUM_ROW + BUCKET + 1, :] = 0
      elif code == XTOS or code == XANY or code == XALL:
        value_x, scalar_x = to_scalar(R, code, a, flexible(word_x, sregs), width), d
      elif REDUCTION[code] >= 0:
        reduction(R, REDUCTION[code], ALONG[code], a, width, side)
        row_x = d
      else:
        cross(R, code, a, b, flexible(word_x, sregs) if code != XPERM else 0, width, side)
        row_x = d
    cause, info, load_n, store_n, shared = 0, 0, 0, 0, 0
    denied, denied_info = 0, 0
    if checking:
      if word_l != 0:
        denied, denied_info = permit(word_l, sregs, R, address, geo, ranges)
        if denied != 0:
          word_l = i64(0)
      if word_t != 0:
        denied_t, info_t = permit(word_t, sregs, R, address, geo, ranges)
        if denied_t != 0:
          word_t = i64(0)
        if denied == 0:
          denied, denied_info = denied_t, info_t
    if word_l != 0:
      counts[N_SLOT_C + L] += 1
      load_n, cause, info = vmem_load(word_l, FORM[(word_l >> _CODE) & CODE_MASK], sregs, R, L_ROW, vmem8, vmem16, vmem32,
                                      geo[VMEM_BYTES], width, side, beat_shift, memo, address, count, words)
      if cause == 0:
        write_l = (word_l >> _D) & REG
        ready[V0 + write_l] = t + LOAD + load_n
        tail = max(tail, t + LOAD + load_n)
    if word_t != 0:
      counts[N_SLOT_C + T] += 1
      code = (word_t >> _CODE) & CODE_MASK
      unit = UNIT[code]
      if unit == VSTORE:
        store_n, cause_t, info_t = vmem_store(word_t, FORM[code], sregs, R, (word_t >> _D) & REG, vmem8, vmem16, vmem32,
                                              geo[VMEM_BYTES], width, side, beat_shift, memo, address, count, words)
        shared = 1 if load_n != 0 and store_n != 0 else 0
      elif unit == VATOMIC:
        store_n, cause_t, info_t = vmem_atomic(word_t, FORM[code], sregs, R, (word_t >> _D) & REG, vmem32, geo[VMEM_BYTES], width, side,
                                               beat_shift, address, count)
      elif unit == HLOAD or unit == HSTORE:
        cause_t, info_t = direct_access(word_t, t, sregs, R, address, words, hbm8, hbm16, hbm32, geo, ready, ctl, counts)
        tail = max(tail, ctl[TAIL])
        if cause_t == 0 and unit == HLOAD:
          write_t = (word_t >> _D) & REG
      else:
        cause_t, info_t = start_transfer(word_t, t, sregs, vmem32, hbm32, geo, dma, ctl, counts)
        tail = max(tail, ctl[TAIL])
      if cause == 0:
        cause, info = cause_t, info_t
    if load_n + store_n != 0:
      free = t + load_n + store_n - shared
      ready[VMEM] = free
      counts[N_VMEM] += load_n + store_n
      tail = max(tail, free + 1)
    following = pc + meta[g, WORDS]
    halted = False
    if word_c != 0:
      counts[N_SLOT_C] += 1
      halted = (word_c >> _CODE) & CODE_MASK == HALT
      following = branch(word_c, sregs, loop_start, loop_total, loop_count, ctl, following)

    # -- write back ---------------------------------------------------------------------------------------
    if word_s != 0:
      code, d = (word_s >> _CODE) & CODE_MASK, (word_s >> _D) & REG
      if interval[code] > 1:
        ready[BUSY[code]] = t + interval[code]
      if d != 0:
        sregs[d] = value_s
        ready[d] = t + latency[code]
        tail = max(tail, t + latency[code])
    if scalar_x != 0:
      done = t + latency[(word_x >> _CODE) & CODE_MASK]
      sregs[scalar_x] = value_x
      ready[scalar_x] = done
      tail = max(tail, done)
    if word_v != 0:
      code, d = (word_v >> _CODE) & CODE_MASK, (word_v >> _D) & REG
      if interval[code] > 1:
        ready[BUSY[code]] = t + interval[code]
        if BUSY[code] == VDIV:
          counts[N_DIV] += 1
      copy_row(R, d, V_ROW, blocks)
      ready[V0 + d] = t + latency[code]
      tail = max(tail, t + latency[code])
    if row_x >= 0:
      done = t + latency[(word_x >> _CODE) & CODE_MASK]
      copy_row(R, row_x, X_ROW, blocks)
      ready[V0 + row_x] = done
      tail = max(tail, done)
    if write_l >= 0:
      copy_row(R, write_l, L_ROW, blocks)
    if write_t >= 0:
      copy_row(R, write_t, T_ROW, blocks)
    ctl[TAIL] = tail

    if trace is not None:
      note_group(trace, t, pc, present, ctl[LOOK], blamed, slots, g, load_n + store_n, counts[N_HBM] + counts[N_DMA] - lines, dma,
                 dma[0, DMA_NEXT] + dma[1, DMA_NEXT] != transfers)
    ctl[PC], ctl[LOOK] = following, t
    if cause == 0:
      cause, info = denied, denied_info
    if cause != 0:
      fault(ctl, trace, t + 1, 0, cause, pc, t + 1, info)
      if halted:
        return    # nothing follows halt: no look-up
    elif halted:
      ctl[STATUS], ctl[END] = 1, t
      return
