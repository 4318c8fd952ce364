"""Cuts a wrong graph down: fewer outputs, calls, steps and elements, as long as it stays wrong."""
from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from .graph import Graph, Step, leaf_step, needed, values_of


def smallest(graph: Graph, wrong: Callable[[Graph], bool], tries: int = 150) -> Graph:
  """The smallest wrong graph found in so many tries. wrong: whether one still is."""
  done = False
  while not done:
    done = True
    for candidate in _smaller(graph):
      if (tries := tries - 1) < 0:
        return graph
      try:
        values_of(candidate.steps)
        bad = wrong(candidate)
      except Exception:  # the cut has made it one that tinygrad or the reference does not take
        continue
      if bad:
        graph, done = candidate, False
        break
  return graph


def _smaller(graph: Graph) -> Iterator[Graph]:
  if graph.calls:
    yield graph._replace(calls=())
    return  # leaves of calls stay as they are
  if len(graph.outputs) > 1:
    for output in graph.outputs:
      yield needed(graph._replace(outputs=(output,)))
  values = values_of(graph.steps)
  # A step becomes a leaf with its value, the latest first.
  for i in reversed(range(len(graph.steps))):
    if graph.steps[i].data is None and i not in graph.outputs:
      yield needed(_with(graph, i, leaf_step(values[i])))
  # The output becomes one of its operands, or a step its first one.
  for i, step in enumerate(graph.steps):
    for a in step.args:
      if i in graph.outputs:
        yield needed(graph._replace(outputs=tuple(a if o == i else o for o in graph.outputs)))
      elif values[a].shape == values[i].shape and values[a].dtype == values[i].dtype:
        steps = [s._replace(args=tuple(a if x == i else x for x in s.args)) for s in graph.steps]
        yield needed(graph._replace(steps=tuple(steps)))
  # All sides of one length become shorter; views of leaves become leaves.
  leaves = [i for i, step in enumerate(graph.steps) if step.data is not None]
  for i in leaves:
    if "[" in graph.steps[i].text:
      yield _with(graph, i, leaf_step(values[i]))
  for n in sorted({n for i in leaves for n in values[i].shape if n > 1}, reverse=True):
    for shorter in dict.fromkeys((1, n // 2, n - 1)):
      steps = list(graph.steps)
      for i in leaves:
        v = values[i]
        steps[i] = leaf_step(v.having(v.data[tuple(slice(shorter) if m == n else slice(None) for m in v.shape)]))
      yield graph._replace(steps=tuple(steps))
  for i in leaves:
    v = values[i]
    if v.data.size <= 64:
      for k in np.ndindex(v.shape):
        if v.data[k] != 1:
          data = v.data.copy()
          data[k] = 1
          yield _with(graph, i, leaf_step(v.having(data)))


def _with(graph: Graph, i: int, step: Step) -> Graph:
  return graph._replace(steps=tuple(step if k == i else s for k, s in enumerate(graph.steps)))
