"""How something is put into tinygrad at run time: where it is looked up, or an error."""
from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from tinygrad.uop.ops import PatternMatcher


def put(module: Any, name: str, reader: Callable[..., Any], ours: Any) -> None:
  """Set what tinygrad's function `reader` finds under a module's name when it runs."""
  assert hasattr(module, name), f"tinygrad's {module.__name__} has no {name}"
  assert asks(reader, name), f"tinygrad's {reader.__name__} does not ask for {name}"
  setattr(module, name, ours)


def asks(f: Callable[..., Any], name: str) -> bool:
  """Whether a function, or one that its decorators hold, looks up a name."""
  inner = [cell.cell_contents for cell in f.__closure__ or ()]
  return name in f.__code__.co_names or any(isinstance(g, FunctionType) and g is not f and asks(g, name) for g in inner)


def replace(module: Any, matcher: str, reader: Callable[..., Any], theirs: Callable[..., Any], ours: Callable[..., Any]) -> None:
  """Let a pattern of one of tinygrad's matchers that calls `theirs` call `ours` in its place. reader: as for `put`."""
  patterns = getattr(module, matcher).patterns
  assert any(f is theirs for _, f in patterns), f"tinygrad's {matcher} does not call {theirs.__name__}"
  put(module, matcher, reader, PatternMatcher([(p, ours if f is theirs else f) for p, f in patterns]))
