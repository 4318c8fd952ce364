"""What is gathered: sums that add up exactly, held against the engine's own counters, its causes, and spans."""
from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tinytpu.backend.runtime import watch
from tinytpu.config import preset
from tinytpu.fuzz import execute, generate
from tinytpu.isa.counters import COUNTERS
from tinytpu.isa.faults import Fault
from tinytpu.isa.stalls import CAUSES, DRAINS
from tinytpu.machine import open_engine
from tinytpu.profile import perfetto
from tinytpu.profile.code import Code
from tinytpu.profile.collect import Collector
from tinytpu.profile.compare import compare, slower
from tinytpu.profile.figures import BINS, overview
from tinytpu.profile.page import page
from tinytpu.profile.report import build
from tinytpu.profile.roofline import LIMITS
from tinytpu.profile.timeline import Timeline
from tinytpu.trace import EVENT, SPAN_UNITS, Launch, Trace, spans

FACTS = ("causes", "counters", "units")


@pytest.mark.parametrize("name", ["4x4", "4x4,vector_lanes=4"])
def test_counters_causes_and_units_from_events(name: str) -> None:
  """Random programs, a third of which fault: what the events add up to is what the engine counts, and what spans say."""
  config, trace, seen, faults = preset(name), Trace(), np.zeros(len(SPAN_UNITS), np.int64), 0
  behind = 0
  engine = open_engine(config, trace=trace)
  for seed in range(120):
    case = generate(seed, config)
    trace.clear()
    outcomes = execute(case, engine)
    words = case.tree.words()
    for launch, (result, _) in zip(trace.launches[case.repeat::case.repeat], outcomes[1:], strict=True):  # without the set-up
      causes, counters, units = Code(words, config, [(0, "")]).add(launch)
      if launch.events["pc"].max(initial=0) >= len(words):
        behind += 1  # a fault behind the program's end, perhaps after a fetch there
        continue
      faults += result.fault is not None
      rest = {cause: n for cause, n, mine in zip(CAUSES, launch.causes.values(), causes[0], strict=True) if n != mine}
      assert set(rest) <= {"launch", "fault", *DRAINS}, seed
      found = spans(launch, words, config)
      lengths = np.bincount(found["unit"], found["stop"] - found["start"], len(SPAN_UNITS)).astype(int)
      assert dict(zip(SPAN_UNITS, units[0].tolist(), strict=True)) == dict(zip(SPAN_UNITS, lengths.tolist(), strict=True)), seed
      counted = dict(zip(COUNTERS, counters[0].tolist(), strict=True))
      if result.fault and result.fault.cause == Fault.WATCHDOG:  # it may come in a refill's first cycle, which nobody has waited for
        assert 0 <= result.counters["refills"] - counted.pop("refills") <= 1
      assert counted == {name: result.counters[name] for name in counted}, seed
      seen += units[0]
  engine.close()
  assert (seen > 0).all() and faults > 20 and behind < 20




@pytest.fixture(scope="module")
def runs() -> Iterator[tuple[Collector, Collector, list[tuple[int, dict[str, int]]]]]:
  """The same program watched on two devices, one of which has room for few events; and what each launch of the first gave."""
  from tinygrad import Device, Tensor, TinyJit

  class Told(Collector):
    def launched(self, device, name, address, result, parts):  # type: ignore[no-untyped-def]
      told.append((result.cycles, result.counters))
      super().launched(device, name, address, result, parts)

  told: list[tuple[int, dict[str, int]]] = []
  full, small = Told(timeline=Timeline(room=1 << 22)), Collector(events=40, timeline=Timeline(room=50))
  for number, collector in ((6, full), (7, small)):
    watch.watcher = collector
    device = f"TINYTPU:{number}"
    assert device not in Device._opened_devices

    @TinyJit
    def step(x: Tensor, y: Tensor) -> Tensor:
      return ((x @ y).softmax().max(axis=0) + 1).realize()

    data = [Tensor(np.ones((8, 12), np.float32), device=device).realize(), Tensor(np.ones((12, 16), np.float32), device=device).realize()]
    try:
      for _ in range(4):
        step(*data).numpy()
    finally:
      watch.watcher = None
  yield full, small, told


def test_sums_are_exact(runs) -> None:
  full, _, told = runs
  report = build(full)
  run, kernels = report["run"], report["kernels"]
  assert run["launches"] == len(told) and run["cycles"] == sum(cycles for cycles, _ in told) and run["events"]["dropped"] == 0
  assert run["counters"] == {name: sum(counters[name] for _, counters in told) for name in COUNTERS}
  for fact in FACTS:
    assert run[fact] == {name: sum(k[fact][name] for k in kernels) for name in run[fact]}
  for k in kernels:
    assert sum(k["causes"].values()) == k["cycles"] == sum(g["cycles"] for g in k["groups"]) + sum(
      n for cause, n in k["causes"].items() if cause in ("launch", "fault", *DRAINS))
    assert all(g["cycles"] == g["issued"] + g["fetch"] + g["wait"] and g["wait"] == sum(g["waits"].values()) for g in k["groups"])
    assert 0 < k["roofline"]["share"] <= 1 and k["roofline"]["limit"] == max(k["units"][unit] for unit in LIMITS)
    assert k["roofline"]["lost"] == max(n for cause, n in k["causes"].items() if cause != "issue")
  assert [k["name"] for k in kernels if k["kind"] == "spill"] == ["spill"]
  assert [k["cycles"] for k in kernels] == sorted((k["cycles"] for k in kernels), reverse=True)


def test_kernels_of_a_batch_are_told_apart(runs) -> None:
  full, _, _ = runs
  assert any(piece.name.startswith("graph of") for piece in full.timeline.pieces)
  kernels = {k["name"]: k for k in build(full)["kernels"] if k["kind"] == "kernel"}
  assert len(kernels) >= 3 and not any(name.startswith("graph of") for name in kernels)
  assert all(k["launches"] % 4 == 0 for k in kernels.values())  # in a batch and alone
  assert any(g["text"].startswith("mmf") for k in kernels.values() for g in k["groups"])
  pieces = full.timeline.pieces
  assert all(a.stop == b.start for a, b in zip(pieces, pieces[1:], strict=False) if a.inner == b.inner and not (a.inner and b.start == 0))


def test_perfetto_and_timeline_add_up_to_the_report(runs) -> None:
  full, _, _ = runs
  report = build(full)
  assert report["timeline"]["complete"] and report["timeline"]["launches"] == report["run"]["launches"]
  assert report["timeline"]["units"] == report["run"]["units"]
  tracks = perfetto.busy(perfetto.trace(full.timeline))
  assert {name: tracks.get(name, 0) for name in SPAN_UNITS} == report["run"]["units"]
  waited = {name: n for name, n in report["run"]["causes"].items() if name not in ("issue", "launch", "fetch", "fault", *DRAINS)}
  assert tracks[perfetto.WAITS] == sum(waited.values())
  inner = sum(piece.stop - piece.start for piece in full.timeline.pieces if piece.inner)
  assert tracks[perfetto.LAUNCHES] == report["run"]["cycles"] + inner and inner > 0


def test_slices_are_well_formed(runs) -> None:
  """On a track slices follow each other or nest: each end has a begin before it, and nothing goes back in time."""
  from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as Proto
  from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
  full, small, _ = runs
  for collector in (full, small):
    names, depth, last = {}, {}, {}
    for packet in Proto.FromString(perfetto.trace(collector.timeline)).packet:
      names |= {name.iid: name.name for name in packet.interned_data.event_names}
      if packet.HasField("track_event"):
        event = packet.track_event
        begins = event.type == TrackEvent.TYPE_SLICE_BEGIN
        assert not begins or names[event.name_iid]
        depth[event.track_uuid] = depth.get(event.track_uuid, 0) + (1 if begins else -1)
        assert depth[event.track_uuid] in (0, 1, 2) and packet.timestamp >= last.get(event.track_uuid, 0)
        last[event.track_uuid] = packet.timestamp
    assert depth and not any(depth.values())


def test_events_without_room(runs) -> None:
  full, small, told = runs
  report, whole = build(small), build(full)
  assert report["run"]["events"]["dropped"] > 0 and report["run"]["events"]["kept"] <= 40 * report["run"]["launches"]
  assert report["run"]["cycles"] == whole["run"]["cycles"] and report["run"]["causes"] == whole["run"]["causes"]
  assert report["run"]["counters"] == whole["run"]["counters"]
  assert {k["kind"] for k in report["kernels"]} == {"kernel", "batch", "spill"}
  assert all(sum(k["causes"].values()) == k["cycles"] for k in report["kernels"])
  assert not report["timeline"]["complete"] and len(small.timeline.pieces) >= 8
  assert "events found no room" in page(report, small.timeline) and "nothing else in this report is cut" in page(report, small.timeline)


def test_an_interrupt_does_not_part_sums(monkeypatch) -> None:
  """It comes while a launch is added, and is raised behind it."""
  from tinygrad import Tensor
  collector, add = Collector(), Code.add

  def interrupted(self, launch):  # type: ignore[no-untyped-def]
    signal.raise_signal(signal.SIGINT)
    return add(self, launch)
  watch.watcher = collector
  try:
    x = Tensor([1.0, 2.0], device="TINYTPU:8").realize()
    monkeypatch.setattr(Code, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
      (x + 1).realize()
    monkeypatch.undo()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    report = build(collector)
    assert report["run"]["launches"] == 1 == sum(k["launches"] for k in report["kernels"])
    assert report["run"]["cycles"] == sum(report["run"]["causes"].values()) == sum(k["cycles"] for k in report["kernels"])
    assert report["run"]["counters"]["groups"] == report["run"]["causes"]["issue"] > 0
    assert (x + 2).tolist() == [3.0, 4.0]
  finally:
    watch.watcher = None


def test_the_overview_covers_all_launches(runs) -> None:
  """By interval, of launches with spans and of those without: together what each unit was busy."""
  for collector in runs[:2]:
    text = overview(collector.timeline)
    rows = json.loads(re.search(r'"z":(\[\[.*?\]\])', text)[1])  # type: ignore[index]
    names = json.loads(re.search(r'"y":(\[[^\]]*\]),"z"', text)[1])  # type: ignore[index]
    end = max(piece.stop for piece in collector.timeline.pieces)
    units = build(collector)["run"]["units"]
    for name, row in zip(names, rows, strict=True):
      assert sum(row) / BINS * end == pytest.approx(units[name], abs=end * 0.001)
    assert set(names) == {name for name, cycles in units.items() if cycles}


def test_a_timeline_without_room(runs) -> None:
  timeline, code = Timeline(most=3, room=0), runs[0].timeline.spans[0][1]
  for _ in range(5):
    timeline.add("TINYTPU", "k", code, Launch(0, 0, 10, {}, np.zeros(0, EVENT), 0), np.ones(len(SPAN_UNITS), np.int64))
  assert [piece.stop for piece in timeline.pieces] == [10, 20, 30] and timeline.cut and len(timeline.loads) <= 3
  assert perfetto.busy(perfetto.trace(timeline)) == {"launches": 30}


def test_compare(runs) -> None:
  before, after = build(runs[0]), build(runs[0])
  assert slower(before, after) == 0 and not any(change.lost or change.causes for change in compare(before, after))
  kernel = after["kernels"][1]
  kernel["cycles"] += 100
  kernel["causes"]["bucket"] += 130
  kernel["causes"]["issue"] -= 30
  after["run"]["cycles"] += 100
  gone = after["kernels"].pop(0)
  first, *_, last = compare(before, after)
  assert (first.name, first.lost, first.causes) == (kernel["name"], 100, {"bucket": 130, "issue": -30})
  assert (last.name, last.after, last.lost) == (gone["name"], 0, -gone["cycles"])
  assert slower(before, after) == pytest.approx(100 / before["run"]["cycles"])
  with pytest.raises(ValueError, match="different machines: preset 4x4 and 8x8"):
    compare(before, after | {"machine": {"preset": "8x8", "clock_hz": 10**9}})


def test_texts_are_escaped(runs) -> None:
  """A name that would end the script, begin an element, or be markup in a figure."""
  full, _, _ = runs
  report = build(full)
  evil = "</script><img src=x onerror=alert(1)><b>&"
  report["kernels"][0]["name"] = report["command"][0] = evil
  pieces = [piece._replace(name=evil) for piece in full.timeline.pieces]
  report["run"]["lines"].append({"where": evil, "cycles": 1.0})
  report["run"]["methods"].append({"method": evil, "cycles": 1.0})
  report["kernels"][0]["groups"][0] |= {"uops": [evil], "calls": [{"method": evil, "where": evil}]}
  text = page(report, replace(full.timeline, pieces=pieces))
  assert "<img" not in text and text.count("</script>") == page(build(full), full.timeline).count("</script>")
  assert "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&lt;b&gt;&amp;" in text
  assert not [part for part in ('src="http', "src='http", '<link') if part in text.replace("cdn", "")]


def test_a_page_is_bounded() -> None:
  """A million spans and ten thousand kernels with long names."""
  from tinytpu.profile.timeline import LANE_SPAN, Piece
  n = 1_000_000
  found = np.zeros(n, LANE_SPAN)
  found["lane"], found["start"], found["stop"] = np.arange(n) % len(SPAN_UNITS), np.arange(n), np.arange(n) + 1
  pieces = [Piece("TINYTPU", "k" * 1000, i * 100, i * 100 + 100) for i in range(10_000)]
  code = Code(np.zeros(1, np.uint64), preset("4x4"), [(0, "")])
  report = build_like(pieces)
  text = page(report, Timeline(pieces=pieces, spans=[("TINYTPU", code, found)], launches=10_000, cut=True))
  assert len(text) < 12_000_000 and "988,000 more spans are left out" in text and "9,800 more kernels are left out" in text


def build_like(pieces: list) -> dict:
  """A report of many kernels, each with groups."""
  group = {"code": 0, "pc": 0, "text": "x" * 300, "issued": 1, "cycles": 100, "fetch": 0, "wait": 99, "cause": "bucket",
           "waits": {"bucket": 99}, "uops": ["u" * 300] * 300, "calls": [{"method": "m" * 300, "where": "w" * 300}] * 100}
  causes = dict.fromkeys(CAUSES, 0) | {"issue": 1, "bucket": 99}
  units, counters = dict.fromkeys(SPAN_UNITS, 1), dict.fromkeys(COUNTERS, 1)
  roof = {"unit": "array", "limit": 1, "share": 0.01, "cause": "bucket", "lost": 99}
  kernels = [{"name": piece.name, "kind": "kernel", "launches": 1, "faults": 0, "cycles": 100, "causes": causes, "counters": counters,
              "units": units, "roofline": roof, "calls": [], "groups": [group] * 400 if i < 8 else [], "groups_left_out": 0}
             for i, piece in enumerate(pieces)]
  run = {"launches": len(pieces), "faults": 1, "cycles": 100 * len(pieces), "seconds": 1.0, "causes": causes, "counters": counters,
         "units": units, "utilisation": {"MXU": 0.5}, "lines": [{"where": "w" * 300, "cycles": 9.5}] * 10_000,
         "methods": [{"method": "m" * 300, "cycles": 9.5}] * 10_000, "events": {"kept": 1, "dropped": 0}}
  return {"command": ["x"], "machine": {"preset": "4x4", "engine": "iss", "clock_hz": 10**9}, "run": run, "kernels": kernels}


def test_what_lay_in_vmem_when(runs) -> None:
  full, _, _ = runs
  timeline = Timeline()
  timeline.now["d"] = 0
  timeline.hold("d", [(0, 64, 4096), (64, 128, 8192)])
  timeline.now["d"] = 10
  timeline.hold("d", [(0, 64, 4096), (64, 96, 0)])
  timeline.now["d"] = 30
  timeline.hold("d", [])
  assert {tuple(stay) for stay in timeline.held} == {("d", 0, 64, 4096, 0, 30), ("d", 64, 128, 8192, 0, 10), ("d", 64, 96, 0, 10, 30)}
  held = full.timeline.held
  assert held and all(0 <= s.at < s.end <= preset("4x4").vmem_bytes and s.start < s.stop <= full.timeline.now[s.device] for s in held)
  for s in held:  # at one time one range in one place
    assert not any(t is not s and t.start < s.stop and s.start < t.stop and t.at < s.end and s.at < t.end for t in held)
  assert "What lay in VMEM when" in page(build(full), full.timeline)
