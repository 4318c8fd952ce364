"""The command line, as a user types it."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.cli.shell import ADD, SCRIPT, cli, shell
from tinytpu import __version__
from tinytpu.asm import ArgKind, Program, assemble
from tinytpu.cli import app
from tinytpu.cli.common import UsageError
from tinytpu.config import PRESETS


def test_version_and_help() -> None:
  assert cli("--version").strip() == f"tinytpu {__version__}"
  page = cli("--help")
  for command in ("demo", "asm", "disasm", "dump", "run", "verilog", "build", "doctor", "docs", "fuzz", "onnx", "profile"):
    assert command in page


def test_asm_disasm_dump(source: Path) -> None:
  assert "add, 5 words, 2 arguments" in cli("asm", str(source)).replace("\n", " ")
  container = source.with_suffix(".tpu")
  program = Program.from_bytes(container.read_bytes())
  assert program == assemble(ADD)
  assert [arg.kind for arg in program.args] == [ArgKind.BUF, ArgKind.VAR]
  text = cli("disasm", str(container))
  assert assemble(text).words.tolist() == program.words.tolist()
  assert "# @2" in cli("disasm", "-a", str(container))
  assert "value of variable n" in cli("dump", str(container))
  stripped = source.parent / "s.tpu"
  cli("asm", str(source), "--strip", "-o", str(stripped))
  assert Program.from_bytes(stripped.read_bytes()).source is None


@pytest.mark.parametrize("form", ["text", "container"])
def test_run(source: Path, form: str) -> None:
  if form == "container":
    cli("asm", str(source))
    source = source.with_suffix(".tpu")
  output = cli("run", str(source), "--arg", "0=0x100", "--arg", "n=5", "--set-memory", "0x100=1,-2,3", "--show", "0x100:4", "-r")
  assert "0x100:4: [6 3 8 5]" in output
  assert "s33  0x00000005" in output and "hbm_lines" in output


def test_run_with_floats_and_files(source: Path, tmp_path: Path) -> None:
  (tmp_path / "data").write_bytes(bytes(range(64)))
  source.write_text(".arg 0 buf 0\nhld.f16 v1, [s32] ; sadd s1, s0, s33\nvfmul v1, v1, 0.5\nhst.w v1, [s32 + 16]\nhalt")
  output = cli("run", str(source), "--arg", "0=0", "--arg", "1=1.5", "--set-memory", "0=3,5:f16",
               "--set-memory", f"0x200=@{tmp_path / 'data'}", "--show", "64:3:f32", "--show", "0x23c:4:u8", "-r")
  assert "[1.5 2.5 0. ]" in output
  assert "[60 61 62 63]" in output
  assert "s1   0x3fc00000" in output


def test_run_on_both_engines_agrees(source: Path) -> None:
  output = cli("run", str(source), "--engine", "both", "--arg", "0=64", "--arg", "n=1", "--show", "64:2")
  assert "engines agree" in output and "[1 1]" in output


def test_waveforms_are_of_the_hardware(source: Path, tmp_path: Path) -> None:
  result = shell("run", str(source), "--vcd", str(tmp_path / "x.vcd"))
  assert result.returncode == 2 and "add --engine rtl" in result.stderr and not (tmp_path / "x.vcd").exists()


def test_run_shows_a_fault(source: Path) -> None:
  source.write_text("nop\ntrap 0x77\n")
  output = cli("run", str(source), code=3)
  assert "fault TRAP at word 1" in output and "info 0x77" in output and "group: trap 119" in output


def test_run_stops_at_the_limit(source: Path) -> None:
  source.write_text("again: jmp again")
  assert "WATCHDOG" in cli("run", str(source), "--limit", "1000", code=3)


@pytest.mark.parametrize("options, message", [
  ([], "argument 0 (buf 0) is not given: add --arg 0=VALUE"),
  (["--arg", "0=0"], "argument 1 (var n) is not given"),
  (["--arg", "0=0", "--arg", "m=1"], "expected REGISTER=VALUE, with a register from 0 to 31 (s32 to s63) or one of n"),
  (["--arg", "s31=0"], "with a register from 0 to 31 (s32 to s63)"), (["--arg", "s64=0"], "with a register"),
  (["--arg", "32=0"], "with a register"),
  (["--arg", "0=0", "--arg", "1=1", "--arg", "n=2"], "'n=2': argument 1 (s33) is given twice"),
  (["--arg", "s32=0", "--arg", "0=1"], "'0=1': argument 0 (s32) is given twice"),
  (["--arg", "0=0", "--arg", "n=1e400"], "'1e400' does not fit float32; write inf for infinity"),
  (["--arg", "0=0", "--arg", "n=" + "9" * 5000], "the number does not fit 32 bits"),
  (["--arg", "0=0", "--arg", "n=1", "--at", "here"], "expected a byte address, found 'here'"),
  (["--arg", "0=0", "--arg", "n=1", "--show", "vmem:0"], "expected ADDRESS:COUNT[:TYPE], vmem:ADDRESS:COUNT[:TYPE] or registers"),
  (["--arg", "0=0", "--arg", "n=1", "--show", "vmem:0x40000:1:u8"], "beyond VMEM (0x40000 bytes)"),
  (["--arg", "0=0", "--arg", "n=1", "--show", "0:-1"], "beyond device memory"),
  (["--arg", "0=0", "--arg", "n=1", "--set-memory", "4096=1.5"], "'1.5' is no integer, and i32 takes integers: add :f32"),
  (["--arg", "0=0", "--arg", "n=1", "--set-memory", "0=1,inf"], "'inf' is no integer, and i32 takes integers: add :f32"),
  (["--arg", "0=0", "--arg", "n=1", "--set-memory", "0=1,x"], "'x' is no value of type i32"),
  (["--arg", "0=0", "--arg", "n=1", "--set-memory", "0=1e39:f32"], "'1e39' does not fit f32; write inf for infinity"),
  (["--arg", "0=0", "--arg", "n=1", "--set-memory", "0=65520:f16"], "'65520' does not fit f16; write inf for infinity"),
  (["--arg", "0=0", "--arg", "n=1", "--set-memory", "0=4294967296"], "'4294967296' does not fit i32"),
  (["--arg", "0=0", "--arg", "n=x"], "expected an integer or a float"),
  (["--arg", "0=0", "--arg", "n=4294967296"], "does not fit 32 bits"),
  (["--preset", "5x5"], f"unknown preset '5x5'; presets: {', '.join(PRESETS)}"),
  (["--arg", "0=0", "--arg", "n=1", "--at", "0x10"], "a program lies at a multiple of 1024 bytes"),
  (["--arg", "0=0", "--arg", "n=1", "--show", "0"], "expected ADDRESS:COUNT[:TYPE]"),
  (["--arg", "0=0", "--arg", "n=1", "--show", "0:1:f64"], "unknown element type 'f64'; types: i32"),
  (["--arg", "0=0", "--arg", "n=1", "--show", "0x40000000:1"], "beyond device memory"),
  (["--arg", "0=0", "--arg", "n=1", "--set-memory", "zero=1"], "expected a byte address, found 'zero'"),
  (["--arg", "0=0", "--arg", "n=1", "--set-memory", "0=300:u8"], "300"),
])
def test_run_says_what_is_wrong(source: Path, options: list[str], message: str) -> None:
  result = CliRunner().invoke(app, ["run", str(source), *options])
  assert message in str(result.exception) and isinstance(result.exception, UsageError)


def test_errors_are_short_and_debug_shows_more(source: Path) -> None:
  result = shell("asm", "-", text="  vadd v1, v2\n")
  assert result.returncode == 1 and result.stdout == ""
  assert result.stderr == ("error: <stdin>:1:14: expected ',', found the end of the operation\n    vadd v1, v2\n               ^\n"
                           "traceback: tinytpu --debug asm -\n")
  assert "Traceback" in shell("--debug", "asm", "-", text="vadd").stderr
  assert "No such file" in shell("dump", "missing.tpu").stderr
  source.write_bytes(b"\xff\xfe")
  assert "neither a program container nor assembly text" in shell("dump", str(source)).stderr


def test_a_container_for_another_preset_is_refused(source: Path) -> None:
  from dataclasses import replace
  source.write_bytes(replace(assemble(ADD), config="8x8").to_bytes())
  assert "was assembled for preset 8x8, not 4x4" in shell("run", str(source), "--preset", "4x4").stderr


def test_docs(tmp_path: Path) -> None:
  cli("docs", "-o", str(tmp_path))
  cli("docs", "--check", "-o", str(tmp_path))
  for page in ("isa.md", "config.md"):
    right = (tmp_path / page).read_text()
    (tmp_path / page).write_text("old")
    assert "run `tinytpu docs`" in shell("docs", "--check", "-o", str(tmp_path)).stderr
    (tmp_path / page).write_text(right)


def test_docs_renews_what_is_made_in_pages(tmp_path: Path) -> None:
  docs = tmp_path / "docs"
  (docs / "pictures").mkdir(parents=True)
  (docs / "pictures" / "left.svg").touch()
  page = docs / "page.md"
  page.write_text(old := "<!-- made by tinytpu docs: array -->\n<!-- end -->\n")
  for arguments, told in ((("--check",), "page.md is not what its tables and commands say: run `tinytpu docs`"),
                          ((str(docs / "none.md"),), "none.md: nothing is made in that page")):
    cli("docs", "-o", str(docs), str(docs / "isa.md"))
    result = shell("docs", "-o", str(docs), *arguments, *[str(page)] * ("--check" in arguments))
    assert told in result.stderr and page.read_text() == old
  cli("docs", "-o", str(docs))
  assert "![A matrix step" in page.read_text() and (docs / "pictures" / "array.svg").exists()
  assert not (docs / "pictures" / "left.svg").exists(), "no page shows it"
  cli("docs", "--check", "-o", str(docs))
  (docs / "pictures" / "array.svg").write_text("old")
  assert "array.svg is not what" in shell("docs", "--check", "-o", str(docs), str(page)).stderr


def test_verilog(tmp_path: Path) -> None:
  target = tmp_path / "chip.v"
  assert "module tinytpu" in cli("verilog", "-o", str(target)).replace("\n", " ")
  assert "module tinytpu(" in target.read_text()


def test_verilog_with_buses(tmp_path: Path) -> None:
  target = tmp_path / "chip.v"
  assert "module tinytpu_axi" in cli("verilog", "--axi", "--axi-bits", "64", "-o", str(target)).replace("\n", " ")
  text = target.read_text()
  assert all(f"module {name}(" in text for name in ("tinytpu_axi", "tinytpu_clock_gate")) and "[63:0] m_axi_wdata;" in text
  assert "takes powers of two from 32 to 512" in shell("verilog", "--axi", "--axi-bits", "48").stderr
  assert "only --axi has" in " ".join(shell("verilog", "--axi-bits", "64").stderr.split())


def test_doctor() -> None:
  output = cli("doctor")
  assert "4x4 at 1 GHz" in output
  for name in ("python", "machine", "numpy", "C++ compiler", "verilator", "cache", "boot hook", "tinygrad device"):
    assert name in output


def test_demo() -> None:
  output = cli("demo", "--count", "16")
  assert "16 of 16 classes equal" in output and "matrix unit" in output


def test_fuzz_on_one_engine() -> None:
  assert "seed 7" in cli("fuzz", "-n", "2", "-s", "7", "-e", "iss")


# -- what a user may do that no one foresaw -----------------------------------------------------------

def test_exit_codes_are_told_apart(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
  """0 done, 1 error, 2 usage, 3 fault, 4 mismatch, 5 (tests/onnx) budget; the help says so."""
  assert shell("run", str(source), "--arg", "0=0", "--arg", "n=1").returncode == 0
  assert shell("run", str(tmp_path / "missing")).returncode == 1
  assert shell("run", str(source)).returncode == shell("run", str(source), "--nonsense").returncode == 2
  assert shell("run", str(source), "-p", "5x5").returncode == 2
  source.write_text("trap 1")
  assert shell("run", str(source)).returncode == 3
  monkeypatch.setattr("tinytpu.machine.compare.compare", lambda *_: ["cycles: iss 1, rtl 2"])
  assert "engines differ: cycles" in cli("run", str(source), "--engine", "both", code=4)
  monkeypatch.setattr("tinytpu.fuzz.run_fuzz", lambda *_, **__: 1)
  cli("fuzz", "-e", "iss", code=4)
  page = " ".join(cli("--help").split())
  for code, meaning in ((0, "done"), (1, "an error"), (2, "wrong usage"), (3, "the program ended in a fault"), (4, "the engines differ"),
                        (5, "a model's outputs are outside the error budget")):
    assert f"{code} {meaning}" in page


def test_a_bad_option_is_noticed_before_the_run(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setattr("tinytpu.machine.open_engine", lambda *_, **__: pytest.fail("an engine was opened"))
  for options in (["--show", "0"], ["--show", "vmem:1:2:3:4"], ["--set-memory", "0"], ["--set-memory", "0=@missing"], ["--at", "1"]):
    result = CliRunner().invoke(app, ["run", str(source), "--arg", "0=0", "--arg", "n=1", *options])
    assert isinstance(result.exception, UsageError | OSError)


def test_vmem_is_shown_on_either_engine(tmp_path: Path) -> None:
  path = tmp_path / "v.tasm"
  path.write_text("vlid v1\n vi2f v2, v1\n smov s1, 4096\n vst.w v2, [s1]\n vst.w v1, [s1 + 16]\n fence\n halt")
  options = ["--show", "vmem:4096:3:f32", "--show", "vmem:0x1040:3", "--show", "hbm:0:1"]
  for engine in ("iss", "rtl"):
    output = cli("run", str(path), "--engine", engine, *options)
    assert "vmem:4096:3:f32: [0. 1. 2.]" in output and "vmem:0x1040:3: [0 1 2]" in output and "hbm:0:1: [0]" in output


def test_arguments_may_be_named_as_registers(source: Path) -> None:
  assert "[1 1]" in cli("run", str(source), "--arg", "s32=64", "--arg", "s33=1", "--show", "64:2")


def test_help_names_the_argument_registers() -> None:
  assert "N=VALUE (N from 0, which is register s32), s32=VALUE" in " ".join(cli("run", "--help").replace("\u2502", " ").split())


def test_run_guesses_a_missing_halt(source: Path) -> None:
  for text in ("nop", "nop\n" * 4, "nop\n" * 256):  # within a packet, at its end, at the end of memory
    source.write_text(text)
    assert "the program ran past its end: is a `halt` missing?" in cli("run", str(source), code=3)
  source.write_text("nop ; .word 0xff")
  assert "is a `halt` missing" not in cli("run", str(source), code=3)


def test_run_states_the_clock(source: Path) -> None:
  source.write_text("halt")
  assert "time at 1 GHz" in cli("run", str(source)) and "time at 0.5 GHz" in cli("run", str(source), "-p", "4x4,clock_hz=500000000")


def test_names_are_no_markup(source: Path) -> None:
  for name in ("[/bold]", "[red]x[/]", ":warning:", "a[b"):
    source.write_text(f".kernel {name}\nhalt")
    assert f"{name} on 4x4" in cli("run", str(source))
    assert name in cli("asm", str(source)) and name in cli("dump", str(source.with_suffix(".tpu")))


def test_a_terminal_of_ascii(source: Path) -> None:
  source.write_text(".kernel k\u00e4\nhalt", encoding="utf-8")
  result = shell("run", str(source), PYTHONIOENCODING="ascii", LANG="C", LC_ALL="C")
  assert result.returncode == 0 and " us " in result.stdout and r"k\xe4 on 4x4" in result.stdout
  for command in (["--help"], ["run", "--help"], ["asm", str(source)], ["dump", str(source)]):
    assert shell(*command, PYTHONIOENCODING="ascii", LANG="C", LC_ALL="C").returncode == 0
  environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
  text = subprocess.run([sys.executable, "-c", SCRIPT, "disasm", str(source)], capture_output=True, check=True, env=environment).stdout
  assert assemble(text.decode()).name == "k\u00e4"


def test_closed_standard_input() -> None:
  close = "import os, sys; os.close(0); os.execv(sys.executable, [sys.executable, '-c', *sys.argv[1:]])"
  result = subprocess.run([sys.executable, "-c", close, SCRIPT, "asm", "-"], capture_output=True, text=True, check=False)
  assert result.returncode == 1 and result.stderr.startswith("error: standard input is closed")


def test_containers_go_through_pipes(source: Path) -> None:
  command = [sys.executable, "-c", SCRIPT]
  data = subprocess.run([*command, "asm", "-", "-o", "-"], input=ADD.encode(), capture_output=True, check=True).stdout
  assert Program.from_bytes(data) == assemble(ADD)
  text = subprocess.run([*command, "disasm", "-"], input=data, capture_output=True, check=True).stdout
  assert assemble(text.decode(), keep_source=False).words.tolist() == assemble(ADD).words.tolist()
  assert not Path("-").exists()


def test_asm_does_not_ignore_the_preset(source: Path, tmp_path: Path) -> None:
  cli("asm", str(source))
  container, other = source.with_suffix(".tpu"), tmp_path / "y.tpu"
  result = shell("asm", str(container), "-p", "8x8", "-o", str(other))
  assert result.returncode == 2 and "was assembled for preset 4x4, not 8x8" in result.stderr and not other.exists()
  cli("asm", str(container), "-p", "4x4", "--strip", "-o", str(other))
  assert Program.from_bytes(other.read_bytes()) == assemble(ADD, keep_source=False)
  cli("asm", str(source), "-p", "8x8", "-o", str(other))
  assert Program.from_bytes(other.read_bytes()).config == "8x8"
  text = cli("disasm", str(other))
  assert assemble(text, keep_source=False).config == "8x8"


def test_messages_of_containers_name_the_file(tmp_path: Path) -> None:
  path = tmp_path / "bad.tpu"
  path.write_bytes(assemble(ADD).to_bytes()[:-1])
  for command in ("run", "disasm", "dump", "asm"):
    result = shell(command, str(path))
    assert result.returncode == 1 and result.stderr.startswith(f"error: {path}: section SRC")


def test_fuzz_takes_no_negative_seed() -> None:
  assert CliRunner().invoke(app, ["fuzz", "-s", "-5", "-e", "iss"]).exit_code == 2
