"""One inference of the held-out digits with tinygrad on the device, in a process of its own, so that the engine is chosen the way
users choose it: by the DEV environment variable. Prints nothing but one JSON object at the end."""
from __future__ import annotations

import hashlib
import json
import sys
import time
from dataclasses import asdict, dataclass

import numpy as np

from . import digits


@dataclass(frozen=True)
class Kernel:
  """A launch: name, cycles, and the event counters of isa.counters."""
  name: str
  cycles: int
  counters: dict[str, int]


@dataclass(frozen=True)
class Inference:
  """What a run of the network on one engine gave.

  Attributes:
    logits: (n, 10) rows of floats, exact float32 values. kernels: the launches, in order. fallbacks: kernels computed by the host.
    memory: SHA-256 of all of device memory in use, VMEM, and the register files. seconds: wall-clock time of the inference,
    compilation included; the first-use start of the engine is in `start_seconds`.
  """
  logits: list[list[float]]
  kernels: list[Kernel]
  fallbacks: int
  memory: str
  seconds: float
  start_seconds: float

  @property
  def cycles(self) -> int:
    """Simulated cycles of all launches."""
    return sum(k.cycles for k in self.kernels)

  def total(self, counter: str) -> int:
    """An event counter's sum over the launches."""
    return sum(k.counters[counter] for k in self.kernels)


def infer(count: int) -> Inference:
  """Classify the first `count` held-out digits on the default device."""
  from tinygrad import Device, Tensor

  from ..backend.runtime import stats as statistics
  _, held_out = digits.load()
  weights = {name: Tensor(value).realize() for name, value in digits.weights().items()}
  start = time.perf_counter()
  engine = Device[Device.DEFAULT].engine  # type: ignore[attr-defined]
  images = Tensor(held_out.images[:count]).realize()
  started = time.perf_counter()
  statistics.stats.reset()
  logits = ((images @ weights["w1"] + weights["b1"]).relu() @ weights["w2"] + weights["b2"]).numpy()
  finished = time.perf_counter()
  kernels = [Kernel(run.kernel, run.cycles, dict(run.counters)) for run in statistics.stats.runs]
  return Inference(logits.tolist(), kernels, statistics.host_fallbacks, _digest(engine), finished - started, started - start)


def _digest(engine) -> str:  # type: ignore[no-untyped-def]
  state = hashlib.sha256()
  pages = engine.hbm.reshape(-1, 4096)
  for page in np.flatnonzero(pages.any(axis=1)):  # those that hold anything
    state.update(int(page).to_bytes(8, "little") + pages[page].tobytes())
  for name, array in sorted(engine.state().items()):
    state.update(name.encode() + np.ascontiguousarray(array).tobytes())
  return state.hexdigest()


def decode(text: str) -> Inference:
  """An `Inference` from the JSON that this process printed."""
  fields = json.loads(text)
  return Inference(**{**fields, "kernels": [Kernel(**k) for k in fields["kernels"]]})


if __name__ == "__main__":
  print(json.dumps(asdict(infer(int(sys.argv[1])))))
