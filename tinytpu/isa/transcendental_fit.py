"""How the tables of the transcendental functions are made: `python -m tinytpu.isa.transcendental_fit` writes them anew.

On each segment a function is a quadratic in the position p / 2^24 within the segment, evaluated in integers with
`FRACTION` bits behind the point (`transcendental.quadratic`). Coefficients come from interpolation at the zeros of the third
Chebyshev polynomial, all but the best approximation for segments this short; they are rounded, and the constant one is
then moved so that the errors of the integer evaluation, truncations included, are centred. Exact arithmetic
throughout (integers, `fractions`, `decimal`): the same tables on every machine.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal, getcontext
from fractions import Fraction
from math import isqrt
from pathlib import Path
from typing import NamedTuple

getcontext().prec = 50

FRACTION = 30
"""Bits behind the point of a polynomial's value."""
POSITION = 24
"""Bits of a position within a segment."""
LOG_FOLD = 53
"""Significands from 1 + LOG_FOLD / 128 on, just below the root of 2, are halved before the logarithm."""
SAMPLES = 64

_THIRD = Fraction(isqrt(3 << 200), 2 << 100)  # cos(pi / 6), the outer zeros of the third Chebyshev polynomial being +- it
CHEBYSHEV = ((1 - _THIRD) / 2, Fraction(1, 2), (1 + _THIRD) / 2)
FROM_ZERO = (Fraction(0), _THIRD / (1 + _THIRD), 2 * _THIRD / (1 + _THIRD))
"""The zeros stretched so that the first is at the segment's start, where the polynomial is exact then."""


def _atan_inverse(n: int, bits: int) -> int:
  """arctan(1 / n) * 2^bits, a few units off."""
  power = total = (1 << bits) // n
  k = 1
  while power:
    power //= -n * n
    k += 2
    total += power // k
  return total


def pi(bits: int) -> int:
  """floor(pi * 2^bits), by Machin's formula with guard bits."""
  return 4 * (4 * _atan_inverse(5, bits + 32) - _atan_inverse(239, bits + 32)) >> 32


def two_over_pi(bits: int) -> int:
  """floor(2 / pi * 2^bits)."""
  return (1 << 2 * bits + 65) // pi(bits + 64)


_PI = Decimal(pi(180)) / (1 << 180)
_LN2 = Decimal(2).ln()


def _series(x: Decimal, first: int) -> Decimal:
  """x^first / first! - x^(first + 2) / (first + 2)! + ...: the cosine for first = 0, the sine for 1."""
  term, total, k = x ** first if first else Decimal(1), Decimal(0), first
  while abs(term) > Decimal(10) ** -48:
    total += term
    term *= -x * x / ((k + 1) * (k + 2))
    k += 2
  return total


def _exp2(f: Decimal) -> Decimal:
  return (f * _LN2).exp()


def _log_slope(f: Decimal) -> Decimal:
  return (1 + f).ln() / (f * _LN2) if f else 1 / _LN2


def _sine_slope(t: Decimal) -> Decimal:
  return _series(t * _PI / 2, 1) / t if t else _PI / 2


def _cosine(t: Decimal) -> Decimal:
  return _series(t * _PI / 2, 0)


class Segment(NamedTuple):
  """`function` on [start, start + length); exact: the value at the start must come out exact."""
  function: Callable[[Decimal], Decimal]
  start: Fraction
  length: Fraction
  exact: bool = False

  def value(self, p: Fraction) -> Fraction:
    """The function at position p, 0 to 1."""
    x = self.start + p * self.length
    return Fraction(self.function(Decimal(x.numerator) / Decimal(x.denominator)))


def segments() -> Iterator[Segment]:
  """All segments in the order of the table, which `transcendental` indexes: exp2, sine, logarithm, cosine."""
  for k in range(64):
    yield Segment(_exp2, Fraction(k, 64), Fraction(1, 64), exact=k == 0)
  for k in range(64):
    yield Segment(_sine_slope, Fraction(k, 128), Fraction(1, 128))
  for k in range(128):
    scale = 2 if k >= LOG_FOLD else 1
    yield Segment(_log_slope, (1 + Fraction(k, 128)) / scale - 1, Fraction(1, 128 * scale))
  for k in range(64):
    yield Segment(_cosine, Fraction(k, 128), Fraction(1, 128))


def fit(segment: Segment) -> tuple[int, int, int]:
  """The segment's coefficients (constant, linear, quadratic) in units of 2^-FRACTION."""
  nodes = FROM_ZERO if segment.exact else CHEBYSHEV
  x0, x1, x2 = nodes
  y0, y1, y2 = (segment.value(x) for x in nodes)
  slope = (y1 - y0) / (x1 - x0)
  quadratic = ((y2 - y1) / (x2 - x1) - slope) / (x2 - x0)
  linear = slope - quadratic * (x0 + x1)
  constant = y0 - x0 * (linear + quadratic * x0)
  c0, c1, c2 = (round(c * (1 << FRACTION)) for c in (constant, linear, quadratic))
  if not segment.exact:
    errors = []
    for k in range(SAMPLES + 1):
      p = min((k << POSITION) // SAMPLES, (1 << POSITION) - 1)
      got = c0 + (p * (c1 + (p * c2 >> POSITION)) >> POSITION)
      errors.append(segment.value(Fraction(p, 1 << POSITION)) * (1 << FRACTION) - got)
    c0 += round((max(errors) + min(errors)) / 2)
  return c0, c1, c2


def render() -> str:
  """The text of `transcendental_tables.py`."""
  rows = [str(fit(segment)) for segment in segments()]
  lines = [", ".join(rows[k:k + 4]) for k in range(0, len(rows), 4)]
  window = two_over_pi(256 - 37)
  limbs = [f"{window >> 32 * k & 0xFFFFFFFF:#010x}" for k in reversed(range(8))]
  return '\n'.join([
    '"""Tables of the transcendental functions, written by `python -m tinytpu.isa.transcendental_fit`: do not edit."""',
    "from __future__ import annotations", "",
    f"FRACTION = {FRACTION}", f"POSITION = {POSITION}", f"LOG_FOLD = {LOG_FOLD}", "",
    "# Coefficients (constant, linear, quadratic) of one segment each: exp2 from 0, sine from 64, logarithm from 128, cosine from 256.",
    "EXP2, SINE, LOG, COSINE = 0, 64, 128, 256", "SEGMENTS = (", *(f"  {line}," for line in lines), ")", "",
    "# 2 / pi as 8 limbs of 32 bits, most significant first: the first bit stands for 2^36.",
    f"TWO_OVER_PI = ({', '.join(limbs[:4])},", f"               {', '.join(limbs[4:])})", ""])


if __name__ == "__main__":
  Path(__file__).with_name("transcendental_tables.py").write_text(render())
