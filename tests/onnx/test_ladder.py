"""Models that others have trained, the small ones of `make models`: right answers, within the budget."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench.ladder import page, weights
from bench.ladder.climb import Record, climb
from bench.ladder.rungs import RUNGS, WrongAnswer


@pytest.mark.parametrize("name", ["digits", "p_net", "r_net", "o_net", "silero"])
def test_rung(name: str) -> None:
  record = climb(name, RUNGS[name])
  assert record.good, record
  assert record.cycles > 10_000 and record.launches >= record.kernels > 1 and record.matrix > 0.1


HARDWARE = """
from dataclasses import replace
from bench.ladder.climb import climb
from bench.ladder.rungs import RUNGS, one_step
for name in ("digits", "p_net", "silero"):
  rung = RUNGS[name]
  record = climb(name, replace(rung, answer=one_step) if name == "silero" else rung)
  print(name, record.good, record.engine, record.cycles > 10_000)
"""


def test_on_the_hardware() -> None:
  """Each launch does the same on both engines, which are chosen once for a process."""
  environment = {**os.environ, "DEV": "BOTH+TINYTPU", "PYTHONPATH": str(Path(__file__).parents[2])}
  done = subprocess.run([sys.executable, "-c", HARDWARE], env=environment, capture_output=True, text=True, check=False)
  assert done.returncode == 0, done.stderr
  assert done.stdout == "digits True both True\np_net True both True\nsilero True both True\n"


def test_a_wrong_answer_and_numbers_outside_the_budget_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
  """The classifier, given other digits than those whose labels are known; and against a reference that is off."""
  from tinytpu.demo import digits
  from tinytpu.onnx import reference
  split, held_out = digits.load()
  monkeypatch.setattr(digits, "load", lambda: (split, digits.Split(held_out.images[::-1], held_out.labels)))
  record = climb("digits", RUNGS["digits"])
  assert not record.right and record.within and not record.good and "of 64 digits right" in record.answer
  monkeypatch.undo()
  outputs = reference.outputs
  monkeypatch.setattr(reference, "outputs", lambda *given: {name: 1.001 * array for name, array in outputs(*given).items()})
  record = climb("digits", RUNGS["digits"])
  assert record.right and not record.within and not record.good and 9e-4 < record.error < 1.1e-3


def answers(arrays: list[dict[str, np.ndarray]]):  # type: ignore[no-untyped-def]
  """A model that gives these outputs, one after the other."""
  left = iter(arrays)
  return lambda model, given: next(left)


def test_checks_of_what_models_say() -> None:
  """Each fails on another answer."""
  nowhere = np.zeros((1, 2, 7, 7), np.float32)
  nowhere[0, 1, 6, 0] = 1  # below the face
  with pytest.raises(WrongAnswer, match="face found at"):
    RUNGS["p_net"].answer(answers([{"face": nowhere}]))
  with pytest.raises(WrongAnswer, match="elsewhere 90.0%"):
    RUNGS["r_net"].answer(answers([{"face": np.array([[0.0, 1.0], [0.1, 0.9]])}]))
  upside_down = {"face": np.array([[0.0, 1.0], [1.0, 0.0]]), "landmarks": np.array([[.3, .7, .5, .3, .7, .8, .8, .6, .3, .3]] * 2)}
  with pytest.raises(WrongAnswer, match="nose between eyes and mouth"):
    RUNGS["o_net"].answer(answers([upside_down]))
  state = np.zeros((2, 1, 128), np.float32)
  with pytest.raises(WrongAnswer, match="50% of noise"):
    RUNGS["silero"].answer(answers([{"stateN": state, "output": np.full((1, 1), p)} for p in [0.95] * 10 + [0.5] * 3]))


def test_the_table_of_the_page_is_that_of_the_last_run() -> None:
  text = page.PAGE.read_text(encoding="utf-8")
  assert text == page.updated(text), "run `make models`"
  assert all(f"| {rung.title} |" in text for rung in RUNGS.values())


def test_a_record_goes_through_the_history_and_is_shown() -> None:
  record = Record("digits", "iss", "1 of 64", False, 2, 1.234e-5, 1e-4, True, 1234, 5, 4, 0.5, 1.5, 0.25, 0)
  assert Record(name="digits", **page.numbers(record)) == Record(**{**record.__dict__, "error": 1.23e-5})
  assert page.cells(record) == ("digits, two layers", "scikit-learn", "1 of 64 (wrong)", "1e-05",
                                "1e-04", "1,234", "5", "50%", "2", "1.5 s", "0.2 s", "iss")


def test_files_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setattr(weights, "FOLDER", tmp_path)
  with pytest.raises(FileNotFoundError, match=r"astronaut\.png is missing: `make models` installs the models' files"):
    climb("p_net", RUNGS["p_net"])


def test_groups_of_packages_are_pinned() -> None:
  small, everything = weights.packages(weights.SMALL), weights.packages(weights.ALL)
  assert set(small) < set(everything) and all(line.count("==") == 1 for line in everything)
  assert {line.split("==")[0] for line in everything} >= {rung.source for rung in RUNGS.values()} - {"scikit-learn"}
