"""Traces of tinygrad's kernels: the same on both engines, event by event, and every cycle with its cause."""
from __future__ import annotations

import json

ON_BOTH = """
import json
import numpy as np
import tinytpu.boot
from tinygrad import Device, Tensor
from bench.suite import SUITE, cycles
from tinytpu.backend.runtime.stats import stats
from tinytpu.demo.worker import infer
from tinytpu.trace import Trace

trace = Device["TINYTPU"].trace = Trace()
rng = np.random.default_rng(0)

def tensor(*shape):
  return Tensor(rng.standard_normal(shape).astype(np.float32)).realize()

def attention():
  q, k, v = (tensor(1, 2, 16, 16) for _ in range(3))
  q.scaled_dot_product_attention(k, v).numpy()

programs = {kernel.name: lambda kernel=kernel: cycles(kernel) for kernel in SUITE} | {
  "demo": lambda: infer(20), "softmax": lambda: tensor(16, 50).softmax().numpy(), "attention": attention,
  "convolution": lambda: tensor(1, 4, 12, 12).conv2d(tensor(8, 4, 3, 3)).relu().numpy()}
found = {}
for name, program in programs.items():
  trace.clear()
  program()
  assert all(sum(launch.causes.values()) == launch.cycles for launch in trace.launches)
  found[name] = {"cycles": sum(launch.cycles for launch in trace.launches), "launches": len(trace.launches),
                 "groups": sum(launch.causes["issue"] for launch in trace.launches),
                 "events": sum(len(launch.events) for launch in trace.launches), "dropped": trace.dropped}
print(json.dumps(found))
"""


def test_on_both_engines(script):
  """The eleven kernels, the demo, a softmax, an attention layer, a convolution: a trace that differs ends the script."""
  found = json.loads(script(ON_BOTH, DEV="BOTH+TINYTPU").splitlines()[-1])
  assert len(found) == 15
  for name, program in found.items():
    assert program["launches"] > 0 and program["events"] == program["groups"] > 0 and program["dropped"] == 0, name
  assert found["attention"]["launches"] > 1 and found["demo"]["cycles"] > 1000
