"""Buffers in VMEM: with everything staged that fits, and as the backend chooses. Answers against numpy."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tinygrad import Device, Tensor, Variable
from tinygrad.codegen import to_program_cache

from tinytpu.backend.runtime.stats import stats
from tinytpu.backend.runtime.vmem_cache import Residency
from tinytpu.backend.scratch import double_buffer, staging

DTYPES = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.float32, np.float16, np.bool_]
QUIET = settings(max_examples=40, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.function_scoped_fixture])


def everything(program, candidates, config, room):
  """Stage all that fits."""
  return staging.Choice([c for c in candidates if c.fits], None, 1)


def in_slabs(program, candidates, config, room):
  """Let all come in slabs that can, the rest as a whole."""
  whole = [c for c in candidates if c.stream is None]
  streams = [c.stream for c in candidates if c.stream is not None]
  room -= sum(c.room + config.line_bytes for c in whole)
  found = double_buffer.choose_cut(double_buffer.outermost(program.items), streams, config, 20, room) if streams else None
  if found is None:
    return everything(program, candidates, config, room)
  CUT.append(found)
  return staging.Choice(whole, found, 1)


CUT: list[double_buffer.Cut] = []
"""Plans of `in_slabs`."""


@pytest.fixture(params=["all", "slabs", "chosen"])
def mode(request, monkeypatch):
  """Stage all parameters that fit; or let them come in slabs where they can; or do as the backend chooses."""
  if request.param != "chosen":
    monkeypatch.setattr(staging, "choose", everything if request.param == "all" else in_slabs)
    monkeypatch.setattr(Residency, "_direct_pays", lambda *_: False)
  to_program_cache.clear()  # its key knows nothing of the above
  CUT.clear()
  yield request.param
  to_program_cache.clear()


def numbers(seed: int, dtype: type, *shape: int) -> np.ndarray:
  rng = np.random.default_rng(seed)
  return (rng.standard_normal(shape) * 40).clip(0 if np.issubdtype(dtype, np.unsignedinteger) else None).astype(dtype)


def lines() -> int:
  return stats.counters["dma_lines"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 16, 63, 257, 1000])
def test_sizes_and_dtypes(mode, dtype, n):
  a, b = numbers(n, dtype, n), numbers(n + 1, dtype, n)
  np.testing.assert_array_equal(Tensor(a).maximum(Tensor(b)).numpy(), np.maximum(a, b))
  if mode == "all" and n * a.itemsize >= 4:
    assert lines() > 0


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float16, np.int32])
@QUIET
@given(total=st.integers(8, 90), data=st.data())
def test_views_leave_their_neighbours_alone(mode, dtype, total, data):
  """A view that starts and ends anywhere in a word is written in place."""
  lo = data.draw(st.integers(0, total - 4))
  hi = data.draw(st.integers(lo + 1, total))
  a = numbers(total, dtype, total)
  t = Tensor(a).realize()
  view = t[lo:hi]
  view.assign(view + view).realize()
  a[lo:hi] += a[lo:hi]
  np.testing.assert_array_equal(t.numpy(), a)


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
@pytest.mark.parametrize("size", [4, 5, 6, 7, 8, 9, 37, 64, 130])
@pytest.mark.parametrize("offset", [0, 1, 2, 3, 5])
def test_buffers_that_start_within_a_word(mode, dtype, size, offset):
  """Input and output at any byte offset, as sub-buffers; bytes beside them stay."""
  item = np.dtype(dtype).itemsize
  source, target = numbers(1, dtype, size + 16), numbers(2, dtype, size + 16)
  device = Device["TINYTPU"]
  held = [device.allocator.alloc(x.nbytes) for x in (source, target)]
  for buffer, x in zip(held, (source, target), strict=True):
    device.allocator._copyin(buffer, memoryview(x.view(np.uint8)))
  program, size_of_grid = launched(lambda: (Tensor(source[:size].copy()).realize() * 3 + 1).contiguous().realize())
  program(*(device.allocator._offset(buffer, size * item, offset * item) for buffer in reversed(held)), **size_of_grid)
  want = target.copy()
  want[offset:offset + size] = source[offset:offset + size] * dtype(3) + dtype(1)
  np.testing.assert_array_equal(contents(held[1], want.nbytes).view(dtype), want)
  for buffer, x in zip(held, (source, target), strict=True):
    device.allocator.free(buffer, x.nbytes)


def contents(buffer, size: int) -> np.ndarray:
  got = np.empty(size, np.uint8)
  Device["TINYTPU"].allocator._copyout(memoryview(got), buffer)
  return got


def launched(run):
  """The program that `run` launches last, and the keywords of that launch."""
  from tinytpu.backend import device
  seen = []
  call = device.TinyTPUProgram.__call__

  def spy(self, *bufs, **kw):
    seen.append((self, kw))
    return call(self, *bufs, **kw)
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(device.TinyTPUProgram, "__call__", spy)
    run()
  return seen[-1]


def test_reuse(mode):
  """What is read many times: products, convolutions, stencils, gathers, sums."""
  a, b, k = (numbers(s, np.float32, *shape) for s, shape in enumerate([(19, 33), (33, 21), (4, 2, 3, 3)]))
  np.testing.assert_allclose((Tensor(a) @ Tensor(b)).numpy(), a.astype(np.float64) @ b, rtol=1e-4, atol=1e-1)
  x = numbers(9, np.float32, 1, 2, 11, 13)
  want = np.zeros((1, 4, 9, 11))
  for dy in range(3):
    for dx in range(3):
      want += np.einsum("bchw,oc->bohw", x[:, :, dy:dy + 9, dx:dx + 11].astype(np.float64), k[:, :, dy, dx])
  np.testing.assert_allclose(Tensor(x).conv2d(Tensor(k)).numpy(), want, rtol=1e-4, atol=1e-1)
  at = np.random.default_rng(3).integers(0, 33, (7, 50)).astype(np.int32)
  np.testing.assert_array_equal(Tensor(b)[Tensor(at)].numpy(), b[at])
  ints = numbers(4, np.int32, 45, 37)
  np.testing.assert_array_equal(Tensor(ints).cumsum(1).numpy(), ints.cumsum(1))
  np.testing.assert_array_equal(Tensor(ints).sum(0).numpy(), ints.sum(0))
  np.testing.assert_array_equal(Tensor(ints).max(1).numpy(), ints.max(1))
  np.testing.assert_array_equal(Tensor(ints).T.contiguous().numpy(), ints.T)
  assert lines() > 0


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32])
@pytest.mark.parametrize("n", [48, 1000, 3001, 20000])
def test_streams(mode, dtype, n):
  """Long elementwise kernels, whose buffers come in slabs; the last one is shorter."""
  a, b = numbers(n, dtype, n), numbers(n + 1, dtype, n)
  np.testing.assert_array_equal((Tensor(a) + Tensor(b)).numpy(), a + b)
  np.testing.assert_array_equal(Tensor(a)[::-1].contiguous().numpy(), a[::-1])
  np.testing.assert_array_equal((Tensor(a)[1:] - Tensor(b)[:-1]).numpy(), a[1:] - b[:-1])
  if mode == "slabs" and n == 20000:
    assert len(CUT[0].streams) == 2


def test_sums_in_slabs(mode):
  a = numbers(3, np.int32, 24, 1024)
  np.testing.assert_array_equal(Tensor(a).sum().numpy(), a.sum())
  np.testing.assert_array_equal(Tensor(a).sum(1).numpy(), a.sum(1))
  np.testing.assert_array_equal(Tensor(a).sum(0).numpy(), a.sum(0))
  x = numbers(4, np.float32, 1, 1, 60, 200)
  want = x[0, 0, :-2] + x[0, 0, 1:-1] + x[0, 0, 2:]
  np.testing.assert_allclose(Tensor(x).conv2d(Tensor.ones(1, 1, 3, 1)).numpy()[0, 0], want, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("shift", [-700, -16, 0, 16, 700])
def test_overlapping_buffers(mode, shift):
  """What is read through one buffer was there before the launch, whatever is written through another one that overlaps, as far as one
  work item's loads come before all stores to the same place."""
  n, item = 4096, 4
  base = numbers(6, np.float32, n + 1400)
  device = Device["TINYTPU"]
  held = device.allocator.alloc(base.nbytes)
  device.allocator._copyin(held, memoryview(base.view(np.uint8)))
  program, grid = launched(lambda: (Tensor(base[:n].copy()).realize() * 3).contiguous().realize())
  source, target = (device.allocator._offset(held, n * item, at * item) for at in (700, 700 + shift))
  program(target, source, **grid)
  got = contents(held, base.nbytes).view(np.float32)
  want = base.copy()
  if shift <= 0:  # else a store comes before a load, and the order of work items shows
    want[700 + shift:700 + shift + n] = base[700:700 + n] * np.float32(3)
    np.testing.assert_array_equal(got, want)
  outside = np.r_[0:700 + shift, 700 + shift + n:len(base)]
  np.testing.assert_array_equal(got[outside], base[outside])
  device.allocator.free(held, base.nbytes)


def test_in_place(mode):
  a = numbers(5, np.float32, 300)
  t = Tensor(a).contiguous().realize()
  t.assign(t * 2 + 1).realize()
  t[7:250:3].assign(t[7:250:3] - 5).realize()
  want = a * np.float32(2) + np.float32(1)
  want[7:250:3] -= 5
  np.testing.assert_array_equal(t.numpy(), want)
  u = Tensor(a).contiguous().realize()
  u[10:20] = u[15:25].contiguous()
  want = a.copy()
  want[10:20] = a[15:25]
  np.testing.assert_array_equal(u.numpy(), want)


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32])
def test_old_contents_stay_where_nothing_is_written(mode, dtype):
  """Outputs that are written in part: rows, columns, single elements."""
  a = numbers(6, dtype, 13, 11)
  for place in ((slice(2, 5), slice(None)), (slice(None), slice(3, 4)), (slice(0, 13, 2), slice(1, 11, 3)), (12, 10)):
    t, want = Tensor(a).contiguous().realize(), a.copy()
    t[place] = 7
    want[place] = 7
    np.testing.assert_array_equal(t.numpy(), want)


def test_symbolic_sizes(mode):
  """A grid smaller than the buffer."""
  a = numbers(8, np.float32, 40, 12)
  rows = Tensor(a).contiguous().realize()
  for n in (1, 3, 40):
    v = Variable("n", 1, 40).bind(n)
    np.testing.assert_allclose((rows[:v] * 2).sum(0).numpy(), (a[:n] * 2.0).sum(0), rtol=1e-4, atol=1e-2)
    np.testing.assert_array_equal((rows[:v] + 1)[n - 1].numpy(), a[n - 1] + 1)


def test_larger_than_vmem(mode):
  a = numbers(10, np.float32, 300, 300)
  np.testing.assert_array_equal((Tensor(a) + 1).numpy(), a + np.float32(1))
  np.testing.assert_array_equal(Tensor(a)[::2, 5:50].contiguous().numpy(), a[::2, 5:50])


def test_a_large_table_is_not_brought_in_for_one_row():
  table = numbers(11, np.float32, 500, 100)
  x, i = Tensor(table).realize(), Tensor([317]).realize()
  stats.reset()
  np.testing.assert_array_equal(x[i].numpy(), table[317:318])
  assert lines() + stats.counters["hbm_lines"] < 200


def test_what_pays_is_staged():
  """A table that is looked up lies in VMEM."""
  table, at = numbers(12, np.float32, 256), np.random.default_rng(1).integers(0, 256, 2048).astype(np.int32)
  x, i = Tensor(table).realize(), Tensor(at).realize()
  stats.reset()
  np.testing.assert_array_equal(x[i].numpy(), table[at])
  assert lines() >= table.nbytes // 64


ON_BOTH = """
import numpy as np
import tinytpu.boot
from tinygrad import Tensor
from tinytpu.backend.scratch import staging
from tinytpu.backend.runtime import stats
from tests.backend import test_staging
if MODE != "chosen":
  test_staging.Residency._direct_pays = lambda *_: False
  staging.choose = test_staging.everything if MODE == "all" else test_staging.in_slabs
rng = np.random.default_rng(0)
a, b = rng.standard_normal((24, 40)).astype(np.float32), rng.standard_normal((40, 24)).astype(np.float32)
np.testing.assert_allclose((Tensor(a) @ Tensor(b)).numpy(), a @ b, rtol=1e-4, atol=1e-4)
ints = rng.integers(-99, 99, (37, 43)).astype(np.int32)
np.testing.assert_array_equal(Tensor(ints).cumsum(1).numpy(), ints.cumsum(1))
narrow = rng.integers(-99, 99, 2049).astype(np.int8)
held = Tensor(narrow).contiguous().realize()
held[3:2000].assign(held[3:2000] * 2 + held[2:1999]).realize()
want = narrow.copy()
want[3:2000] = narrow[3:2000] * 2 + narrow[2:1999]
np.testing.assert_array_equal(held.numpy(), want)
at = rng.integers(0, 40, 600).astype(np.int32)
np.testing.assert_array_equal(Tensor(b)[Tensor(at)].numpy(), b[at])
long = rng.standard_normal((2, 6000)).astype(np.float32)
np.testing.assert_array_equal((Tensor(long[0]) + Tensor(long[1])).numpy(), long[0] + long[1])
print(stats.stats.launches, stats.stats.counters["dma_lines"])
"""


@pytest.mark.parametrize("how", ["all", "slabs", "chosen"])
def test_on_both_engines(script, how):
  """Memory, registers, counters and cycles are compared after every launch."""
  launches, moved = map(int, script(ON_BOTH.replace("MODE", repr(how)), DEV="BOTH+TINYTPU").split())
  assert launches >= 5 and moved > 100
