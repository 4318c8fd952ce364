"""Checks of what UOps are replaced by before they are lowered: 64-bit integers, moved gates, 16-bit floats as words.

Each returns how many operands it tried, and raises Difference.
"""
from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from tinygrad.dtype import DType, dtypes
from tinygrad.uop.ops import Ops, UOp

from tests.backend.operands import RANDOM, ends, pairs, values
from tests.backend.rule_compare import FLOATS, HALVES, Given, compare, const, leaf, rewritten
from tests.backend.uop_meaning import NUMPY, bitcast, meaning
from tinytpu.backend.decomp import copies, corrections
from tinytpu.backend.types import TYPES

LONG = [dtypes.int64, dtypes.uint64]


# -- 64 bits --------------------------------------------------------------------------------------------
def corrected(u: UOp) -> UOp:
  new = corrections.CORRECTIONS.rewrite(u)
  assert new is not None, f"no correction takes {u}"
  return new


def long_quotients() -> int:
  """Of all bytes, ends and random numbers; with what may be known of the ranges; by constants. What a division by zero on the way gives
  must not show."""
  tried = 0
  for dtype in LONG:
    small = dtypes.int8 if dtype == dtypes.int64 else dtypes.uint8
    x, y = (np.concatenate([v.astype(NUMPY[dtype]), w[::2]]) for v, w in zip(pairs(small), pairs(dtype), strict=True))
    top = dtype.max
    for (low, high), (first, last) in [((dtype.min, top), (dtype.min, top)), ((0, top), (0, top)), ((0, top), (dtype.min, top)),
                                       ((dtype.min, top), (0, top)), ((0, 2**32 - 1), (0, 2**32 - 1)), ((dtype.min, top), (0, 2**16 - 1)),
                                       ((0, top), (1, 2**32 - 1))]:
      a, b = leaf("a", dtype, low, high), leaf("b", dtype, first, last)
      p, q = _into(x, low, high), _into(y, first, last)
      for op, by_zero in ((Ops.CDIV, -1), (Ops.CMOD, 0x9E3779B9)):
        u = a.alu(op, b)
        tried += rewritten(u, corrected(u), {a: p[q != 0], b: q[q != 0]}, by_zero=by_zero)
    a = leaf("a", dtype)
    for by in [*ends(dtype), 641, 1000, 10**12, *([-1, -3] if dtype == dtypes.uint64 else [2**63 + 5, 2**64 - 2])]:
      for op in (Ops.CDIV, Ops.CMOD) if by else ():
        u = a.alu(op, const(int(by), dtype))
        tried += rewritten(u, corrected(u), {a: x[::37]})
  return tried


def _into(x: np.ndarray, low: int, high: int) -> np.ndarray:
  """Numbers brought into a range: all of the dtype, or from 0 or 1 to one less than a power of two."""
  return np.maximum(x & x.dtype.type(high), x.dtype.type(low)) if low >= 0 else x


def from_floats() -> int:
  """Floats to 64 bits, where they fit, against Python's integers."""
  tried = 0
  for source, target in product(FLOATS, LONG):
    with np.errstate(all="ignore"):
      x = np.concatenate([values(source), np.float64(2.0) ** np.arange(65), np.arange(-300, 300) / 4]).astype(NUMPY[source])
    x = x[np.isfinite(x)]
    x = x[(x.astype(np.float64) > (-1 if target == dtypes.uint64 else -2.0**63)) & (x.astype(np.float64) < 2.0**target.bitsize / (
      1 if target == dtypes.uint64 else 2))]
    x = x[::3] if len(x) > RANDOM else x
    a = leaf("a", source)
    u = a.cast(target)
    tried += compare(u, meaning(corrected(u), {a: x}), np.array([int(v) for v in x.tolist()], NUMPY[target]), {a: x})
  return tried


# -- memory ---------------------------------------------------------------------------------------------
def buffer(dtype: DType, size: int, slot: int = 0) -> UOp:
  return UOp.placeholder((size,), dtype, slot)


def narrowed() -> int:
  """Indices of 64 bits: every place of a memory, with a gate (then anything where it is closed) and without."""
  memory, gate, tried = np.arange(1 << 16).astype(np.int32), leaf("g", dtypes.bool), 0
  for dtype in LONG:
    at, b = leaf("i", dtype), buffer(dtypes.int32, 1 << 16)
    u = b.index(at)
    tried += rewritten(u.load(), corrected(u).load(), {b: memory, at: np.arange(1 << 16).astype(NUMPY[dtype])})
    everything = values(dtype)
    inside = (everything >= 0) & (everything < 1 << 16)
    u = b.index(at.valid(gate))
    assert corrected(u).src[1].src[1].dtype == dtypes.int32
    tried += rewritten(u.load(), corrected(u).load(), {b: memory, at: everything, gate: inside})
  return tried


def signed_words() -> int:
  """Conversions of words to signed integers; and what tinygrad takes their ranges to be."""
  tried, x = 0, leaf("a", dtypes.uint32)
  for dtype in (dtypes.int8, dtypes.int16, dtypes.int32):
    new = corrected(x.cast(dtype))
    assert new.vmin == dtype.min and new.vmax == dtype.max
    tried += rewritten(x.cast(dtype), new, {x: values(dtypes.uint32)})
  return tried


def gates_moved() -> int:
  """A choice between a constant and what a gated load gives, cast: of all bytes, and floats that integers cannot be."""
  special = (0.0, -0.0, 0.5, -1.0, 1.0, 127.0, 128.0, 255.0, 256.0, 2049.0, 65504.0, 1e10, *map(float, ("inf", "-inf", "nan")))
  tried = 0
  for loaded, wanted in product(TYPES, TYPES):
    gate, at, b = leaf("g", dtypes.bool), leaf("i", dtypes.int32, 0, 3), buffer(loaded, 4)
    given = {b: np.resize(values(loaded), 4), at: np.arange(4).astype(np.int32).repeat(2), gate: np.array([False, True] * 4)}
    load = b.index(at).load(const(0, loaded), gate)
    some = special if wanted in FLOATS else [False, True] if wanted == dtypes.bool else range(-128, 256) if wanted.itemsize == 1 else [
      int(n) for n in (*ends(wanted), -129, 2049, 2**24 + 1)]
    alternatives = [const(n, wanted) for n in some] + ([const(2, loaded).cast(wanted)] if loaded != wanted else [])
    for a in alternatives:
      u = gate.where(load.cast(wanted), a)
      if (new := corrections.move_gate(gate, load, a, u)) is not None:
        tried += rewritten(u, new, given)
      elif wanted == loaded:
        raise AssertionError(f"{u} keeps its gate")
  return tried


def moved(u: UOp, given: Given) -> int:
  """A copy of 16-bit floats as words: the same index, gate and bits."""
  new = copies.COPIES.rewrite(u)
  assert new is not None, f"no rule for copies takes {u}"
  want, got = meaning(u, given), meaning(new, given)
  if u.op is Ops.STORE:
    assert np.array_equal(got[0], want[0]) and np.array_equal(got[1], want[1])
    want, got = bitcast(want[2], u.src[1].dtype, dtypes.uint16), got[2]
  return compare(u, got, want, given)


def halves(dtype: DType) -> Iterator[tuple[UOp, Given]]:
  """Values that are only moved: every pattern, from two buffers, gated and with alternatives, chosen, or words taken as floats."""
  b, c, at, gate = buffer(dtype, 1 << 16), buffer(dtype, 1 << 16, 1), leaf("i", dtypes.int32, 0, (1 << 16) - 1), leaf("g", dtypes.bool)
  index = np.arange(1 << 16).astype(np.int32)
  given = {b: values(dtype), c: values(dtype)[::-1], at: index, gate: index % 3 == 0}
  x, y, w = b.index(at).load(), c.index(at).load(), leaf("w", dtypes.uint16)
  yield x, given
  yield b.index(at).load(const(-1.5, dtype), gate), given
  yield b.index(at.valid(gate)).load(y, gate), given
  yield gate.where(x, y), given
  yield gate.where(gate.where(y, x), w.bitcast(dtype)), {**given, w: index.astype(np.uint16)}
  for n in (0.0, -0.0, 1.0, 0.1, 65520.0, 1e-8, float("inf"), float("nan"), 3.0e38):
    yield gate.where(x, const(n, dtype)), given


def words_of_halves() -> int:
  return sum(moved(v.bitcast(word), given) for dtype in HALVES for v, given in halves(dtype) for word in (dtypes.uint16, dtypes.int16))


def copied_halves() -> int:
  tried = 0
  for dtype in HALVES:
    out = buffer(dtype, 1 << 16, 2)
    for v, given in halves(dtype):
      at, gate = (next(u for u in given if u.arg.name == name) for name in "ig")
      given = {**given, out: np.zeros(1 << 16, NUMPY[dtype])}
      for index in (out.index(at), out.index((at ^ 5).valid(gate))):
        tried += moved(index.store(v), given) + moved(index.store(v, gate), given)
  return tried
