"""What a trace keeps, drops, compares and writes; on the simulator. That engines agree is in tests/cosim/test_trace.py."""
from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

import numpy as np
import pytest

from tinytpu.config import preset
from tinytpu.isa import stalls
from tinytpu.isa.instruction import ins, pack
from tinytpu.machine import AccessError, Allow, Engine, open_engine
from tinytpu.trace import EVENT, Launch, Trace, describe, write_csv, write_json

PROGRAM = [[ins("vfadd", d=1, a=2, imm=0)], [ins("vadd", d=3, a=1, imm=0)], [ins("hst", d=3, a=32)], [ins("halt")]]
DATA = 1 << 20


@pytest.fixture(scope="module")
def traced() -> Iterator[tuple[Engine, Trace]]:
  """A simulator, the program at address 0 and in the instruction buffer, and its trace, which has room for ten events."""
  trace = Trace(10, most=4)
  engine = open_engine(preset("4x4"), trace=trace)
  words = pack(PROGRAM)
  engine.hbm[:words.nbytes] = words.view(np.uint8)
  engine.launch(0, [DATA])
  yield engine, trace
  engine.close()


@pytest.fixture
def launch(traced) -> Launch:
  engine, trace = traced
  trace.clear()
  engine.launch(0, [DATA])
  return trace.launches[0]


def test_a_launch(launch):
  assert (launch.program, launch.entry, launch.dropped) == (0, 0, 0)
  # vfadd in 1, vadd in 5, its result in 7, hst in 7, halt in 8; the store is in memory in 7 + 2 + 1.
  assert launch.cycles == 10 and launch.events["cycle"].tolist() == [1, 5, 7, 8]
  assert {c: n for c, n in launch.causes.items() if n} == {"launch": 1, "issue": 4, "result_vector_alu": 4, "drain_hbm": 1}
  assert launch.events.dtype == EVENT and tuple(launch.causes) == tuple(stalls.CAUSES)
  assert describe(launch.events[2]) == {"kind": "group", "cycle": 7, "pc": 2, "slots": "T", "fetch": 0, "wait": 1,
                                        "cause": "result_vector_alu", "vmem": 0, "lines": 1, "end": 0}


def test_what_finds_no_room_is_counted(traced):
  """Ten events are two launches and a half; four launches are kept. Sums are of all groups."""
  engine, trace = traced
  trace.clear()
  first = engine.launch(0, [DATA], repeat=6)
  assert [len(launch.events) for launch in trace.launches] == [4, 4, 2, 0] and trace.room == 0
  assert [launch.dropped for launch in trace.launches] == [0, 0, 2, 4] and trace.dropped == 2
  assert all(launch.causes == trace.launches[0].causes and launch.cycles == first.cycles for launch in trace.launches)
  trace.clear()
  assert (trace.launches, trace.dropped, trace.room) == ([], 0, 10)


def test_kept_events_stay_as_they_are(traced, launch):
  engine, trace = traced
  before = launch.events.copy()
  trace.clear()
  engine.launch(0, [DATA], entry=2)
  assert (launch.events == before).all() and trace.launches[0].entry == 2 and len(trace.launches[0].events) == 2


def test_a_trace_without_events():
  trace = Trace(0)
  engine = open_engine(preset("4x4"), trace=trace)
  words = pack(PROGRAM)
  engine.hbm[:words.nbytes] = words.view(np.uint8)
  result = engine.launch(0, [DATA])
  assert len(trace.launches[0].events) == 0 and trace.launches[0].dropped == 4 and sum(trace.launches[0].causes.values()) == result.cycles
  engine.close()


def test_a_launch_that_raises_is_not_added(traced, launch):
  engine, trace = traced
  with pytest.raises(AccessError):
    engine.launch(0, [DATA], allow=Allow(hbm=[], vmem=[]))
  assert trace.launches == [launch] and trace.room == 6


def test_an_engine_without_a_trace_has_none():
  engine = open_engine(preset("4x4"))
  assert engine.trace is None
  engine.close()


@pytest.mark.parametrize("field", EVENT.names)
def test_every_field_of_an_event_is_compared(launch, field):
  events = launch.events.copy()
  events[field][2] += 1
  other = Launch(launch.program, launch.entry, launch.cycles, launch.causes, events, launch.dropped)
  found = launch.difference(other)
  assert found is not None and found[0] == "event 2" and found[1] != found[2]
  assert launch.difference(launch) is None


@pytest.mark.parametrize("what", ["program", "entry", "cycles", "dropped", "cycles of bucket", "events"])
def test_sums_are_compared(launch, what):
  values = {name: getattr(launch, name) + (name == what) for name in ("program", "entry", "cycles", "dropped")}
  causes = launch.causes | {"bucket": int(what == "cycles of bucket")}
  other = Launch(**values, causes=causes, events=launch.events[:3 if what == "events" else 4])
  found = launch.difference(other)
  assert found is not None and found[0] == what and int(found[1]) != int(found[2])


def test_text_formats(traced, launch):
  _, trace = traced
  events = [describe(event) for event in launch.events]
  file = io.StringIO()
  write_json(trace, file)
  heads = {"program": 0, "entry": 0, "cycles": launch.cycles, "causes": launch.causes, "dropped": 0}
  assert json.loads(file.getvalue()) == {"dropped": 0, "launches": [{**heads, "events": events}]}
  file = io.StringIO()
  write_csv(trace, file)
  assert list(csv.DictReader(io.StringIO(file.getvalue()))) == [{"launch": "0"} | {k: str(v) for k, v in e.items()} for e in events]


def test_several_launches_as_json(traced):
  engine, trace = traced
  trace.clear()
  engine.launch(0, [DATA], repeat=3)
  file = io.StringIO()
  write_json(trace, file)
  assert [len(launch["events"]) for launch in json.loads(file.getvalue())["launches"]] == [4, 4, 2]


@pytest.mark.parametrize(("arguments", "message"), [
  ({"capacity": -1}, "a trace keeps 0 to 4294967296 events, not -1"), ({"most": 0}, "a trace keeps at least one launch, not 0")])
def test_sizes_are_checked(arguments, message):
  with pytest.raises(ValueError, match=message):
    Trace(**arguments)
