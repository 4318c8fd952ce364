"""Outputs against the reference, within an error budget."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .errors import OnnxError

BUDGETS = {"float32": 1e-4, "float64": 1e-4, "float16": 1e-2}
"""Largest relative error that passes, by the dtype of the output. Integers and bools must be equal. A float64 model is run as float32."""


FLOOR = 2e-3
"""Outputs whose largest magnitude is below this are held to it instead: onnxruntime's sigmoid is exact to 1e-7, however small it is."""


@dataclass(frozen=True)
class Comparison:
  """One output. shape, dtype: the reference's. absolute: largest difference. relative: the same divided by the largest magnitude of
  the reference, or by FLOOR if that is less. budget: largest relative error that passes. wrong: why it does not pass, or ""."""
  name: str
  shape: tuple[int, ...]
  dtype: str
  absolute: float
  relative: float
  budget: float
  wrong: str

  @property
  def within(self) -> bool:
    return not self.wrong

  def json(self) -> dict[str, Any]:
    """Fields for JSON; errors that are not finite as null."""
    fields = asdict(self) | {"shape": list(self.shape), "within": self.within}
    return {key: None if isinstance(value, float) and not np.isfinite(value) else value for key, value in fields.items()}


def budget_of(dtype: str, budgets: Mapping[str, float]) -> float:
  """Largest relative error that passes for a dtype: `budgets` by dtype or under "", which stands for all; else BUDGETS; else 0."""
  return budgets.get(dtype, budgets.get("", BUDGETS.get(dtype, 0.0)))


def read_budgets(texts: Sequence[str]) -> dict[str, float]:
  """Budgets from texts "1e-3" (all dtypes) or "float16=1e-2". Raises OnnxError: not of this form, or given twice."""
  found: dict[str, float] = {}
  for text in texts:
    dtype, _, number = text.rpartition("=")
    try:
      value = float(number)
      known = not dtype or (np.dtype(dtype).kind in "fiub" and str(np.dtype(dtype)) == dtype)
    except (ValueError, TypeError):
      value, known = -1.0, False
    if not known or not 0 <= value < float("inf"):
      raise OnnxError(f"{text!r}: expected a budget such as 1e-3, or DTYPE=BUDGET such as float16=1e-2")
    if dtype in found:
      raise OnnxError(f"the budget of {dtype or 'all dtypes'} is given twice")
    found[dtype] = value
  return found


def compare(name: str, got: np.ndarray, reference: np.ndarray, budgets: Mapping[str, float] | None = None) -> Comparison:
  """Compare one output with the reference. A float32 array passes for a float64 reference; other dtypes, and shapes, must agree.
  Infinities must be equal, and NaN must be where the reference has it."""
  dtype, shape = str(reference.dtype), tuple(reference.shape)
  budget = budget_of(dtype, budgets or {})
  nan = float("nan")
  if got.dtype != reference.dtype and (str(got.dtype), dtype) != ("float32", "float64"):
    return Comparison(name, shape, dtype, nan, nan, budget, f"dtype {got.dtype}, onnxruntime's is {dtype}")
  if got.shape != shape:
    return Comparison(name, shape, dtype, nan, nan, budget, f"shape {list(got.shape)}, onnxruntime's is {list(shape)}")
  a, b = got.astype(np.float64), reference.astype(np.float64)
  if dtype in ("int64", "uint64") and not np.array_equal(got, reference):  # beyond what float64 tells apart
    a = a + (got != reference) * (a == b)
  finite = np.isfinite(b)
  if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
    return Comparison(name, shape, dtype, nan, nan, budget, "infinities or NaN where onnxruntime has none, or the other way round")
  absolute = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
  largest = float(np.abs(b[finite]).max(initial=0.0))
  relative = absolute / max(largest, FLOOR)
  return Comparison(name, shape, dtype, absolute, relative, budget, "" if relative <= budget else "outside the budget")
