"""Slot T beyond VMEM: direct HBM access and DMA. Their effect on memory is immediate, which programs that keep to the contract
cannot tell from the real order; their timing goes to the ready, DMA and control arrays."""
from __future__ import annotations

import numpy as np

from ..isa import encoding as enc
from ..isa import timing
from . import layout as lay
from .jit import jit
from .memory import HBM_ALIGN, HBM_BOUNDS, check, check_transfer, lines_touched, load, store, transfer
from .vmem import operand_addresses, operand_start

i64 = np.int64
FENCE, TAIL = int(lay.Ctl.FENCE), int(lay.Ctl.TAIL)
WIDTH, SIDE, VMEM_BYTES, HBM_BYTES, LINE_SHIFT, _, _, LATENCY, _, BEAT_SHIFT = (int(m) for m in lay.Geometry)
HLOAD, DMAI, UNIT, FORM = int(lay.Unit.HLOAD), int(lay.Unit.DMAI), lay.UNIT, lay.FORM
HBM, V0, T_ROW, N_HBM, N_DMA = lay.HBM, lay.V0, lay.T_ROW, lay.COUNTER["hbm_lines"], lay.COUNTER["dma_lines"]
HBM_ISSUE, DMA_QUEUE, DMA_NEXT, DMA_END = timing.HBM_ISSUE, timing.DMA_QUEUE, lay.DMA_NEXT, lay.DMA_END
_CODE, _A, _C, _D, _X, _R, _C2, _Z, _ZH, _ZV = (f.lsb for f in (enc.CODE, enc.A, enc.C, enc.D, enc.X, enc.R, enc.C2, enc.Z, enc.ZH, enc.ZV))
REG, ZV_MASK, CODE_MASK = enc.A.mask, enc.ZV.mask, enc.CODE.mask


@jit
def transfer_operands(word, sregs):
  """A transfer's operands, int64: bases and pitches of rows and planes in VMEM, the same in HBM, bytes, rows, planes."""
  z = (word >> _Z) & REG
  return (i64(sregs[(word >> _C) & REG]), i64(sregs[(word >> _C2) & REG]), i64(sregs[(word >> _ZV) & ZV_MASK]),
          i64(sregs[(word >> _A) & REG]), i64(sregs[(word >> _R) & REG]), i64(sregs[(word >> _ZH) & REG]),
          i64(sregs[(word >> _D) & REG]), i64(sregs[(word >> _X) & REG]), i64(sregs[z]) if z != 0 else 1)


@jit
def start_transfer(word, t, sregs, vmem32, hbm32, geo, dma, ctl, counts):
  """Slot T's DMA operations. Returns (cause, info) of a fault, or zeros."""
  unit = UNIT[(word >> _CODE) & CODE_MASK]
  vbase, vpitch, vplane, hbase, hpitch, hplane, nbytes, rows, planes = transfer_operands(word, sregs)
  cause, info = check_transfer(vbase, vpitch, vplane, hbase, hpitch, hplane, nbytes, rows, planes, geo[VMEM_BYTES], geo[HBM_BYTES])
  if cause == 0:
    lines = transfer(unit, vbase, vpitch, vplane, hbase, hpitch, hplane, nbytes, rows, planes, vmem32, hbm32, geo[LINE_SHIFT])
    queue = 0 if unit == DMAI else 1
    end = max(t + HBM_ISSUE, dma[queue, DMA_END]) + max(lines, 1)
    finish = end + (geo[LATENCY] + 1 if unit == DMAI else 2)
    position = dma[queue, DMA_NEXT]
    dma[queue, position], dma[queue, DMA_NEXT] = finish, (position + 1) % DMA_QUEUE
    dma[queue, DMA_END] = end
    ctl[TAIL] = max(ctl[TAIL], finish)
    counts[N_DMA] += lines
  return cause, info


@jit
def direct_access(word, t, sregs, R, address, words, hbm8, hbm16, hbm32, geo, ready, ctl, counts):
  """Slot T's direct HBM operations; loads into T_ROW. Returns (cause, info) of a fault, or zeros."""
  code, width = (word >> _CODE) & CODE_MASK, geo[WIDTH]
  start, dtype, shift, mask = operand_start(word, sregs)
  operand_addresses(word, FORM[code], start, shift, sregs, R, address, width, geo[SIDE])
  cause, info = check(R, address, mask, shift, geo[HBM_BYTES], width, HBM_BOUNDS, HBM_ALIGN)
  if cause != 0:
    return cause, info
  lines = lines_touched(R, address, mask, width, width >> geo[BEAT_SHIFT], geo[LINE_SHIFT], words)
  counts[N_HBM] += lines
  n, d = max(lines, 1), (word >> _D) & REG
  if UNIT[code] == HLOAD:
    load(R, T_ROW, address, mask, dtype, hbm8, hbm16, hbm32, width)
    done = t + HBM_ISSUE + n + geo[LATENCY]
    ready[V0 + d] = done
  else:
    store(R, d, address, mask, dtype, hbm8, hbm16, hbm32, width)
    done = t + HBM_ISSUE + n
  ready[HBM] = t + n
  ctl[FENCE] = max(ctl[FENCE], done)
  ctl[TAIL] = max(ctl[TAIL], done)
  return 0, 0
