"""Worst errors of exp2, log2, sin and cos over all 2^32 inputs: `python -m bench.ulp [FUNCTION ...]`.

The reference is the C library's double precision function, good to a few 2^-53 for every float32 input. All threads of
NUMBA_NUM_THREADS are used (default: all cores); one to three minutes of processor time a function. Results go to bench/history.jsonl.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tinytpu.isa.semantics import NAN, as_f, f32, f64, i64, of_f, u32, u64
from tinytpu.isa.transcendental import REFERENCE, TransFn

from .history import append

DOUBLE = {TransFn.EXP2: np.exp2, TransFn.LOG2: np.log2, TransFn.SIN: np.sin, TransFn.COS: np.cos}
INCREASING = (TransFn.EXP2, TransFn.LOG2)
CHUNK, BLOCK = 1 << 26, 1 << 20
"""Inputs of a native call, and of one of its pieces, which threads share out."""


def _kernel(reference: Callable[..., Any], double: Any) -> Callable[..., None]:
  """(first input, worst error per piece, input that has it, counts (pieces, 3)): fills the arrays."""
  @njit(parallel=True, error_model="numpy")
  def measure(first, worst, where, counts):
    for piece in prange(len(worst)):
      start = u32(first + piece * BLOCK)
      top, at, rounded, broken, back = -1.0, start, 0, 0, 0
      before = as_f(reference(u32(start - u32(1))))
      for k in range(BLOCK):
        x = u32(start + u32(k))
        word = reference(x)
        got, exact = as_f(word), double(f64(as_f(x)))
        nearest = f32(exact)
        if nearest != nearest:
          broken += word != NAN
        elif np.isinf(nearest) or exact == 0.0:
          broken += word != of_f(nearest)
        elif not np.isfinite(got):
          broken += 1
        else:
          binade = max(i64(f64(exact).view(u64) >> u64(52) & u64(0x7FF)) - i64(1023), i64(-126))
          error = abs(f64(got) - exact) * u64((i64(1023 + 23) - binade) << i64(52)).view(f64)
          rounded += word != of_f(nearest)
          if error > top:
            top, at = error, x
        # Words of one sign run through the floats in order, away from zero.
        back += got > before if x >> u32(31) else got < before
        before = got
      worst[piece], where[piece] = top, at
      counts[piece, 0], counts[piece, 1], counts[piece, 2] = rounded, broken, back
  return measure


def measure(fn: TransFn, progress: Callable[[int], None] = lambda done: None) -> dict[str, object]:
  """Errors of one function over all inputs; `progress` is told the inputs done.

  Returns:
    ulp: the largest error in units of the last place of the exact result (2^-149 for subnormals); at: the input that has it
    (hexadecimal word); not_nearest: results that are not the float nearest to the exact one; wrong_special: results that should
    be zero, infinite or NaN and are not, or the other way round; decreasing: for exp2 and log2, neighbours in the wrong order.
  """
  kernel = _kernel(REFERENCE[fn], DOUBLE[fn])
  pieces = CHUNK // BLOCK
  worst, where, counts = np.empty(pieces), np.empty(pieces, np.uint32), np.empty((pieces, 3), np.int64)
  top, at, totals = -1.0, 0, np.zeros(3, np.int64)
  for first in range(0, 1 << 32, CHUNK):
    kernel(first, worst, where, counts)
    best = int(worst.argmax())
    if worst[best] > top:
      top, at = float(worst[best]), int(where[best])
    totals += counts.sum(axis=0)
    progress(first + CHUNK)
  result: dict[str, object] = {"ulp": round(top, 4), "at": f"{at:#010x}", "not_nearest": int(totals[0]), "wrong_special": int(totals[1])}
  return result | ({"decreasing": int(totals[2])} if fn in INCREASING else {})


def main(names: list[str]) -> None:
  """Measure the functions called `names` (default: all), print the errors, append them to the history."""
  functions = {fn.name.lower(): fn for fn in TransFn}
  if unknown := [n for n in names if n not in functions]:
    sys.exit(f"no function {unknown[0]!r}; there are: {', '.join(functions)}")
  chosen = [functions[name] for name in names or functions]
  results: dict[str, object] = {}
  with Progress() as bar:
    for fn in chosen:
      task = bar.add_task(fn.name.lower(), total=1 << 32)
      results[fn.name.lower()] = measure(fn, lambda done, task=task: bar.update(task, completed=done))  # type: ignore[misc]
  table = Table(title="Errors over all 2^32 inputs", caption=f"{get_num_threads()} threads")
  for column in ("function", "worst ulp", "at", "not nearest", "wrong special", "decreasing"):
    table.add_column(column, justify="left" if column == "function" else "right")
  for name, r in results.items():
    assert isinstance(r, dict)
    share = r["not_nearest"] / 2**32
    table.add_row(name, f"{r['ulp']:.4f}", r["at"], f"{share:.3%}", str(r["wrong_special"]), str(r.get("decreasing", "")))
  Console().print(table)
  append("ulp", results)


if __name__ == "__main__":
  main(sys.argv[1:])
