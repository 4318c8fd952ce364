"""Dispatch of the scalar and vector ALU operations to the reference functions of the ISA table.

The dispatch functions are generated from the table: a chain of comparisons with consecutive numbers, which LLVM turns into
a jump table, in functions of at most `CHUNK` operations because compile time grows faster than their number.
"""
from __future__ import annotations

from collections.abc import Callable
from inspect import signature

import numpy as np

from ..isa import table
from .jit import jit
from .layout import INDEX

CHUNK = 28
INNER = 16
"""Trip count of the innermost lane loop, a constant so that it vectorises; every tile is a multiple of it."""

_NOT_LANEWISE = {"vlid": "u32(e)", "scyc": "u32(t)",
                 "sldx": "u32(0)", "sldep": "u32(0)"}  # the loop stack is the issue loop's: core asks control
"""Operations without reference function whose value is neither operand: their expression."""


def _call(op: table.Op, arguments: tuple[str, ...]) -> str:
  if op.ref is None:
    if op.name not in _NOT_LANEWISE:
      raise TypeError(f"{op.name} has no reference function and the simulator does not know it: extend iss.lanes")
    return _NOT_LANEWISE[op.name]
  return f"{op.name}({', '.join(arguments[:len(signature(_python(op.ref)).parameters)])})"


def _python(ref: Callable[..., int]) -> Callable[..., int]:
  return getattr(ref, "py_func", ref)


def _of_slot(slot: str) -> list[tuple[int, table.Op]]:
  return [(int(INDEX[op.code]), op) for op in table.OPS.values() if op.slot == slot]


def _compile(source: str, name: str) -> Callable[..., int]:
  namespace: dict[str, object] = {op.name: op.ref for op in table.OPS.values() if op.ref is not None}
  namespace["u32"] = np.uint32
  exec(compile(source, f"<tinytpu.iss {name}>", "exec"), namespace)
  return jit(namespace[name])


def vector_source(chunk: int) -> str:
  """Source of the function `vector<chunk>(R, k, o, a, b, c, blocks)`: operation k on rows a, b, c of R into row o."""
  lines = [f"def vector{chunk}(R, k, o, a, b, c, blocks):"]
  for number, (k, op) in enumerate(_of_slot("V")[chunk * CHUNK:(chunk + 1) * CHUNK]):
    lines += [f"  {'el' if number else ''}if k == {k}:", "    for i in range(blocks):", f"      for j in range({INNER}):",
              f"        e = {INNER} * i + j", f"        R[o, e] = {_call(op, ('R[a, e]', 'R[b, e]', 'R[c, e]'))}"]
  return "\n".join(lines) + "\n"


def scalar_source() -> str:
  """Source of the function `scalar(k, a, b, c, t)`: operation k on words a, b, c in cycle t; returns a word."""
  lines = ["def scalar(k, a, b, c, t):"]
  lines += [f"  if k == {k}:\n    return {_call(op, ('a', 'b', 'c'))}" for k, op in _of_slot("S")]
  return "\n".join([*lines, "  return u32(0)"]) + "\n"


def _vector_dispatch() -> Callable[..., None]:
  chunks = -(-len(_of_slot("V")) // CHUNK)
  lines = ["def vector(R, k, o, a, b, c, blocks):"]
  namespace: dict[str, object] = {}
  for chunk in range(chunks):
    namespace[f"vector{chunk}"] = _compile(vector_source(chunk), f"vector{chunk}")
    lines += [f"  {'el' if chunk else ''}if k < {(chunk + 1) * CHUNK}:", f"    vector{chunk}(R, k, o, a, b, c, blocks)"]
  exec(compile("\n".join(lines) + "\n", "<tinytpu.iss vector>", "exec"), namespace)
  return jit(namespace["vector"])


scalar = _compile(scalar_source(), "scalar")
vector = _vector_dispatch()

__all__ = ["INNER", "scalar", "scalar_source", "vector", "vector_source"]
