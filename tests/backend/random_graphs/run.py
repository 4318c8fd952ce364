"""Graphs: drawn by seed, run on a device, compared, printed as scripts."""
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import tinygrad
from tinygrad.helpers import Context

from tinytpu.backend.errors import UnsupportedError

from . import elementwise, fused, movement, reductions
from .graph import OPS, SHAPES, Draw, Graph, Step, needed, values_of
from .values import DTYPES, FLOATS, Unfit, Value, same

assert elementwise and fused and movement and reductions  # they fill OPS
NAMES = [*OPS]
WEIGHTS = np.array([weight for _, weight in OPS.values()])
WEIGHTS /= WEIGHTS.sum()
STEPS = 5
"""Steps of a graph, at most; with those that an operation brings along a few more."""


def draw(seed: int) -> Graph:
  """The graph of a seed."""
  rng = np.random.default_rng(seed)
  d = Draw(rng)
  dtype = str(d.choose(FLOATS) if d.chance(0.3) else "float32" if d.chance(0.45) else d.choose(DTYPES))
  d.new(dtype, d.choose(SHAPES), d.choose(["small", "any", "special", "apart"]))
  count, tries = int(rng.integers(2, STEPS + 1)), 0
  outputs: list[int] = []
  while len(outputs) < count and tries < 80:
    tries += 1
    kept = len(d.steps)
    try:
      outputs.append(d.add(OPS[NAMES[int(rng.choice(len(NAMES), p=WEIGHTS))]][0](d)))
    except Unfit:
      del d.steps[kept:], d.values[kept:]
  used = {a for step in d.steps for a in step.args}
  *others, last = [i for i in outputs if i not in used] or [len(d.steps) - 1]
  ends = (d.choose(others), last) if others and d.chance(0.25) else (last,)  # each is a kernel or more
  graph = needed(Graph(seed, tuple(d.steps), ends))
  return graph._replace(calls=_calls(graph, rng)) if rng.random() < 0.06 else graph


def _calls(graph: Graph, rng: np.random.Generator) -> tuple[dict[int, Step], ...]:
  """New data of the leaves for three more calls; those that do not suit are the first's."""
  first = {i: step for i, step in enumerate(graph.steps) if step.redraw is not None}
  calls = [first]
  for _ in range(3):
    new = {i: step.redraw(rng) for i, step in first.items() if step.redraw is not None}
    try:
      expected(graph._replace(calls=(new,)))
    except Unfit:
      new = first
    calls.append(new)
  return tuple(calls)


def expected(graph: Graph) -> list[list[Value]]:
  """The outputs of each call.

  Raises:
    Unfit: an operation has no single right result.
  """
  return [[values[i] for i in graph.outputs] for values in (values_of(graph.steps, call) for call in graph.calls or ({},))]


# -- as Python ------------------------------------------------------------------------------------------
HEADER = "import numpy as np\nfrom numpy import inf, nan\nfrom tinygrad import Tensor, TinyJit, dtypes\n"


def _statement(step: Step, name: str, data: str = "") -> str:
  text = step.text if "{out}" in step.text else "{out} = " + step.text
  return text.format(*(f"v{a}" for a in step.args), out=name, data=data)


def source(graph: Graph, literal: bool) -> str:
  """Python that leaves the outputs of each call in a list `results`. literal: with the leaves' data in it, else as `data[call, step]`."""
  def data(call: int, i: int, step: Step) -> str:
    assert step.data is not None
    if not literal:
      return f"data[{call}, {i}]"
    whole = f"np.array({step.data.ravel().tolist()}, np.{step.data.dtype.name}{'_' if step.data.dtype == bool else ''})"
    return whole if step.data.ndim == 1 else f"{whole}.reshape{step.data.shape}"
  leaves = {i: step for i, step in enumerate(graph.steps) if step.data is not None}
  body = [_statement(step, f"v{i}") for i, step in enumerate(graph.steps) if i not in leaves]
  outs = ", ".join(f"v{i}" for i in graph.outputs)
  lines = ["results = []"]
  if graph.calls:
    # Inputs may be views, at one place in buffers of their own: tinygrad takes the first calls' place for that of the later ones. Outputs
    # are buffers of their own: one that is an input as it stands stays the first call's.
    names = ", ".join(f"v{i}" for i in leaves)
    lines += ["@TinyJit", f"def f({names}):", *(f"  {line}" for line in body), f"  return [t.clone().realize() for t in ({outs},)]"]
    for n, call in enumerate(graph.calls):
      lines += [_statement(step, f"v{i}", data(n, i, step)) + f"; v{i} = v{i}.clone().realize()" * ("bitcast" in step.text)
                for i, step in call.items()]
      lines.append(f"results.append([t.numpy() for t in f({names})])")
  else:
    lines += [_statement(step, f"v{i}", data(0, i, step)) for i, step in leaves.items()] + body
    lines += [f"outs = [t.contiguous() for t in ({outs},)]", "Tensor.realize(*outs)", "results.append([t.numpy() for t in outs])"]
  return (HEADER if literal else "") + "\n".join(lines) + "\n"


def results(graph: Graph, device: str | None = None) -> list[list[np.ndarray]]:
  """Run a graph; what tinygrad gives on a device (default: the current one)."""
  leaves = graph.calls or (dict(enumerate(graph.steps)),)
  data = {(n, i): step.data for n, call in enumerate(leaves) for i, step in call.items() if step.data is not None}
  names = {"Tensor": tinygrad.Tensor, "TinyJit": tinygrad.TinyJit, "dtypes": tinygrad.dtypes, "data": data}
  with Context(**({"DEV": device} if device else {})):
    exec(source(graph, literal=False), names)
  return names["results"]  # type: ignore[return-value]


# -- verdicts -------------------------------------------------------------------------------------------
class Verdict(NamedTuple):
  """kind: "right", "wrong", "refused" (with the reason), or "tinygrad": wrong, but tinygrad's PYTHON device gives the same."""
  kind: str
  why: str = ""


class Wrong(NamedTuple):
  """The first output that is wrong: of which call, which of its outputs, and how."""
  call: int
  output: int
  how: str


def first_wrong(graph: Graph, got: list[list[np.ndarray]], wanted: list[list[Value]]) -> Wrong | None:
  """Compare outputs."""
  for call, (these, those) in enumerate(zip(got, wanted, strict=True)):
    for output, (x, v) in enumerate(zip(these, those, strict=True)):
      if same(x, v.data):
        continue
      what = f"v{graph.outputs[output]}{f' of call {call}' if graph.calls else ''}"
      if x.shape != v.shape or x.dtype != v.data.dtype:
        return Wrong(call, output, f"{what} is {x.dtype}{x.shape}, not {v.data.dtype}{v.shape}")
      at = next(k for k in np.ndindex(x.shape) if not same(x[k].reshape(1), v.data[k].reshape(1)))
      return Wrong(call, output, f"{what}{list(at)} is {x[at]}, not {v.data[at]}")
  return None


def judge(graph: Graph) -> Verdict:
  """Run a graph on the current device and compare."""
  try:
    wanted = expected(graph)
  except AssertionError as e:  # a function out of tolerance
    return Verdict("wrong", str(e))
  try:
    got = results(graph)
  except UnsupportedError as e:
    return Verdict("refused", str(e).splitlines()[0])
  except tinygrad.engine.jit.JitError as e:
    return judge(graph._replace(calls=())) if graph.calls else Verdict("wrong", repr(e))
  except Exception as e:
    return Verdict("tinygrad" if _fails_too(graph, e) else "wrong", f"{type(e).__name__}: {e}".splitlines()[0])
  if (wrong := first_wrong(graph, got, wanted)) is None:
    return Verdict("right")
  try:
    theirs = results(graph, "PYTHON")
  except Exception:
    return Verdict("wrong", wrong.how)
  x, y, z = (result[wrong.call][wrong.output] for result in (got, [[v.data for v in call] for call in wanted], theirs))
  return Verdict("tinygrad" if same(x, z) or _signs_of_zeros(x, y, z) else "wrong", wrong.how)


def _signs_of_zeros(got: np.ndarray, wanted: np.ndarray, theirs: np.ndarray) -> bool:
  """Whether nothing but signs of zeros is wrong, and PYTHON has these too: (c ? x : 0) / y becomes c ? x / y : 0 in tinygrad. The rest of
  PYTHON's need not be the same: it divides by multiplying with a reciprocal."""
  if got.dtype != wanted.dtype or got.shape != wanted.shape or not np.array_equal(got, wanted, equal_nan=got.dtype.kind == "f"):
    return False
  off = np.signbit(got) != np.signbit(wanted)
  return bool(((theirs == 0) & (np.signbit(theirs) == np.signbit(got)))[off & (got == 0)].all())


def _fails_too(graph: Graph, error: Exception) -> bool:
  try:
    results(graph, "PYTHON")
  except Exception as e:
    return str(e) == str(error)
  return False


def script(graph: Graph) -> str:
  """A program that runs a graph by itself and says where it differs."""
  wanted = [[(v.data.ravel().tolist(), v.shape) for v in call] for call in expected(graph)]
  check = ["for got, wanted in zip(results, WANTED):", "  for x, (values, shape) in zip(got, wanted):",
           "    y = np.array(values, x.dtype).reshape(shape)",
           "    alike = (x == y) & (np.signbit(x) == np.signbit(y)) | (x != x) & (y != y) if x.dtype.kind == 'f' else x == y",
           "    print('right' if alike.all() else f'wrong: {x[~alike]}, not {y[~alike]}')"]
  return source(graph, literal=True) + f"WANTED = {wanted}\n" + "\n".join(check) + "\n"


def elements(graph: Graph) -> int:
  """Elements of all leaves."""
  return sum(math.prod(step.data.shape) for step in graph.steps if step.data is not None)
