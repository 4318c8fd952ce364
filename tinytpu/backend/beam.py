"""BEAM search for this machine. tinygrad's search starts from the unshaped kernel and knows no padding to a wave or of a matrix product, so
what it finds is compared, in simulated cycles, with what our own optimiser makes."""
from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

from tinygrad.codegen.opt import search
from tinygrad.codegen.opt.postrange import Scheduler
from tinygrad.device import Buffer
from tinygrad.uop.ops import Ops

from ..config import Config
from .optimize import optimize


def install() -> None:
  """Make tinygrad's search take our optimiser's kernel, of a TinyTPU renderer, where it is faster."""
  theirs: Callable[..., Scheduler] = search.beam_search
  if getattr(theirs, "tinytpu", False):
    return

  @wraps(theirs)
  def beam_search(s: Scheduler, rawbufs: list[Buffer], var_vals: dict[str, int], *args: Any, **kwargs: Any) -> Scheduler:
    found = theirs(s, rawbufs, var_vals, *args, **kwargs)
    config = getattr(s.ren, "config", None)
    if not isinstance(config, Config) or any(u.op is Ops.STAGE for u in s.ast.backward_slice):  # our optimiser is not asked for those
      return found
    rawbufs = search._ensure_buffer_alloc(rawbufs)
    return min(optimize(s, config), found, key=lambda k: _seconds(k, rawbufs, var_vals))
  beam_search.tinytpu = True  # type: ignore[attr-defined]
  search.beam_search = beam_search


def _seconds(k: Scheduler, rawbufs: list[Buffer], var_vals: dict[str, int]) -> float:
  """Simulated seconds of a kernel with all of its groups, once its buffers are where it leaves them; infinite if it does not compile."""
  _, compiled = search._try_compile((0, k))
  if compiled is None:
    return math.inf
  return min(search._time_program(compiled[0], var_vals, rawbufs, allow_test_size=False, clear_l2=True, cnt=2))
