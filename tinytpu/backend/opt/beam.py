"""BEAM search for this machine. tinygrad's search starts from the unshaped kernel and knows no padding to a wave or of a matrix product, so
what it finds is compared, in simulated cycles, with what our own optimiser makes."""
from __future__ import annotations

import math

from tinygrad.codegen.opt import search
from tinygrad.codegen.opt.postrange import Scheduler
from tinygrad.device import Buffer
from tinygrad.engine import realize
from tinygrad.uop.ops import Ops

from ...config import Config
from .heuristic import optimize


def faster(s: Scheduler, config: Config, found: Scheduler, rawbufs: list[Buffer], var_vals: dict[str, int]) -> Scheduler:
  """The one that takes fewer simulated cycles: what tinygrad's search has `found` for the kernel `s`, or what our optimiser makes of it."""
  if not rawbufs or any(u.op is Ops.STAGE for u in s.ast.backward_slice):  # our optimiser is not asked for those
    return found
  rawbufs = search._ensure_buffer_alloc(rawbufs)
  return min(optimize(s, config), found, key=lambda k: _seconds(k, rawbufs, var_vals))


def _seconds(k: Scheduler, rawbufs: list[Buffer], var_vals: dict[str, int]) -> float:
  """Simulated seconds of a kernel with all of its groups, once its buffers are where it leaves them and its code has been fetched; infinite
  if it does not compile."""
  _, compiled = search._try_compile((0, k))
  if compiled is None:
    return math.inf
  device, program = rawbufs[0].device, compiled[0]
  realize.get_runtime(device, program)  # one for all runs: else each would bring its code anew
  try:
    return min(search._time_program(program, var_vals, rawbufs, allow_test_size=False, cnt=3))
  finally:
    realize.runtime_cache.pop((program.key, device), None)
