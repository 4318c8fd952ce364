"""Waveforms, read back: what the file tells about a launch is what its counters tell."""
from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tinytpu.config import preset
from tinytpu.isa.instruction import ins, pack
from tinytpu.machine import open_engine

CONFIG = preset("4x4")


def read_vcd(path: Path) -> dict[str, list[tuple[int, int]]]:
  """Changes (time, value) of every signal, by its name with scopes; unknown bits count as zero."""
  names: dict[str, list[str]] = {}
  scopes: list[str] = []
  changes: dict[str, list[tuple[int, int]]] = {}
  header, body = path.read_text().split("$enddefinitions $end", 1)
  for line in header.splitlines():
    if match := re.match(r"\s*\$scope \w+ (\S+) \$end", line):
      scopes.append(match[1])
    elif "$upscope" in line:
      scopes.pop()
    elif match := re.match(r"\s*\$var \w+ +\d+ (\S+) (\S+)", line):
      names.setdefault(match[1], []).append(".".join([*scopes, match[2]]))
  time = 0
  for line in body.split("\n"):
    if line.startswith("#"):
      time = int(line[1:])
    elif match := re.match(r"(?:b([01xz]+) |([01xz]))(\S+)$", line):
      value = int(re.sub("[xz]", "0", match[1] or match[2]), 2)
      for name in names[match[3]]:
        changes.setdefault(name, []).append((time, value))
  return changes


def at(changes: list[tuple[int, int]], times: np.ndarray) -> np.ndarray:
  """Values at `times`, zero before the first change."""
  moments = np.array([-1, *(time for time, _ in changes)])
  values = np.array([0, *(value for _, value in changes)], object)
  return values[np.searchsorted(moments, times, side="right") - 1]


def test_waveform(tmp_path: Path):
  """Two launches in one file: clock, requests, groups issued and the cycle count, against the counters."""
  path = tmp_path / "chip.vcd"
  engine = open_engine(CONFIG, "rtl", waveform=path)
  words = pack([[ins("hld", d=1, a=32)], [ins("vadd", d=1, a=1, imm=1)], [ins("hst", d=1, a=32), ins("halt")]])
  engine.hbm[:words.nbytes] = words.view(np.uint8)
  results = [engine.launch(0, [4096]), engine.launch(0, [8192 + 4])]
  engine.state()
  engine.close()
  signals = read_vcd(path)
  top = min((name for name in signals if name.endswith(".busy")), key=len).removesuffix("busy")
  half = 500  # picoseconds, at the preset's 1 GHz
  clock = signals[f"{top}clk"]
  assert [time for time, _ in clock] == [half * k for k in range(len(clock))]
  settled = np.array([time for time, value in clock if value == 0])  # of every cycle, before its edge
  assert len(settled) > sum(result.cycles for result in results)
  lines = CONFIG.ibuf_block_lines
  assert at(signals[f"{top}fetch__valid"], settled).sum() == sum(r.counters["refills"] for r in results) * lines == lines
  assert at(signals[f"{top}vector__valid"], settled).sum() == sum(r.counters["hbm_lines"] for r in results) == 2 + 4
  busy = at(signals[f"{top}busy"], settled).astype(int)
  assert (np.diff(busy) == 1).sum() == 2  # the host reads state afterwards, which is not in the file
  assert [value for _, value in signals[f"{top}chip.core.cycles"] if value] == [result.cycles for result in results]


def test_only_the_hardware_has_waveforms(tmp_path: Path):
  with pytest.raises(ValueError, match="use the engine rtl"):
    open_engine(CONFIG, "iss", waveform=tmp_path / "x.vcd")


def test_file_that_cannot_be_written(tmp_path: Path):
  with pytest.raises(OSError, match="cannot write the waveform"):
    open_engine(CONFIG, "rtl", waveform=tmp_path / "nowhere" / "x.vcd")
