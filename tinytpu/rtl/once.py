"""Modules that a design holds many times are generated once.

Amaranth generates every instance of a component anew, which for the lanes of a wide machine is most of the time that it takes.
`place` puts an instance of a module that the platform generates on its first use in place of the component.
"""
from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

from amaranth.back import verilog
from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Fragment, Instance, Module, ResetSignal, Value
from amaranth.hdl._ir import PortDirection
from amaranth.hdl._xfrm import DomainCollector
from amaranth.lib import wiring

__all__ = ["VerilogPlatform", "generate", "place"]


class VerilogPlatform:
  """What `elaborate` gets as platform when Verilog is made: keeps the modules that `place` has generated.

  Attributes:
    name: of the top module; generated modules are called `name.label`.
    texts: Verilog of the generated modules with their submodules, by label.
  """

  def __init__(self, name: str) -> None:
    self.name = name
    self.texts: dict[str, str] = {}
    self._made: dict[str, tuple[wiring.Component, list[str]]] = {}
    self._origins: dict[str, tuple[Callable[..., wiring.Component], tuple[Any, ...]]] = {}

  def module(self, label: str, make: Callable[..., wiring.Component], args: tuple[Any, ...]) -> tuple[str, wiring.Component, list[str]]:
    """Name of the module `label`, the component that it was made of, and its ports; made on first use.

    Raises:
      ValueError: the label belongs to another component.
    """
    name = f"{self.name}.{label}"
    if (origin := self._origins.setdefault(label, (make, args))) != (make, args):
      raise ValueError(f"two components share the label {label!r}: {_call(*origin)} and {_call(make, args)}; "
                       "give one of them another label")
    if label not in self._made:
      component = make(*args)
      self.texts[label] = text = generate(component, name, self)
      header = re.search(rf"^module \\{re.escape(name)} \(([^;]*)\);", text, flags=re.MULTILINE)
      assert header is not None
      self._made[label] = component, [port.strip().removeprefix("\\") for port in header[1].split(",")]
    return name, *self._made[label]


def _call(make: Callable[..., wiring.Component], args: tuple[Any, ...]) -> str:
  return f"{getattr(make, '__qualname__', make)}({', '.join(map(repr, args))})"


def generate(component: wiring.Component, name: str, platform: VerilogPlatform) -> str:
  """Verilog of a component as module `name`, less what `place` puts into `platform.texts`; Amaranth's warnings are errors.

  The same text in every process: Amaranth would add the clock domains as a set of names gives them, an order that each process draws
  anew, so they are added here, by name.
  """
  with warnings.catch_warnings():
    warnings.simplefilter("error")
    fragment = Fragment.get(component, platform)
    ports: dict[str, tuple[Value, PortDirection]] = {}
    for path, member, value in component.signature.flatten(component):
      direction = PortDirection.Input if member.flow is wiring.In else PortDirection.Output
      ports["__".join(map(str, path))] = Value.cast(value), direction
    collector = DomainCollector()
    collector(fragment)
    for domain in map(ClockDomain, sorted(collector.used_domains - collector.defined_domains)):
      fragment.add_domains(domain)
      ports |= {signal.name: (signal, PortDirection.Input) for signal in (domain.clk, domain.rst)}
    return verilog.convert_fragment(fragment, ports, name, emit_src=False, strip_internal_attrs=True)[0]


def place(m: Module, platform: object, name: str, label: str, make: Callable[..., wiring.Component], *args: Any,
          domain: str = "sync") -> Any:
  """Add a submodule to `m`; what its members are called on.

  Args:
    name: of the submodule.
    label: of the module; one label, one `make` with equal `args`.
    make: makes the component of `args`: a class or a function that has a name, since only those can be compared. When no Verilog is
      made the component itself is the submodule.
    domain: which its `sync` is.

  Raises:
    ValueError: the label belongs to another component.
  """
  if not isinstance(platform, VerilogPlatform):
    component = make(*args)
    m.submodules[name] = DomainRenamer(domain)(component)
    return component
  module, original, ports = platform.module(label, make, args)
  interface = original.signature.create(path=(name,))
  connections: dict[str, Value] = {}
  for path, member, value in original.signature.flatten(interface):
    port = "__".join(map(str, path))
    if port in ports:
      connections[f"{'i' if member.flow is wiring.In else 'o'}_{port}"] = Value.cast(value)
      ports = [other for other in ports if other != port]
  for port in ports:
    clock, _, kind = port.rpartition("_")
    clock = clock or domain
    connections[f"i_{port}"] = {"clk": ClockSignal(clock), "rst": ResetSignal(clock, allow_reset_less=True)}[kind]
  m.submodules[name] = Instance(module, **connections)
  return interface
