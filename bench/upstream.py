"""tinygrad's own tests on the device: `python -m bench.upstream CHECKOUT [file ...]` prints a table, one row a file.

CHECKOUT is a checkout of tinygrad's repository at the commit that belongs to the pinned wheel (`COMMIT`); its tests run against
the *installed* tinygrad, in a folder where the checkout's own package is out of reach. Nothing of it is copied. Needed besides
the `test` extra: the versions of torch (the tests' reference; newer ones differ in the gradient of a clip) and of onnx that the
checkout's pyproject.toml names, for the ONNX file also tabulate, pillow and onnxruntime; and a clang of version 15 or later for the
few tests that name the CPU.

Besides passes and failures each row tells how full the lanes of the kernels were (`kernels.lane_use`, the mean of those that store
enough), and how long our part of compiling the median kernel takes beside tinygrad's.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from . import history
from .upstream_sample import SAMPLE

COMMIT = "a9069c177a"
OUTPUTS = 64
"""Elements that a kernel must store for its lanes to count."""
COUNTS = ("passed", "failed", "skipped", "error", "xfailed", "xpassed")


@dataclass(frozen=True)
class Suite:
  """A file of tests. floor: passes that a plain 32-bit device reaches, the least we accept. env: what it needs to run anything. better:
  tests that tinygrad expects to fail and that count as failed since they pass here. everywhere: those that fail on CPU and PYTHON too.
  plugin: of pytest, one more that it is run with, and what is appended to its name."""
  path: str
  floor: int
  env: dict[str, str] = field(default_factory=dict)
  better: tuple[str, ...] = ()
  everywhere: tuple[str, ...] = ()
  plugin: str = ""

  @property
  def name(self) -> str:
    """File name without folder and ending."""
    return "_".join((Path(self.path).stem, *self.plugin.split("_")[1:]))


SUITES = (
  Suite("test/test_tiny.py", 19), Suite("test/backend/test_ops.py", 418), Suite("test/backend/test_uops.py", 34),
  Suite("test/backend/test_dtype_alu.py", 40), Suite("test/backend/test_dtype.py", 178),
  Suite("test/backend/test_transcendental.py", 10), Suite("test/backend/test_tensor.py", 69), Suite("test/backend/test_schedule.py", 52),
  Suite("test/backend/test_jit.py", 20), Suite("test/backend/test_randomness.py", 16),
  Suite("test/backend/test_symbolic_ops.py", 35), Suite("test/backend/test_symbolic_jit.py", 21),
  Suite("test/backend/test_linearizer.py", 16), Suite("test/backend/test_arange.py", 18),
  Suite("test/backend/test_optim.py", 38, {"RUN_SLOW": "1"}),
  Suite("test/external/external_test_onnx_backend.py", 1352),
  Suite("test/external/external_test_onnx_backend.py", 1400, plugin="bench.upstream_ours"),
  Suite("test/backend/test_setitem.py", 38), Suite("test/backend/test_custom_kernel.py", 60), Suite("test/backend/test_rangeify.py", 29),
  Suite("test/backend/test_edgecases.py", 14, better=("test_max_nan",)), Suite("test/backend/test_multitensor.py", 37),
  Suite("test/backend/test_nn.py", 39, {"RUN_SLOW": "1"}, everywhere=("test_embedding_one_kernel_fused_noopt",)),
  Suite("test/backend/test_tensor_variable.py", 30), Suite("test/backend/test_softmax_fusion.py", 7),
  Suite("test/backend/test_llama_kernels.py", 6),
  Suite("test/unit/test_assign.py", 99), Suite("test/unit/test_getitem_ops.py", 1), Suite("test/unit/test_linalg.py", 11),
  Suite("test/unit/test_gradient.py", 22), Suite("test/unit/test_indexing.py", 18), Suite("test/unit/test_conv.py", 13))


@dataclass
class Outcome:
  """Counts of a file, wall-clock seconds, simulated cycles, kernels computed by the host, names of failed tests, skips
  by reason; of every kernel elements stored and share of lanes at work, and seconds of our and of tinygrad's part of its compilation."""
  counts: dict[str, int]
  seconds: float
  cycles: int
  fallbacks: int
  failed: list[str]
  skipped: Counter[str]
  lanes: list[tuple[int, float]]
  compiling: list[tuple[float, float]]


def fill(lanes: list[tuple[int, float]]) -> float | None:
  """The mean share of lanes at work of the kernels with enough outputs; None if there is none."""
  shares = [share for outputs, share in lanes if outputs >= OUTPUTS]
  return statistics.fmean(shares) if shares else None


def medians(compiling: list[tuple[float, float]]) -> tuple[float, float]:
  """Milliseconds of our and of tinygrad's part in compiling the median kernel."""
  own, theirs = zip(*(compiling or [(0.0, 0.0)]), strict=True)
  return 1e3 * statistics.median(own), 1e3 * statistics.median(theirs)


@contextmanager
def tests_of(checkout: Path) -> Iterator[Path]:
  """A folder with the checkout's tests, in which its own package is out of reach."""
  with tempfile.TemporaryDirectory() as folder:
    for part in ("test", "extra", "examples", "conftest.py"):
      (Path(folder) / part).symlink_to(checkout.resolve() / part)
    yield Path(folder)


def run(checkout: Path, suite: Suite, device: str, select: str | None, jobs: int, sample: bool = False) -> Outcome:
  """Run one file, or the sample of `upstream_sample` from it; pytest's report goes to a log whose name is printed if anything failed."""
  with tests_of(checkout) as folder:
    sums = folder / "sums"
    sums.mkdir()
    tests = [f"{suite.path}::TestOps::test_{name}" for name in SAMPLE] if sample else [suite.path]
    command = [sys.executable, "-m", "pytest", *tests, "-q", "-rfEs", "--tb=short", "-p", "no:cacheprovider"]
    command += ["-p", "bench.upstream_plugin", *(["-p", suite.plugin] if suite.plugin else [])]
    command += ["-n", str(jobs)] if jobs > 1 else []
    command += ["-k", select] if select else []
    env = {**os.environ, "DEV": device, "TEST_TIMEOUT": "3000", "TINYTPU_SUMS": str(sums),
           "TINYTPU_CHECK": "1",  # every access must lie within a buffer that its kernel was given
           "PARALLEL": "0", "CACHELEVEL": "0",  # kernels are compiled in the processes that are watched, every one of them
           "PYTHONPATH": os.pathsep.join((str(folder), str(Path(__file__).parents[1]))), **suite.env}
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    records = [json.loads(p.read_text()) for p in sums.iterdir()]
  lines = [line for line in done.stdout.splitlines() if re.search(r"\d+ \w+.* in [\d.]+s", line)]  # others may follow
  last = lines[-1] if lines else done.stdout.strip() + done.stderr.strip()
  counts = {name: int(n) for n, name in re.findall(r"(\d+) (\w+?)s?\b", last) if name in COUNTS}
  failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
  for kind, expected in (("xpassed", suite.better), ("xfailed", suite.everywhere)):
    if known := [name for name in failed if name.split("::")[-1] in expected]:
      failed = [name for name in failed if name not in known]
      counts = {**counts, "failed": counts["failed"] - len(known), kind: counts.get(kind, 0) + len(known)}
  skipped = Counter[str]()
  for n, reason in re.findall(r"^SKIPPED \[(\d+)\] \S+?: (.*)", done.stdout, re.M):
    skipped[reason] += int(n)
  if not counts:
    failed = [f"{suite.path} ran nothing: {last}"]
  if failed:
    log = Path(tempfile.gettempdir()) / f"upstream-{suite.name}.log"
    log.write_text(done.stdout + done.stderr)
    failed.append(f"(log: {log})")
  return Outcome(counts, seconds, sum(r["cycles"] for r in records), sum(r["fallbacks"] for r in records), failed, skipped,
                 [tuple(x) for r in records for x in r["lanes"]], [tuple(x) for r in records for x in r["seconds"]])


def main() -> int:
  """Run the files asked for, print the table, append it to the history; 1 if anything failed or fell below its floor."""
  parser = argparse.ArgumentParser(prog="python -m bench.upstream", description=__doc__.split("\n")[0])
  parser.add_argument("checkout", type=Path, help=f"a checkout of tinygrad's repository at {COMMIT}")
  parser.add_argument("files", nargs="*", help=f"which: {', '.join(s.name for s in SUITES)} (default: all)")
  parser.add_argument("--device", help="DEV of the run, e.g. RTL+TINYTPU (default: TINYTPU)")
  parser.add_argument("--skips", action="store_true", help="say why tests were skipped")
  parser.add_argument("-k", dest="select", help="pytest's -k: only tests whose names match")
  parser.add_argument("-n", dest="jobs", type=int, default=2, help="processes (default: %(default)s)")
  parser.add_argument("--sample", action="store_true",
                      help=f"{len(SAMPLE)} cases of test_ops, on both engines unless --device says otherwise")
  options = parser.parse_args()
  if options.sample:
    options.files, options.device = ["test_ops"], options.device or "BOTH+TINYTPU"
  options.device = options.device or "TINYTPU"
  names = options.files or [s.name for s in SUITES]
  if unknown := [n for n in names if n not in {s.name for s in SUITES}]:
    parser.error(f"no file {unknown[0]!r}; there are: {', '.join(s.name for s in SUITES)}")
  if not (options.checkout / "test" / "test_tiny.py").exists():
    parser.error(f"{options.checkout} holds no tinygrad checkout (no test/test_tiny.py)")
  console = Console(width=None if sys.stdout.isatty() else 150)
  table = Table(title=Text(f"tinygrad's tests on DEV={options.device}"), title_justify="left")
  for column in ("file", "pass", "fail", "skip", "floor", "wall s", "simulated cycles", "kernels", "lanes", "own ms", "tinygrad ms"):
    table.add_column(column, justify="left" if column == "file" else "right")
  rows, bad, outcomes = {}, False, list[Outcome]()

  def add(name: str, counts: Sequence[object], o: Sequence[Outcome]) -> dict[str, float | None]:
    lanes, compiling = fill([x for p in o for x in p.lanes]), [x for p in o for x in p.compiling]
    own, theirs = medians(compiling)
    seconds, cycles = sum(p.seconds for p in o), sum(p.cycles for p in o)
    table.add_row(name, *map(str, counts), f"{seconds:.0f}", f"{cycles:,}", str(len(compiling)),
                  "" if lanes is None else f"{lanes:.0%}", f"{own:.1f}", f"{theirs:.1f}")
    return {"seconds": round(seconds), "cycles": cycles, "kernels": len(compiling), "lanes": lanes and round(lanes, 3),
            "own_ms": round(own, 2), "tinygrad_ms": round(theirs, 2)}

  for suite in (s for s in SUITES if s.name in names):
    with console.status(suite.name):
      o = run(options.checkout, suite, options.device, options.select, options.jobs, options.sample)
    passed, failed = o.counts.get("passed", 0), o.counts.get("failed", 0) + o.counts.get("error", 0)
    bad |= bool(o.failed) or o.fallbacks > 0 or (passed < suite.floor and not options.select and not options.sample)
    outcomes.append(o)
    rows[suite.name] = {**o.counts, **add(suite.name, (passed, failed, o.counts.get("skipped", 0), suite.floor), [o])}
    skips = [f"skipped {n}: {reason}" for reason, n in o.skipped.items()] if options.skips else []
    console.print(f"{suite.name}: {o.counts}, {o.seconds:.0f} s", *o.failed, *skips, sep="\n  ", highlight=False, markup=False, emoji=False)
  if len(outcomes) > 1:
    add("all", [sum(o.counts.get(n, 0) for o in outcomes) for n in ("passed", "failed", "skipped")] + [""], outcomes)
  console.print(table)
  if not options.select and not options.sample:
    history.append("upstream", {"device": options.device, "files": rows})
  return int(bad)


if __name__ == "__main__":
  sys.exit(main())
