"""Random programs, run on two engines that must agree in memory, registers, faults, counters and cycles.

`generate` makes programs that keep to the contract's defined cases, `case` runs one from a known state, `shrink` finds the
smallest program that still fails, `run` does it all.
"""
from .case import Case, Difference, compare, execute
from .generate import exercise, generate
from .run import run_fuzz
from .shrink import shrink

__all__ = ["Case", "Difference", "compare", "execute", "exercise", "generate", "run_fuzz", "shrink"]
