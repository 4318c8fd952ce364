"""Pieces shared by the float units: field views of IEEE 754 binary32 words and small combinational helpers.

Everything here is plain two-input arithmetic and multiplexers on at most 64 bits, which Verilator turns into single
machine operations; no loops over bits.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Signal, Value

NAN32 = 0x7FC00000
"""The canonical NaN, the only one any unit produces."""
INF32 = 0x7F800000
ONE32 = 0x3F800000


def name(m: Module, value: Value, label: str) -> Signal:
  """A named signal that carries `value`."""
  signal = Signal(value.shape(), name=label)
  m.d.comb += signal.eq(value)
  return signal


def register(m: Module, value: Value, label: str, domain: str = "sync") -> Signal:
  """A data register (no reset, no enable) that takes `value` at every edge."""
  signal = Signal(value.shape(), name=label, reset_less=True)
  m.d[domain] += signal.eq(value)
  return signal


def leading_zeros(m: Module, value: Value, label: str) -> Value:
  """Leading zeros of a value of 2 to 32 bits as 5 bits; zero counts as 31.

  The value is aligned to the top of 32 bits. Each step asks whether the upper half of what is left holds a one and
  keeps that half if so, else the lower one: a multiplexer in hardware, but written as a shift, which simulates
  without branches that random data would mispredict.
  """
  rest: Value = Cat(Const(0, 32 - len(value)), value) if len(value) < 32 else value
  found = []
  for half in (16, 8, 4, 2):
    some = name(m, rest[half : 2 * half] != 0, f"{label}_some{half}")
    rest = name(m, (rest >> Cat(Const(0, half.bit_length() - 1), some))[:half], f"{label}_rest{half}")
    found.append(some)
  found.append(rest[1])
  return ~Cat(*reversed(found))


def swap_if(condition: Value, a: Value, b: Value) -> tuple[Value, Value]:
  """(b, a) if the condition bit holds, else (a, b), without a branch to mispredict in simulation."""
  flip = (a ^ b) & condition.replicate(len(a))
  return a ^ flip, b ^ flip


def is_nan(word: Value) -> Value:
  """Whether a binary32 word is a NaN."""
  return word[:31] > INF32
