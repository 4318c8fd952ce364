"""An Amaranth design as terms of the solver: what every signal is in every cycle, as a function of inputs and first state.

The netlist is Amaranth's own, the one that its Verilog is written from; here each of its cells becomes a term. Terms are made as they are
asked for, so a proof holds only the part of the design that it speaks of. Bit vectors throughout; a memory is an array.
"""
from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy

from amaranth.hdl import Fragment, Signal, _nir
from amaranth.hdl._ir import build_netlist
from amaranth.lib import wiring
from bitwuzla import Kind, Term

from .spec import Spec, ports
from .terms import Terms

__all__ = ["Circuit", "deep"]

_SAME = {"+": Kind.BV_ADD, "*": Kind.BV_MUL, "&": Kind.BV_AND, "|": Kind.BV_OR, "^": Kind.BV_XOR}
_COMPARED = {"u<": Kind.BV_ULT, "u>": Kind.BV_UGT, "u<=": Kind.BV_ULE, "u>=": Kind.BV_UGE,
             "s<": Kind.BV_SLT, "s>": Kind.BV_SGT, "s<=": Kind.BV_SLE, "s>=": Kind.BV_SGE, "==": Kind.EQUAL, "!=": Kind.DISTINCT}
_SHIFTS = {"<<": Kind.BV_SHL, "u>>": Kind.BV_SHR, "s>>": Kind.BV_ASHR}


def _is(port: str, kind: str) -> bool:
  """Whether an input is the clock ("clk") or reset ("rst") of a domain."""
  return port == kind or port.endswith(f"_{kind}")


@contextmanager
def deep() -> Iterator[None]:
  """While it lasts, calls may nest as deep as terms need, which are made by recursion along combinational paths and over cycles.
  Not for good: other libraries rely on Python's own limit to notice what is nested too deeply."""
  limit = sys.getrecursionlimit()
  sys.setrecursionlimit(1_000_000)
  try:
    yield
  finally:
    sys.setrecursionlimit(limit)


class Circuit:
  """A design over time. Cycle 0 begins in any state whatever; `reset` makes it the first of so many cycles with all resets active.

  Args:
    design: a component, all of whose inputs are free, or a `Spec`.
    terms: that make its terms.
    reset: cycles of reset at the beginning.
    powered: cycle 0 begins in the state at power-up, memories included.
  """

  def __init__(self, design: wiring.Component | Spec, terms: Terms, reset: int = 0, powered: bool = False) -> None:
    self.terms, self.reset, self.powered = terms, reset, powered
    if isinstance(design, Spec):
      fragment, members, ticks, self._more = Fragment.get(design.m, None), design.ports, design.ticks, design.claims
    else:
      fragment, members, ticks, self._more = Fragment.get(design, None), ports(design), {}, []
    # Domains become inputs <domain>_clk and <domain>_rst (sync's: clk and rst) since nothing drives them.
    self.netlist = build_netlist(fragment, ports=members)
    self._ticks = {f"{domain}_clk": signal for domain, signal in ticks.items()}
    self._clocks = {_nir.Net.from_cell(0, start): name for name, (start, _) in self.netlist.top.ports_i.items() if _is(name, "clk")}
    self._writes: dict[int, list[_nir.SyncWritePort]] = {}
    for cell in self.netlist.cells:
      if isinstance(cell, _nir.SyncWritePort):
        self._writes.setdefault(cell.memory, []).append(cell)
    self._made: dict[tuple[int, int], Term] = {}
    self._inputs: dict[tuple[str, int], Term] = {}

  def input(self, name: str, t: int) -> Term:
    """The input called `name` in cycle t; resets are what `reset` says."""
    if (name, t) not in self._inputs:
      width = self.netlist.top.ports_i[name][1]
      if _is(name, "rst"):
        self._inputs[name, t] = self.terms.const(t < self.reset, width)
      else:
        self._inputs[name, t] = self.terms.free(f"{name}@{t}", width)
    return self._inputs[name, t]

  def bind(self, name: str, t: int, value: Term | int) -> None:
    """Say what an input is in cycle t, before anything asks for it."""
    if (name, t) in self._inputs:
      raise ValueError(f"{name} in cycle {t} is in use already")
    width = self.netlist.top.ports_i[name][1]
    self._inputs[name, t] = self.terms.const(value, width) if isinstance(value, int) else value

  def output(self, name: str, t: int) -> Term:
    """The output called `name` in cycle t."""
    return self.value(self.netlist.top.ports_o[name], t)

  def again(self) -> Circuit:
    """The same design with other inputs and another first state."""
    other = copy(self)
    other._made, other._inputs = {}, {}
    return other

  def apply(self, unit: wiring.Component, cycles: int, **inputs: Term) -> Term:
    """Output `o` of another unit, a pipeline of so many cycles, as a function of its inputs."""
    other = Circuit(unit, self.terms)
    for name, value in inputs.items():
      other.bind(name, 0, value)
    return other.output("o", cycles)

  def named(self) -> dict[str, Term]:
    """Inputs that terms made so far depend on, by name and cycle."""
    return {f"{name}@{t}": term for (name, t), term in self._inputs.items()}

  def word(self, memory: str, address: Term, t: int) -> Term:
    """A word of the memory with this name at the beginning of cycle t."""
    index, = (n for n, cell in enumerate(self.netlist.cells) if isinstance(cell, _nir.Memory) and cell.name == memory)
    return self.terms(Kind.ARRAY_SELECT, self._memory(index, t), address)

  def inputs(self) -> list[str]:
    """Names of the inputs but clocks and resets."""
    return [name for name in self.netlist.top.ports_i if not (_is(name, "clk") or _is(name, "rst"))]

  def signal(self, signal: Signal, t: int) -> Term:
    """A signal of the design in cycle t."""
    return self.value(self.netlist.signals[signal], t)

  def claims(self, kind: str, t: int) -> list[tuple[str, Term]]:
    """Message and truth of each property of the `kind` assert, assume or cover in cycle t."""
    found = [(message, truth(self, t)) for what, message, truth in self._more if what == kind]
    for cell in self.netlist.cells:
      if isinstance(cell, _nir.AsyncProperty) and cell.kind == kind:
        enabled, holds = self.terms.truth(self.net(cell.en, t)), self.terms.truth(self.net(cell.test, t))
        message = "".join(map(str, cell.format.chunks)) if cell.format else ""
        found.append((message, self.terms(Kind.AND if kind == "cover" else Kind.IMPLIES, enabled, holds)))
      elif isinstance(cell, _nir.SyncProperty):
        raise NotImplementedError("properties belong into m.d.comb")
    return found

  def net(self, net: _nir.Net, t: int) -> Term:
    """One bit."""
    return self.value(_nir.Value([net]), t)

  def value(self, value: _nir.Value, t: int) -> Term:
    """Any selection of bits, at least one, in cycle t."""
    parts, start = [], 0
    while start < len(value):
      net, stop = value[start], start + 1
      if net.is_const:
        while stop < len(value) and value[stop].is_const:
          stop += 1
        parts.append(self.terms.const(sum(bit.const << i for i, bit in enumerate(value[start:stop])), stop - start))
      else:
        while stop < len(value) and value[stop] == net + (stop - start) and not (net.cell == 0 and self._starts(value[stop])):
          stop += 1
        parts.append(self._part(net, stop - start, t))
      start = stop
    return self.terms.concat(parts)

  def _starts(self, net: _nir.Net) -> bool:
    return any(start == net.bit for start, _ in self.netlist.top.ports_i.values())

  def _part(self, net: _nir.Net, width: int, t: int) -> Term:
    if net.cell:
      return self.terms.slice(self._cell(net.cell, t), net.bit, width)
    for name, (start, whole) in self.netlist.top.ports_i.items():
      if start <= net.bit < start + whole:
        return self.terms.slice(self.input(name, t), net.bit - start, width)
    raise LookupError(net)

  def _cell(self, index: int, t: int) -> Term:
    if (index, t) not in self._made:
      self._made[index, t] = self._make(index, self.netlist.cells[index], t)
    return self._made[index, t]

  def _make(self, index: int, cell: _nir.Cell, t: int) -> Term:
    terms = self.terms
    match cell:
      case _nir.Operator():
        return self._operator(cell, [self.value(v, t) if len(v) else None for v in cell.inputs])
      case _nir.Part():
        return self._selected(cell, t)
      case _nir.Matches():
        return self._matches(cell, t)
      case _nir.PriorityMatch():
        before, found = self.net(cell.en, t), []
        for net in cell.inputs:
          bit = self.net(net, t)
          found.append(terms(Kind.BV_AND, before, bit))
          before = terms(Kind.BV_AND, before, terms(Kind.BV_NOT, bit))
        return terms.concat(found)
      case _nir.AssignmentList():
        return self._assigned(cell, t)
      case _nir.FlipFlop():
        if t == 0:
          return terms.const(cell.init, len(cell.data)) if self.powered else terms.free(f"register{index}", len(cell.data))
        return terms.mux(self._tick(cell, t - 1), self.value(cell.data, t - 1), self._cell(index, t - 1))
      case _nir.AsyncReadPort():
        memory = self.netlist.cells[cell.memory]
        assert isinstance(memory, _nir.Memory)
        if cell.memory not in self._writes:
          return self._table(memory.width, [*memory.init, *[0] * ((1 << len(cell.addr)) - memory.depth)], cell.addr, t)
        return terms(Kind.ARRAY_SELECT, self._memory(cell.memory, t), self.value(cell.addr, t))
      case _nir.SyncReadPort():
        if t == 0:
          return terms.const(0, cell.width) if self.powered else terms.free(f"read{index}", cell.width)
        return self._read(index, cell, t - 1)
      case _nir.AnyValue():
        return self._cell(index, 0) if cell.kind == "anyconst" and t else terms.free(f"any{index}@{t}", cell.width)
      case _nir.Initial():
        return terms.const(t == self.reset, 1)
    raise NotImplementedError(f"cells of kind {type(cell).__name__}")

  def _operator(self, cell: _nir.Operator, inputs: list[Term]) -> Term:
    terms, operator = self.terms, cell.operator
    match operator, inputs:
      case "~", [a]:
        return terms(Kind.BV_NOT, a)
      case "-", [a]:
        return terms(Kind.BV_NEG, a)
      case "b" | "r|", [a]:
        return terms(Kind.BV_REDOR, a)
      case "r&", [a]:
        return terms(Kind.BV_REDAND, a)
      case "r^", [a]:
        return terms(Kind.BV_REDXOR, a)
      case "m", [s, a, b]:
        return terms.mux(s, a, b)
      case "-", [a, b]:
        return terms(Kind.BV_SUB, a, b)
      case _, [a, None] if operator in _SHIFTS:
        return a
      case _, [a, b] if operator in _SHIFTS:
        width, wide = cell.width, max(cell.width, b.sort().bv_size())
        if operator == "s>>" and wide > width:
          a = terms(Kind.BV_SIGN_EXTEND, a, at=(wide - width,))
        return terms.slice(terms(_SHIFTS[operator], terms.extend(a, wide), terms.extend(b, wide)), 0, width)
      case _, [a, b] if operator in _SAME:
        return terms(_SAME[operator], a, b)
      case _, [a, b] if operator in _COMPARED:
        return terms.bit(terms(_COMPARED[operator], a, b))
    raise NotImplementedError(f"operator {operator} on {len(inputs)} operands")

  def _selected(self, cell: _nir.Part, t: int) -> Term:
    """`width` bits from bit offset * stride on; beyond the value lie zeros."""
    if cell.value_signed:
      raise NotImplementedError("a selection from a signed value: simulators disagree on what lies beyond it")
    terms, value = self.terms, self.value(cell.value, t)
    offset = self.value(cell.offset, t) if len(cell.offset) else terms.const(0, 1)
    wide = max(len(cell.value) + cell.width, len(cell.offset) + cell.stride.bit_length())
    amount = terms(Kind.BV_MUL, terms.extend(offset, wide), terms.const(cell.stride, wide))
    return terms.slice(terms(Kind.BV_SHR, terms.extend(value, wide), amount), 0, cell.width)

  def _matches(self, cell: _nir.Matches, t: int) -> Term:
    if not len(cell.value):
      return self.terms.const(bool(cell.patterns), 1)
    value, found = self.value(cell.value, t), []
    for pattern in cell.patterns:
      mask, wanted = (int("".join(table[c] for c in pattern), 2) for table in ({"-": "0", "0": "1", "1": "1"}, {"-": "0", "0": "0",
        "1": "1"}))
      masked = self.terms(Kind.BV_AND, value, self.terms.const(mask, len(pattern)))
      found.append(self.terms(Kind.EQUAL, masked, self.terms.const(wanted, len(pattern))))
    return self.terms.bit(self.terms.any(found))

  def _assigned(self, cell: _nir.AssignmentList, t: int) -> Term:
    result, width = self.value(cell.default, t), len(cell.default)
    for change in cell.assignments:
      if not len(change.value):
        continue
      end, new = change.start + len(change.value), [self.value(change.value, t)]
      if change.start:
        new.insert(0, self.terms.slice(result, 0, change.start))
      if end < width:
        new.append(self.terms.slice(result, end, width - end))
      whole = self.terms.concat(new)
      result = whole if change.cond == _nir.Net.from_const(1) else self.terms.mux(self.net(change.cond, t), whole, result)
    return result

  def _tick(self, cell: _nir.FlipFlop | _nir.SyncReadPort | _nir.SyncWritePort, t: int) -> Term:
    """Whether the cell's clock has its edge at the end of cycle t."""
    if cell.clk not in self._clocks or cell.clk_edge != "pos" or (isinstance(cell, _nir.FlipFlop) and cell.arst != _nir.Net.from_const(0)):
      raise NotImplementedError("a clock that is not an input, a falling edge, or an asynchronous reset")
    enable = self._ticks.get(self._clocks[cell.clk])
    if enable is None or t < self.reset:
      return self.terms.yes
    return self.signal(enable, t)

  def _memory(self, index: int, t: int) -> Term:
    """Contents at the beginning of cycle t: anything at first, whatever its initial contents were."""
    if (index, t) in self._made:
      return self._made[index, t]
    terms, memory = self.terms, self.netlist.cells[index]
    assert isinstance(memory, _nir.Memory)
    if t == 0:
      sort = terms.manager.mk_array_sort(terms.manager.mk_bv_sort(len(self._writes[index][0].addr)), terms.manager.mk_bv_sort(memory.width))
      contents = terms.manager.mk_const(sort, f"memory{index}")
      for address, word in enumerate(memory.init if self.powered else ()):
        contents = terms(Kind.ARRAY_STORE, contents, terms.const(address, len(self._writes[index][0].addr)), terms.const(word,
          memory.width))
    else:
      contents = self._memory(index, t - 1)
      for port in self._writes[index]:
        address, new = self.value(port.addr, t - 1), self._written(port, terms(Kind.ARRAY_SELECT, contents, self.value(port.addr, t - 1)),
          t - 1)
        written = terms(Kind.ARRAY_STORE, contents, address, new)
        contents = terms.mux(self._tick(port, t - 1), written, contents)
    self._made[index, t] = contents
    return contents

  def _table(self, width: int, words: list[int], address: _nir.Value, t: int) -> Term:
    """A read-only memory's word: choices by the bits of its address; equal halves need none."""
    if len(set(words)) == 1:
      return self.terms.const(words[0], width)
    low, high = words[:len(words) // 2], words[len(words) // 2:]
    if low == high:
      return self._table(width, low, address[:-1], t)
    return self.terms.mux(self.net(address[-1], t), self._table(width, high, address[:-1], t), self._table(width, low, address[:-1], t))

  def _written(self, port: _nir.SyncWritePort, old: Term, t: int) -> Term:
    """The word that the port leaves at its address, which held `old`."""
    new, parts, start = self.value(port.data, t), [], 0
    while start < len(port.en):
      stop = start + 1
      while stop < len(port.en) and port.en[stop] == port.en[start]:
        stop += 1
      pick = [self.terms.slice(word, start, stop - start) for word in (new, old)]
      parts.append(self.terms.mux(self.net(port.en[start], t), *pick))
      start = stop
    return self.terms.concat(parts)

  def _read(self, index: int, cell: _nir.SyncReadPort, t: int) -> Term:
    """What a registered read gives in the cycle after t."""
    address = self.value(cell.addr, t)
    word = self.terms(Kind.ARRAY_SELECT, self._memory(cell.memory, t), address)
    for other in cell.transparent_for:
      port = self.netlist.cells[other]
      assert isinstance(port, _nir.SyncWritePort)
      here = self.terms(Kind.EQUAL, self.value(port.addr, t), address)
      word = self.terms(Kind.ITE, here, self._written(port, word, t), word)
    enabled = self.terms(Kind.BV_AND, self.net(cell.en, t), self._tick(cell, t))
    return self.terms.mux(enabled, word, self._cell(index, t))
