"""Kernels shaped otherwise than by our optimiser: explicit opts, several waves per group, barriers, BEAM."""
from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor
from tinygrad.codegen.opt import Opt, OptOps

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


@pytest.mark.parametrize("opts", MATMULS, ids=str)
def test_matmul_with_opts(opts, floats):
  a, b = floats(48, 32), floats(32, 24)
  got = (Tensor(a) @ Tensor(b)).contiguous(arg=tuple(opts)).numpy()
  np.testing.assert_allclose(got, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("group", [4, 16, 32])
def test_grouped_reduction(group, floats):
  a = floats(6, 64)
  got = Tensor(a).exp().sum(1).contiguous(arg=(Opt(OptOps.GROUP, 0, group),)).numpy()
  np.testing.assert_allclose(got, np.exp(a.astype(np.float64)).sum(1), rtol=1e-5)


def test_beam(script):
  out = script("import tinytpu.boot, numpy as np\nfrom tinygrad import Tensor\n"
               "a, b = np.ones((9, 8), np.float32), np.ones((8, 6), np.float32)\n"
               "print((Tensor(a) @ Tensor(b)).numpy().sum())", BEAM="1", PARALLEL="0")
  assert out.split()[-1] == str(float(9 * 8 * 6))
