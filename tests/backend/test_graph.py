"""TinyJit: captured kernels run as one program, with whatever inputs and variables each call brings."""
from __future__ import annotations

import gc
import pickle

import numpy as np
import pytest
from tinygrad import Device, Tensor, TinyJit, Variable
from tinygrad.helpers import Context

from tinytpu.backend.runtime.stats import stats


def chain(a: Tensor, b: Tensor) -> Tensor:
  """Three kernels, each of which needs the one before."""
  c = (a + b).contiguous().realize()
  d = (c @ c).realize()
  return (d.sum(axis=0) - a[0]).realize()


def want(a: np.ndarray, b: np.ndarray) -> np.ndarray:
  c = a.astype(np.float64) + b
  return (c @ c).sum(axis=0) - a[0]


def test_inputs_change_from_call_to_call(floats):
  jitted = TinyJit(chain)
  for call in range(5):
    a, b = floats(20, 20), floats(20, 20)
    inputs = [Tensor(a).realize(), Tensor(b).realize()]
    stats.reset()
    np.testing.assert_allclose(jitted(*inputs).numpy(), want(a, b), rtol=1e-4, atol=1e-4)
    if call >= 2:
      graph, *spills = stats.runs
      assert graph.kernel.startswith("graph of ") and graph.cycles > 100 and [run.kernel for run in spills] == ["spill"]


def test_the_same_bits_as_one_by_one(floats):
  inputs = [Tensor(floats(9, 9)).realize() for _ in range(2)]
  results = []
  for jit in (1, 2):
    with Context(JIT=jit):
      jitted = TinyJit(chain)
      stats.reset()
      results.append([jitted(*inputs).numpy() for _ in range(3)][-1])
      assert any(run.kernel.startswith("graph of ") for run in stats.runs) == (jit == 1)
  np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("kernels", range(1, 6))
def test_a_table_that_ends_within_a_tile(kernels):
  """The last call's words are read as a whole tile, which launches that are checked may do."""
  @TinyJit
  def steps(x: Tensor) -> Tensor:
    for _ in range(kernels):
      x = (x + 1).contiguous().realize()
    return x[1:].contiguous().realize()
  for call in range(4):
    x = np.arange(5, dtype=np.float32) + call
    assert np.array_equal(steps(Tensor(x).realize()).numpy(), x[1:] + kernels)


def test_in_place_and_state_between_kernels():
  state = Tensor.zeros(33).contiguous().realize()

  @TinyJit
  def step(x: Tensor) -> Tensor:
    state.assign(state * 2 + x).realize()
    return (state + 1).realize()
  expected = np.zeros(33, np.float32)
  for call in range(6):
    x = np.arange(33, dtype=np.float32) + call
    expected = expected * 2 + x
    np.testing.assert_array_equal(step(Tensor(x).realize()).numpy(), expected + 1)


def test_symbolic_sizes(floats):
  @TinyJit
  def f(x: Tensor) -> Tensor:
    y = (x * 2).contiguous().realize()
    return (y.sum() + x.max()).realize()
  a = floats(50)
  whole = Tensor(a).realize()
  for size in (7, 16, 33, 50, 3, 1):
    v = Variable("n", 1, 50).bind(size)
    np.testing.assert_allclose(f(whole[:v]).item(), (2 * a[:size]).sum() + a[:size].max(), rtol=1e-5, atol=1e-5)


def test_graphs_survive_pickling(floats):
  jitted = TinyJit(chain)
  inputs = [Tensor(floats(8, 8)).realize() for _ in range(2)]
  expected = [jitted(*inputs).numpy() for _ in range(3)][-1]
  np.testing.assert_array_equal(pickle.loads(pickle.dumps(jitted))(*inputs).numpy(), expected)


def test_code_and_table_come_back(floats):
  heap = Device["TINYTPU"].heap  # type: ignore[attr-defined]
  a, b = Tensor(floats(8, 8)).realize(), Tensor(floats(8, 8)).realize()

  def use() -> None:
    jitted = TinyJit(chain)
    for _ in range(3):
      jitted(a, b).realize()
  use()
  gc.collect()
  before = sum(end - start for start, end in heap.free_ranges)
  for _ in range(3):
    use()
    gc.collect()
  assert sum(end - start for start, end in heap.free_ranges) == before


def test_a_fault_names_the_kernel(floats):
  jitted = TinyJit(chain)
  inputs = [Tensor(floats(8, 8)).realize() for _ in range(2)]
  for _ in range(3):
    jitted(*inputs).realize()
  device = Device["TINYTPU"]
  from tinygrad.engine.realize import graph_cache
  graph = next(graph_cache[call.src[0]] for call in jitted.captured.linear.src if call.src[0] in graph_cache)
  at = graph.address + 8 * graph.linked.starts[1]
  device.engine.hbm[at:at + 8] = 0  # no instruction  # type: ignore[attr-defined]
  device.invalidate_caches()
  name = graph.programs[1].name
  with pytest.raises(RuntimeError, match=f"kernel {name}, number 1 of a graph of . kernels, on TINYTPU stopped: ILLEGAL"):
    jitted(*inputs)


@pytest.mark.parametrize("jit", [1, 2])
def test_slices_of_inputs(jit):
  """A kernel that takes a contiguous part of an input takes it of the input of this call."""
  with Context(JIT=jit):
    f = TinyJit(lambda x: ((x[4:16].contiguous() + 1).contiguous() * 2).contiguous() + x[20])
    kept = []
    for call in range(5):
      a = np.arange(32, dtype=np.float32) + 100 * call
      kept.append(Tensor(a).realize())  # so that no call has its input where another one's was
      np.testing.assert_array_equal(f(kept[-1]).numpy(), (a[4:16] + 1) * 2 + a[20])
