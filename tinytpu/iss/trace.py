"""Tracing: what a group waited for, and its event. Compiled into a second variant of the simulator: where `trace` is None, Numba leaves
out what only a trace needs.

A trace is a tuple of arrays: events (capacity, fields of `isa.stalls.FIELDS`); tally, cycles by cause, behind them the number of
events, those beyond the capacity included; and by entry of the ready array, the cause of waiting for it.
"""
from __future__ import annotations

import numpy as np

from ..isa import encoding as enc
from ..isa import stalls, table, timing
from ..isa.stalls import NUMBER
from . import layout as lay
from .control import BARRIER, DWAITI, FENCE_OP, waits
from .decode import register
from .jit import jit

EVENTS = len(stalls.CAUSES)
"""Entry of the tally that counts events."""
_FENCE, _BARRIER, _DWAITI, _DWAITO, _QUEUE_IN, _QUEUE_OUT, _PORT_V, _PORT_S, _PORT_X, _FETCH = (NUMBER[cause] for cause in (
  "fence", "barrier", "dwaiti", "dwaito", "queue_dma_in", "queue_dma_out", "port_V", "port_S", "port_X", "fetch"))
_FENCE_AT, _TAIL, _BASE, _VPORT, _SPORT, _XPORT, _LOOK = (int(m) for m in (
  lay.Ctl.FENCE, lay.Ctl.TAIL, lay.Ctl.BASE, lay.Ctl.VPORT, lay.Ctl.SPORT, lay.Ctl.XPORT, lay.Ctl.LOOK))
_DEPS, _VLAT, _SLAT, _XLAT = (int(m) for m in (lay.Meta.DEPS, lay.Meta.VLAT, lay.Meta.SLAT, lay.Meta.XLAT))
(KIND, CYCLE, PC, SLOTS, FETCHED, WAITED, CAUSE, VMEM, LINES, FINISHED) = range(len(stalls.FIELDS))
CODE_LSB, CODE_MASK = enc.CODE.lsb, enc.CODE.mask
DMAI, DMAO, UNIT, WRITE, N_SLOTS, P0 = int(lay.Unit.DMAI), int(lay.Unit.DMAO), lay.UNIT, lay.WRITE, lay.N_SLOTS, lay.P0
DMA_QUEUE, DMA_NEXT, VDIV = timing.DMA_QUEUE, lay.DMA_NEXT, lay.VDIV
ISSUED = stalls.GROUP

PRODUCER = np.zeros(256, np.int64)
"""By code: the cause of waiting for the register that the operation writes."""
for _op in table.OPS.values():
  PRODUCER[_op.code] = NUMBER.get(stalls.PRODUCER.get(_op.timing, ""), 0)


def blamed() -> np.ndarray:
  """By entry of the ready array, the cause of waiting for it; of registers it changes with every operation that writes one."""
  causes = np.zeros(lay.READY, np.int64)
  causes[lay.P0:lay.UNIT_BASE] = causes[lay.PSUM] = NUMBER["bucket"]
  causes[lay.VMEM], causes[lay.HBM] = NUMBER["unit_vmem"], NUMBER["unit_hbm"]
  for unit, entry in lay.UNITS.items():
    causes[entry] = NUMBER[f"unit_{unit}"]
  return causes


@jit
def blame(last, g, deps, meta, ready, blamed, slot_c, slot_t, dma, ctl):
  """The first cause, in their order, of those for which group g cannot issue in cycle `last`."""
  cause = EVENTS
  for i in range(meta[g, _DEPS]):
    if ready[deps[g, i]] > last:
      cause = min(cause, blamed[deps[g, i]])
  if slot_c != 0 and waits(slot_c, 0, dma, ctl[_FENCE_AT], ctl[_TAIL]) > last:
    code = (slot_c >> CODE_LSB) & CODE_MASK
    cause = min(cause, _FENCE if code == FENCE_OP else _BARRIER if code == BARRIER else _DWAITI if code == DWAITI else _DWAITO)
  if slot_t != 0 and waits(0, slot_t, dma, ctl[_FENCE_AT], ctl[_TAIL]) > last:
    cause = min(cause, _QUEUE_IN if UNIT[(slot_t >> CODE_LSB) & CODE_MASK] == DMAI else _QUEUE_OUT)
  if cause != EVENTS:
    return cause
  ahead = last - ctl[_BASE]   # all else holds: a write port is taken
  vlat, slat = meta[g, _VLAT], meta[g, _SLAT]
  if vlat != 0 and (last + vlat == ready[VDIV] or (ahead < 63 and (ctl[_VPORT] >> ahead >> vlat) & 1)):
    return _PORT_V
  return _PORT_S if slat != 0 and ahead < 63 and (ctl[_SPORT] >> ahead >> slat) & 1 else _PORT_X


@jit
def note(trace, kind, cycle, pc, slots, present, look, cause, vmem, lines, end):
  """Add an event, of a group looked up in cycle `look` that was, or would have been, present in `present`."""
  events, tally, _ = trace
  fetched, waited = min(present, cycle) - look - 1, max(cycle - present, 0)
  tally[_FETCH] += fetched
  if waited != 0:
    tally[cause] += waited
  i = tally[EVENTS]
  tally[EVENTS] += 1
  if i < events.shape[0]:
    events[i, KIND], events[i, CYCLE], events[i, PC], events[i, SLOTS] = kind, cycle, pc, slots
    events[i, FETCHED], events[i, WAITED], events[i, CAUSE] = fetched, waited, cause if waited != 0 else 0
    events[i, VMEM], events[i, LINES], events[i, FINISHED] = vmem, lines, end


@jit
def note_group(trace, t, pc, present, look, cause, slots, g, vmem, lines, dma, transfer):
  """Add the event of group g, which has issued in cycle t, and remember who writes its registers. transfer: it has begun one."""
  mask, end, blamed = 0, 0, trace[2]
  for s in range(N_SLOTS):
    word = slots[g, s]
    if word != 0:
      mask |= 1 << s
      code = (word >> CODE_LSB) & CODE_MASK
      if WRITE[code] >= 0:
        entry = register(word, WRITE[code])
        if entry < P0:
          blamed[entry] = PRODUCER[code]
      if transfer and (UNIT[code] == DMAI or UNIT[code] == DMAO):
        queue = 0 if UNIT[code] == DMAI else 1
        end = dma[queue, (dma[queue, DMA_NEXT] - 1) % DMA_QUEUE]
  note(trace, ISSUED, t, pc, mask, present, look, cause, vmem, lines, end)
