"""What tensors' life in VMEM costs and saves: traffic with device memory, kernel by kernel. Answers against numpy."""
from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Device, Tensor, TinyJit

from tinytpu.backend.runtime.stats import SPILL, stats


def traffic() -> int:
  """Lines moved between HBM and VMEM or registers since the last reset."""
  return stats.counters["dma_lines"] + stats.counters["hbm_lines"]


def spills() -> int:
  return sum(run.kernel == SPILL for run in stats.runs)


def test_intermediates_stay_on_chip(floats):
  a, b = floats(40, 40), floats(40, 40)
  x, y = Tensor(a).realize(), Tensor(b).realize()
  (x + y).realize()  # brings them in
  stats.reset()
  c = (x + y).realize()
  d = (c @ y).realize()
  e = (d.relu() - c).realize()
  del c, d
  assert traffic() == 0 and spills() == 0
  np.testing.assert_allclose(e.numpy(), np.maximum((a + b).astype(np.float64) @ b, 0) - (a + b), rtol=1e-4, atol=1e-4)
  assert traffic() == 40 * 40 // 16 and spills() == 1


def test_what_is_freed_never_leaves(floats):
  x = Tensor(floats(100)).realize()
  for _ in range(50):
    y = (x * 2).realize()
    del y
  assert spills() == 0


def test_more_than_vmem_holds(floats):
  """Tensors of three times VMEM, used in turn: those used longest ago make way."""
  arrays = [floats(60, 100) for _ in range(32)]
  tensors = [(Tensor(a) * 2).realize() for a in arrays]
  assert spills() > 0
  sums = [(t + u).realize() for t, u in zip(tensors, reversed(tensors), strict=True)]
  for a, b, s in zip(arrays, reversed(arrays), sums, strict=True):
    np.testing.assert_array_equal(s.numpy(), a * 2 + b * 2)
  for a, t in zip(arrays, tensors, strict=True):
    np.testing.assert_array_equal(t.numpy(), a * 2)


def test_the_host_writes_over_it(floats):
  a, b = floats(300), floats(300)
  x = Tensor(a).realize()
  y = (x + 1).realize()
  for t, new in ((x, b), (y, a)):
    Device["TINYTPU"].allocator._copyin(t.uop.buffer._buf, memoryview(new).cast("B"))
  np.testing.assert_array_equal((x + 1).numpy(), b + 1)
  np.testing.assert_array_equal((y * 1).contiguous().numpy(), a)


def test_read_and_used_again(floats):
  a = floats(300)
  x = (Tensor(a) + 1).realize()
  np.testing.assert_array_equal(x.numpy(), a + 1)
  stats.reset()
  y = (x * 2).realize()
  assert traffic() == 0  # reading it did not take it out of VMEM
  np.testing.assert_array_equal(x.numpy(), a + 1)
  assert spills() == 0
  np.testing.assert_array_equal(y.numpy(), (a + 1) * 2)


def layers(floats) -> tuple[list[np.ndarray], list[Tensor]]:
  weights = [floats(24, 32), floats(32, 32), floats(32, 8)]
  return weights, [Tensor(w).realize() for w in weights]


def test_graphs_keep_their_weights(floats):
  """After the first run of a graph, only its input comes in, and its result goes out when it is read."""
  weights, tensors = layers(floats)

  @TinyJit
  def model(x: Tensor) -> Tensor:
    for w in tensors:
      x = (x @ w).relu().contiguous().realize()
    return x
  for call in range(6):
    a = floats(16, 24)
    x = Tensor(a).realize()
    stats.reset()
    got = model(x).realize()
    if call >= 3:
      assert traffic() <= 16 * 24 // 16 + 8 and spills() == 0
    want = a.astype(np.float64)
    for w in weights:
      want = np.maximum(want @ w, 0)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-3)


def test_graphs_and_launches_take_turns(floats):
  """State that a graph updates is changed and read outside of it, while other tensors push it out of VMEM."""
  start = floats(60, 60)
  state = Tensor(start).contiguous().realize()

  @TinyJit
  def step(x: Tensor) -> Tensor:
    state.assign(state * 0.5 + x).realize()
    return (state.sum(axis=0) + x[0]).realize()
  want = start.copy()
  for call in range(8):
    a = floats(60, 60)
    want = want * np.float32(0.5) + a
    out = step(Tensor(a).realize())
    np.testing.assert_allclose(out.numpy(), want.astype(np.float64).sum(axis=0) + a[0], rtol=1e-3, atol=1e-4)
    if call % 3 == 1:
      np.testing.assert_array_equal(state.numpy(), want)
    if call % 3 == 2:
      state.assign(state + 1).realize()
      want = want + 1
    if call == 5:
      for _ in range(20):
        (Tensor(floats(60, 60)) + 1).realize()
  np.testing.assert_array_equal(state.numpy(), want)


def test_a_graph_whose_input_is_what_it_wrote(floats):
  """The result of one call is the input of the next: it overlaps a buffer of the graph."""
  a, w = floats(12, 12), floats(12, 12)
  weight = Tensor(w).realize()

  @TinyJit
  def f(x: Tensor) -> Tensor:
    y = (x @ weight).contiguous().realize()
    return (y / y.abs().max()).contiguous().realize()
  x, want = Tensor(a).realize(), a.astype(np.float64)
  for _ in range(6):
    x = f(x)
    want = want @ w
    want /= np.abs(want).max()
    np.testing.assert_allclose(x.numpy(), want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("size", [1, 3, 5, 6, 7])
def test_bytes_beside_a_view_stay(size):
  """Views of bytes share words with their neighbours, which are written in turn by kernels and by the host."""
  base = np.arange(64, dtype=np.uint8)
  t = Tensor(base).contiguous().realize()
  want = base.copy()
  for at in range(0, 64 - 2 * size, 2 * size):
    left, right = t[at:at + size], t[at + size:at + 2 * size]
    left.assign(left + 100).realize()
    right.assign(right * 3).realize()
    want[at:at + size] += 100
    want[at + size:at + 2 * size] *= 3
    if at % 3 == 0:
      np.testing.assert_array_equal(t.numpy(), want)
  np.testing.assert_array_equal(t.numpy(), want)


def test_nothing_is_left_of_what_was_freed(floats):
  residency = Device["TINYTPU"].residency  # type: ignore[attr-defined]
  kept = (Tensor(floats(50)) + 1).realize()
  kept.numpy()
  before = len(residency.entries)
  held = [(kept + n).realize() for n in range(10)]
  assert len(residency.entries) > before
  del held
  kept.numpy()  # what is freed is given back before the device is used next
  assert len(residency.entries) <= before


ON_BOTH = """
import numpy as np
import tinytpu.boot
from tinygrad import Tensor, TinyJit
from tinytpu.backend.runtime.stats import stats
rng = np.random.default_rng(0)
w = [Tensor(rng.standard_normal((20, 20)).astype(np.float32)).realize() for _ in range(3)]
@TinyJit
def f(x):
  y = (x @ w[0]).relu().contiguous().realize()
  w[2].assign(w[2] + y).realize()
  return (y @ w[1] + w[2]).realize()
for _ in range(4):
  f(Tensor(rng.standard_normal((20, 20)).astype(np.float32)).realize()).numpy()
many = [(Tensor(rng.standard_normal((90, 100)).astype(np.float32)) * 2).realize() for _ in range(9)]
(many[0] + many[-1]).numpy()
print(stats.launches, stats.counters["dma_lines"])
"""


def test_on_both_engines(script):
  """Fills, spills and graphs on the simulator and the hardware, all memory compared after every launch."""
  launches, moved = map(int, script(ON_BOTH, DEV="BOTH+TINYTPU").split())
  assert launches >= 20 and moved > 1000


def part(t: Tensor, low: int, high: int) -> Tensor:
  """A view that kernels take as a buffer of its own."""
  return t[low:high].contiguous().realize()


@pytest.mark.parametrize("shift", [1, 4, 128, 248])
def test_an_output_that_overlaps_what_it_is_computed_from(shift):
  a = np.arange(1024, dtype=np.float32)
  t, want = Tensor(a).realize(), a.copy()
  changed = part(t, 4, 256)
  changed.assign(changed + 1000).realize()  # in VMEM alone
  want[4:256] += 1000
  out, source = part(t, 0, 256), part(t, shift, 256 + shift)
  out.assign(source * 2).realize()
  want[:256] = want[shift:256 + shift] * 2
  np.testing.assert_array_equal(t.numpy(), want)


def test_neighbours_of_an_output_are_in_vmem_alone():
  a = (np.arange(512) % 200).astype(np.uint8)
  t, want = Tensor(a).realize(), a.copy()
  changed = part(t, 0, 260)
  changed.assign(changed + 1).realize()
  want[:260] += 1
  out, source = part(t, 2, 257), part(t, 257, 512)
  out.assign(source * 3).realize()
  want[2:257] = want[257:512] * 3
  np.testing.assert_array_equal(t.numpy(), want)


def test_a_launch_that_is_refused_brings_nothing_in(floats, monkeypatch):
  """What a kernel was to copy to VMEM is not taken to be there if it never ran."""
  from tinytpu.backend.device import TinyTPUProgram
  a = floats(33, 17)
  x = Tensor(a).realize()

  def refused(*_):
    raise RuntimeError("refused")
  with monkeypatch.context() as patch:
    patch.setattr(TinyTPUProgram, "arguments", refused)
    with pytest.raises(RuntimeError, match="refused"):
      (x.sum(0) * 2).realize()
  np.testing.assert_allclose((x.sum(0) * 2).numpy(), a.astype(np.float64).sum(0) * 2, rtol=1e-4, atol=1e-4)
