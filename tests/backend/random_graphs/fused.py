"""What needs the device to tell what is right, what ends kernels, and what writes in place.

Normalisations and transcendental functions have no reference to the bit. But all that is decided by them has: a softmax has its largest
where its input has, if the input is apart by a wide margin, and what is computed with a function's values is exact, given these values as
the device itself returns them from a kernel of their own (which are compared with float64 within a tolerance).
"""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tinygrad import Tensor

from .elementwise import is_float
from .graph import Draw, Step, op
from .reductions import sort_of
from .values import Value, need

NORMS = {  # each is increasing along the row, for any finite row that is not all equal
  "{0}.softmax({axis})": 1e-2, "{0}.layernorm({axis})": 1e-3, "({0} / {0}.abs().sum({axis}, keepdim=True))": 1e-3,
  "(({0} - {0}.mean({axis}, keepdim=True)) / ({0}.std({axis}, keepdim=True) + 1e-5))": 1e-3,
  "({0} / {0}.square().sum({axis}, keepdim=True).sqrt())": 1e-3, "({0} / {0}.abs().max({axis}, keepdim=True))": 1e-3,
  "{0}.log_softmax({axis})": 1e-2,
  "(({0} - {0}.min({axis}, keepdim=True)) / ({0}.max({axis}, keepdim=True) - {0}.min({axis}, keepdim=True)))": 1e-3}


def apart(x: np.ndarray, axis: int, margin: float) -> None:
  """Raise Unfit unless the elements of each row are finite and further apart than rounding can matter."""
  need(np.isfinite(x).all() and x.shape[axis] > 1)
  gaps = np.diff(np.sort(x.astype(np.float64), axis), axis=axis)
  need((gaps > margin).all() and np.abs(x).max() < 40 and (gaps / np.abs(x).max() > 1e-4).all())


@op(5)
def decided_by_norm(d: Draw) -> Step:
  a = d.new("float32", d.choose([(40, 7), (30, 8), (13, 4), (5, 33), (3, 5, 7), (1, 4), (2, 17, 3)]), "apart") if d.chance(0.4) else d.pick(
    lambda v: v.dtype == "float32" and v.data.size > 1)
  v, axis = d.values[a], d.axis(a)
  n = v.shape[axis]
  norm = d.choose([*NORMS])
  margin, p = NORMS[norm], norm.replace("{axis}", str(axis))

  def checked(f: Callable[[np.ndarray], Value]) -> Callable[[Value], Value]:
    def mirror(x: Value) -> Value:
      apart(x.data, axis, margin)
      return f(x.data)
    return mirror
  if n <= 8 and v.data.size <= 240 and d.chance(0.07):
    step = sort_of(d, p, a, n, axis, lambda x: x, order_only=True)
    return Step(f"{step.op}_of_norm", step.text, (a,), lambda x: checked(lambda _: step.mirror(x))(x))
  name = d.choose(["argmax", "argmin", "top", "bottom", "rank", "gathered", "ratio"])
  texts = {"argmax": f"{p}.argmax({axis})", "argmin": f"{p}.argmin({axis})", "top": f"({p} == {p}.max({axis}, keepdim=True))",
           "bottom": f"({p} <= {p}.min({axis}, keepdim=True))",
           "rank": f"({p}.unsqueeze({axis}) < {p}.unsqueeze({axis + 1})).sum({axis + 1})",
           "gathered": f"({p}.gather({axis}, {p}.argmax({axis}, keepdim=True)) == {p}.max({axis}, keepdim=True))",
           "ratio": f"({p} / {p}.max({axis}, keepdim=True)).floor().max({axis})"}
  if name == "rank":
    need(v.data.size * n <= 2000)
  if name == "ratio":  # where the largest is above 0
    need("softmax" in norm and "log" not in norm)
  answers: dict[str, Callable[[np.ndarray], Value]] = {
    "argmax": lambda x: Value(x.argmax(axis).astype(np.int32), "int32"),
    "argmin": lambda x: Value(x.argmin(axis).astype(np.int32), "int32"),
    "top": lambda x: Value(x == x.max(axis, keepdims=True), "bool"),
    "bottom": lambda x: Value(x == x.min(axis, keepdims=True), "bool"),
    # element i of the sum: how many j have p[j] < p[i] or the reverse, by the order of the two new axes
    "rank": lambda x: Value((np.expand_dims(x, axis) < np.expand_dims(x, axis + 1)).sum(axis + 1).astype(np.int32), "int32"),
    "gathered": lambda x: Value(np.ones_like(x.max(axis, keepdims=True), bool), "bool"),
    "ratio": lambda x: Value(np.ones_like(x.max(axis)), "float32")}
  return Step(f"{name}_of_norm", texts[name], (a,), checked(answers[name]))


# -- as the device itself has it ------------------------------------------------------------------------
OWN: dict[str, Callable[[np.ndarray], np.ndarray]] = {
  "exp2": np.exp2, "log2": np.log2, "sin": np.sin, "exp": np.exp, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh}


def asked(x: Value, text: str, f: Callable[[np.ndarray], np.ndarray]) -> Value:
  """An expression of {0} as the device computes it, in kernels of its own, within a tolerance of f of float64.

  Raises:
    AssertionError: it is not.
  """
  got = eval(text.format("x"), {"x": Tensor(x.data).realize()}).contiguous().realize().numpy()
  with np.errstate(all="ignore"):
    expected = f(x.data.astype(np.float64))
  np.testing.assert_allclose(got, expected, rtol=2e-4, atol=1e-5, err_msg=f"{text} of {x.data!r}")
  return Value(got, "float32", True)


@op(2)
def function(d: Draw) -> Step:
  """Fused with what surrounds it, it gives what it gives alone."""
  a = d.pick(lambda v: v.dtype == "float32" and not v.loose)
  name = d.choose([*OWN])

  def mirror(x: Value) -> Value:
    need(not x.loose and np.isfinite(x.data).all() and np.abs(x.data).max() < 30 and (name != "log2" or (x.data > 1e-3).all()))
    return asked(x, f"{{0}}.{name}()", OWN[name])
  return Step(name, f"{{0}}.{name}()", (a,), mirror)


def _softmax(x: np.ndarray) -> np.ndarray:
  e = np.exp(x - x.max(-1, keepdims=True))
  return e / e.sum(-1, keepdims=True)


WHOLE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
  "{0}.softmax(-1)": _softmax, "{0}.cumsum(-1)": lambda x: x.cumsum(-1), "{0}.sum(-1, keepdim=True)": lambda x: x.sum(-1, keepdims=True),
  "{0}.mean(-1)": lambda x: x.mean(-1), "({0} / {0}.abs().sum(-1, keepdim=True))": lambda x: x / np.abs(x).sum(-1, keepdims=True),
  "({0} @ {0}.transpose(-1, -2))": lambda x: x @ x.swapaxes(-1, -2)}


@op(1.5)
def realized_function(d: Draw) -> Step:
  """A value that depends on an order of sums: realized, from a realized input, so in kernels that are always the same."""
  a = d.pick(lambda v: v.dtype == "float32" and v.data.ndim > 1)
  text = d.choose([*WHOLE])

  def mirror(x: Value) -> Value:
    need(np.isfinite(x.data).all() and np.abs(x.data).max() < 30 and np.abs(x.data).min() > 1e-3)
    return asked(x, text, WHOLE[text])._replace(loose=False)
  value = text.replace("{0}", "{out}")
  return Step("realized_function", f"{{out}} = {{0}}.clone().realize(); {{out}} = {value}.contiguous().realize()", (a,), mirror)


# -- ends of kernels ------------------------------------------------------------------------------------
@op(2.5)
def realize(d: Draw) -> Step:
  a = d.pick()
  how = d.choose([".realize()", ".contiguous().realize()", ".contiguous()"])
  return Step("realize", f"{{0}}{how}", (a,), lambda x: x._replace(loose=x.loose and how == ".realize()"))


@op(1.5)
def assign(d: Draw) -> Step:
  """A copy, changed in place once or twice: wholly, or a part of it, by a value of its own or another."""
  a = d.pick(lambda v: v.data.size > 1 and v.data.ndim)
  b = d.mate(a)
  n = d.values[a].shape[0]
  low = int(d.rng.integers(n))
  high = int(d.rng.integers(low + 1, n + 1))
  wholly = d.chance(0.4)
  other = d.chance(0.5) and is_float(d.values[a])
  whole = "{out}.assign({out}.maximum({1})).realize()" if other else "{out}.assign({1}.expand({out}.shape).contiguous()).realize()"
  part = f"{{out}}[{low}:{high}] = {{1}}.expand({{out}}.shape)[{low}:{high}]; {{out}}.realize()"
  change = whole if wholly else part

  def mirror(x: Value, y: Value) -> Value:
    new = np.broadcast_to(y.data, x.shape)
    if wholly:
      return Value(np.where(x.data < new, new, x.data) if other else np.array(new), x.dtype)
    data = x.data.copy()
    data[low:high] = new[low:high]
    return Value(data, x.dtype)
  return Step("assign", f"{{out}} = {{0}}.clone().realize(); {change}", (a, b), mirror)

