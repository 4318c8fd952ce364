"""One rung: its model run on tinygrad's default device, and what came of it. As a program it prints that, as JSON."""
from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx

from tinytpu.onnx import Result, load
from tinytpu.onnx import run as run_model

from .rungs import RUNGS, Arrays, Rung, WrongAnswer


@dataclass(frozen=True)
class Record:
  """What a rung gave. engine: "iss", "rtl" or "both". answer: what the model says of its inputs; right: whether it is so. runs: of the
  model. error: the largest relative one of all outputs of all runs, within its budget if `within`. cycles, launches, kernels: of the first
  run; matrix: share of its cycles in which the matrix unit worked. compilation, simulation: seconds, of all runs. fallbacks: kernels that
  the host computed."""
  name: str
  engine: str
  answer: str
  right: bool
  runs: int
  error: float
  budget: float
  within: bool
  cycles: int
  launches: int
  kernels: int
  matrix: float
  compilation: float
  simulation: float
  fallbacks: int

  @property
  def good(self) -> bool:
    """Whether the answer is right, and computed as it should be."""
    return self.right and self.within and not self.fallbacks


def climb(name: str, rung: Rung) -> Record:
  """Run a rung, with a name for its record.

  Raises:
    FileNotFoundError: the model's files are not installed. Errors of `tinytpu.onnx.run`.
  """
  results: list[Result] = []

  def run(model: onnx.ModelProto | Path, arrays: Arrays) -> Arrays:
    with tempfile.TemporaryDirectory() as folder:
      if isinstance(model, onnx.ModelProto):
        onnx.save(model, path := Path(folder) / f"{name}.onnx")
      else:
        path = model
      results.append(run_model(load(path), arrays))
    return results[-1].outputs

  try:
    answer, right = rung.answer(run), True
  except WrongAnswer as wrong:
    answer, right = str(wrong), False
  first, worst = results[0], max((c for result in results for c in result.comparisons), key=lambda c: (not c.within, c.relative))
  return Record(name, first.kind, answer, right, len(results), worst.relative, worst.budget, worst.within, first.cycles,
                sum(first.kernels.values()), len(first.kernels), first.matrix_share, sum(r.compilation for r in results),
                sum(r.simulation for r in results), sum(r.fallbacks for r in results))


if __name__ == "__main__":
  print(json.dumps(asdict(climb(sys.argv[1], RUNGS[sys.argv[1]]))))
