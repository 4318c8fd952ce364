"""tinygrad's own tests of another device, with and without this package: `python -m bench.upstream_other CHECKOUT [file ...]`.

Each file runs twice on DEV=PYTHON: in an interpreter that has never heard of the package (no `site`, so no .pth file), and in one in
which TINYTPU has compiled and run kernels before. Every test must end alike. CHECKOUT: as for `bench.upstream`.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from .upstream import SUITES, tests_of

DEVICE = "PYTHON"
FILES = ("test_tiny", "test_uops", "test_dtype_alu", "test_edgecases", "test_gradient")
RUN = "import sys; sys.path[:0] = {paths!r}; import pytest; sys.exit(pytest.main({arguments!r}, plugins=[__import__('upstream_outcomes')]))"


def outcomes(checkout: Path, path: str, used: bool) -> dict[str, str]:
  """How each test of a file ends, by name. used: with the package, after TINYTPU has been used.

  Raises:
    RuntimeError: pytest did not get to the tests; with what it printed last.
  """
  root = Path(__file__).parents[1]
  with tests_of(checkout) as folder:
    results = folder / "results"
    paths = [str(folder), str(root / "bench" / "plugins"), sysconfig.get_paths()["purelib"], *([str(root)] if used else [])]
    arguments = [path, "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    env = {**os.environ, "DEV": DEVICE, "CACHELEVEL": "0", "TEST_TIMEOUT": "3000", "OUTCOMES": str(results), "USE_FIRST": "TINYTPU" * used}
    env.pop("PYTHONPATH", None)
    done = subprocess.run([sys.executable, "-S", "-c", RUN.format(paths=paths, arguments=arguments)], cwd=folder, env=env,
                          capture_output=True, text=True, check=False)
    if not results.exists():
      raise RuntimeError(f"{path} ran nothing: {(done.stdout + done.stderr)[-2000:]}")
    return dict(json.loads(results.read_text()))


def main() -> int:
  """Compare the files asked for; 1 if any test ends otherwise with the package than without."""
  paths = {s.name: s.path for s in SUITES}
  parser = argparse.ArgumentParser(prog="python -m bench.upstream_other", description=__doc__.split("\n")[0])
  parser.add_argument("checkout", type=Path, help="a checkout of tinygrad's repository, as for bench.upstream")
  parser.add_argument("files", nargs="*", choices=[*paths, []], help=f"which (default: {', '.join(FILES)})")
  options = parser.parse_args()
  differences = 0
  for name in options.files or FILES:
    bare, after = (outcomes(options.checkout, paths[name], used) for used in (False, True))
    different = sorted(test for test in bare.keys() | after.keys() if bare.get(test) != after.get(test))
    differences += len(different)
    passed = sum(outcome == "passed" for outcome in bare.values())
    print(f"{name}: {len(bare)} tests, {passed} passed without the package, {len(different)} end otherwise with it", flush=True)
    for test in different:
      print(f"  {test}: {bare.get(test)} without, {after.get(test)} with")
  return int(differences > 0)


if __name__ == "__main__":
  sys.exit(main())
