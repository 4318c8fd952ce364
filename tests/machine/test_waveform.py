"""Waveforms, read back: what the file tells about a launch is what its counters tell."""
from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pylibfst
import pytest

from tinytpu.config import preset
from tinytpu.isa.instruction import ins, pack
from tinytpu.machine import open_engine

CONFIG = preset("4x4")


Changes = dict[str, list[tuple[int, int]]]
"""Times and values of every signal, by its name with scopes."""


def number(bits: str) -> int:
  """Unknown bits count as zero."""
  return int(re.sub("[^01]", "0", bits), 2)


def read_vcd(path: Path) -> Changes:
  names: dict[str, list[str]] = {}
  scopes: list[str] = []
  changes: Changes = {}
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
      value = number(match[1] or match[2])
      for name in names[match[3]]:
        changes.setdefault(name, []).append((time, value))
  return changes


def read_fst(path: Path) -> Changes:
  file = pylibfst.lib.fstReaderOpen(str(path).encode())
  assert file != pylibfst.ffi.NULL
  _, signals = pylibfst.get_scopes_signals2(file)
  names: dict[int, list[str]] = {}
  for name, signal in signals.by_name.items():
    names.setdefault(signal.handle, []).append(name.split(" ")[0])
  changes: Changes = {}

  def change(data: object, time: int, handle: int, value: object) -> None:
    for name in names[handle]:
      changes.setdefault(name, []).append((time, number(pylibfst.string(value))))

  pylibfst.lib.fstReaderSetFacProcessMaskAll(file)
  assert pylibfst.fstReaderIterBlocks(file, change)
  assert pylibfst.lib.fstReaderGetTimescale(file) == -12  # picoseconds
  pylibfst.lib.fstReaderClose(file)
  # A block of the file begins with all values: changes are those that differ from the value before.
  return {name: [c for before, c in zip([(0, None), *found], found, strict=False) if c[1] != before[1]] for name, found in changes.items()}


READERS = {"vcd": read_vcd, "fst": read_fst}


def at(changes: list[tuple[int, int]], times: np.ndarray) -> np.ndarray:
  """Values at `times`, zero before the first change."""
  moments = np.array([-1, *(time for time, _ in changes)])
  values = np.array([0, *(value for _, value in changes)], object)
  return values[np.searchsorted(moments, times, side="right") - 1]


@pytest.mark.parametrize("suffix", READERS)
def test_waveform(tmp_path: Path, suffix: str):
  """Two launches in one file: clock, requests, groups issued and the cycle count, against the counters."""
  path = tmp_path / f"chip.{suffix}"
  engine = open_engine(CONFIG, "rtl", waveform=path)
  words = pack([[ins("hld", d=1, a=32)], [ins("vadd", d=1, a=1, imm=1)], [ins("hst", d=1, a=32), ins("halt")]])
  engine.hbm[:words.nbytes] = words.view(np.uint8)
  results = [engine.launch(0, [4096]), engine.launch(0, [8192 + 4])]
  engine.state()
  engine.close()
  signals = READERS[suffix](path)
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


def test_suffix_names_the_format(tmp_path: Path):
  with pytest.raises(ValueError, match="the suffix of a waveform names its format: .vcd or .fst"):
    open_engine(CONFIG, "rtl", waveform=tmp_path / "x.wave")
