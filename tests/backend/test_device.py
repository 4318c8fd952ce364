"""The device as a user meets it: by name, with clear errors, simulated time, and nothing left behind."""
from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from tinygrad import Device, Tensor, dtypes
from tinygrad.helpers import Context, Target

from tinytpu.backend.errors import UnsupportedError
from tinytpu.backend.renderer import TinyTPURenderer
from tinytpu.backend.runtime.stats import stats


def test_unsupported_dtype_is_named():
  with pytest.raises(UnsupportedError, match=r"double.*in kernel E_"):
    (Tensor(np.ones(4)) * 2).numpy()


def test_kernels_report_simulated_time(floats):
  (Tensor(floats(64)) + 1).realize()
  assert stats.launches == 1 and stats.runs[0].kernel.startswith("E_")
  assert stats.runs[0].cycles == stats.cycles > 30
  assert stats.counters["groups"] > 0 and stats.counters["hbm_lines"] + stats.counters["dma_lines"] >= 4


def test_a_fault_names_kernel_and_cause(floats):
  device = Device["TINYTPU"]
  from tinygrad.device import TinyELF

  from tinytpu.asm import assemble
  program = device.runtime(TinyELF(assemble(".kernel oops\ntrap 7").to_bytes(), "oops", Target("TINYTPU"), ()))
  with pytest.raises(RuntimeError, match="kernel oops on TINYTPU stopped: TRAP"):
    program()
  hang = device.runtime(TinyELF(assemble(".kernel hang\nagain: jmp again").to_bytes(), "hang", Target("TINYTPU"), ()))
  with pytest.raises(RuntimeError, match="hang on TINYTPU stopped: WATCHDOG"):
    hang(timeout=1)
  np.testing.assert_array_equal((Tensor(np.arange(5, dtype=np.int32)) + 1).numpy(), np.arange(5) + 1)  # the device goes on


def test_code_memory_is_reused_safely():
  from tinygrad.device import TinyELF

  from tinytpu.asm import assemble
  device = Device["TINYTPU"]
  out = device.allocator.alloc(64)
  for value in range(40):
    text = f".kernel k\n.arg 0 buf 0\nvmov v1, {value}\nhst.w v1, [s32 + s0]\nhalt"
    program = device.runtime(TinyELF(assemble(text).to_bytes(), "k", Target("TINYTPU"), ((None, 0, dtypes.int, (16,)),)))
    program(out)
    assert device.engine.hbm[out.address] == value
    del program
  device.allocator.free(out, 64)


def test_memory_comes_back(floats):
  device = Device["TINYTPU"]
  def use() -> None:
    t = (Tensor(floats(100, 100)) @ Tensor(floats(100, 100))).realize()
    assert t.shape == (100, 100)
  use()
  before = sum(b - a for a, b in device.heap.free_ranges)
  for _ in range(3):
    use()
  assert sum(b - a for a, b in device.heap.free_ranges) == before


def test_renderer_survives_pickling():
  renderer = pickle.loads(pickle.dumps(TinyTPURenderer(Target("TINYTPU", arch="4x4"))))
  assert renderer.config.name == "4x4" and renderer.tensor_cores


def test_unknown_preset_lists_those_that_exist():
  from tinytpu.config import ConfigError
  with pytest.raises(ConfigError, match="presets: 4x4"):
    TinyTPURenderer(Target("TINYTPU", arch="5x5"))


def test_device_is_found_without_import_cost(script):
  out = script("import sys, tinytpu.boot\n"
               "assert not any(m.startswith(('tinygrad', 'numpy', 'numba')) for m in sys.modules), sorted(sys.modules)\nprint('ok')")
  assert out.strip() == "ok"


def test_preset_by_name_and_debug_output(script):
  out = script("import tinytpu.boot\nfrom tinygrad import Tensor\nprint((Tensor([1, 2, 3]) * 2).tolist())", DEV="TINYTPU::4x4", DEBUG="2")
  assert "[2, 4, 6]" in out and "*** TINYTPU" in out
  assert re.search(r"^    \d+ cycles; busy: MXU 0\.0%, VPU [1-9]\d?\.\d%, VMEM [\d.]+%, HBM [\d.]+%$", out, re.M)


def test_compile_workers(script):
  out = script("import tinytpu.boot\nfrom tinygrad import Tensor\nprint(Tensor.rand(3, 3).softmax().sum().item())", PARALLEL="2")
  assert abs(float(out) - 3) < 1e-4


def test_named_device_beside_another_default(floats):
  a = floats(20)
  with Context(DEV="PYTHON"):
    np.testing.assert_array_equal((Tensor(a, device="TINYTPU") * 3).numpy(), a * np.float32(3))


def test_profile_in_simulated_time(script):
  out = script("""
import tinytpu.boot, os
from tinygrad import Tensor, TinyJit
from tinygrad.device import Compiled, ProfileDeviceEvent
from tinygrad.helpers import ProfileRangeEvent
from tinytpu.backend.runtime.stats import stats

@TinyJit
def f(x): return (x + 1).contiguous().sum().realize()
for _ in range(3): f(Tensor.ones(50).contiguous().realize())
events = [e for e in Compiled.profile_events if getattr(e, "device", "") == "TINYTPU"]
assert isinstance(events[0], ProfileDeviceEvent) and all(isinstance(e, ProfileRangeEvent) for e in events[1:])
assert [e.name for e in events[1:]] == [run.kernel for run in stats.runs] and len(events) > 7
at = 0
for event, run in zip(events[1:], stats.runs):
  assert event.st * 1000 == at and event.en * 1000 == at + run.cycles  # 1 GHz: a thousand cycles in a microsecond
  at += run.cycles
lanes = {e.device for e in Compiled.profile_events} - {"TINYTPU"}
assert {"TINYTPU VPU", "TINYTPU VMEM"} <= lanes and "TINYTPU MXU" not in lanes
first = next(e for e in Compiled.profile_events if e.device == "TINYTPU VPU" and isinstance(e, ProfileRangeEvent))
assert first.st == 0 < first.en < events[1].en and first.name.startswith(stats.runs[0].kernel)
from tinygrad.viz.serve import VizData, get_profile
shown = get_profile(VizData(), Compiled.profile_events)
assert all(lane.encode() in shown for lane in ("TINYTPU", "TINYTPU VPU", "TINYTPU VMEM"))
print("ok", flush=True)
os._exit(0)  # tinygrad's viewer would be started at exit
""", PROFILE="1")
  assert out.strip() == "ok"


def test_a_buffer_that_starts_within_an_element_is_named():
  x = Tensor(bytes(range(256))).realize()
  part = x[2:130]
  assert (part.contiguous().bitcast(dtypes.float32) + 1).tolist() == (part.bitcast(dtypes.float32) + 1).tolist()
  view = part.bitcast(dtypes.float32).contiguous().realize()  # tinygrad makes it a view of x's buffer
  with pytest.raises(RuntimeError, match=r"stopped: .*_ALIGN.*; buffer 1 at byte 0x[0-9a-f]*2: elements .*x\.contiguous\(\)\.bitcast"):
    (view + 1).realize()
