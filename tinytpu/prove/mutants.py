"""Faults put into the RTL on purpose: a theorem that does not notice them says nothing."""
from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

__all__ = ["Mutant", "mutated"]


@dataclass(frozen=True)
class Mutant:
  """A fault: in `module` (of tinytpu.rtl), `old`, which occurs once in its source, is written as `new`."""
  module: str
  old: str
  new: str

  @property
  def says(self) -> str:
    """The change, on one line."""
    return f"{self.module}: {' '.join(self.old.split())} -> {' '.join(self.new.split())}"


@contextmanager
def mutated(mutant: Mutant) -> Iterator[None]:
  """The fault is in the functions of the module, for all who have imported them, while the context lasts.

  Raises:
    ValueError: `old` does not occur exactly once.
  """
  module = importlib.import_module(f"tinytpu.rtl.{mutant.module}")
  source = inspect.getsource(module)
  if source.count(mutant.old) != 1:
    raise ValueError(f"{mutant.module} has {source.count(mutant.old)} times {mutant.old!r}: a mutant changes what occurs once")
  namespace: dict[str, Any] = {"__name__": module.__name__, "__package__": module.__package__, "__file__": module.__file__}
  exec(compile(source.replace(mutant.old, mutant.new), str(module.__file__), "exec"), namespace)
  before: list[tuple[FunctionType, CodeType]] = []
  try:
    for name, changed in _functions(namespace, module.__name__).items():
      original = _functions(vars(module), module.__name__)[name]
      before.append((original, original.__code__))
      original.__code__ = changed.__code__
    yield
  finally:
    for function, code in before:
      function.__code__ = code


def _functions(namespace: dict[str, Any], module: str) -> dict[str, FunctionType]:
  """Functions and methods that were defined in a module, by qualified name."""
  found = {}
  for value in list(namespace.values()):
    members = [value, *vars(value).values()] if isinstance(value, type) else [value]
    for member in members:
      function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
      if isinstance(function, FunctionType) and function.__module__ == module:
        found[function.__qualname__] = function
  return found
