"""The page of benchmarks: every measurement of a kind that it draws is on it."""
from __future__ import annotations

import re

import pytest

from bench import plot
from bench.history import HISTORY


def test_the_history_as_it_is(tmp_path):
  plot.run(tmp_path / "history.html")
  text = (tmp_path / "history.html").read_text()
  rows = plot.load()
  for chart in plot.CHARTS:
    found = plot.lines(chart, rows)
    assert found, chart.title
    assert chart.title in text and all(name in text for name in found)
  assert not re.search(r'<(script|link|img)[^>]+(src|href)=', text), "the page reads something from elsewhere"
  assert len(rows) == len(HISTORY.read_text().splitlines())


def test_lines_follow_time():
  rows = [{"kind": "suite", "date": "2026-01-01T00:00Z", "commit": "a", "cycles": {"add": 9}, "geomean_elements_per_cycle": 1.0},
          {"kind": "gemm", "date": "2026-01-01T00:00Z", "commit": "a", "gemm": {}},
          {"kind": "suite", "date": "2026-01-02T00:00Z", "commit": "b", "cycles": {"add": 7, "sum": 3}, "geomean_elements_per_cycle": 1.5}]
  assert plot.lines(plot.CHARTS[0], rows) == {"add": [("2026-01-01T00:00Z a", 9), ("2026-01-02T00:00Z b", 7)],
                                              "sum": [("2026-01-02T00:00Z b", 3)]}
  assert "no measurements" in plot.page([])


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"kind": "suite"'])
def test_a_line_that_is_no_measurement_is_named(tmp_path, line):
  path = tmp_path / "history.jsonl"
  path.write_text('{"kind": "suite", "date": "2026-01-01T00:00Z", "commit": "a"}\n' + line + "\n")
  with pytest.raises(ValueError, match=r"history\.jsonl:2 is no measurement"):
    plot.load(path)
