"""What the bench says of kernels' lanes, on kernels whose lanes can be counted by hand."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tinygrad import Tensor
from tinygrad.codegen import to_program
from tinygrad.codegen.opt import Opt, OptOps
from tinygrad.device import Device
from tinygrad.uop.ops import Ops

from bench.kernels import lane_use
from tinytpu.backend.lower.uniformity import Lanes
from tinytpu.config import preset


def compiled(tensor: Tensor, opts: list[Opt] | None) -> tuple[int, float]:
  """The lane use of the last kernel of a tensor, compiled with these opts (None: our optimiser's own)."""
  sink = [u for u in tensor.schedule_linear().src if u.src[0].op is Ops.SINK][-1].src[0]
  if opts is not None:
    sink = sink.replace(arg=replace(sink.arg, opts_to_apply=tuple(opts)))
  uops = list(to_program(sink, Device["TINYTPU"].renderer).src[1].src)
  sizes = {int(u.arg[-1]): int(u.vmax) + 1 for u in uops if u.op is Ops.SPECIAL and u.arg[0] == "l"}
  return lane_use(Lanes(preset("4x4"), [sizes[i] for i in range(len(sizes))]), uops)


@pytest.mark.parametrize("opts, stored, share", [
  ([], 60, 1 / 16), ([Opt(OptOps.LOCAL, 0, 10)], 60, 10 / 16), ([Opt(OptOps.LOCAL, 0, 20)], 60, 20 / 32), (None, 60, 60 / 64),
  ([Opt(OptOps.PADTO, 0, 16), Opt(OptOps.LOCAL, 0, 16)], 60, 60 / 64)])
def test_lanes_of_an_addition(opts, stored, share):
  x = Tensor(np.arange(60, dtype=np.float32)).realize()
  assert compiled(x + 1, opts) == (stored, pytest.approx(share))


def test_lanes_of_a_reduction_across_them():
  x = Tensor(np.arange(64 * 64, dtype=np.int32).reshape(64, 64)).realize()
  assert compiled(x.max(1), None) == (64, 1.0)


def test_lanes_of_rows_of_two_axes():
  """24 columns are a wave and a half; 8 of them in 2 rows fill one."""
  x = Tensor(np.arange(22 * 22, dtype=np.float32).reshape(22, 22)).realize()
  assert compiled(x.pad(((1, 1), (1, 1))) + 1, None) == (576, 1.0)
