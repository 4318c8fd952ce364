"""Everything that is put into tinygrad at run time, for kernels of our renderer; other devices' kernels go tinygrad's way.

Installed when a renderer is made, in compile workers too. What must be there before tinygrad asks for the device: `tinytpu.boot`.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache, reduce, wraps
from typing import Any

from tinygrad import codegen
from tinygrad.codegen.late import gater
from tinygrad.codegen.opt import heuristic, postrange, search
from tinygrad.codegen.opt.postrange import Scheduler
from tinygrad.engine import realize
from tinygrad.helpers import to_tuple
from tinygrad.renderer import Renderer
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat

from ..config import Config
from . import kept
from .decomp.corrections import CORRECTIONS, move_gate
from .lower.rules import SUPPORTED_OPS
from .opt import beam
from .opt.heuristic import optimize
from .patch import put, replace
from .uops import Across, combine, keeps_nan

_ours: ContextVar[bool] = ContextVar("kernel of ours", default=False)
"""Whether the kernel that is being rewritten is for one of our renderers. Patterns, unlike functions, are not told."""


def install() -> None:
  """Put all of them in, once. Raises: AssertionError: tinygrad has no such place any more, or does not look there."""
  if getattr(codegen, "tinytpu", False):
    return
  codegen.tinytpu = True  # type: ignore[attr-defined]
  _kernels()
  _optimiser()
  _beam()
  _reductions_across_lanes()
  rewriting = codegen.full_rewrite_to_sink
  replace(codegen, "pm_reduce_local", rewriting, codegen.reduce_ranges_to_acc, _looped)
  replace(codegen, "pm_reduce_local", rewriting, codegen.expand_horizontal_reduce, _side_by_side)
  replace(codegen, "pm_move_gates_from_index", rewriting, gater.move_where_load, _gate)
  replace(realize, "pm_exec", realize.run_linear, realize.exec_copy, _copy)
  _corrections()
  kept.install()


def _kernels() -> None:
  """Note whose kernel is rewritten."""
  theirs = codegen.full_rewrite_to_sink

  @wraps(theirs)
  def full_rewrite_to_sink(ast: UOp, ren: Renderer, *args: Any, **kwargs: Any) -> UOp:
    token = _ours.set(isinstance(getattr(ren, "config", None), Config))
    try:
      return theirs(ast, ren, *args, **kwargs)
    finally:
      _ours.reset(token)
  put(codegen, "full_rewrite_to_sink", codegen.do_to_program, full_rewrite_to_sink)


def _config(k: Scheduler) -> Config | None:
  """The machine that a kernel is for, if it is one of ours."""
  return config if isinstance(config := getattr(k.ren, "config", None), Config) else None


def _optimiser() -> None:
  """Our optimiser in place of tinygrad's heuristic."""
  theirs: Callable[[Scheduler], Scheduler] = heuristic.hand_coded_optimizations

  @wraps(theirs)
  def hand_coded_optimizations(k: Scheduler) -> Scheduler:
    return theirs(k) if (config := _config(k)) is None else optimize(k, config)
  put(heuristic, "hand_coded_optimizations", postrange.apply_opts, hand_coded_optimizations)


def _beam() -> None:
  """tinygrad's search, and our optimiser's kernel where that is faster."""
  theirs: Callable[..., Scheduler] = search.beam_search

  @wraps(theirs)
  def beam_search(s: Scheduler, *args: Any, **kwargs: Any) -> Scheduler:
    found = theirs(s, *args, **kwargs)
    return found if (config := _config(s)) is None else beam.faster(s, config, found, *args[:2])
  put(search, "beam_search", postrange.apply_opts, beam_search)


# -- reductions across lanes: the two passes of tinygrad that name every UOp with operands learn of ours ---------------------------
def _load(u: UOp) -> UOp | None:
  if not isinstance(u.arg, Across) or (value := codegen.maybe_load(u.src[0])) is u.src[0]:
    return None
  return u.replace(src=(value, *u.src[1:]))


def _scalars(u: UOp) -> UOp | None:
  """One reduction for each element of an upcast value."""
  if not isinstance(u.arg, Across) or not u.src[0].shape:
    return None
  value, n = u.src[0], u.src[0].max_numel()
  flat = value.reshape(n)
  return UOp.stack(*(u.replace(src=(flat.index(UOp.const(i)), *u.src[1:])) for i in range(n))).reshape(value.shape)


def _reductions_across_lanes() -> None:
  for matcher, ours in (("pm_add_loads", _load), ("devectorizer2", _scalars)):
    theirs: PatternMatcher = getattr(codegen, matcher)
    put(codegen, matcher, codegen.full_rewrite_to_sink, theirs + PatternMatcher([(UPat(Ops.CUSTOM, name="u"), ours)]))


# -- reductions to the largest: steps that keep a NaN (see `uops.combine`) ----------------------------------------------------------
_to_accumulator, _expand = codegen.reduce_ranges_to_acc, codegen.expand_horizontal_reduce


def _looped(ctx: codegen.ReduceContext, r: UOp) -> UOp:
  """A reduction as a loop that stores to an accumulator. tinygrad sets that to its initial value inside all loops that what is reduced is
  made in, those included that a buffer in between has ended (fused attention): such loops are taken away."""
  done = _to_accumulator(ctx, r)
  if not _ours.get():
    return done
  end = done.src[1]
  store = end.src[0]
  start = store.src[0].src[1].src[0]  # what the initial value is stored to: the accumulator, after the loops around
  assert store.op is Ops.STORE and store.src[1].op is r.arg[0] and done.src[0] in (start, *start.src), "tinygrad reduces otherwise"
  step = combine(r.arg[0], *store.src[1].src)
  done = done.replace(src=(done.src[0], end.replace(src=(store.replace(src=(store.src[0], step)), *end.src[1:]))))
  still = tuple(x for x in start.src[1:] if x.op is not Ops.RANGE or x in r.src[0].ranges)
  if start.op is not Ops.AFTER or still == start.src[1:]:
    return done
  return done.substitute({start: start.replace(src=(start.src[0], *still)) if still else start.src[0]})


def _side_by_side(r: UOp) -> UOp:
  """A reduction of elements that are all there at once."""
  done = _expand(r)
  if not (keeps_nan(r.arg[0], r.dtype) and _ours.get()):
    return done
  terms = []
  for _ in range(math.prod(r.src[0].max_shape[:r.arg[1]]) - 1):
    assert done.op is Ops.MAX, "tinygrad reduces otherwise than expected"
    done, last = done.src
    terms.append(last)
  return reduce(lambda a, b: combine(Ops.MAX, a, b), reversed(terms), done)


def _gate(gate: UOp, l: UOp, a: UOp, w: UOp) -> UOp | None:
  """A load with the value `a` for where its gate is closed."""
  return (move_gate if _ours.get() else gater.move_where_load)(gate, l, a, w)


# -- time: copies between host and device are no work of the machine's, and would be told in the host's time ----------------------
_copying = realize.exec_copy


def _copy(ctx: realize.ExecContext, call: UOp, ast: UOp) -> list[float | None]:
  done = _copying(ctx, call, ast)
  devices = [d for u in realize.get_call_arg_uops(call) if u.device is not None for d in to_tuple(u.device)]
  return [0.0] * len(realize.get_call_kernels(call)) if any(d.split(":")[0] == "TINYTPU" for d in devices) else done


def _corrections() -> None:
  """Our corrections, before tinygrad's early decompositions."""
  theirs: Callable[[tuple[Ops, ...]], PatternMatcher] = codegen.get_simplifying_rewrite_patterns

  @cache  # asked for every kernel, and a matcher is dear to make
  @wraps(theirs)
  def patterns(ops: tuple[Ops, ...]) -> PatternMatcher:
    return CORRECTIONS + theirs(ops) if ops == SUPPORTED_OPS else theirs(ops)
  put(codegen, "get_simplifying_rewrite_patterns", codegen.full_rewrite_to_sink, patterns)
