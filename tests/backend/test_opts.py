"""Kernels shaped otherwise than by our optimiser: explicit opts, several waves per group, barriers, BEAM."""
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tinygrad import Tensor, codegen
from tinygrad.codegen.opt import Opt, OptOps
from tinygrad.helpers import Context

from tinytpu.backend import hooks

MATMULS = [
  [],
  [Opt(OptOps.LOCAL, 0, 8), Opt(OptOps.LOCAL, 1, 8)],                          # four waves
  [Opt(OptOps.LOCAL, 0, 2), Opt(OptOps.LOCAL, 0, 3)],                          # part of a wave
  [Opt(OptOps.LOCAL, 0, 8), Opt(OptOps.LOCAL, 1, 3), Opt(OptOps.UPCAST, 0, 2)],  # one and a half waves
  [Opt(OptOps.GROUP, 0, 8), Opt(OptOps.LOCAL, 0, 4)],                          # barrier, two waves
  [Opt(OptOps.GROUPTOP, 0, 16), Opt(OptOps.LOCAL, 0, 8), Opt(OptOps.UPCAST, 1, 4)],  # barrier, eight waves
  [Opt(OptOps.UPCAST, 0, 8), Opt(OptOps.UPCAST, 1, 8), Opt(OptOps.UNROLL, 0, 4)],  # more values than registers
  [Opt(OptOps.TC, 0, (-1, 2, 1)), Opt(OptOps.LOCAL, 0, 2), Opt(OptOps.UPCAST, 0, 2)],  # matrix unit, two waves
  [Opt(OptOps.TC, 0, (-1, 2, 1)), Opt(OptOps.UPCAST, 0, 6), Opt(OptOps.UPCAST, 1, 3)],  # more accumulators than buckets
  [Opt(OptOps.TC, 0, (-1, 2, 1)), Opt(OptOps.UNROLL, 0, 2), Opt(OptOps.UPCAST, 0, 2)],
]


@pytest.fixture
def shaped(monkeypatch):
  """Compute something whose one kernel is shaped by the opts given, instead of by our optimiser."""
  def run(opts: Sequence[Opt], compute: Callable[[], Tensor]) -> np.ndarray:
    applied = []

    def optimize(k, config):
      k = k.copy()
      for opt in opts:
        k.apply_opt(opt)
      applied.append(k.applied_opts)
      return k
    monkeypatch.setattr(hooks, "optimize", optimize)
    codegen.to_program_cache.clear()
    with Context(PARALLEL=0):  # in this process, where the patch is
      result = compute().numpy()
    codegen.to_program_cache.clear()
    assert applied == [list(opts)]
    return result
  return run


@pytest.mark.parametrize("opts", MATMULS, ids=str)
def test_matmul_with_opts(opts, floats, shaped):
  a, b = floats(48, 32), floats(32, 24)
  x, y = Tensor(a).realize(), Tensor(b).realize()
  np.testing.assert_allclose(shaped(opts, lambda: x @ y), a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("group", [4, 16, 32])
def test_grouped_reduction(group, floats, shaped):
  a = floats(6, 64)
  x = Tensor(a).realize()
  got = shaped([Opt(OptOps.GROUP, 0, group)], lambda: x.exp().sum(1))
  np.testing.assert_allclose(got, np.exp(a.astype(np.float64)).sum(1), rtol=1e-5)


@pytest.mark.parametrize("local", [3, 8, 12, 24])
def test_index_from_memory_alike_in_all_waves(local, shaped):
  """One gather serves every wave, also when the last wave is not full."""
  x, at = np.arange(10, 20, dtype=np.float32), np.array([3, 1, 4, 2, 5], np.int32)
  a, i, ones = Tensor(x).realize(), Tensor(at).realize(), Tensor(np.ones((5, 24), np.float32)).realize()
  got = shaped([Opt(OptOps.LOCAL, 0, local)], lambda: (a[i.reshape(5, 1).expand(5, 24)] * ones).sum(0))
  np.testing.assert_array_equal(got, np.full(24, x[at].sum()))


def test_beam(script):
  out = script("import tinytpu.boot, numpy as np\nfrom tinygrad import Tensor\n"
               "a, b = np.ones((9, 8), np.float32), np.ones((8, 6), np.float32)\n"
               "print((Tensor(a) @ Tensor(b)).numpy().sum())", BEAM="1", PARALLEL="0")
  assert out.split()[-1] == str(float(9 * 8 * 6))


def test_beam_is_never_slower_than_the_optimiser(script):
  """In simulated cycles, on shapes that need padding to fill lanes or to reach the matrix unit."""
  code = ("import tinytpu.boot, numpy as np\nfrom tinygrad import Tensor\nfrom tinytpu.backend.runtime.stats import stats\n"
          "a, b = Tensor(np.ones((13, 10), np.float32)).realize(), Tensor(np.ones((10, 14), np.float32)).realize()\n"
          "for f in (lambda: a @ b, lambda: a * 3 + 1, lambda: a.sum(0)):\n"
          "  f().realize()\n  stats.reset()\n  f().realize()\n  print(stats.cycles, stats.launches)")
  ours, searched = ([tuple(map(int, line.split())) for line in script(code, BEAM=beam, PARALLEL="0").strip().splitlines()[-3:]]
                    for beam in ("0", "1"))
  assert [launches for _, launches in ours] == [launches for _, launches in searched] == [1, 1, 1]
  assert all(found <= mine for (found, _), (mine, _) in zip(searched, ours, strict=True)), (searched, ours)
