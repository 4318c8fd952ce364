"""The instruction-set simulator: exact to docs/timing.md in cycles, faults, counters and state; compiled by Numba.

`layout` says where state lives in arrays and turns the ISA table into look-up tables; `decode` fills the instruction
buffer; `lanes`, `cross` and `memory` compute the slots; `core` is the issue loop; `build` compiles and caches it.
"""
