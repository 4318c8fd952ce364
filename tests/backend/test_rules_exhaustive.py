"""Every rule by which the backend replaces UOps, against what they mean: all operands of 8 bits, all pairs of patterns of floats, ends and
random numbers of 16, 32 and 64 bits, to the bit.

Rules that select operations are followed to the machine IR, which the table's reference functions evaluate (`uop_machine`); rules from
UOps to UOps are compared as UOps. What they must give comes from `uop_meaning`, which knows nothing of the backend. A rule that is
not listed in CHECKS fails. `python -m tests.backend.test_rules_exhaustive` prints what is tried, and how long it takes.
"""
from __future__ import annotations

import importlib
import pkgutil
import time
from collections.abc import Callable

import pytest
from tinygrad.dtype import dtypes
from tinygrad.uop.ops import GroupOp, Ops, PatternMatcher, UPat

import tinytpu.backend
from tests.backend import decomp_checks, lowering_checks
from tests.backend.operands import pairs
from tests.backend.rule_compare import Difference, const, of
from tests.backend.uop_meaning import meaning
from tinytpu.backend.decomp import copies, corrections, long_division
from tinytpu.backend.lower import arithmetic, division, peephole, rules
from tinytpu.backend.types import kind

CHECKS: dict[str, Callable[[], int]] = {
  **{f"rules.{op.name}.{k}": lambda key=(op, k): lowering_checks.selected(*key) for op, k in rules.RULES if op in lowering_checks.OPERANDS},
  **{f"peephole.{name}": lambda name=name: lowering_checks.fused(name) for name in lowering_checks.FORMS},
  "rules.cast_sequence": lowering_checks.casts, "arithmetic.bits": lowering_checks.constants, "division.divide": lowering_checks.quotients,
  "long_division.divide": decomp_checks.long_quotients, "corrections._from_float": decomp_checks.from_floats,
  "corrections._narrow": decomp_checks.narrowed, "corrections._signed": decomp_checks.signed_words,
  "corrections.move_gate": decomp_checks.gates_moved,
  "copies._bits": decomp_checks.words_of_halves, "copies._copy": decomp_checks.copied_halves}
"""By module and function, or row of a table, the check of a rule: it returns how many operands were tried."""


def names() -> set[str]:
  """What needs a check."""
  functions = [f for _, f in (*peephole.RULES, *corrections.CORRECTIONS.patterns, *copies.COPIES.patterns)]
  return {f"rules.{op.name}.{k}" for op, k in rules.RULES} | {
    f"{f.__module__.split('.')[-1]}.{f.__name__}" for f in (
      *functions, rules.cast_sequence, division.divide, corrections.move_gate, arithmetic.Values.bits)}


def test_every_rule_has_a_check():
  assert set(CHECKS) == names()


def test_no_other_rules():
  """A table of patterns that `names` does not know is noticed here."""
  found = set()
  for module in pkgutil.walk_packages(tinytpu.backend.__path__, "tinytpu.backend."):
    if "hooks" not in module.name:
      found |= {id(v) for v in vars(importlib.import_module(module.name)).values() if isinstance(v, PatternMatcher)}
  assert found == {id(peephole.PEEPHOLES), id(corrections.CORRECTIONS), id(copies.COPIES)}
  assert all(op in GroupOp.ALU for op, _ in rules.RULES)


def test_meaning_of_64_bits():
  """What the checks take for right, against Python's integers."""
  for dtype in decomp_checks.LONG:
    x, y = (n[::101] for n in pairs(dtype))
    x, y = x[y != 0], y[y != 0]
    a, b = of(dtype)
    for op in (Ops.CDIV, Ops.CMOD):
      want = [(abs(n) // abs(d) if (n < 0) == (d < 0) else -(abs(n) // abs(d))) for n, d in zip(x.tolist(), y.tolist(), strict=True)]
      want = want if op is Ops.CDIV else [n - q * d for n, q, d in zip(x.tolist(), want, y.tolist(), strict=True)]
      wrapped = [(n - dtype.min) % 2**64 + dtype.min for n in want]
      assert meaning(a.alu(op, b), {a: x, b: y}).tolist() == wrapped


@pytest.mark.parametrize("name", CHECKS)
def test_rule(name):
  assert CHECKS[name]() > 0


# -- faults that the checks must see --------------------------------------------------------------------
Patch = pytest.MonkeyPatch


def peephole_fault(name: str, wrong: Callable[..., peephole.Fused | None]) -> Callable[[Patch], None]:
  """A peephole's function with another in its place."""
  def plant(patch: Patch) -> None:
    wrong.__name__ = name
    patch.setattr(peephole, "RULES", tuple((p, wrong if f.__name__ == name else f) for p, f in peephole.RULES))
    patch.setattr(peephole, "PEEPHOLES", PatternMatcher(list(peephole.RULES)))
  return plant


def rule_fault(key: tuple[Ops, str], **change: object) -> Callable[[Patch], None]:
  return lambda patch: patch.setitem(rules.RULES, key, rules.RULES[key]._replace(**change))


def fault(module: object, name: str, wrong: Callable[[Callable], Callable]) -> Callable[[Patch], None]:
  return lambda patch: patch.setattr(module, name, wrong(getattr(module, name)))


def _old_minimum(u, a, b, ones):
  of, n = kind(u.dtype), peephole.constant(ones)
  return peephole.Fused({"i": "vmin", "u": "vminu"}[of], (a, b)) if of in "iu" and n in (u.dtype.max, -1) else None


def _by_fmin(u, a, b, yes, no):
  fused_ = peephole.choice(u, a, b, yes, no)
  return fused_ and fused_._replace(vector=fused_.vector.replace("vfs", "vf"))


def _by_fabs(u, x, **constants_):
  fused_ = peephole.magnitude(u, x, **constants_)
  return peephole.Fused("vfabs", (x,)) if fused_ and fused_.vector == "vfsmax" else fused_


def _any_sign(u, x, zero, less, minus, plus, none):
  return peephole.Fused("vsign", (x,)) if kind(u.dtype) == "i" else None


def _float_sign(u, x, **constants_):
  return peephole.Fused("vfsign", (x,)) if kind(u.dtype) == "f" else peephole.sign(u, x, **constants_)


FAULTS: dict[str, tuple[str, Callable[[Patch], None]]] = {
  "the largest signed number as a complement": ("peephole.integer_minimum", peephole_fault("integer_minimum", _old_minimum)),
  "a choice of floats by IEEE minimum": ("peephole.choice", peephole_fault("choice", _by_fmin)),
  "a magnitude that loses the sign of zero": ("peephole.magnitude", peephole_fault("magnitude", _by_fabs)),
  "a sign whatever the constants": ("peephole.sign", peephole_fault("sign", _any_sign)),
  "a sign of floats that is NaN for NaN": ("peephole.sign", peephole_fault("sign", _float_sign)),
  "operands of a minimum in the other order": ("peephole.float_minimum", peephole_fault("float_minimum", lambda a, b:
    peephole.Fused("vfsmin", (a, b)))),
  "a reduction's maximum that passes over NaN": ("peephole.largest", peephole_fault("largest", lambda most, a, b, **_:
    peephole.Fused("vfsmax", (b, a)))),
  "a rotation the other way": ("peephole.rotation", peephole_fault("rotation", lambda x, n, m:
    peephole.Fused("vrotl", (x, peephole.constant(m))))),
  "a rotation whatever the counts": ("peephole.rotation", peephole_fault("rotation", lambda x, n, m:
    peephole.Fused("vrotl", (x, peephole.constant(n))))),
  "half a round without its turn": ("peephole.half_round", peephole_fault("half_round", lambda x, n, m, y:
    peephole.Fused("vaxr", (x, 0, y)))),
  "a multiplier one too small": ("division.divide", fault(division, "multiplier", lambda right: lambda *of:
    (right(*of)[0] - 1, right(*of)[1]))),
  "a multiplier one too large": ("division.divide", fault(division, "multiplier", lambda right: lambda *of:
    (right(*of)[0] + 1, right(*of)[1]))),
  "negative dividends as unsigned ones": ("division.divide", fault(division, "_signed", lambda _: lambda b, n, d:
    division._unsigned(b, n, abs(d), 31))),
  "sums that do not wrap": ("rules.ADD.i", rule_fault((Ops.ADD, "i"), wraps=False)),
  "on the scalar unit, a logical shift": ("rules.SHR.i", rule_fault((Ops.SHR, "i"), scalar="sshr")),
  "signed comparisons of unsigned": ("rules.CMPLT.u", rule_fault((Ops.CMPLT, "u"), vector="vlt")),
  "the other of a number and NaN": ("rules.MAX.f", rule_fault((Ops.MAX, "f"), order=("a", "b"))),
  "products that are not rounded": ("rules.MUL.f", rule_fault((Ops.MUL, "f"), rounds=False)),
  "powers that are not rounded": ("rules.EXP2.f", rule_fault((Ops.EXP2, "f"), rounds=False)),
  "a cosine for a sine": ("rules.SIN.f", rule_fault((Ops.SIN, "f"), vector="vfcos")),
  "casts that do not wrap": ("rules.cast_sequence", fault(arithmetic, "cast_wraps", lambda _: lambda source, target:
    target.itemsize < source.itemsize)),
  "a digit corrected once": ("long_division.divide", lambda patch:
    patch.setattr(long_division, "range", lambda n: (0,), raising=False)),
  "zeros counted after rounding": ("long_division.divide", fault(long_division, "_leading_zeros", lambda _: lambda x:
    const(158, dtypes.uint32) - (x.cast(dtypes.float32).bitcast(dtypes.uint32) >> 23))),
  "the sign of an index": ("corrections._narrow", lambda patch: patch.setattr(corrections, "CORRECTIONS", PatternMatcher([
    (UPat(Ops.INDEX, name="u"), lambda u: u.replace(src=(u.src[0], u.src[1].cast(dtypes.int8).cast(dtypes.int32))))]))),
  "words that are never negative": ("corrections._signed", lambda patch: patch.setattr(corrections, "CORRECTIONS", PatternMatcher([
    (UPat(Ops.CAST, src=(UPat.var("x", dtypes.uint32),), name="u"), lambda u, x: (x & 0x7FFFFFFF).bitcast(dtypes.int32).cast(u.dtype))]))),
  "any alternative": ("corrections.move_gate", fault(corrections, "_holds", lambda _: lambda dtype, value: True)),
  "zeros of either sign": ("corrections.move_gate", fault(corrections, "_holds", lambda right: lambda dtype, value:
    right(dtype, value + 0))),
  "constants cut, not rounded": ("copies._bits", fault(copies, "half_bits", lambda right: lambda value, dtype:
    right(value * 0.999, dtype))),
}


@pytest.mark.parametrize("what", FAULTS)
def test_fault(what, monkeypatch):
  name, plant = FAULTS[what]
  plant(monkeypatch)
  with pytest.raises(Difference, match="of .*: .*, not "):
    CHECKS[name]()


def main() -> None:
  """Print what is tried, by rule."""
  total, start = 0, time.monotonic()
  for name, check in CHECKS.items():
    begin = time.monotonic()
    tried = check()
    total += tried
    print(f"{name:30}{tried:>14,} operands{time.monotonic() - begin:8.2f} s")
  print(f"{len(CHECKS)} rules, {total:,} operands, {time.monotonic() - start:.1f} s: each gives what its UOps mean")


if __name__ == "__main__":
  main()
