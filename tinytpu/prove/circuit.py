"""An Amaranth design as terms of the solver: what every signal is in every cycle, as a function of inputs and first state.

The netlist is Amaranth's own, the one that its Verilog is written from; here each of its cells becomes a term. Terms are made as they are
asked for, so a proof holds only the part of the design that it speaks of. Bit vectors throughout; a memory is an array.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

from amaranth.hdl import Fragment, Module, Signal, Value, _nir
from amaranth.hdl._ast import SignalSet
from amaranth.hdl._ir import PortDirection, build_netlist
from amaranth.lib import wiring
from bitwuzla import Kind, Term, TermManager

__all__ = ["Circuit", "Spec", "Terms"]

sys.setrecursionlimit(1_000_000)  # terms are made by recursion along combinational paths

_SAME = {"+": Kind.BV_ADD, "*": Kind.BV_MUL, "&": Kind.BV_AND, "|": Kind.BV_OR, "^": Kind.BV_XOR}
_COMPARED = {"u<": Kind.BV_ULT, "u>": Kind.BV_UGT, "u<=": Kind.BV_ULE, "u>=": Kind.BV_UGE,
             "s<": Kind.BV_SLT, "s>": Kind.BV_SGT, "s<=": Kind.BV_SLE, "s>=": Kind.BV_SGE, "==": Kind.EQUAL, "!=": Kind.DISTINCT}
_SHIFTS = {"<<": Kind.BV_SHL, "u>>": Kind.BV_SHR, "s>>": Kind.BV_ASHR}


class Terms:
  """Makes terms; conditions are bit vectors of one bit, as in hardware, and truths where the solver asks for them."""

  def __init__(self) -> None:
    self.manager = TermManager()
    self.yes, self.no = self.const(1, 1), self.const(0, 1)

  def const(self, value: int, width: int) -> Term:
    """`value` modulo 2^width."""
    return self.manager.mk_bv_value(self.manager.mk_bv_sort(width), value & (1 << width) - 1)

  def free(self, name: str, width: int) -> Term:
    """An unknown bit vector."""
    return self.manager.mk_const(self.manager.mk_bv_sort(width), name)

  def __call__(self, kind: Kind, *terms: Term, at: Sequence[int] = ()) -> Term:
    return self.manager.mk_term(kind, list(terms), list(at))

  def bit(self, truth: Term) -> Term:
    """1 bit of a truth."""
    return self(Kind.ITE, truth, self.yes, self.no)

  def truth(self, bit: Term) -> Term:
    """The truth of one bit."""
    return self(Kind.EQUAL, bit, self.yes)

  def mux(self, bit: Term, a: Term, b: Term) -> Term:
    """`a` if the bit is set, else `b`."""
    return a if a is b else self(Kind.ITE, self.truth(bit), a, b)

  def all(self, truths: Sequence[Term]) -> Term:
    """Conjunction of any number of truths."""
    return self.manager.mk_true() if not truths else truths[0] if len(truths) == 1 else self(Kind.AND, *truths)

  def any(self, truths: Sequence[Term]) -> Term:
    """Disjunction of any number of truths."""
    return self.manager.mk_false() if not truths else truths[0] if len(truths) == 1 else self(Kind.OR, *truths)

  def eq(self, a: Term, b: Term | int) -> Term:
    """Truth: equal."""
    return self(Kind.EQUAL, a, self.const(b, a.sort().bv_size()) if isinstance(b, int) else b)

  def isnt(self, truth: Term) -> Term:
    """The opposite."""
    return self(Kind.NOT, truth)

  def if_(self, condition: Term, then: Term, otherwise: Term | None = None) -> Term:
    """`then` if the truth `condition` holds, else `otherwise`; without that, true."""
    return self(Kind.IMPLIES, condition, then) if otherwise is None else self(Kind.ITE, condition, then, otherwise)

  def slice(self, term: Term, low: int, width: int) -> Term:
    """`width` bits of a term from bit `low` on."""
    whole = term.sort().bv_size()
    return term if width == whole else self(Kind.BV_EXTRACT, term, at=(low + width - 1, low))

  def concat(self, parts: Sequence[Term]) -> Term:
    """The parts, the lowest first."""
    return parts[0] if len(parts) == 1 else self(Kind.BV_CONCAT, *reversed(parts))

  def extend(self, term: Term, width: int) -> Term:
    """The term with zeros on top, `width` bits in all."""
    more = width - term.sort().bv_size()
    return term if more <= 0 else self(Kind.BV_ZERO_EXTEND, term, at=(more,))


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
    self.claims: list[tuple[str, str, Callable[[Circuit, int], Term]]] = []
    self.ports: Ports = _ports(unit)

  def _collect(self, fragment: Fragment, prefix: str) -> Iterator[tuple[str, Signal]]:
    found = SignalSet()
    for statements in fragment.statements.values():
      found.update(statements._lhs_signals() | statements._rhs_signals())
    yield from ((prefix + signal.name, signal) for signal in found if isinstance(signal, Signal))
    for inner, name, _ in fragment.subfragments:
      yield from self._collect(inner, f"{prefix}{name}.")


Ports = dict[str, tuple[Value, PortDirection | None]]


def _ports(component: wiring.Component) -> Ports:
  """All members of the signature; the inputs may turn out to be driven by a specification."""
  return {"__".join(map(str, path)): (Value.cast(value), None if member.flow is wiring.In else PortDirection.Output)
          for path, member, value in component.signature.flatten(component)}


class Circuit:
  """A design over time. Cycle 0 begins in any state whatever; `reset` makes it the first of so many cycles with all resets active.

  Args:
    design: a component, all of whose inputs are free, or a `Spec`.
    terms: that make its terms.
    reset: cycles of reset at the beginning.
  """

  def __init__(self, design: wiring.Component | Spec, terms: Terms, reset: int = 0) -> None:
    self.terms, self.reset = terms, reset
    if isinstance(design, Spec):
      fragment, ports, ticks, self._more = Fragment.get(design.m, None), design.ports, design.ticks, design.claims
    else:
      fragment, ticks, self._more = Fragment.get(design, None), {}, []
      ports = _ports(design)
    # Domains become inputs <domain>_clk and <domain>_rst (sync's: clk and rst) since nothing drives them.
    self.netlist = build_netlist(fragment, ports=ports)
    self._ticks = {f"{domain}_clk": signal for domain, signal in ticks.items()}
    self._clocks = {_nir.Net.from_cell(0, start): name for name, (start, _) in self.netlist.top.ports_i.items() if name.endswith("clk")}
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
      if name == "rst" or name.endswith("_rst"):
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

  def named(self) -> dict[str, Term]:
    """Inputs that terms made so far depend on, by name and cycle."""
    return {f"{name}@{t}": term for (name, t), term in self._inputs.items()}

  def word(self, memory: str, address: Term, t: int) -> Term:
    """A word of the memory with this name at the beginning of cycle t."""
    index, = (n for n, cell in enumerate(self.netlist.cells) if isinstance(cell, _nir.Memory) and cell.name == memory)
    return self.terms(Kind.ARRAY_SELECT, self._memory(index, t), address)

  def inputs(self) -> list[str]:
    """Names of the inputs but clocks and resets."""
    return [name for name in self.netlist.top.ports_i if not name.endswith(("clk", "rst"))]

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
          return terms.free(f"register{index}", len(cell.data))
        return terms.mux(self._tick(cell, t - 1), self.value(cell.data, t - 1), self._cell(index, t - 1))
      case _nir.AsyncReadPort():
        memory = self.netlist.cells[cell.memory]
        assert isinstance(memory, _nir.Memory)
        if cell.memory not in self._writes:
          return self._table(memory.width, [*memory.init, *[0] * ((1 << len(cell.addr)) - memory.depth)], cell.addr, t)
        return terms(Kind.ARRAY_SELECT, self._memory(cell.memory, t), self.value(cell.addr, t))
      case _nir.SyncReadPort():
        if t == 0:
          return terms.free(f"read{index}", cell.width)
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
    """`width` bits from bit offset * stride on; beyond the value lie zeros, or its sign."""
    terms, value, offset = self.terms, self.value(cell.value, t), self.value(cell.offset, t)
    wide = max(len(cell.value) + cell.width, len(cell.offset) + cell.stride.bit_length())
    more = wide - len(cell.value)
    extended = terms(Kind.BV_SIGN_EXTEND, value, at=(more,)) if cell.value_signed else terms.extend(value, wide)
    amount = terms(Kind.BV_MUL, terms.extend(offset, wide), terms.const(cell.stride, wide))
    return terms.slice(terms(Kind.BV_ASHR if cell.value_signed else Kind.BV_SHR, extended, amount), 0, cell.width)

  def _matches(self, cell: _nir.Matches, t: int) -> Term:
    if not len(cell.value):
      return self.terms.const(bool(cell.patterns), 1)
    value, found = self.value(cell.value, t), []
    for pattern in cell.patterns:
      mask, wanted = (int("".join(table[c] for c in pattern), 2) for table in ({"-": "0", "0": "1", "1": "1"}, {"-": "0", "0": "0", "1": "1"}))
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
    else:
      contents = self._memory(index, t - 1)
      for port in self._writes[index]:
        address, new = self.value(port.addr, t - 1), self._written(port, terms(Kind.ARRAY_SELECT, contents, self.value(port.addr, t - 1)), t - 1)
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
