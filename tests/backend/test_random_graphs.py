"""1,000 random graphs against a reference to the bit; and that such a run finds faults of the kinds that it is there for."""
from __future__ import annotations

import re

import pytest

from tests.backend.random_graphs.graph import OPS
from tests.backend.random_graphs.run import draw, judge, script
from tests.backend.random_graphs.shrink import smallest
from tests.backend.random_graphs.values import DTYPES


@pytest.mark.parametrize("first", range(0, 1000, 25))
def test_graphs(first, monkeypatch):
  monkeypatch.setenv("TINYTPU_CHECK", "1")
  others = 0
  for seed in range(first, first + 25):
    graph = draw(seed)
    verdict = judge(graph)
    if verdict.kind == "wrong":
      pytest.fail(f"seed {seed}: {verdict.why}\n{script(smallest(graph, lambda g: judge(g).kind == 'wrong'))}")
    others += verdict.kind != "right"
  assert others <= 2  # refused, or as tinygrad has it everywhere


def test_everything_is_drawn():
  drawn, dtypes = set(), set()
  for seed in range(400):
    graph = draw(seed)
    drawn |= {step.op for step in graph.steps}
    dtypes |= {step.dtype for step in graph.steps}
  assert dtypes == set(DTYPES) and len(drawn) > len(OPS) > 40
  assert any(draw(seed).calls for seed in range(100))


PLANTED = {
  "a product with a shared reciprocal in place of a quotient": ("""
from tinygrad.uop.ops import Ops
from tinytpu.backend.lower.arithmetic import Values
theirs = Values._alu
def planted(self, u):
  if u.op is Ops.FDIV and u.src[0].op is not Ops.CONST:
    seen = self.__dict__.setdefault("divisors", {})
    seen.setdefault(u.src[1], set()).add(u)
    if len(seen[u.src[1]]) > 1:
      x, y = (self.value(s) for s in u.src)
      return self.round(self.b.vector("vfmul", x, self.b.vector("vfrcp", y)), u.dtype)
  return theirs(self, u)
Values._alu = planted
""", "is"),
  "loads past a buffer's end": ("""
from tinytpu.backend.lower.memory import Memory
Memory._inside = lambda self, u: None
""", "AccessError|VMEM_BOUNDS"),
  "bounds that take it that nothing wraps": ("""
from tinytpu.backend.intervals import Intervals
Intervals.of = lambda self, u: (int(u.vmin), int(u.vmax))
""", "is"),
  "a maximum that is another's": ("""
from tinygrad.uop.ops import Ops
from tinytpu.backend.lower import rules
rules.RULES[Ops.MAX, "f"] = rules.Rule("vfmax", "", ("b", "a"))
""", "is"),
}

HUNT = """
import tinytpu.boot
{plant}
from tests.backend.random_graphs.run import draw, judge, script
from tests.backend.random_graphs.shrink import smallest
for seed in range({n}):
  if (verdict := judge(draw(seed))).kind == "wrong":
    least = smallest(draw(seed), lambda g: judge(g).kind == "wrong", tries=60)
    print(f"found by seed {{seed}}: {{verdict.why}}; {{len(least.steps)}} of {{len(draw(seed).steps)}} steps")
    print(script(least))
    break
"""


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_are_found(fault, script):
  plant, sign = PLANTED[fault]
  out = script(HUNT.format(plant=plant, n=600), TINYTPU_CHECK="1", PARALLEL="0")
  assert (found := re.match(r"found by seed \d+: (.*); (\d+) of (\d+) steps", out)) is not None, "not found"
  assert re.search(rf"\b({sign})\b", found[1]) and int(found[2]) <= int(found[3])
