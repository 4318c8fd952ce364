"""The simulator as an engine: owns the arrays that the compiled issue loop works on."""
from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from ..config import Config
from ..isa.counters import COUNTERS
from ..isa.encoding import WORD_BYTES
from ..isa.faults import Fault, FaultRecord
from ..isa.stalls import FIELDS, NUMBER
from ..iss import build
from ..iss import layout as lay
from ..iss.layout import Ctl
from ..iss.permit import DENIED, OFF
from ..iss.trace import EVENTS, blamed
from ..trace import Trace
from . import guard
from .allow import Allow, denied
from .base import RunResult, check_launch
from .guard import Guarded, exclusive

SLICE = 1 << 22
"""Groups between two looks at signals, so that a long run can be interrupted (a fraction of a second)."""


class IssEngine(Guarded):
  """`base.Engine` on the instruction-set simulator."""

  def __init__(self, config: Config, progress: Callable[[str], None] | None = None, trace: Trace | None = None):
    super().__init__()
    self.config, self.trace, self._running, self._ranges = config, trace, False, OFF
    self._traced: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None  # as iss.trace has it
    if trace is not None:
      self._traced = np.zeros((trace.capacity, len(FIELDS)), np.int64), np.zeros(EVENTS + 1, np.int64), blamed()
    width, banks, words = config.width, config.vector_lanes, config.ibuf_blocks * config.ibuf_block_bytes // WORD_BYTES
    self._hbm = np.zeros(config.hbm_bytes, np.uint8)
    self._vmem = np.zeros(config.vmem_bytes, np.uint8)
    self._sregs = np.zeros(Config.SREGS, np.uint32)
    self._rows = np.zeros((lay.ROWS, width), np.uint32)
    self._rows[lay.ONES_ROW] = 1
    self._tags = np.full(config.ibuf_blocks, -1, np.int64)
    self._ctl = np.zeros(len(Ctl), np.int64)
    self._ready = np.zeros(lay.READY, np.int64)
    self._dma = np.zeros((2, lay.DMA_ENTRIES), np.int64)
    self._counts = np.zeros(len(COUNTERS), np.int64)
    loops = np.zeros((3, Config.LOOP_DEPTH), np.int64)
    self._arrays = (
      self._ctl, lay.geometry(config), self._sregs, self._rows, self._rows.view(np.float32),
      self._rows.view(np.int8), self._ready,
      self._vmem, self._vmem.view(np.uint16), self._vmem.view(np.uint32),
      self._hbm, self._hbm.view(np.uint16), self._hbm.view(np.uint32), self._hbm.view(np.int64), self._tags,
      np.zeros(words, np.int64), np.zeros((words, lay.N_SLOTS), np.int64), np.zeros((words, lay.MAX_DEPS), np.uint8),
      np.zeros((words, len(lay.Meta)), np.int32), *lay.cycles(config), *loops, self._dma, self._counts, np.full((256, 2), -1, np.int64),
      np.zeros(width, np.uint32), np.zeros(banks, np.int64), np.zeros((banks, banks), np.int64))
    self._run = build.engine()
    self._warm_up(progress)

  def _warm_up(self, progress: Callable[[str], None] | None) -> None:
    """Compile or load now, so that the first launch is not the slow one."""
    if progress and not build.is_cached(self._traced is not None):
      progress("compiling the simulator (once per version, about half a minute)")
    start = time.perf_counter()
    self._run(*self._arrays, OFF, self._traced, 0)
    if progress and (took := time.perf_counter() - start) > 5:
      progress(f"simulator compiled in {took:.1f} s")

  @exclusive
  def launch(self, program_address: int, args: Sequence[int] = (), *, entry: int = 0, limit: int | None = None,
             invalidate: bool = False, allow: Allow | None = None, repeat: int = 1) -> RunResult:
    words, limit = check_launch(self.config, program_address, args, entry, limit, repeat)
    self._ranges = allow.table(self.config) if allow else OFF
    self._sregs[Config.ARG_BASE:Config.ARG_BASE + len(words)] = words
    if invalidate:
      self._tags[:] = -1
    ctl = self._ctl
    for _ in range(repeat):
      for array in (ctl, self._ready, self._dma, self._counts):
        array[:] = 0
      traced = self._begin_trace()
      guard.step("start")
      ctl[Ctl.PROGRAM], ctl[Ctl.PC], ctl[Ctl.LIMIT] = program_address, entry, limit
      self._running = True
      while not ctl[Ctl.STATUS]:
        guard.step("run")
        self._run(*self._arrays, self._ranges, traced, SLICE)
      self._running = False
      guard.step("result")
      if allow and ctl[Ctl.FAULT] >= DENIED:
        raise denied(allow, self.hbm, program_address, *(int(ctl[i]) for i in (Ctl.FAULT, Ctl.FAULT_PC, Ctl.FAULT_CYCLE, Ctl.FAULT_INFO)))
      cycles = int(max(ctl[Ctl.END] + 1, ctl[Ctl.TAIL]))
      self._end_trace(traced, program_address, entry, cycles)
    cause = Fault(int(ctl[Ctl.FAULT]))
    record = FaultRecord(cause, int(ctl[Ctl.FAULT_PC]), int(ctl[Ctl.FAULT_CYCLE]), int(ctl[Ctl.FAULT_INFO])) if cause else None
    return RunResult(cycles, record, {name: int(n) for name, n in zip(COUNTERS, self._counts, strict=True)})

  def _begin_trace(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """What the compiled code fills in the next launch: as many events as there is room for."""
    if self.trace is None or self._traced is None:
      return None
    events, tally, causes = self._traced
    tally[:] = 0
    return events[:self.trace.room], tally, causes

  def _end_trace(self, traced: tuple[np.ndarray, np.ndarray, np.ndarray] | None, program: int, entry: int, cycles: int) -> None:
    """Add the launch to the trace: with the cycles that the compiled code has not counted one by one."""
    if self.trace is None or traced is None:
      return
    events, tally, _ = traced
    for cause, count in (("issue", self._counts[COUNTERS.index("groups")]), ("launch", 1), ("fault", self._ctl[Ctl.FAULT] != 0)):
      tally[NUMBER[cause]] = count
    now, (inbound, outbound) = int(self._ctl[Ctl.END]) + 1, self._dma[:, :lay.DMA_NEXT].max(axis=1)
    busy = self._ready[lay.VMEM] + (self._ready[lay.VMEM] != 0)  # VMEM is free a cycle before nothing of it is outstanding
    for cause, until in (("drain_dma_out", outbound), ("drain_dma_in", inbound), ("drain_hbm", self._ctl[Ctl.FENCE]), ("drain_vmem", busy),
                         ("drain_result", cycles)):
      tally[NUMBER[cause]] = max(0, int(until) - now)
      now = max(now, int(until))
    count = int(tally[EVENTS])
    self.trace.add(program, entry, cycles, tally[:EVENTS], events[:count].copy(), count)

  def _rest(self) -> None:
    if self._running:
      if not self._ctl[Ctl.STATUS]:
        self._run(*self._arrays, self._ranges, self._traced, SLICE)
      if not self._ctl[Ctl.STATUS]:
        self._tags[:] = -1  # as the hardware's reset does
      self._running = False

  @exclusive
  def state(self) -> dict[str, np.ndarray]:
    return {"sregs": self._sregs.copy(), "vregs": self._rows[:Config.VREGS].copy(),
            "psums": self._rows[lay.PSUM_ROW:lay.PSUM_ROW + Config.PSUMS].copy(), "vmem": self._vmem.copy()}

  def _free(self) -> None:
    del self._arrays, self._hbm, self._vmem, self._rows
