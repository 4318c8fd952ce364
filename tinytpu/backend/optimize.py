"""How kernels are shaped for the machine, in place of tinygrad's heuristic for GPUs, for this renderer only."""
from __future__ import annotations

from functools import wraps

from tinygrad.codegen.opt import heuristic
from tinygrad.codegen.opt.postrange import Scheduler


def install() -> None:
  """Make tinygrad ask `optimize` about kernels for a TinyTPU. Runs whenever a renderer is made, in compile workers too."""
  theirs = heuristic.hand_coded_optimizations
  if getattr(theirs, "tinytpu", False):
    return

  @wraps(theirs)
  def hand_coded_optimizations(k: Scheduler) -> Scheduler:
    return optimize(k) if hasattr(k.ren, "config") and k.ren.target.device == "TINYTPU" else theirs(k)
  hand_coded_optimizations.tinytpu = True  # type: ignore[attr-defined]
  heuristic.hand_coded_optimizations = hand_coded_optimizations


def optimize(k: Scheduler) -> Scheduler:
  """The kernel with opts applied."""
  return k
