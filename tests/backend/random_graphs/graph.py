"""A graph as data: steps that name earlier ones, each with its text in Python and its mirror in numpy."""
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .values import Mirror, Unfit, Value, leaf, numpy_dtype, same

SHAPES = ((1,), (3,), (7,), (16,), (33,), (100,), (2, 3), (5, 4), (1, 9), (13, 1), (13, 32), (17, 33), (4, 16), (8, 8), (21, 10),
          (2, 3, 4), (3, 5, 7), (1, 4, 6), (2, 17, 3), (2, 2, 3, 5))
LIMIT = 600
"""Elements of a value, at most."""


class Step(NamedTuple):
  """text: a statement with {out}, or an expression; {0}, {1}, ... are the operands. mirror: the same of `Value`s; of a leaf, no operands.
  data, redraw: of a leaf, what its tensor is made from, and the same leaf with other data. dtype: of the result."""
  op: str
  text: str
  args: tuple[int, ...]
  mirror: Mirror
  data: np.ndarray | None = None
  redraw: Callable[[np.random.Generator], Step] | None = None
  dtype: str = ""


class Graph(NamedTuple):
  """steps; outputs: numbers of steps; calls: data of the leaves in each call if it is a function for TinyJit, else empty."""
  seed: int
  steps: tuple[Step, ...]
  outputs: tuple[int, ...]
  calls: tuple[dict[int, Step], ...] = ()


def leaf_step(value: Value, cut: tuple[tuple[int, int], ...] = (), redraw: Callable[[np.random.Generator], Step] | None = None) -> Step:
  """A leaf, or with `cut` (low, size of each axis) a view of a larger one, whose data `value` is."""
  dtype, data = value.dtype, value.data
  # bfloat16, which numpy lacks, goes as its upper half-words.
  raw = np.asarray(data.view(np.uint32) >> np.uint32(16), np.uint16) if dtype == "bfloat16" else data
  text = "{out} = Tensor({data}).realize()" + (".bitcast(dtypes.bfloat16)" if dtype == "bfloat16" else "")
  if cut:
    text += "[" + ", ".join(f"{low}:{low + size}" for low, size in cut) + "]"
    value = value.having(data[tuple(slice(low, low + size) for low, size in cut)])
  return Step("leaf", text, (), lambda: value, raw, redraw)


class Draw:
  """What is drawn so far: steps and their values."""

  def __init__(self, rng: np.random.Generator):
    self.rng, self.steps, self.values = rng, list[Step](), list[Value]()

  def choose(self, options):
    return options[int(self.rng.integers(len(options)))]

  def chance(self, p: float) -> bool:
    return bool(self.rng.random() < p)

  def axis(self, a: int) -> int:
    if not (rank := self.values[a].data.ndim):
      raise Unfit
    return int(self.rng.integers(rank))

  def add(self, step: Step) -> int:
    """Append a step, if its operands suit it.

    Raises:
      Unfit: they don't.
    """
    with np.errstate(all="ignore"):
      value = _whole(step.mirror(*(self.values[i] for i in step.args)))
    if not 0 < value.data.size <= LIMIT or value.data.dtype != numpy_dtype(value.dtype):
      raise Unfit
    self.steps.append(step._replace(dtype=value.dtype))
    self.values.append(value)
    return len(self.steps) - 1

  def new(self, dtype: str, shape: tuple[int, ...], kind: str, top: int = 0) -> int:
    """A new leaf; sometimes a view of a larger one."""
    cut: tuple[tuple[int, int], ...] = ()
    if self.chance(0.3):
      cut = tuple((int(self.rng.integers(3)), s) for s in shape)
    whole = tuple(low + s + int(self.rng.integers(3)) for low, s in cut) if cut else shape

    def make(rng: np.random.Generator) -> Step:
      return leaf_step(leaf(rng, dtype, whole, kind, top), cut, make)
    return self.add(make(self.rng))

  def pick(self, fits: Callable[[Value], object] = lambda v: True) -> int:
    """A value drawn before that fits, the latest ones more often."""
    options = [i for i, v in enumerate(self.values) if fits(v)]
    if not options:
      raise Unfit
    return options[-1] if self.chance(0.75) else self.choose(options)

  def mate(self, a: int, kind: str = "any") -> int:
    """Another value of a's dtype that broadcasts to a's shape: one drawn before, or a new one."""
    v = self.values[a]
    options = [i for i, w in enumerate(self.values) if w.dtype == v.dtype and _broadcasts(w.shape, v.shape)
               and not same(np.broadcast_to(w.data, v.shape), v.data)]
    if kind == "any" and options and self.chance(0.6):
      return self.choose(options)
    if kind == "any":
      kind = "small" if v.is_float and (v.loose or self.chance(0.4)) else self.choose(["any", "any", "special", "small"])
    return self.new(v.dtype, tuple(1 if self.chance(0.15) else s for s in v.shape), kind)


def _whole(v: Value) -> Value:
  """With an array, where numpy makes a scalar of one element."""
  return v._replace(data=np.asarray(v.data))


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
  try:
    return np.broadcast_shapes(shape, to) == to
  except ValueError:
    return False


Op = Callable[[Draw], Step]
OPS: dict[str, tuple[Op, float]] = {}
"""Operations to draw from, by name: a function that draws a step (or raises Unfit), and its weight."""


def op(weight: float) -> Callable[[Op], Op]:
  """Enter a function into `OPS`."""
  def enter(f: Op) -> Op:
    OPS[f.__name__] = (f, weight)
    return f
  return enter


def values_of(steps: tuple[Step, ...], leaves: dict[int, Step] | None = None) -> list[Value]:
  """What all steps give, by their mirrors. leaves: others in place of some.

  Raises:
    Unfit: an operation has no single right result for these data.
  """
  values: list[Value] = []
  with np.errstate(all="ignore"):
    for i, step in enumerate(steps):
      step = (leaves or {}).get(i, step)
      values.append(_whole(step.mirror(*(values[a] for a in step.args))))
  return values


def needed(graph: Graph) -> Graph:
  """Without the steps that no output needs, numbered anew."""
  found: set[int] = set()
  todo = list(graph.outputs)
  while todo:
    if (i := todo.pop()) not in found:
      found.add(i)
      todo += graph.steps[i].args
  number = {old: new for new, old in enumerate(sorted(found))}
  steps = tuple(graph.steps[i]._replace(args=tuple(number[a] for a in graph.steps[i].args)) for i in sorted(found))
  return graph._replace(steps=steps, outputs=tuple(number[o] for o in graph.outputs))
