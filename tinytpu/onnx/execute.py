"""Run a model on the device and compare what it gives with onnxruntime."""
from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from tinygrad import Device, Tensor
from tinygrad.device import CompileError
from tinygrad.helpers import DEV

from .. import boot  # noqa: F401  (tells tinygrad of the device where the package is not installed)
from ..backend.device import TinyTPUDevice
from ..backend.renderer import DEFAULT_PRESET
from ..backend.runtime import stats as statistics
from ..backend.runtime import watch
from ..config import Config, preset
from ..isa.counters import shares
from . import reference
from .compare import Comparison, compare
from .errors import OnnxError, RefusedError
from .inputs import complete
from .model import Model, first_line, load
from .products import multiplications, peak
from .rewrite import prepared
from .runner import Runner


class Tell(Protocol):
  """Told what is being done, step by step, and where it is known the fraction done (0 to 1)."""

  def __call__(self, step: str, fraction: float | None = None, /) -> None: ...


def silent(step: str, fraction: float | None = None, /) -> None:
  """Tells nobody."""


@dataclass
class Result:
  """What a run gave.

  Attributes:
    outputs, expected: arrays by output name, of the device and of onnxruntime. comparisons: one for each output, in order.
    config: the machine. kind: "iss", "rtl" or "both". cycles: simulated, of all launches. kernels: launches by name of kernel, moves
    of buffers out of VMEM included. counters: events (isa.counters). fallbacks: kernels that the host computed. simulation: seconds
    in the engine, by the host's clock; compilation: all other seconds from the first operator to the outputs, most of which tinygrad
    and the compiler take. notes: what a user should know. multiplications: those that the model's products need, or None if not known.
  """
  outputs: dict[str, np.ndarray]
  expected: dict[str, np.ndarray]
  comparisons: list[Comparison]
  config: Config
  kind: str
  cycles: int
  kernels: Counter[str]
  counters: dict[str, int]
  fallbacks: int
  compilation: float
  simulation: float
  notes: list[str] = field(default_factory=list)
  multiplications: int | None = None

  @property
  def within(self) -> bool:
    """Whether all outputs are within the budget."""
    return all(comparison.within for comparison in self.comparisons)

  @property
  def matrix_share(self) -> float:
    """Share of the cycles in which the matrix unit made steps (0 to 1); steps on halfwords, which take longer, count as others."""
    return shares(self.config, self.counters, self.cycles)["MXU"]

  @property
  def useful_share(self) -> float | None:
    """Multiplications that the model needs, as a share of those that the matrix unit could have made in float32 in all cycles. Steps on
    padding are not useful, and products made by the vector unit are counted. None: not known."""
    return None if self.multiplications is None else self.multiplications / (peak(self.config) * max(self.cycles, 1))

  def json(self) -> dict[str, Any]:
    """What the command prints with --json, arrays left out."""
    return {
      "outputs": [comparison.json() for comparison in self.comparisons], "within": self.within, "preset": self.config.name,
      "engine": self.kind, "cycles": self.cycles, "microseconds": self.cycles / self.config.clock_hz * 1e6,
      "launches": sum(self.kernels.values()), "kernels": len(self.kernels), "matrix_share": self.matrix_share,
      "multiplications": self.multiplications, "useful_share": self.useful_share,
      "counters": self.counters, "host_fallbacks": self.fallbacks, "compilation_seconds": self.compilation,
      "simulation_seconds": self.simulation, "notes": self.notes}


def run(model: Model | str | Path, inputs: Mapping[str, np.ndarray] | None = None, *, dims: Mapping[str, int] | None = None, seed: int = 0,
        budgets: Mapping[str, float] | None = None, tell: Tell = silent, watcher: watch.Watcher | None = None) -> Result:
  """Run a model on tinygrad's default device, which must be TINYTPU, and on onnxruntime.

  Args:
    inputs: arrays by name; those left out are random (see inputs.complete, also for `dims` and `seed`).
    budgets: largest relative errors, by dtype (see compare.budget_of).
    watcher: told of the launches whose cycles are counted, and of no others. The device must not be open yet.

  Raises:
    OnnxError: model, inputs or device cannot be used; nothing has run. RefusedError: an operator or kernel is refused.
    EngineMismatch: with both engines: they differ.
  """
  tell("reading")
  model = model if isinstance(model, Model) else load(model)
  arrays = complete(model, inputs or {}, dims, seed)
  check_memory(model, arrays)
  device = the_device(watcher)
  tell("onnxruntime")
  expected = reference.outputs(model.proto, arrays)
  proto, notes = prepared(model, arrays)
  tell("starting the engine")
  _ = device.engine
  with refusals():
    tell("weights")
    runner = Runner(proto)
    tensors = on_device(arrays)
    cold(device)
    statistics.stats.reset()
    started = time.perf_counter()
    tell("running")
    with told(device, watcher):
      values = {name: tensor(value).contiguous() for name, value in runner(tensors).items()}  # moving them into place is part of it
      pending = [value for value in values.values() if value.numel()]
      if pending:
        Tensor.realize(*pending)
    seconds = time.perf_counter() - started
    sums = statistics.stats
    cycles, names, counters, simulation = sums.cycles, Counter(sums.kernels), dict(sums.counters), sums.seconds
    outputs = {name: value.numpy() for name, value in values.items()}
  comparisons = [compare(value.name, outputs[value.name], expected[value.name], budgets) for value in model.outputs]
  return Result(outputs, expected, comparisons, device.config, device.kind, cycles, names, counters, statistics.host_fallbacks,
                max(0.0, seconds - simulation), simulation, notes, multiplications(proto))


def the_device(watcher: watch.Watcher | None = None) -> TinyTPUDevice:
  """tinygrad's default device, opened for `watcher` if there is one.

  Raises:
    OnnxError: it is no TINYTPU, or this process has opened it as another machine, or without a watcher.
  """
  name = Device.DEFAULT
  if name.split(":")[0] != "TINYTPU":
    raise OnnxError(f"tinygrad's device is {name}: choose DEV=TINYTPU")
  before = watch.watcher
  watch.watcher = watcher or before
  try:
    device = Device[name]
  finally:
    watch.watcher = before
  assert isinstance(device, TinyTPUDevice)
  kind = (DEV.target("TINYTPU").interface or "iss").lower()
  if (device.kind, device.config.name) != (kind, _wanted().name):
    raise OnnxError(f"this process has opened {name} as {device.kind} {device.config.name} and cannot change to {kind} {_wanted().name}")
  if watcher is not None and device.trace is None:
    raise OnnxError(f"this process has opened {name} without a trace: a profile takes a process of its own")
  return device


@contextmanager
def told(device: TinyTPUDevice, watcher: watch.Watcher | None) -> Iterator[None]:
  """Within the block, `watcher` is told of all launches, if it is one."""
  if watcher is None:
    yield
    return
  assert device.trace is not None
  device.trace.clear()
  before, watch.watcher = watch.watcher, watcher
  try:
    yield
  finally:
    watch.watcher = before


def _wanted() -> Config:
  """The machine that DEV asks for."""
  return preset(DEV.target("TINYTPU").arch or DEFAULT_PRESET)


def cold(device: TinyTPUDevice) -> None:
  """Empty VMEM and the instruction buffer, so that cycles do not depend on what ran before."""
  device.make_way(lambda: device.residency.clear(0, device.config.vmem_bytes))
  device.invalidate_caches()


def tensor(value: Any) -> Tensor:
  """What an operator gave, as a tensor."""
  return value if isinstance(value, Tensor) else Tensor(value)


def on_device(arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
  """Arrays in device memory; float64 as float32."""
  tensors = {name: Tensor(array.astype(np.float32) if array.dtype == np.float64 else array) for name, array in arrays.items()}
  if pending := [value for value in tensors.values() if value.numel()]:
    Tensor.realize(*pending)
  return tensors


@contextmanager
def refusals() -> Iterator[None]:
  """Within the block, what the compiler refuses becomes RefusedError, and what does not fit device memory OnnxError."""
  try:
    yield
  except MemoryError as error:
    raise OnnxError(f"the model does not fit device memory: {first_line(error)}") from error
  except (CompileError, NotImplementedError) as error:
    raise RefusedError(f"a kernel cannot be compiled: {first_line(error)}; --triage tells the operator") from error


def check_memory(model: Model, arrays: Mapping[str, np.ndarray]) -> None:
  """Raises OnnxError: weights and inputs alone do not fit device memory."""
  size = _wanted().hbm_bytes
  need = model.weight_bytes + sum(array.nbytes for array in arrays.values())
  if need > size:
    raise OnnxError(f"{model.path} needs {need:,} bytes for weights and inputs alone, and device memory has {size:,}; "
                    "a larger one: --preset 4x4,hbm_bytes=BYTES")
