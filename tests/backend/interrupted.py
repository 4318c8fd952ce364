"""Ctrl-C at every step of launch, spill, fill, copy and graph: every tensor that was there before holds what it held.

`DEV=TINYTPU python -m tests.backend.interrupted 10000` (or DEV=RTL+TINYTPU) interrupts as often as it is told, each time before another
line of the runtime or the engines, and prints what it found.
"""
from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from tinygrad import Tensor, TinyJit

import tinytpu
from tests.interrupts import interrupt

PACKAGE = Path(tinytpu.__file__).parent
FILES = [PACKAGE / "backend" / "device.py", *sorted((PACKAGE / "backend" / "runtime").glob("*.py")),
         *(PACKAGE / "machine" / f"{name}.py" for name in ("guard", "iss", "rtl", "both"))]
KEPT, SIDE = 5, 2048
"""Tensors that lie in VMEM, which other kernels wrote, and elements of each: together more than half of what VMEM keeps."""


class Scene:
  """Tensors on the device and what they must hold."""

  def __init__(self, seed: int):
    self.rng = np.random.default_rng(seed)
    self.data = [self.rng.integers(-99, 99, SIDE).astype(np.float32) for _ in range(KEPT)]
    self.sources = [Tensor(d).realize() for d in self.data]
    self.graph = TinyJit(lambda a, b: ((a + b).contiguous() * 2).contiguous().realize())
    for _ in range(3):
      self.graph(self.sources[0], self.sources[1])
    self.lay()
    for action in ACTIONS.values():  # compiled before anything is interrupted
      action(self)

  def lay(self) -> None:
    """Kernels write what is checked afterwards: it is in VMEM alone."""
    self.kept = [(s * 10 + 5).contiguous().realize() for s in self.sources]

  def wrong(self) -> str:
    """Names what does not hold what it must; "" if all do."""
    for what, tensors, factor, term in (("result", self.kept, 10, 5), ("source", self.sources, 1, 0)):
      for i, (t, d) in enumerate(zip(tensors, self.data, strict=True)):
        if not np.array_equal(t.numpy(), d * factor + term):
          return f"{what} {i}"
    return ""


def _kernel(scene: Scene) -> None:
  (scene.kept[0] + scene.kept[1]).realize()


def _crowd(scene: Scene) -> None:
  """More than VMEM holds: others make way."""
  [(s + t).contiguous().realize() for s, t in zip(scene.sources, scene.kept, strict=True)]


def _read(scene: Scene) -> None:
  scene.kept[2].numpy()


def _write(scene: Scene) -> None:
  Tensor(scene.data[0]).realize()


def _free(scene: Scene) -> None:
  t = (scene.kept[3] * 2).contiguous().realize()
  del t


def _run_graph(scene: Scene) -> None:
  scene.graph(scene.sources[2], scene.kept[4])


ACTIONS: dict[str, Callable[[Scene], None]] = {
  "kernel": _kernel, "crowd": _crowd, "read": _read, "write": _write, "free": _free, "graph": _run_graph}


def check(n: int, seed: int, progress: Callable[[int], None] = lambda done: None, names: Sequence[str] = tuple(ACTIONS)) -> Counter[str]:
  """Interrupt `n` times, going through the lines of every action of these names in turn.

  Returns: how often each action was interrupted.
  Raises: AssertionError: something was lost; names the action, the line's number and the tensor.
  """
  scene, done, raised = Scene(seed), 0, Counter[str]()
  at, step, lengths = {}, {}, {}
  for name in names:
    with interrupt(0, *FILES) as lines:
      ACTIONS[name](scene)
    lengths[name] = lines.count
    step[name] = max(1, len(names) * lines.count // n)
    at[name] = int(scene.rng.integers(1, step[name] + 1))
  while done < n:
    for name in names:
      scene.lay()
      try:
        with interrupt(at[name], *FILES) as lines:
          ACTIONS[name](scene)
      except KeyboardInterrupt:
        pass
      gc.collect(0)
      lost = scene.wrong()
      assert not lost, f"seed {seed}: {lost} was lost by an interrupt of {name} before line number {at[name]} of {lengths[name]}"
      raised[name] += lines.raised
      done += 1
      progress(done)
      at[name] = at[name] + step[name] if at[name] + step[name] <= lengths[name] else int(scene.rng.integers(1, step[name] + 1))
  return raised


if __name__ == "__main__":
  count, start = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
  found = check(count, start, lambda done: print(f"\r{done} of {count}", end="", file=sys.stderr, flush=True) if done % 50 == 0 else None)
  print(f"\nseed {start}: {sum(found.values())} interrupts, nothing lost", dict(found))
