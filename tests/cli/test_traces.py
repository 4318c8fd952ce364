"""`tinytpu run` tells what a program did: causes of cycles, events, stops and registers."""
from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.cli.shell import cli, shell
from tinytpu.cli import app
from tinytpu.cli.common import UsageError


def test_run_tells_where_the_cycles_went(source: Path, tmp_path: Path) -> None:
  """hld issues in 51 and is readable in 86; the sum in 88; the store in memory in 91: the fence."""
  run = ("run", str(source), "--arg", "0=0x100", "--arg", "1=5")
  out = cli(*run, "--trace")
  for cause, cycles, share in (("fetch", 50, "53.8%"), ("result_hbm", 34, "36.6%"), ("issue", 5, "5.4%"), ("fence", 2, "2.2%")):
    assert re.search(rf"{cause} +│ +{cycles} │ +{share}", out), out
  assert "events" not in out
  table = tmp_path / "events.csv"
  assert f"{table}: 5 events" in cli(*run, "--events", str(table)).replace("\n", "")
  assert table.read_text().splitlines()[2] == "0,group,86,1,V,0,34,result_hbm,0,0,0"
  out = cli(*run, "--events", str(tmp_path / "events.json"), "--most-events", "2")
  assert "3 events found no room" in out
  assert len(json.loads((tmp_path / "events.json").read_text())["launches"][0]["events"]) == 2


def test_events_go_to_files_of_two_formats(source: Path, tmp_path: Path) -> None:
  result = shell("run", str(source), "--events", str(tmp_path / "events.txt"))
  assert result.returncode == 2 and "the file's name must end in .json or .csv" in result.stderr


def test_traces_of_both_engines_agree(source: Path) -> None:
  assert "engines agree: memory, registers, cycles, counters, trace" in cli("run", str(source), "--arg", "0=0x100", "--arg", "1=5",
                                                                               "--engine", "both", "--trace")
  assert "all agree" in cli("fuzz", "--count", "3", "--trace")


def test_run_stops_where_it_is_asked_to(source: Path) -> None:
  """Before a group with what it reads, after one with what it changed; with what else is to be shown."""
  out = cli("run", str(source), "--arg", "0=0x100", "--arg", "1=5", "--set-memory", "0x100=1,2", "--break", "2", "--watch", "v1",
            "--watch", "hbm:0x104", "--show", "v1:i32", "--show", "0x100:2", "--no-trace", "--engine", "both")
  stops = out.split("add on 4x4")[0].splitlines()
  tile = ["00000001 00000002" + " 00000000" * 14, "00000006 00000007" + " 00000005" * 14]
  zero = " ".join(["00000000"] * 16)
  shown = {"loaded": "  v1:i32: " + str([1, 2] + [0] * 14).replace(",", ""),
           "added": "  v1:i32: " + str([6, 7] + [5] * 14).replace(",", "")}
  assert [line for line in stops if line and not line.startswith("opening")] == [
    "stop 1, cycle 51, word 0, after: hld.w v1, [s32]", f"  v1: {zero} -> {tile[0]}", shown["loaded"], "  0x100:2: [1 2]",
    "stop 2, cycle 86, word 1, after: vadd v1, v1, s33", f"  v1: {tile[0]} -> {tile[1]}", shown["added"], "  0x100:2: [1 2]",
    "stop 3, cycle 88, word 2, before: hst.w v1, [s32]", f"  v1 = {tile[1]}", "  s32 = 0x100 (256)", shown["added"], "  0x100:2: [1 2]",
    "stop 4, cycle 88, word 2, after: hst.w v1, [s32]", "  hbm:0x104: 0x2 (2) -> 0x7 (7)", shown["added"], "  0x100:2: [6 7]"]
  assert "engines agree" in out
  out = cli("run", str(source), "--arg", "0=0x100", "--arg", "1=5", "--set-memory", "0x100=1", "--watch", "v1", "--stops", "1")
  assert "there are more stops: --stops N shows N" in out and "stop 2" not in out
  out = cli("run", str(source), "--arg", "0=0x10040", "--arg", "1=5", "--at", "0x10000", "--break", "1")
  assert "wrote over its own code" not in out
  out = cli("run", str(source), "--arg", "0=0x10000", "--arg", "1=5", "--at", "0x10000", "--break", "1")
  assert "the program wrote over its own code: groups that it made so are shown as they were" in out.replace("\n", " ")
  out = cli("run", str(source), "--arg", "0=0x100", "--arg", "1=5", "--watch", "s9", "--most-events", "2")
  assert out.startswith("no stop: no group changed what is watched\n3 groups at the end found no room"), out


@pytest.mark.parametrize("options, message", [
  (["--break", "9"], "--break 9: no group begins there"), (["--break", "x"], "'--break x': expected a word index, found 'x'"),
  (["--watch", "v64"], "'v64': registers are v0 to v63"), (["--watch", "q1"], "'q1': expected s5, v3, p2, vmem:ADDRESS"),
  (["--watch", "vmem:0x40000"], "'vmem:0x40000': the words are beyond VMEM (0x40000 bytes)"),
  (["--watch", "hbm:0:0"], "the words are beyond device memory"), (["--watch", "hbm:0:x"], "expected a number of words, found 'x'"),
  (["--show", "p16"], "'p16': registers are p0 to p15"), (["--show", "s5-s3"], "'s5-s3': registers are s0 to s63"),
  (["--show", "v3:f64"], "unknown element type 'f64'"), (["--show", "v3-p4"], "expected ADDRESS:COUNT"),
])
def test_a_stop_that_cannot_be_is_refused(source: Path, options: list[str], message: str) -> None:
  result = CliRunner().invoke(app, ["run", str(source), "--arg", "0=0x100", "--arg", "1=5", *options])
  assert isinstance(result.exception, UsageError) and message in str(result.exception)


def test_engines_that_differ_at_a_stop_are_told(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
  from tinytpu.machine.replay import Place
  of = Place.of
  monkeypatch.setattr(Place, "of", lambda self, engine: of(self, engine) + (type(engine).__name__ == "RtlEngine"))
  out = CliRunner().invoke(app, ["run", str(source), "--arg", "0=0x100", "--arg", "1=5", "--watch", "v1", "--engine", "both"])
  assert out.exit_code == 4 and "engines differ: stop 1: iss cycle 86, word 1, after, v1: 0" in out.output
  assert re.search("stop 1: .*; rtl cycle 86, word 1, after, v1: 00000001 .* -> 00000006 ", out.output)


def test_registers_are_shown_by_name(source: Path) -> None:
  out = cli("run", str(source), "--arg", "0=0x100", "--arg", "1=5", "--show", "v0-v1:u32", "--show", "s32-s33", "--show", "p2:f32")
  zeros = " ".join(["0"] * 16)
  assert f"v0-v1:u32: [[{zeros}]\n [{zeros.replace('0', '5')}]]" in out and "s32-s33: [256   5]" in out and "p2:f32: [0. 0. 0." in out


def test_the_stops_of_the_page(tmp_path: Path) -> None:
  page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
  block = page.split("$ cat add.tasm\n")[1].split("\n...\n```")[0]
  text, _, rest = block.partition("\n$ tinytpu run add.tasm ")
  (tmp_path / "add.tasm").write_text(text)
  options, _, said = rest.partition("\n")
  out = cli("run", str(tmp_path / "add.tasm"), *options.split())
  assert said + "\n" in re.sub("\n+", "\n", out)  # the progress of opening engines leaves empty lines
