"""What is to be known of each kernel that tinygrad's tests compile: how full its lanes are, and what compiling it takes.

Installed by `watch` around the renderer, so it sees every kernel that this process compiles.
"""
from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from tinygrad import codegen
from tinygrad.dtype import AddrSpace
from tinygrad.uop.ops import Ops, UOp

from tinytpu.backend import hooks
from tinytpu.backend.lower.uniformity import FOLD, Lanes
from tinytpu.backend.renderer import TinyTPUCompiler, TinyTPURenderer
from tinytpu.backend.uops import Across

SAMPLE = 1 << 14
"""Combinations of group ids and loop counters that are looked at; a kernel with more is sampled."""


def lane_use(lanes: Lanes, uops: list[UOp]) -> tuple[int, float]:
  """What a kernel stores, and the share of lanes at work in its stores.

  Args:
    lanes: its local ids. uops: tinygrad's linear program.

  Returns:
    elements stored to HBM, and active lanes / lanes issued of the waves that store them. A lane is at work if it has a work item whose
    gate, where it can be told before the kernel runs (an axis was padded), lets the store happen; in a reduction across lanes all that
    take part are at work, though one stores.
  """
  across = {u.src[1].arg for u in uops if isinstance(u.arg, Across)}
  outer = [u for u in uops if u.op is Ops.SPECIAL and u.arg[0] == "g" or u.op is Ops.RANGE and len(u.src) > 0]
  stored, active, issued, gates, loops = 0.0, 0.0, 0.0, list[UOp](), list[UOp]()
  for u in uops:
    if u.op is Ops.IF:
      gates.append(u.src[0])
    elif u.op is Ops.ENDIF:
      gates.pop()
    elif u.op is Ops.RANGE:
      loops.append(u)
    elif u.op is Ops.END:
      loops.pop()
    elif u.op is Ops.STORE and u.src[0].src[0].addrspace is AddrSpace.GLOBAL:
      mine = [o for o in outer if o.op is Ops.SPECIAL or o in loops]
      times = math.prod(int(o.vmax) + 1 for o in mine)
      issued += times * lanes.waves * lanes.config.width
      stored += times * lanes.count * _share(lanes, gates, mine, times, set())
      active += times * lanes.count * _share(lanes, gates, mine, times, across)
  return round(stored), active / issued if issued else 1.0


def _share(lanes: Lanes, gates: list[UOp], outer: list[UOp], times: int, across: set[str]) -> float:
  """The share of work items whose gates hold, or would hold for the first of those that differ in the ids `across` alone."""
  at = np.arange(times) if times <= SAMPLE else np.random.default_rng(times).integers(0, times, SAMPLE)
  known: dict[UOp | str, np.ndarray] = {f"lidx{axis}": lanes.local(axis)[None, :lanes.count] * (f"lidx{axis}" not in across)
                                        for axis in range(len(lanes.sizes))}
  for o in outer:
    known[_name(o)], at = at[:, None] % (int(o.vmax) + 1), at // (int(o.vmax) + 1)
  values = [v for g in gates if (v := _value(g, known)) is not None]
  whole = np.ones((len(at), lanes.count), bool)
  return float(np.mean(np.logical_and.reduce(np.broadcast_arrays(whole, *values))))


def _name(u: UOp) -> UOp | str:
  return str(u.arg) if u.op is Ops.SPECIAL else u


def _value(u: UOp, known: dict[UOp | str, np.ndarray]) -> np.ndarray | None:
  """A UOp for all combinations of ids at once; None if it depends on memory or on an argument."""
  if u.op is Ops.CONST:
    return np.asarray(u.val)
  if u.op in (Ops.SPECIAL, Ops.RANGE):
    return known.get(_name(u))
  if u.op is Ops.CAST:
    return _value(u.src[0], known)
  values = [_value(s, known) for s in u.src]
  return FOLD[u.op](*values) if u.op in FOLD and all(v is not None for v in values) else None


class Kernels:
  """Records of this process.

  Attributes:
    lanes: `lane_use` of every kernel. seconds: (own, tinygrad's) time to compile every kernel. Own are the optimiser, the renderer and
    the assembler; tinygrad's are its rewrites, less our optimiser that runs within them, and its linearizer.
  """

  def __init__(self) -> None:
    self.lanes: list[tuple[int, float]] = []
    self.seconds: list[tuple[float, float]] = []
    self._spent: Counter[str] = Counter()

  def watch(self) -> None:
    """Record all that is compiled from now on."""
    timed: tuple[tuple[Any, str, Callable[..., None] | None], ...] = (
      (hooks, "optimize", None), (codegen, "full_rewrite_to_sink", None), (codegen, "linearize", None),
      (TinyTPURenderer, "render", self._rendered), (TinyTPUCompiler, "compile", self._compiled))
    for owner, name, after in timed:
      setattr(owner, name, self._timed(name, getattr(owner, name), after))

  def _timed(self, name: str, inner: Callable[..., Any], after: Callable[..., None] | None) -> Callable[..., Any]:
    @wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
      start = time.perf_counter()
      result = inner(*args, **kwargs)
      self._spent[name] += time.perf_counter() - start  # type: ignore[assignment]
      if after is not None:
        after(*args)
      return result
    return outer

  def _rendered(self, renderer: TinyTPURenderer, uops: list[UOp]) -> None:
    sizes = {int(u.arg[-1]): int(u.vmax) + 1 for u in uops if u.op is Ops.SPECIAL and u.arg[0] == "l"}
    self.lanes.append(lane_use(Lanes(renderer.config, [sizes.get(i, 1) for i in range(max(sizes, default=-1) + 1)]), uops))

  def _compiled(self, *_: object) -> None:
    spent, self._spent = self._spent, Counter()
    optimizer = spent["optimize"]
    self.seconds.append((optimizer + spent["render"] + spent["compile"], spent["full_rewrite_to_sink"] - optimizer + spent["linearize"]))
