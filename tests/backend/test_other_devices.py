"""Other devices compute what they compute in an interpreter that has never heard of this package, after TINYTPU has been used too."""
from __future__ import annotations

import os
import subprocess
import sys
import sysconfig

from tests.backend.conftest import DEVICE

SCRIPT = """
import hashlib, sys
sys.path[:0] = {paths!r}
used = {used!r}
import numpy as np
from tinygrad import Tensor, TinyJit, dtypes
from tinygrad.helpers import Context, GlobalCounters
if used:
  import tinytpu.boot
  (Tensor([1.0, float("nan")], device=used).max() + 1).realize()
  Tensor([1, 2, 3], dtype=dtypes.int32, device=used).cast(dtypes.float32).pad((1, 1), value=0.5).sum().item()
rng = np.random.default_rng(5)
a, b = rng.standard_normal((5, 6)).astype(np.float32), rng.integers(-9, 9, (5, 6)).astype(np.int32)
a[0, 0], a[1, 2] = float("nan"), -0.0
def tensors():
  x, n = Tensor(a, device="PYTHON").realize(), Tensor(b, device="PYTHON").realize()
  yield n.cast(dtypes.float32).pad((1, 1), value=0.5)
  yield x.max(1)
  yield x.relu() + x.maximum(0.5) + x.abs()
  yield x[1:].softmax(-1)
  yield x.matmul(x.T)
  yield n // 7 + n % 3
  yield (n.cast(dtypes.int64) * 1000003) // -7
  yield x.flip(0).cast(dtypes.float16)
  yield x[n[:, 0].abs() % 5]
  yield Tensor.arange(40).reshape(8, 5).sum(0)
with Context(DEV="PYTHON", PARALLEL=0):
  for i, t in enumerate(tensors()):
    data = t.numpy()
    print(i, data.dtype, data.shape, hashlib.sha256(data.tobytes()).hexdigest()[:16], GlobalCounters.kernel_count)
"""


def run(used: str) -> list[str]:
  """What the script prints, without `site` and so without the package's .pth file. used: the device that is used before."""
  root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
  paths = [sysconfig.get_paths()["purelib"], *([root] if used else [])]
  env = {**os.environ, "CACHELEVEL": "0", "DEV": "PYTHON"}
  env.pop("PYTHONPATH", None)
  command = [sys.executable, "-S", "-c", SCRIPT.format(paths=paths, used=used)]
  done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
  assert done.returncode == 0, done.stderr[-3000:]
  return done.stdout.splitlines()


def test_results_on_another_device_are_those_of_a_bare_interpreter():
  bare, after = run(""), run(DEVICE)
  assert len(bare) == 10
  # Kernels are counted in the process: those of TINYTPU before come on top.
  assert [line.rsplit(" ", 1)[0] for line in after] == [line.rsplit(" ", 1)[0] for line in bare]
  counts = [[int(line.rsplit(" ", 1)[1]) for line in lines] for lines in (bare, after)]
  assert len({after - bare for bare, after in zip(*counts, strict=True)}) == 1
