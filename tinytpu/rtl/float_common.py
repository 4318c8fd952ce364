"""Pieces shared by the float units: field views of IEEE 754 binary32 words and small combinational helpers.

Everything here is plain two-input arithmetic and multiplexers on at most 64 bits, which Verilator turns into single
machine operations; no loops over bits.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

NAN32 = 0x7FC00000
"""The canonical NaN, the only one any unit produces."""
INF32 = 0x7F800000


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
    """Leading zeros of a value of up to 32 bits as 5 bits, by halving (width - 1 at most; zero counts as 31 minus pad).

    The value is aligned to the top of 32 bits; each step asks whether the upper half is empty and keeps one half.
    """
    rest: Value = Cat(Const(0, 32 - len(value)), value) if len(value) < 32 else value
    count = []
    for half in (16, 8, 4, 2):
        empty = name(m, rest[half:] == 0, f"{label}_empty{half}")
        rest = name(m, Mux(empty, rest[:half], rest[half:]), f"{label}_rest{half}")
        count.append(empty)
    count.append(~rest[1])
    return Cat(*reversed(count))


def is_nan(word: Value) -> Value:
    """Whether a binary32 word is a NaN."""
    return word[:31] > INF32
