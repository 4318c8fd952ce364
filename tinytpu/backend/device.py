"""The tinygrad device TINYTPU: memory, programs, launches."""
from __future__ import annotations

import re
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from tinygrad.device import Allocator, BufferSpec, Compiled, Program, TinyELF
from tinygrad.helpers import DEBUG, DEV, PROFILE, GlobalCounters, time_to_str

from ..asm import assemble
from ..asm.link import Spill
from ..asm.origins import Origins
from ..asm.program import ArgKind
from ..asm.program import Program as Container
from ..config import Config, preset
from ..isa.counters import shares
from ..machine import DEFAULT_LIMIT, KINDS, Engine, RunResult, open_engine
from ..machine.allow import Allow
from ..trace import Trace
from .emit.regalloc import spill_bytes
from .mir.dump import launched
from .renderer import DEFAULT_PRESET, TinyTPURenderer
from .runtime import watch
from .runtime.check import checking, misaligned, of_launch, of_spills
from .runtime.exclusive import Exclusive
from .runtime.graph import TinyTPUGraph
from .runtime.heap import ALIGN, Heap
from .runtime.stats import SPILL, Launch, stats
from .runtime.timeline import Timeline
from .runtime.vmem_cache import Admission, Residency, Span

SPILLS = 8
"""Ranges that one launch moves out of VMEM; if there are fewer, a size of 0 comes behind the last."""
_SPILL_TEXT = "\n".join(
  [f".kernel {SPILL}", *(f".arg {n} var v{n}" for n in range(3 * SPILLS)), "smov s1, 1",
   *(f"beq s{n + 2}, s0, done\ndmao [s{n} : s0], [s{n + 1} : s0], s{n + 2}, s1"
     for n in range(Config.ARG_BASE, Config.ARG_BASE + 3 * SPILLS, 3)), "done:", "halt", ""])


@dataclass(frozen=True)
class HbmBuffer:
  """A range of device memory: byte address and size."""
  address: int
  size: int


class TinyTPUAllocator(Allocator["TinyTPUDevice"]):
  """Buffers in the engine's HBM. (No `_as_buffer`: copies would write past the device's bookkeeping.)"""

  def _alloc(self, size: int, options: BufferSpec) -> HbmBuffer:
    with self.dev.exclusive.held():
      return HbmBuffer(self.dev.heap.take(_rounded(size), ALIGN), size)

  def _free(self, opaque: HbmBuffer, options: BufferSpec) -> None:
    def free() -> None:
      self.dev.make_way(lambda: self.dev.residency.write(opaque.address, opaque.address + _rounded(opaque.size)))
      self.dev.heap.give(opaque.address, _rounded(opaque.size))
    self.dev.exclusive.soon(free)

  def _offset(self, buf: HbmBuffer, size: int, offset: int) -> HbmBuffer:
    return HbmBuffer(buf.address + offset, size)

  def _copyin(self, dest: HbmBuffer, src: memoryview) -> None:
    with self.dev.exclusive.held():
      self.dev.make_way(lambda: self.dev.residency.write(dest.address, dest.address + len(src)))
      self.dev.engine.hbm[dest.address:dest.address + len(src)] = np.frombuffer(src, np.uint8)

  def _copyout(self, dest: memoryview, src: HbmBuffer) -> None:
    with self.dev.exclusive.held():
      self.dev.make_way(lambda: self.dev.residency.read(src.address, src.address + len(dest)))
      np.frombuffer(dest, np.uint8)[:] = self.dev.engine.hbm[src.address:src.address + len(dest)]


def _rounded(size: int) -> int:
  """Bytes that a buffer takes; when launches are checked with guard bytes behind it."""
  return -(-size // ALIGN) * ALIGN + ALIGN * checking()


class TinyTPUProgram(Program["TinyTPUDevice"]):
  """A compiled kernel, resident in HBM."""

  def __init__(self, dev: TinyTPUDevice, obj: TinyELF):
    self.dev, self.name, self.profile_key = dev, obj.name, obj.profile_key
    self.container = Container.from_bytes(obj.lib)
    if self.container.config != dev.config.name:
      raise RuntimeError(f"kernel {self.name} was compiled for preset {self.container.config}, {dev.device} is a {dev.config.name}")
    self.names = [name for name, *_ in obj.signature]  # of buffers, then of variables; values come in the order of the latter
    code = self.container.code_bytes()
    with dev.exclusive.held():
      self.address = dev.upload(code, self.container.origins)
    self._release = weakref.finalize(self, dev.release, self.address, len(code))
    self._release.atexit = False

  def arguments(self, bufs: Sequence[HbmBuffer], global_size: Sequence[int], vals: Sequence[int | None],
                admission: Admission) -> list[int]:
    """The argument registers' values of a launch.

    Raises:
      RuntimeError: a variable without a value; names it and the kernel.
    """
    values = dict(zip(self.names[len(self.names) - len(vals):], vals, strict=True))
    args = [0] * (max((a.register for a in self.container.args), default=-1) + 1)
    for a in self.container.args:
      value: int | None
      match a.kind:
        case ArgKind.BUF:
          value = bufs[int(a.value)].address
        case ArgKind.GRID:
          value = int(global_size[int(a.value)])
        case ArgKind.VAR:
          value = values[str(a.value)]
        case _:
          value = admission.values.get((a.kind, int(a.value)), 0)
      if value is None:
        raise RuntimeError(f"kernel {self.name}: variable {a.value} has no value")
      args[a.register] = value
    return args

  def __call__(self, *bufs: HbmBuffer, global_size: tuple[int, ...] = (1, 1, 1), local_size: tuple[int, ...] | None = (1, 1, 1),
               vals: tuple[int | None, ...] = (), wait: bool = False, timeout: int | None = None, **_: object) -> float:
    """Launch and wait.

    Args:
      timeout: simulated milliseconds after which the launch is stopped.

    Returns:
      simulated seconds.

    Raises:
      RuntimeError: the program faulted; names kernel and fault.
    """
    with self.dev.exclusive.held():
      residency = self.dev.residency
      before, admission = residency.snapshot(), None
      try:
        spans = [Span(b.address, b.size) for b in bufs]
        planned = residency.admit(self.container, spans)
        self.dev.spill(planned.spills)
        admission = planned  # from here on VMEM changes
        return self._launch(bufs, global_size, vals, timeout, admission)
      except BaseException:  # whatever stopped it: what may not have come in is not taken to be there
        if admission is None:
          residency.restore(before)
        else:
          residency.failed(admission)
        raise

  def _launch(self, bufs: Sequence[HbmBuffer], global_size: Sequence[int], vals: Sequence[int | None], timeout: int | None,
              admission: Admission) -> float:
    args = self.arguments(bufs, global_size, vals, admission)
    limit = DEFAULT_LIMIT if timeout is None else min(DEFAULT_LIMIT, max(1, timeout) * self.dev.config.clock_hz // 1000)
    allow = self.dev.allowed(self.container, [Span(b.address, b.size) for b in bufs], admission)
    entry = self.container.direct if admission.direct else 0
    result = self.dev.launch(self.name, self.address, args, entry=entry, limit=limit, profile_key=self.profile_key, allow=allow)
    if result.fault is not None:
      why = misaligned(result.fault, [b.address for b in bufs])
      raise RuntimeError(f"kernel {self.name} on {self.dev.device} stopped: {result.fault}{why}")
    launched(self.container, result.cycles, result.counters)
    return result.cycles / self.dev.config.clock_hz


class TinyTPUDevice(Compiled):
  """One TinyTPU. DEV=TINYTPU is the simulator, DEV=RTL+TINYTPU the Verilated RTL, DEV=BOTH+TINYTPU both, compared after each launch;
  DEV=TINYTPU::4x4 chooses the preset.

  Attributes:
    trace: set before the device is first used, every launch is added to it (docs/trace.md).
  """

  def __init__(self, device: str):
    if not re.fullmatch(r"TINYTPU(:\d+)?", device):
      raise RuntimeError(f"no device {device!r}: TINYTPU, or TINYTPU:1, TINYTPU:2, ...; the machine is chosen for the whole process, "
                         "by the environment: DEV=TINYTPU::8x8")
    target = DEV.target("TINYTPU")
    self.kind = (target.interface or "iss").lower()
    if self.kind not in KINDS:
      raise RuntimeError(f"{device} has no interface {target.interface!r}; there are ISS (the default), RTL, and BOTH, which compares them")
    self.config = preset(target.arch or DEFAULT_PRESET)
    self.heap = Heap(0, self.config.hbm_bytes)
    self.residency = Residency(self.config)
    self.exclusive = Exclusive()
    self.trace: Trace | None = None
    self._stale = False
    self._code_blocks: set[int] = set()
    self._code_sizes: dict[int, int] = {}
    self._origins: dict[int, Origins | None] = {}
    graph = None if PROFILE else TinyTPUGraph  # profiles show kernels one by one
    super().__init__(device, TinyTPUAllocator(self), [TinyTPURenderer], TinyTPUProgram, graph=graph, arch=self.config.name)
    self.timeline = Timeline(self.device, self.config.clock_hz)
    if watch.watcher is not None:
      watch.watcher.opened(self)

  @cached_property
  def engine(self) -> Engine:
    """The engine, opened at first use."""
    def tell(line: str) -> None:
      if DEBUG >= 1:
        print(f"{self.device}: {line}", file=sys.stderr)

    return open_engine(self.config, self.kind, tell, trace=self.trace)

  def upload(self, code: bytes, origins: Origins | None = None) -> int:
    """Put code into HBM; returns its address. origins: where its operations come from, if it tells."""
    block = self.config.ibuf_block_bytes
    at = self.heap.take(len(code), block)
    blocks = set(range(at // block, -(-(at + len(code)) // block)))
    self._stale |= not blocks.isdisjoint(self._code_blocks)  # the instruction buffer may hold what was there before
    self._code_blocks |= blocks
    self.engine.hbm[at:at + len(code)] = np.frombuffer(code, np.uint8)
    self._code_sizes[at], self._origins[at] = len(code), origins
    stats.programs += 1
    return at

  def code(self, address: int) -> np.ndarray:
    """The words of the code that was last put at `address`, uint64.

    Raises:
      KeyError: none was.
    """
    return self.engine.hbm[address:address + self._code_sizes[address]].view("<u8").copy()

  def origins(self, address: int) -> Origins | None:
    """Where the operations of the code that was last put at `address` come from, if it tells."""
    return self._origins[address]

  def release(self, address: int, size: int) -> None:
    """Give code memory back."""
    self.exclusive.soon(lambda: self.heap.give(address, size))

  def make_way(self, plan: Callable[[], list[Spill]]) -> None:
    """Change what is noted of VMEM and do the spills that this asks for; if they are interrupted, nothing is changed."""
    before = self.residency.snapshot()
    try:
      self.spill(plan())
    except BaseException:
      self.residency.restore(before)
      raise

  def allowed(self, program: Container, spans: Sequence[Span], admission: Admission) -> Allow | None:
    """What a launch may touch; None: launches are not checked."""
    return of_launch(program, spans, admission.direct, admission.values, spill_bytes(self.config)) if checking() else None

  @cached_property
  def _spill_program(self) -> int:
    """Address of the program that empties VMEM."""
    return self.upload(assemble(_SPILL_TEXT, self.config).code_bytes())

  def spill(self, spills: Sequence[Spill]) -> None:
    """Move ranges of VMEM to device memory, a few in a launch."""
    for at in range(0, len(spills), SPILLS):
      args = [word for s in spills[at:at + SPILLS] for word in (s.vmem, s.hbm, s.bytes)]
      allow = of_spills(spills[at:at + SPILLS]) if checking() else None
      result = self.launch(SPILL, self._spill_program, args + [0] * (3 * SPILLS - len(args)), allow=allow)
      if result.fault is not None:
        raise RuntimeError(f"moving buffers out of VMEM on {self.device} stopped: {result.fault}")
      seconds = result.cycles / self.config.clock_hz
      GlobalCounters.time_sum_s += seconds
      if DEBUG >= 2:  # beside tinygrad's lines for kernels
        name = f"spill of {sum(s.bytes for s in spills[at:at + SPILLS]):,} bytes from VMEM"
        print(f"*** {self.device[:7]:7s}      {name:46s} tm {time_to_str(seconds, w=9)}/{GlobalCounters.time_sum_s * 1e3:9.2f}ms")

  def launch(self, name: str, address: int, args: Sequence[int] = (), *, entry: int = 0, limit: int | None = None,
             profile_key: bytes | None = None, allow: Allow | None = None, parts: Sequence[tuple[int, str]] = ()) -> RunResult:
    """Run the code at `address`; `name` stands for it in statistics and profiles, `parts` are as in `runtime.watch`. Arguments and result
    as those of `Engine.launch`."""
    if self.kind == "both":
      self.engine.hbm_used = self.heap.high  # type: ignore[attr-defined]
    started = time.perf_counter()
    result = self.engine.launch(address, args, entry=entry, limit=limit, invalidate=self._stale, allow=allow)
    self._stale = False
    if result.fault is None:
      stats.add(Launch(self.device, name, result.cycles, result.counters, time.perf_counter() - started))
      busy = shares(self.config, result.counters, result.cycles) if PROFILE or DEBUG >= 2 else {}
      self.timeline.add(name, result.cycles, profile_key, busy)
      if DEBUG >= 2:  # tinygrad's own line follows
        print(f"    {result.cycles:,} cycles; busy: {', '.join(f'{unit} {share:.1%}' for unit, share in busy.items())}")
    if watch.watcher is not None:
      watch.watcher.launched(self, name, address, result, parts)
    return result

  def invalidate_caches(self) -> None:
    """Let the next launch start with an empty instruction buffer, so that timings compare."""
    self._stale = True

  def finalize(self) -> None:
    """Close the engine at the end of the process."""
    if "engine" in self.__dict__:
      self.engine.close()
