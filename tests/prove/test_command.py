"""`python -m bench.prove`: what it prints and when it fails."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
  command = [sys.executable, "-m", "bench.prove", "--jobs", "1", *arguments]
  return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_theorem_by_name():
  result = run("float_cmp.choice")
  assert result.returncode == 0, result.stderr
  assert "[1/1] float_cmp.choice: proved" in result.stdout and "| all inputs | proved |" in result.stdout
  assert "1 of 1 theorems hold" in result.stdout


def test_time_that_is_not_enough_is_a_failure():
  result = run("float_mul.f16", "--limit", "0.05")
  assert result.returncode == 1 and "timeout" in result.stdout and "not so: float_mul.f16" in result.stderr


def test_a_name_that_is_not_there():
  result = run("float_mull")
  assert result.returncode == 1 and "no theorem's name begins so" in result.stderr and "float_mul.f16" in result.stderr
