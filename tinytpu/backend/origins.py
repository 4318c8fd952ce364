"""Which calls of the user's program a kernel's UOps were made by: noted if asked for, on the way from Tensors to the renderer.

tinygrad notes the Tensor method of each UOp that a method returns. Here a note also has the line that called the method, and goes with the
UOp through every rewrite: what takes its place inherits it, and so does what is new below that. Equal UOps are one object in tinygrad, also
those of different kernels, so notes are kept apart for each schedule and for each kernel, and lie with a kernel's SINK in between.
`install` puts all that into tinygrad. If it is asked for, importing this module does; `tinytpu.boot` imports it before there is a Tensor.
A schedule that tinygrad takes from its cache, and a kernel that it has compiled before, keep the lines that they were made for.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import tinygrad
from tinygrad import codegen, tensor
from tinygrad.helpers import Metadata
from tinygrad.schedule import rangeify
from tinygrad.uop import ops
from tinygrad.uop.ops import Ops, UOp, all_metadata

from ..asm.origins import Call, Origin, tidy
from ..environment import ORIGINS, flag
from .patch import asks, put, replace

MAX_CALLS = 8
"""Calls that are kept of a UOp."""
_SHARED = {Ops.CONST, Ops.PARAM, Ops.BUFFER, Ops.RANGE, Ops.SPECIAL, Ops.SINK, Ops.NOOP}
"""UOps that serve many others: theirs are those of what uses them."""
_LIBRARY = str(Path(tinygrad.__file__).parent) + os.sep


def _here() -> str:
  """The current folder, a separator at its end; "" if it has been removed."""
  try:
    return os.path.join(os.getcwd(), "")
  except OSError:
    return ""


_HERE = _here()
"""Files below it are named from there, also when the program has gone elsewhere: a line has one name."""

Notes = tuple[Metadata, ...]


@dataclass(frozen=True)
class Located(Metadata):
  """A Tensor method, and where it was called: FILE:LINE."""
  where: str = ""


@dataclass(frozen=True)
class Table(Metadata):
  """Notes of a kernel's UOps, in the order of its toposort."""
  rows: tuple[Notes, ...] = ()


class _Scope:
  """Notes of one schedule or kernel. below: whether Tensors' own are in it."""

  def __init__(self, below: bool):
    self.notes: dict[UOp, Notes] = {}
    self.below = below

  def get(self, u: UOp) -> Notes:
    found = self.notes.get(u, ())
    return found or (all_metadata.get(u, ()) if self.below else ())

  def carry(self, replaced: dict[UOp, UOp]) -> None:
    """Hand notes on to what took the place of UOps."""
    for old, new in replaced.items():
      if new is not old and (notes := self.get(old)):
        self._give(new, notes)

  def _give(self, u: UOp, notes: Notes) -> None:
    stack = [u]
    while stack:
      u = stack.pop()
      if u.op not in _SHARED and not self.get(u):
        self.notes[u] = notes
        stack.extend(u.src)


_scope: ContextVar[_Scope | None] = ContextVar("notes", default=None)


def asked() -> bool:
  """Whether programs should tell where their operations come from."""
  return flag(ORIGINS)


@contextmanager
def _scoped(below: bool = False) -> Iterator[_Scope]:
  token = _scope.set(scope := _Scope(below))
  try:
    yield scope
  finally:
    _scope.reset(token)


# -- what tinygrad is given -----------------------------------------------------------------------
def _note_calls(module: Any) -> None:
  """Let methods of Tensors note where they are called, and schedules keep it. module: tinygrad.tensor."""
  schedule = module.Tensor.linear_with_vars

  def located(name: str) -> Located:
    return Located(name, where=_where())

  @wraps(schedule)
  def linear_with_vars(*tensors: Any) -> Any:
    with _scoped(below=True):
      return schedule(*tensors)
  put(module, "Metadata", module._metadata_wrapper(lambda: None), located)
  module.Tensor.linear_with_vars = _unseen(linear_with_vars)


def _unseen(f: Any) -> Any:
  """A function that tinygrad passes over when it names the line of the program that a schedule is for."""
  f.__code__ = f.__code__.replace(co_filename="<string>")
  return f


def _where() -> str:
  """The line of the innermost caller outside of tinygrad."""
  frame = sys._getframe(2)
  while frame.f_code.co_filename.startswith(_LIBRARY) and frame.f_back is not None:
    frame = frame.f_back
  return f"{frame.f_code.co_filename.removeprefix(_HERE)}:{frame.f_lineno}"


def _keep_notes() -> None:
  """Let rewrites, schedules and compilation keep notes. Raises: AssertionError: tinygrad has no such place any more."""
  for name in ("unified_rewrite", "walk_rewrite"):
    assert asks(ops.graph_rewrite, name), f"tinygrad's graph_rewrite does not ask for {name}"
    setattr(ops.RewriteContext, name, _carried(getattr(ops.RewriteContext, name)))
  replace(rangeify, "split_kernels", rangeify.get_kernel_graph, _split_store, _split)
  put(codegen, "do_to_program", codegen.to_program, _compiling(codegen.do_to_program))


def _carried(rewrite: Callable[[Any, UOp], UOp]) -> Callable[[Any, UOp], UOp]:
  """A method of tinygrad's RewriteContext, after which notes are handed on."""
  @wraps(rewrite)
  def ours(self: Any, root: UOp) -> UOp:
    done = rewrite(self, root)
    if (scope := _scope.get()) is not None:
      scope.carry(self.replace)
    else:
      _keep_tables(self.replace)
    return done
  return _unseen(ours)


def _keep_tables(replaced: dict[UOp, UOp]) -> None:
  """Hand a kernel's notes on to what took its place between schedule and compilation: BEAM's is another SINK."""
  for old, new in replaced.items():
    if old.op is new.op is Ops.CALL and (sink := new.src[0]) is not old.src[0] and sink.op is Ops.SINK and (table := _table(old.src[0])):
      all_metadata.setdefault(sink, (table,))


_split_store = rangeify.split_store


def _split(x: UOp) -> UOp | None:
  """A kernel made of a store by tinygrad; the notes of its UOps go to its SINK."""
  if (around := _scope.get()) is None:
    return _split_store(x)
  with _scoped() as scope:
    scope.notes = {u: notes for u in x.toposort() if (notes := around.get(u))}
    call = _split_store(x)
    if call is not None and (sink := call.src[0]).op is Ops.SINK:
      rows = tuple(scope.get(u) for u in sink.toposort())
      if (before := _table(sink)) is not None:
        rows = tuple(tuple(dict.fromkeys((*a, *b)))[:MAX_CALLS] for a, b in zip(before.rows, rows, strict=True))
      all_metadata[sink] = (Table(sink.arg.name, rows=rows),)
  return call


def _compiling(theirs: Callable[..., UOp]) -> Callable[..., UOp]:
  """tinygrad's function that makes a program of a kernel's SINK."""
  @wraps(theirs)
  def do_to_program(ast: UOp, renderer: Any) -> UOp:
    with _scoped() as scope:
      if (table := _table(ast)) is not None and len(uops := ast.toposort()) == len(table.rows):
        scope.notes = {u: row for u, row in zip(uops, table.rows, strict=True) if row}
      return theirs(ast, renderer)
  return do_to_program


def _table(sink: UOp) -> Table | None:
  return next((m for m in all_metadata.get(sink, ()) if isinstance(m, Table)), None)


# -- what the renderer asks for -------------------------------------------------------------------
def origins(uops: Sequence[UOp]) -> list[Origin]:
  """Of each UOp of the kernel that is being compiled, in the order of its linear program, what it is and which calls it was made by: its
  own, or those of what uses it, or else of what it uses."""
  scope = _scope.get()
  notes = {u: scope.get(u) if scope is not None else () for u in uops}
  for u in reversed(uops):
    for s in u.src:
      if not notes.get(s, u):
        notes[s] = notes[u]
  for u in uops:
    notes[u] = notes[u] or next((notes[s] for s in u.src if notes.get(s)), ())
  numbers = {u: n for n, u in enumerate(uops)}
  return [Origin(tidy(_text(u, numbers)), tuple(dict.fromkeys(map(_call, notes[u])))) for u in uops]


def _call(m: Metadata) -> Call:
  name = m.name.strip("_") if m.name.startswith("__") and m.name.endswith("__") else m.name  # __add__ is add
  method = name + (".backward" if m.backward else "")
  return Call(tidy(method).replace(" ", "_"), tidy(getattr(m, "where", "") or "?"))


def _text(u: UOp, numbers: dict[UOp, int]) -> str:
  """A UOp in short: its number in the program, operation, dtype, sources and argument."""
  sources = ", ".join(f"%{numbers[s]}" if s in numbers and s.op is not Ops.CONST else str(s.arg) if s.op is Ops.CONST else s.op.name
                      for s in u.src)
  argument = "" if u.arg is None or u.op in (Ops.SINK, Ops.LOAD, Ops.STORE) else f" {u.arg}"
  return f"%{numbers[u]} {u.op.name} {u.dtype.name}" + (f" ({sources})" if sources else "") + argument[:80]


def install() -> None:
  """Put all this into tinygrad, once; Tensors that there are already have no lines."""
  if getattr(tensor, "tinytpu_origins", False):
    return
  tensor.tinytpu_origins = True  # type: ignore[attr-defined]
  _note_calls(tensor)
  _keep_notes()


if asked():
  install()
