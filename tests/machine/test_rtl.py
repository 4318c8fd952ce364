"""The RTL engine's build: found again by its sources, rebuilt when they or the configuration change."""
from __future__ import annotations

import numpy as np
import pytest

from tinytpu.config import preset
from tinytpu.isa.instruction import ins, pack
from tinytpu.machine import open_engine, rtl

CONFIG = preset("4x4")


def test_library_is_found_without_generating_verilog(monkeypatch):
  path = rtl.library(CONFIG)
  lines: list[str] = []

  def no_verilog(*args: object, **kwargs: object) -> str:
    pytest.fail("Verilog is generated again")

  monkeypatch.setattr(rtl, "to_verilog", no_verilog)
  assert rtl.library(CONFIG, lines.append) == path and lines == []


def test_key_depends_on_configuration_and_sources(monkeypatch):
  key = rtl.source_key(CONFIG)
  assert key == rtl.source_key(preset("4x4"))
  assert key != rtl.source_key(preset("4x4", hbm_latency=CONFIG.hbm_latency + 1))
  monkeypatch.setattr(rtl, "version", lambda tool: "0")
  assert key != rtl.source_key(CONFIG)


def test_two_engines_are_two_machines():
  """Same library, separate memories, registers and instruction buffers."""
  first, second = open_engine(CONFIG, "rtl"), open_engine(CONFIG, "rtl")
  try:
    for engine, value in ((first, 1), (second, 2)):
      words = pack([[ins("sadd", d=1, a=0, imm=value)], [ins("halt")]])
      engine.hbm[:words.nbytes] = words.view(np.uint8)
    results = [engine.launch(0) for engine in (first, second)]
    assert [engine.state()["sregs"][1] for engine in (first, second)] == [1, 2]
    assert [r.counters["refills"] for r in results] == [1, 1] and results[0].cycles == results[1].cycles
  finally:
    first.close()
    second.close()


def test_closing_twice():
  engine = open_engine(CONFIG, "rtl")
  engine.close()
  engine.close()
