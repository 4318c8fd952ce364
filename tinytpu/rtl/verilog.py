"""Amaranth component -> Verilog as text, tidied so that simulators like it: equal modules once, selections as such."""

from __future__ import annotations

import re

from amaranth.lib import wiring

from tinytpu.rtl.once import VerilogPlatform, generate

__all__ = ["to_verilog", "without_wakers"]


def to_verilog(component: wiring.Component, name: str) -> str:
  """Verilog of a component as module `name`, without source locations, so equal hardware is equal text.

  Amaranth writes every instance as a module of its own, named `name.path.to.it`, but what `once.place` makes; modules with
  equal content are made one here, named after the first. Placed modules Verilator shall keep as functions of their own: smaller C++
  for a module instantiated often.
  """
  target = VerilogPlatform(name)
  text = "".join([generate(component, name, target), *target.texts.values()])
  text = re.sub(r"(dump_module\$)\d+", r"\g<1>0", text)  # counted over all modules, but local to each
  modules = _share_equal(dict(re.findall(r"^module (\\\S+(?= )|\w+)(.*?^endmodule\n)", text, flags=re.M | re.S)))
  placed = {f"\\{name}.{label}" for label in target.texts}
  parts = []
  for module, body in modules.items():
    if module in placed:
      body = body.replace(";", "; /*verilator no_inline_module*/", 1)  # the first one ends the list of ports
    parts.append(f"module {module}{_part_selects(body)}")
  return "\n".join(parts)


def _share_equal(modules: dict[str, str]) -> dict[str, str]:
  """Keep one of each set of modules with equal content, from the leaves up."""
  instance = re.compile(r"^  (\\\S+|\w+)(?= )", flags=re.MULTILINE)
  while True:
    first: dict[str, str] = {}
    same = {module: first.setdefault(body, module) for module, body in modules.items()}
    if len(first) == len(modules):
      return modules

    def rename(found: re.Match[str], same: dict[str, str] = same) -> str:
      return "  " + same.get(found[1], found[1])

    modules = {module: instance.sub(rename, body) for module, body in modules.items() if same[module] == module}


def without_wakers(verilog: str) -> str:
  """Yosys gives each module a dummy register to wake `always @*` blocks at time zero; Verilator needs none."""
  dummy = r"\\\$auto\$verilog_backend\S+ +"
  return re.sub(rf"^ *(?:reg {dummy}= 0;|if \({dummy}\) begin end)\n", "", verilog, flags=re.MULTILINE)


_NAME = r"\\\S+|\w+"


def _part_selects(body: str) -> str:
  """Selections of a part by its number (`select.part`), which Yosys writes as a shift of the whole vector, as what they are.

  Verilator takes a part-select straight from memory, and computes the shift: of 64 words, twenty times slower. A vector that is a
  concatenation gets a name, once for all selections from it.
  """
  widths = {name: int(high or 0) + 1 for high, name in re.findall(rf"^  (?:wire|reg) (?:\[(\d+):0\] )?({_NAME})", body, flags=re.MULTILINE)}
  vectors: dict[str, str] = {}

  def rewrite(found: re.Match[str]) -> str:
    target, value, index, zeros = found.groups()
    part, size, bits = 1 << int(zeros), _width(value, widths), _width(index, widths)
    if widths.get(target) != part or size is None or bits is None or size != part << bits or bits == 0:
      return found[0]
    define = ""
    if value.startswith("{") and value not in vectors:
      vectors[value] = rf"\parts${len(vectors)} "
      define = f"  wire [{size - 1}:0] {vectors[value]};\n  assign {vectors[value]} = {value};\n"
    return f"{define}  assign {target} = {vectors.get(value, value)} [{{ {index}, {zeros}'h0 }} +: {part}];"

  shift = rf"^  assign ({_NAME}) += ({_NAME}|\{{ .* \}}) +>> \{{ (.*), (\d+)'h0+ \}};$"
  return re.sub(shift, rewrite, body, flags=re.MULTILINE)


def _width(expression: str, widths: dict[str, int]) -> int | None:
  """Bits of a name, slice, constant or concatenation of them in a module whose names have `widths`; None of anything else."""
  pieces = expression.removeprefix("{").removesuffix("}").split(",") if expression.startswith("{") else [expression]
  total = 0
  for piece in pieces:
    if (found := re.fullmatch(rf"({_NAME}) *(?:\[(\d+)(?::(\d+))?\])?", piece.strip())) and not found[1].isdigit():
      name, high, low = found.groups()
      total += int(high) - int(low or high) + 1 if high else widths.get(name, -1 << 32)
    elif constant := re.fullmatch(r"(\d+)'\w+", piece.strip()):
      total += int(constant[1])
    else:
      return None
  return total if total > 0 else None
