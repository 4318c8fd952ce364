"""tinygrad's own tests on the device: `python -m bench.upstream CHECKOUT [file ...]` prints a table, one row a file.

CHECKOUT is a checkout of tinygrad's repository at the commit that belongs to the pinned wheel (`COMMIT`); its tests run against
the *installed* tinygrad, in a folder where the checkout's own package is out of reach. Nothing of it is copied. Needed besides
the `test` extra: torch (the tests' reference), for the ONNX file onnx.
"""
from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from . import history
from .upstream_sample import SAMPLE

COMMIT = "a9069c177a"
COUNTS = ("passed", "failed", "skipped", "error", "xfailed", "xpassed")


@dataclass(frozen=True)
class Suite:
  """A file of tests. floor: passes that a plain 32-bit device reaches, the least we accept. env: what it needs to run anything;
  even: every second test only, in order of collection."""
  path: str
  floor: int
  env: dict[str, str] = field(default_factory=dict)
  even: bool = False

  @property
  def name(self) -> str:
    """File name without folder and ending."""
    return Path(self.path).stem


SUITES = (
  Suite("test/test_tiny.py", 19), Suite("test/backend/test_ops.py", 418), Suite("test/backend/test_uops.py", 34),
  Suite("test/backend/test_dtype_alu.py", 40), Suite("test/backend/test_dtype.py", 178),
  Suite("test/backend/test_transcendental.py", 10), Suite("test/backend/test_tensor.py", 69), Suite("test/backend/test_schedule.py", 52),
  Suite("test/backend/test_jit.py", 20), Suite("test/backend/test_randomness.py", 16),
  Suite("test/backend/test_symbolic_ops.py", 35), Suite("test/backend/test_symbolic_jit.py", 21),
  Suite("test/backend/test_linearizer.py", 16), Suite("test/backend/test_arange.py", 18),
  Suite("test/backend/test_optim.py", 38, {"RUN_SLOW": "1"}),
  Suite("test/external/external_test_onnx_backend.py", 676, even=True))


@dataclass
class Outcome:
  """Counts of a file, wall-clock seconds, simulated cycles, kernels computed by the host, names of failed tests."""
  counts: dict[str, int]
  seconds: float
  cycles: int
  fallbacks: int
  failed: list[str]


def run(checkout: Path, suite: Suite, device: str, select: str | None, jobs: int, sample: bool = False) -> Outcome:
  """Run one file, or the sample of `upstream_sample` from it; pytest's report goes to a log whose name is printed if anything failed."""
  with tempfile.TemporaryDirectory() as folder:
    for part in ("test", "extra", "examples", "conftest.py"):
      (Path(folder) / part).symlink_to(checkout.resolve() / part)
    sums = Path(folder) / "sums"
    sums.mkdir()
    tests = [f"{suite.path}::TestOps::test_{name}" for name in SAMPLE] if sample else [suite.path]
    command = [sys.executable, "-m", "pytest", *tests, "-q", "-rfE", "--tb=short", "-p", "no:cacheprovider"]
    command += ["-p", "bench.upstream_plugin"]
    command += ["-n", str(jobs)] if jobs > 1 else []
    command += ["-k", select] if select else []
    env = {**os.environ, "DEV": device, "TEST_TIMEOUT": "3000", "TINYTPU_SUMS": str(sums), "TINYTPU_EVEN": "1" if suite.even else "",
           "PYTHONPATH": os.pathsep.join((folder, str(Path(__file__).parents[1]))), **suite.env}
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    totals = [tuple(map(int, p.read_text().split())) for p in sums.iterdir()]
  last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr.strip()
  counts = {name: int(n) for n, name in re.findall(r"(\d+) (\w+?)s?\b", last) if name in COUNTS}
  failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
  if not counts:
    failed = [f"{suite.path} ran nothing: {last}"]
  if failed:
    log = Path(tempfile.gettempdir()) / f"upstream-{suite.name}.log"
    log.write_text(done.stdout + done.stderr)
    failed.append(f"(log: {log})")
  return Outcome(counts, seconds, sum(t[0] for t in totals), sum(t[1] for t in totals), failed)


def main() -> int:
  """Run the files asked for, print the table, append it to the history; 1 if anything failed or fell below its floor."""
  parser = argparse.ArgumentParser(prog="python -m bench.upstream", description=__doc__.split("\n")[0])
  parser.add_argument("checkout", type=Path, help=f"a checkout of tinygrad's repository at {COMMIT}")
  parser.add_argument("files", nargs="*", help=f"which: {', '.join(s.name for s in SUITES)} (default: all)")
  parser.add_argument("--device", help="DEV of the run, e.g. RTL+TINYTPU (default: TINYTPU)")
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
  console = Console()
  table = Table(title=f"tinygrad's tests on DEV={options.device}", title_justify="left")
  for column in ("file", "pass", "fail", "skip", "floor", "wall s", "simulated cycles"):
    table.add_column(column, justify="left" if column == "file" else "right")
  rows, bad = {}, False
  for suite in (s for s in SUITES if s.name in names):
    with console.status(suite.name):
      o = run(options.checkout, suite, options.device, options.select, options.jobs, options.sample)
    passed, failed = o.counts.get("passed", 0), o.counts.get("failed", 0) + o.counts.get("error", 0)
    bad |= bool(o.failed) or o.fallbacks > 0 or (passed < suite.floor and not options.select and not options.sample)
    table.add_row(suite.name, *map(str, (passed, failed, o.counts.get("skipped", 0), suite.floor)), f"{o.seconds:.0f}", f"{o.cycles:,}")
    rows[suite.name] = {**o.counts, "seconds": round(o.seconds), "cycles": o.cycles}
    console.print(f"{suite.name}: {o.counts}, {o.seconds:.0f} s", *o.failed, sep="\n  ", highlight=False)
  console.print(table)
  if not options.select and not options.sample:
    history.append("upstream", {"device": options.device, "files": rows})
  return int(bad)


if __name__ == "__main__":
  sys.exit(main())
