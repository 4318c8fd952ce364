"""Addresses of a memory operation's elements, and the check of them: what VMEM and direct HBM access share."""
from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa.encoding import MemType
from ..isa.faults import Fault
from ..isa.table import OPS
from .float_common import name
from .interfaces import memory_fault, memory_issue

__all__ = ["LaneAddresses", "is_form", "lowest", "pick", "scale", "sized"]


def is_form(code: Value, kind: str) -> Value:
  """1 bit: the operation with this `code` takes a memory operand of `kind` (a key of isa.table's operand kinds).

  Raises:
    KeyError: no operation takes such an operand.
  """
  codes = [op.code for op in OPS.values() if kind in op.operands]
  if not codes:
    raise KeyError(f"no operation takes an operand of kind {kind!r}")
  return code.matches(*codes)


def sized(mtype: Value, nbytes: int) -> Value:
  """1 bit: elements of this memory type take `nbytes` bytes in memory."""
  return mtype.matches(*(t for t in MemType if t.bytes == nbytes))


def scale(value: Value, two: Value, four: Value) -> Value:
  """`value` (32 bits) times the element size, modulo 2^32; `two`, `four`: the size is that many bytes, else 1."""
  return Mux(four, Cat(Const(0, 2), value[:30]), Mux(two, Cat(Const(0, 1), value[:31]), value[:32]))


def lowest(m: Module, bits: Value, label: str) -> Signal:
  """The lowest set bit of `bits` alone, as wide as it; zero of zero."""
  return name(m, (bits & (~bits + 1))[:len(bits)], label)


def pick(selects: Value, values: list[Value]) -> Value:
  """OR of those `values` whose bit in `selects` is set: a multiplexer if at most one is. AND-OR rather than a tree of
  choices, because it takes the simulator the same time whatever the pattern (no branches), and less for random ones."""
  terms = [Mux(selects[k], value, 0) for k, value in enumerate(values)]
  while len(terms) > 1:
    terms = [a | b for a, b in zip(terms[::2], terms[1::2], strict=True)]
  return terms[0]


class LaneAddresses(wiring.Component):
  """Byte addresses of the elements of one memory operation, modulo 2^32, and its bounds and alignment check.

  Captures the operation's address fields at the end of a cycle in which `capture` is up, reduced to four things
  that serve all three forms: a base, a step per sublane, a step per lane, and an offset per element, all in bytes.
  The forms then differ only in what is zero. Addresses and fault are combinational from these registers, stable until the next
  capture.

  All elements are equally aligned, because everything but the base is a multiple of the element size.

  Args:
    config: the machine.
    memory_bytes: size of the memory, a multiple of four.
    misaligned, outside: fault causes to report.

  Members:
    capture: In(1). operation: In(memory_issue): its code, mtype, base, x, r, c2, off and index are used.
    checked: In(width): elements that may fault (those still to be served; none when there is no operation).
    addresses: Out(32) per element.
    fault: Out(memory_fault): valid if a checked element faults; info is the address of the lowest one.
  """

  def __init__(self, config: Config, memory_bytes: int, misaligned: Fault, outside: Fault) -> None:
    self.config, self.memory_bytes, self.misaligned, self.outside = config, memory_bytes, misaligned, outside
    super().__init__({
      "capture": In(1), "operation": In(memory_issue(config)), "checked": In(config.width),
      "addresses": Out(32).array(config.width), "fault": Out(memory_fault())})

  def elaborate(self, platform: object) -> Module:
    m = Module()
    config, op = self.config, self.operation
    base, sublane_step, lane_step = Signal(32), Signal(32), Signal(32)
    size2, size4 = Signal(), Signal()
    offsets = [Signal(32, name=f"offset{e}") for e in range(config.width)]

    two, four = name(m, sized(op.mtype, 2), "two"), name(m, sized(op.mtype, 4), "four")
    contiguous, gathered = name(m, is_form(op.code, "mem"), "contiguous"), name(m, is_form(op.code, "memx"), "gathered")
    start = name(m, (op.x + op.off)[:32], "start")
    with m.If(self.capture):
      m.d.sync += [
        size2.eq(two), size4.eq(four), base.eq(op.base + scale(start, two, four)),
        sublane_step.eq(Mux(gathered, 0, scale(Mux(contiguous, Const(config.lanes, 32), op.r), two, four))),
        lane_step.eq(Mux(gathered, 0, scale(Mux(contiguous, Const(1, 32), op.c2), two, four)))]
      m.d.sync += [
        offset.eq(Mux(gathered, scale(op.index[32 * e:32 * e + 32], two, four), 0)) for e, offset in enumerate(offsets)]

    rows = [name(m, (base + multiple)[:32], f"row{i}") for i, multiple in enumerate(self._multiples(m, sublane_step, config.sublanes, "r"))]
    columns = self._multiples(m, lane_step, config.lanes, "c")
    for e, address in enumerate(self.addresses):  # a gathered operation has no steps, any other no offsets: OR will do
      m.d.comb += address.eq(rows[e // config.lanes] + (columns[e % config.lanes] | offsets[e]))

    odd = name(m, (base[0] & (size2 | size4)) | (base[1] & size4), "odd")
    everywhere = self.memory_bytes >= 1 << 32
    beyond = Const(0, config.width) if everywhere else Cat(*(address >= self.memory_bytes for address in self.addresses))
    faulting = name(m, self.checked & Mux(odd, ~Const(0, config.width), beyond), "faulting")
    first = lowest(m, faulting, "first")
    m.d.comb += [
      self.fault.valid.eq(faulting != 0), self.fault.cause.eq(Mux(odd, self.misaligned, self.outside)),
      self.fault.info.eq(pick(first, list(self.addresses)))]
    return m

  @staticmethod
  def _multiples(m: Module, step: Value, n: int, label: str) -> list[Value]:
    """0, step, 2 step, ... (n of them, modulo 2^32), each a shift or the sum of two earlier ones."""
    out: list[Value] = [Const(0, 32)]
    for k in range(1, n):
      high = 1 << (k.bit_length() - 1)
      value = Cat(Const(0, high.bit_length() - 1), step)[:32] if k == high else (out[high] + out[k - high])[:32]
      out.append(name(m, value, f"{label}{k}"))
    return out
