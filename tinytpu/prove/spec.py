"""Specifications: a unit, and beside it what is claimed of it over time."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from amaranth.hdl import Fragment, Module, Signal, Value
from amaranth.hdl._ast import SignalSet
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring
from bitwuzla import Term

__all__ = ["Ports", "Spec", "ports"]

Ports = dict[str, tuple[Value, PortDirection | None]]


def ports(component: wiring.Component) -> Ports:
  """All members of the signature; the inputs may turn out to be driven by a specification."""
  return {"__".join(map(str, path)): (Value.cast(value), None if member.flow is wiring.In else PortDirection.Output)
          for path, member, value in component.signature.flatten(component)}


class Spec:
  """A unit and what is claimed of it, as a module with `Assert`, `Assume` and `Cover` beside the unit.

  Attributes:
    m: the module, which holds the unit as `unit`; its inputs are free unless the module drives them.
    signals: every signal in the unit by name, submodules' after a dot: claims may speak of registers. Of several with one name the
      second in order of creation is `name#2`, and so on (those made in one line for several variables may all be called $signal).
    ticks: by clock domain the signal whose cycles end with an edge of its clock; domains that are not named tick in every cycle.
    shown: signals that a counterexample shows besides the inputs.
    claims: what takes more than signals to say, memories above all: (kind, message, its truth in a cycle).
  """

  def __init__(self, unit: wiring.Component) -> None:
    self.unit, self.m = unit, Module()
    fragment = Fragment.get(unit, None)
    self.m.submodules.unit = fragment
    self.signals: dict[str, Signal] = {}
    for _, name, signal in sorted((signal.duid, name, signal) for name, signal in self._collect(fragment, "")):
      same = sum(other == name or other.startswith(f"{name}#") for other in self.signals)
      self.signals[f"{name}#{same + 1}" if same else name] = signal
    self.ticks: dict[str, Signal] = {}
    self.shown: list[Signal] = []
    self.claims: list[tuple[str, str, Callable[[Any, int], Term]]] = []
    self.ports: Ports = ports(unit)

  def _collect(self, fragment: Fragment, prefix: str) -> Iterator[tuple[str, Signal]]:
    found = SignalSet()
    for statements in fragment.statements.values():
      found.update(statements._lhs_signals() | statements._rhs_signals())
    yield from ((prefix + signal.name, signal) for signal in found if isinstance(signal, Signal))
    for inner, name, _ in fragment.subfragments:
      yield from self._collect(inner, f"{prefix}{name}.")
