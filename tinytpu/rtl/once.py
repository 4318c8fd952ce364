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
from amaranth.hdl import ClockSignal, DomainRenamer, Instance, Module, ResetSignal, Value
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

  def module(self, label: str, make: Callable[[], wiring.Component]) -> tuple[str, wiring.Component, list[str]]:
    """Name of the module `label`, the component that it was made of, and its ports; made on first use."""
    name = f"{self.name}.{label}"
    if label not in self._made:
      component = make()
      self.texts[label] = text = generate(component, name, self)
      header = re.search(rf"^module \\{re.escape(name)} \(([^;]*)\);", text, flags=re.MULTILINE)
      assert header is not None
      self._made[label] = component, [port.strip().removeprefix("\\") for port in header[1].split(",")]
    return name, *self._made[label]


def generate(component: wiring.Component, name: str, platform: VerilogPlatform) -> str:
  """Verilog of a component as module `name`, less what `place` puts into `platform.texts`; Amaranth's warnings are errors."""
  with warnings.catch_warnings():
    warnings.simplefilter("error")
    return verilog.convert(component, name=name, platform=platform, emit_src=False, strip_internal_attrs=True)


def place(m: Module, platform: object, name: str, label: str, make: Callable[[], wiring.Component], domain: str = "sync") -> Any:
  """Add a submodule to `m`; what its members are called on.

  Args:
    name: of the submodule.
    label: of the module: calls with the same label must make equal components.
    make: makes the component. When no Verilog is made it is the submodule itself.
    domain: which its `sync` is.
  """
  if not isinstance(platform, VerilogPlatform):
    component = make()
    m.submodules[name] = DomainRenamer(domain)(component)
    return component
  module, original, ports = platform.module(label, make)
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
