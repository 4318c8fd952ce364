"""TINYTPU_ORIGINS: each operation knows its UOps, each UOp the lines and methods that it was made by, and the code stays as it is."""
from __future__ import annotations

import json

PROGRAM = """
import json, sys
import numpy as np
from tinygrad import Device, Tensor, TinyJit
from tinytpu.backend.device import TinyTPUProgram

kernels = []
made = TinyTPUProgram.__init__
def note(self, dev, obj):
  made(self, dev, obj)
  kernels.append(self.container)
TinyTPUProgram.__init__ = note

x = Tensor(np.arange(256, dtype=np.float32).reshape(16, 16)).realize()
w = Tensor(np.ones((16, 16), np.float32)).realize()
def layer(x):
  y = x @ w
  return (y + 1).relu()
layer(x).softmax().realize()
def f(x): return (x + 2).exp()
def g(x): return (x + 2).sqrt()
f(x).realize(); g(x).realize()
loss = layer(w).sum()
loss.gradient(w)[0].realize()

@TinyJit
def step(x): return f(x).contiguous() * 3
for _ in range(3): out = step(x).realize()
print(json.dumps([{"name": k.name, "words": k.words.tolist(), "args": [str(a) for a in k.args],
                   "uops": [[u.text, [[c.method, c.where] for c in u.calls]] for u in k.origins.uops] if k.origins else None,
                   "from": k.origins.words if k.origins else None} for k in kernels]))
"""


def found(script, **environment):  # type: ignore[no-untyped-def]
  return json.loads(script(PROGRAM, DEV="TINYTPU", **environment).splitlines()[-1])


def lines(text: str) -> dict[str, int]:
  """Number of the first line that has a text, by what stands there."""
  return {line.strip(): n for n, line in reversed(list(enumerate(text.split("\n"), 1)))}


def test_lines_and_methods(script) -> None:  # type: ignore[no-untyped-def]
  told, plain = found(script, TINYTPU_ORIGINS="1"), found(script)
  assert [{**k, "uops": None, "from": None} for k in told] == plain  # the same code, and nothing told if nobody asks
  at = lines(PROGRAM)
  product, sum_, add = at["y = x @ w"], at["layer(x).softmax().realize()"], at["return (y + 1).relu()"]

  def calls(kernel) -> set[tuple[str, int]]:  # type: ignore[no-untyped-def]
    return {(method, int(where.split(":")[1])) for _, made in kernel["uops"] for method, where in made}

  def of(op: str, kernel) -> set[tuple[str, int]]:  # type: ignore[no-untyped-def]
    return {(m, int(w.split(":")[1])) for text, made in kernel["uops"] if text.split()[1] == op for m, w in made}

  first = told[0]
  assert of("WMMA", first) == {("matmul", product)} and {("add", add), ("relu", add)} <= calls(first)
  assert of("EXP2", next(k for k in told if of("EXP2", k))) == {("softmax", sum_)}
  # What kernels have in common is told apart: x + 2 is one UOp of both.
  for function, method in (("f", "exp"), ("g", "sqrt")):
    line = next(n for text, n in at.items() if text.startswith(f"def {function}(x)"))
    assert any(calls(k) == {("add", line), (method, line)} for k in told), (function, [calls(k) for k in told])
  assert any(("matmul.backward", product) in calls(k) for k in told)
  for k in told:  # all but what the compiler adds
    assert len(k["from"]) == len(k["words"]) and all(n < len(k["uops"]) for numbers in k["from"] for n in numbers)
    assert sum(map(bool, k["from"])) > 0.6 * len(k["words"]) - 8, k["name"]
    assert all(made for _, made in k["uops"]), k["name"]


def test_kernels_that_beam_finds_have_lines(script) -> None:  # type: ignore[no-untyped-def]
  """BEAM's kernel is another than the schedule's; of those that it tries none tells."""
  program = PROGRAM.split("def layer")[0] + "(x + w).exp().realize()\nprint(json.dumps([[k.name, [[c.method for c in u.calls] for u in " \
    "k.origins.uops]] for k in kernels if k.origins]))"
  kernels = json.loads(script(program, DEV="TINYTPU", BEAM="1", CACHELEVEL="0", TINYTPU_ORIGINS="1").splitlines()[-1])
  made = {name: {method for calls in uops for method in calls} for name, uops in kernels if name != "test"}
  assert list(made.values()) == [{"add", "exp"}], made


def test_the_profile_has_lines(script, tmp_path) -> None:  # type: ignore[no-untyped-def]
  script(PROGRAM, DEV="TINYTPU", TINYTPU_PROFILE=str(tmp_path))
  run = json.loads((tmp_path / "report.json").read_text())["run"]
  at = lines(PROGRAM)
  told = {int(row["where"].split(":")[1]): row["cycles"] for row in run["lines"]}
  assert {at["y = x @ w"], at["return (y + 1).relu()"], at["layer(x).softmax().realize()"]} <= set(told)
  assert 0.5 * run["cycles"] < sum(told.values()) < run["cycles"]
  assert abs(sum(told.values()) - sum(row["cycles"] for row in run["methods"])) < 1 + 0.1 * len(run["methods"])
  assert "softmax" in {row["method"] for row in run["methods"]}
  page = (tmp_path / "report.html").read_text()
  assert "By line and method" in page and "<b>matmul</b>" in page
