"""The command line, as a user types it."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tinytpu import __version__
from tinytpu.asm import ArgKind, Program, assemble
from tinytpu.cli import app
from tinytpu.config import PRESETS

ADD = """.kernel add
.arg 0 buf 0
.arg 1 var n
  hld.w v1, [s32]
  vadd v1, v1, s33
  hst.w v1, [s32]
  fence
  halt
"""


def cli(*args: str, code: int = 0) -> str:
  """Output of a command that must end with exit code `code`."""
  result = CliRunner().invoke(app, args)
  assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
  return result.output


def shell(*args: str, text: str = "") -> subprocess.CompletedProcess[str]:
  """The command in a process of its own: what a user sees of errors."""
  script = "import sys; from tinytpu.cli import main; sys.argv[0] = 'tinytpu'; main()"
  return subprocess.run([sys.executable, "-c", script, *args], input=text, capture_output=True, text=True, check=False,
                        cwd=Path(__file__).parents[1])


@pytest.fixture
def source(tmp_path: Path) -> Path:
  path = tmp_path / "add.tasm"
  path.write_text(ADD)
  return path


def test_version_and_help() -> None:
  assert cli("--version").strip() == f"tinytpu {__version__}"
  page = cli("--help")
  for command in ("demo", "asm", "disasm", "dump", "run", "verilog", "build", "doctor", "docs", "fuzz"):
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
  assert result.returncode == 1 and "add --engine rtl" in result.stderr and not (tmp_path / "x.vcd").exists()


def test_run_shows_a_fault(source: Path) -> None:
  source.write_text("nop\ntrap 0x77\n")
  output = cli("run", str(source), code=1)
  assert "fault TRAP at word 1" in output and "info 0x77" in output and "group: trap 119" in output


def test_run_stops_at_the_limit(source: Path) -> None:
  source.write_text("again: jmp again")
  assert "WATCHDOG" in cli("run", str(source), "--limit", "1000", code=1)


@pytest.mark.parametrize("options, message", [
  ([], "argument 0 (buf 0) is not given: add --arg 0=VALUE"),
  (["--arg", "0=0"], "argument 1 (var n) is not given"),
  (["--arg", "0=0", "--arg", "m=1"], "expected REGISTER=VALUE, with a register from 0 to 31 or one of n"),
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
  assert message in str(result.exception)


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
  page = tmp_path / "isa.md"
  cli("docs", "-o", str(page))
  cli("docs", "--check", "-o", str(page))
  page.write_text("old")
  assert "run `tinytpu docs`" in shell("docs", "--check", "-o", str(page)).stderr


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
  for name in ("python", "numpy", "C++ compiler", "verilator", "cache", "boot hook", "tinygrad device"):
    assert name in output


def test_demo() -> None:
  output = cli("demo", "--count", "16")
  assert "16 of 16 classes equal" in output and "matrix unit" in output


def test_fuzz_on_one_engine() -> None:
  assert "seed 7" in cli("fuzz", "-n", "2", "-s", "7", "-e", "iss")
