"""onnx's own cases of operators (`onnx.backend.test`) on the device, each against the outputs that come with it:
`DEV=TINYTPU python -m bench.onnx_cases [OPERATOR ...]`.

Prints every case that does not pass with its reason, then sums. A case whose outputs differ is tried against onnxruntime too: where that
agrees with the device, the two references differ. 1 if a case is wrong by both, or ends in an error that is no refusal.
"""
from __future__ import annotations

import argparse
import re
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from tinytpu.onnx import OnnxError, RefusedError, load, run
from tinytpu.onnx.compare import compare
from tinytpu.onnx.execute import on_device, tensor
from tinytpu.onnx.rewrite import prepared
from tinytpu.onnx.runner import Runner


def array(value: Any) -> np.ndarray:
  """An input or output of a case, which may be in onnx's own form."""
  return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def outcome(case: Any, folder: Path) -> tuple[str, str]:
  """How a case ends ("passed", "differs from onnxruntime", "refused", "wrong"), and why."""
  path = folder / "case.onnx"
  onnx.save(case.model, path)
  try:
    model = load(path)
    for given, wanted in case.data_sets:
      inputs = dict(zip((value.name for value in case.model.graph.input), map(array, given), strict=True))
      values = Runner(prepared(model, inputs)[0])(on_device(inputs))
      found = [compare(value.name, tensor(values[value.name]).numpy(), array(expected))
               for value, expected in zip(model.outputs, wanted, strict=True)]
      if wrong := [comparison for comparison in found if not comparison.within]:
        reason = f"{wrong[0].wrong} ({wrong[0].relative:.1e})"
        return ("differs from onnxruntime" if _agrees(model, inputs) else "wrong"), reason
  except (OnnxError, RefusedError) as error:
    return "refused", str(error).removeprefix(f"{path}").strip(" :")
  except Exception as error:  # what no case should end in
    return "wrong", f"{type(error).__name__}: {error}"[:200]
  return "passed", ""


def _agrees(model: Any, inputs: dict[str, np.ndarray]) -> bool:
  try:
    return run(model, inputs).within
  except OnnxError:  # it has no such operator
    return False


def main() -> int:
  """Run the cases asked for."""
  from onnx.backend.test.case.node import collect_testcases
  parser = argparse.ArgumentParser(prog="python -m bench.onnx_cases", description=__doc__.split("\n")[0])
  parser.add_argument("operators", nargs="*", help="of which operators (default: all)")
  wanted = set(parser.parse_args().operators)
  warnings.simplefilter("ignore")
  cases = [case for case in collect_testcases(None) if not wanted or any(node.op_type in wanted for node in case.model.graph.node)]
  ends, reasons = Counter[str](), Counter[str]()
  with tempfile.TemporaryDirectory() as folder:
    for case in cases:
      end, why = outcome(case, Path(folder))
      ends[end] += 1
      if end != "passed":
        print(f"{case.name}: {end}: {why}", flush=True)
        reasons[f"{end}: {re.sub(r'operator [0-9]+, |.which gives [^)]*.|^[^ ]+ (?=is )', '', why)}"] += 1
  for reason, count in reasons.most_common():
    print(f"{count:5} {reason}")
  print(f"{len(cases)} cases: {', '.join(f'{count} {end}' for end, count in ends.most_common())}")
  return int(ends["wrong"] > 0)


if __name__ == "__main__":
  raise SystemExit(main())
