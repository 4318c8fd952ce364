"""Engines that are interrupted, closed, forked, or used by two threads at once."""
from __future__ import annotations

import importlib
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.interrupts import interrupt
from tinytpu.config import preset
from tinytpu.isa.instruction import Label, ins, pack
from tinytpu.machine import Engine, EngineError, LaunchError, guard, open_engine
from tinytpu.machine.both import BothEngine, EngineMismatch

CONFIG = preset("4x4")
W = CONFIG.width
ADD, STORE, FOREVER, BUSY, DATA = 0, 1024, 2048, 3072, 0x10000
PROGRAMS: dict[int, list] = {
  # memory[s33] = memory[s32] + 1
  ADD: [[ins("hld", d=1, a=32)], [ins("vadd", d=1, a=1, imm=1)], [ins("hst", d=1, a=33)], [ins("halt")]],
  STORE: [[ins("hld", d=9, a=32)], [ins("vst", d=9, a=0)], [ins("sadd", d=9, a=0, imm=77)], [ins("halt")]],
  FOREVER: [Label("on"), [ins("vadd", d=2, a=2, imm=1)], [ins("jmp", target="on")], [ins("halt")]],
  # s32 times: all units at work, transfers and results outstanding
  BUSY: [[ins("hld", d=3, a=33)], [ins("loop", a=32, target="e")], [ins("dmai", c=34, a=33, d=34, x=36)],
         [ins("mmf", d=1, a=3, b=3), ins("vfdiv", d=4, a=3, b=3)], [ins("hst", d=4, a=35)], [ins("vld", d=5, a=34)],
         [ins("lend")], Label("e"), [ins("halt")]],
}
FILES = [Path(importlib.import_module(f"tinytpu.machine.{name}").__file__ or "") for name in ("iss", "rtl")]


def put(engine: Engine, address: int, data: np.ndarray) -> None:
  engine.hbm[address:address + data.nbytes] = np.ascontiguousarray(data).view(np.uint8)


def get(engine: Engine, address: int) -> np.ndarray:
  return engine.hbm[address:address + 4 * W].view(np.uint32).copy()


def prepare(kind: str) -> Engine:
  """An engine with the programs, and numbers in memory and VMEM."""
  engine = open_engine(CONFIG, kind)
  for address, groups in PROGRAMS.items():
    put(engine, address, pack(groups))
  put(engine, DATA, np.arange(W, dtype=np.uint32))
  if isinstance(engine, BothEngine):
    engine.hbm_used = 2 * DATA
  assert engine.launch(STORE, [DATA]).fault is None
  return engine


def add(engine: Engine, source: int, target: int) -> None:
  assert engine.launch(ADD, [source, target]).fault is None


@pytest.fixture(scope="module", params=["iss", "rtl"])
def shared(request) -> Iterator[Engine]:
  engine = prepare(request.param)
  yield engine
  engine.close()


@pytest.fixture
def engine(shared) -> Engine:
  """An engine that was used before, and has to be whole afterwards."""
  put(shared, DATA, np.arange(W, dtype=np.uint32))
  return shared


def check_whole(engine: Engine, vmem: bool = True) -> None:
  """The next launch does what it should, and what VMEM held is there."""
  put(engine, DATA + 512, np.arange(W, dtype=np.uint32) * 3)
  add(engine, DATA + 512, DATA + 1024)
  np.testing.assert_array_equal(get(engine, DATA + 1024), np.arange(W) * 3 + 1)
  if vmem:
    np.testing.assert_array_equal(engine.state()["vmem"][:4 * W].view(np.uint32), np.arange(W))


def test_an_interrupt_before_any_line_of_a_launch(engine):
  """The launch has happened or it has not, and the next one is none the worse for it."""
  with interrupt(0, *FILES) as lines:
    add(engine, DATA, DATA)
  assert lines.count > 15
  happened = set()
  for at in range(1, lines.count + 1):
    before = get(engine, DATA)
    with interrupt(at, *FILES) as run, pytest.raises(KeyboardInterrupt):
      add(engine, DATA, DATA)
    assert run.raised
    change = set(get(engine, DATA) - before)
    assert change in ({0}, {1}), f"interrupt before line {at}"
    happened |= change
    check_whole(engine)
  assert happened == {0, 1}


def test_an_interrupt_before_any_line_of_state(engine):
  whole = engine.state()
  with interrupt(0, *FILES) as lines:
    engine.state()
  for at in range(1, min(lines.count, 60) + 1):
    with interrupt(at, *FILES), pytest.raises(KeyboardInterrupt):
      engine.state()
    for name, array in engine.state().items():
      np.testing.assert_array_equal(array, whole[name])


def interrupt_run(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
  """Interrupt launches as they pass `run` for the at-th time, from now on."""
  left = [at]

  def step(where: str) -> None:
    left[0] -= where == "run"
    if where == "run" and left[0] == 0:
      raise KeyboardInterrupt

  monkeypatch.setattr(guard, "step", step)


def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
  for name, slices in (("iss", 100), ("rtl", 200)):
    monkeypatch.setattr(importlib.import_module(f"tinytpu.machine.{name}"), "SLICE", slices)


def test_a_program_without_end(engine, monkeypatch):
  """It is abandoned; memories stay, and the instruction buffer is empty."""
  small_slices(monkeypatch)
  for at in (1, 2, 5):
    interrupt_run(monkeypatch, at)
    with pytest.raises(KeyboardInterrupt):
      engine.launch(FOREVER)
    monkeypatch.setattr(guard, "step", lambda where: None)
    assert engine.launch(ADD, [DATA, DATA]).counters["refills"] == 1
    check_whole(engine)


def test_a_second_interrupt_while_the_first_is_dealt_with(engine, monkeypatch):
  small_slices(monkeypatch)
  interrupt_run(monkeypatch, 2)
  rest = type(engine)._rest
  calls: list[int] = []

  def impatient(self: Engine) -> None:
    calls.append(1)
    if len(calls) == 2:  # the first is that of the launch's beginning
      raise KeyboardInterrupt
    rest(self)

  monkeypatch.setattr(type(engine), "_rest", impatient)
  with pytest.raises(KeyboardInterrupt):
    engine.launch(FOREVER)
  monkeypatch.setattr(guard, "step", lambda where: None)
  check_whole(engine)
  assert len(calls) > 2


@pytest.mark.parametrize("after", [1, 2, 3, 5, 8, 13, 21])
def test_abandoned_in_the_midst_of_everything(engine, monkeypatch, after):
  """Reset while transfers, products and divisions are under way: the next launches do all that again, and right."""
  with monkeypatch.context() as patch:
    for name, slices in (("iss", 7), ("rtl", 37)):
      patch.setattr(importlib.import_module(f"tinytpu.machine.{name}"), "SLICE", slices)
    patch.setattr(importlib.import_module("tinytpu.machine.rtl"), "REST", 1)
    interrupt_run(patch, after)
    with pytest.raises(KeyboardInterrupt):
      engine.launch(BUSY, [100000, DATA, 64, DATA + 256 * W, 1])
  put(engine, DATA, np.full(W, 1.5, np.float32))
  fresh = prepare("iss")
  try:
    put(fresh, DATA, np.full(W, 1.5, np.float32))
    for one in (fresh, engine):
      one.launch(STORE, [DATA])
    results = [one.launch(BUSY, [3, DATA, 64, DATA + 256 * W, 1], invalidate=True) for one in (fresh, engine)]
    assert results[0] == results[1] and results[0].fault is None and results[0].counters["dma_lines"] > 0
    assert (get(engine, DATA + 256 * W) == get(fresh, DATA + 256 * W)).all()
  finally:
    fresh.close()
    engine.launch(FOREVER, limit=1)
    put(engine, DATA, np.arange(W, dtype=np.uint32))
    engine.launch(STORE, [DATA])


def test_a_signal(engine):
  """Ctrl-C itself, as the machine runs for ever."""
  def handler(*_: object) -> None:
    raise KeyboardInterrupt
  before = signal.signal(signal.SIGALRM, handler)
  try:
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(KeyboardInterrupt):
      engine.launch(FOREVER)
  finally:
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
  check_whole(engine)


USES: list[Callable[[Engine], object]] = [lambda e: e.launch(ADD, [0, 0]), lambda e: e.state(), lambda e: e.close()]


@pytest.mark.parametrize("use", USES, ids=["launch", "state", "close"])
def test_use_within_a_launch(engine, monkeypatch, use):
  """A signal handler cannot launch on a machine that is busy: an error, and the launch under way is none the worse."""
  errors: list[str] = []

  def step(where: str) -> None:
    try:
      use(engine)
    except EngineError as error:
      errors.append(str(error))

  with monkeypatch.context() as patch:
    patch.setattr(guard, "step", step)
    add(engine, DATA, DATA)
  assert len(errors) >= 2 and all("the middle of" in error for error in errors)
  np.testing.assert_array_equal(get(engine, DATA), np.arange(W) + 1)
  check_whole(engine)


@pytest.mark.parametrize("kind", ["iss", "rtl", "both"])
def test_a_closed_engine_says_so(kind):
  engine = open_engine(CONFIG, kind)
  engine.close()
  for use in (USES[0], USES[1], lambda e: e.hbm):
    with pytest.raises(EngineError, match="closed: open another"):
      use(engine)
  engine.close()


def test_threads(engine):
  """Two threads, each with launches that depend on their own before."""
  errors: list[BaseException] = []
  rounds = 200

  def work(place: int) -> None:
    try:
      for i in range(rounds):
        add(engine, place, place)
        assert (get(engine, place) == i + 1).all()
        if i % 50 == 0:
          np.testing.assert_array_equal(engine.state()["vmem"][:4 * W].view(np.uint32), np.arange(W))
    except BaseException as error:
      errors.append(error)

  places = [DATA + 4096 * i for i in (1, 2, 3)]
  for place in places:
    put(engine, place, np.zeros(W, np.uint32))
  threads = [threading.Thread(target=work, args=(place,)) for place in places]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert not errors
  assert all((get(engine, place) == rounds).all() for place in places)


FORK = """
import os, sys, threading
from tests.machine.test_guard import *
kind, case = sys.argv[1:]
engine = prepare(kind)
inside, go_on = threading.Event(), threading.Event()
if case == "busy":
  def step(where):
    if where == "run" or where == "result":
      inside.set()
      go_on.wait()
  guard.step = step
  thread = threading.Thread(target=add, args=(engine, DATA, DATA))
  thread.start()
  inside.wait()
if case == "waveform":
  engine._waveform = Path("signals.vcd")
child = os.fork()
if not child:
  guard.step = lambda where: None
  try:
    check_whole(engine)
    print("right", flush=True)
  except EngineError as error:
    print("refused:", error, flush=True)
  if case == "closed":
    engine.close()
  sys.exit(7)
go_on.set()
print("exit", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
if case == "busy":
  thread.join()
engine._waveform = None
check_whole(engine)
print("parent right")
"""


@pytest.mark.parametrize("kind", ["iss", "rtl", "both"])
@pytest.mark.parametrize("case,answer", [
  ("", "right"), ("closed", "right"), ("busy", "refused: process .* was forked while another thread"),
  ("waveform", "refused: the waveform signals.vcd is written by process")])
def test_fork(kind, case, answer):
  """The child goes on with a copy of the engine and ends, or is told why not; its parent goes on with its own."""
  result = subprocess.run([sys.executable, "-c", FORK, kind, case], capture_output=True, text=True, check=False, timeout=300,
                          cwd=Path(__file__).parents[2])
  assert result.returncode == 0, result.stderr
  first, *rest = result.stdout.splitlines()
  expected = "right" if case == "waveform" and kind != "rtl" else answer
  assert re.match(expected, first), result.stdout
  assert rest == ["exit 7", "parent right"]


def test_engines_that_were_interrupted_apart(monkeypatch):
  """What ran on one of both only makes later comparisons meaningless: that is said, not compared."""
  engine = prepare("both")
  try:
    def step(where: str) -> None:
      if where == "rtl":
        raise KeyboardInterrupt
    with monkeypatch.context() as patch:
      patch.setattr(guard, "step", step)
      with pytest.raises(KeyboardInterrupt):
        add(engine, DATA, DATA)
    with pytest.raises(EngineMismatch, match="ended in one engine only"):
      add(engine, DATA, DATA)
  finally:
    engine.close()


def test_a_refused_launch_takes_nothing_apart():
  engine = prepare("both")
  try:
    with pytest.raises(LaunchError):
      engine.launch(8)
    check_whole(engine)
  finally:
    engine.close()


def test_an_abandoned_engine_in_a_process_that_ends():
  """Nothing is left that would keep the process from ending."""
  script = ("import sys; from tests.machine.test_guard import *; engine = prepare(sys.argv[1])\n"
            "signal.signal(signal.SIGALRM, lambda *_: sys.exit(5)); signal.setitimer(signal.ITIMER_REAL, 0.2); engine.launch(FOREVER)")
  for kind in ("iss", "rtl"):
    assert subprocess.run([sys.executable, "-c", script, kind], check=False, timeout=300, cwd=Path(__file__).parents[2]).returncode == 5

