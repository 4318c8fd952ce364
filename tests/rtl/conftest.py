"""Operands for tests of the arithmetic units: every special value against every other, then mixed random ones."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

POSITIVE = (
  *(0x00000000, 0x00000001, 0x00000002, 0x007FFFFE, 0x007FFFFF),  # zero, subnormals
  *(0x00800000, 0x00800001, 0x00FFFFFF, 0x01000000, 0x33000000, 0x33000001, 0x33800000),  # smallest normals, f16's
  *(0x387FC000, 0x387FE000, 0x387FF000, 0x38800000),  # around the smallest normal float16
  *(0x3EFFFFFF, 0x3F000000, 0x3F000001, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x3FC00000, 0x40000000, 0x40400000),
  *(0x477FE000, 0x477FEFFF, 0x477FF000, 0x47800000),  # around the largest float16
  *(0x4AFFFFFF, 0x4B000000, 0x4B7FFFFF, 0x4B800000, 0x4EFFFFFF, 0x4F000000, 0x4F7FFFFF, 0x4F800000),  # integers end
  *(0x7E800000, 0x7F000000, 0x7F7F7FFF, 0x7F7F8000, 0x7F7FFFFE, 0x7F7FFFFF),  # largest normals
  *(0x7F800000, 0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FC00001, 0x7FFFFFFF),  # infinity, NaNs
)
SPECIALS = np.array([*POSITIVE, *(word | 1 << 31 for word in POSITIVE)], np.uint32)


class Operands:
  """A source of test vectors (uint32 arrays) and what is needed to compare results."""

  specials = SPECIALS

  def __init__(self, seed: int) -> None:
    self.rng = np.random.default_rng(seed)

  def raw(self, n: int) -> np.ndarray:
    """Uniform bit patterns."""
    return self.rng.integers(0, 1 << 32, n, np.uint32)

  def words(self, n: int) -> np.ndarray:
    """All specials, then about n floats: uniform patterns, subnormals, few fraction bits, exponents of integers."""
    raw = self.raw(n)
    kinds = np.array_split(raw, 5)
    kinds[1] &= np.uint32(0x807FFFFF)  # subnormal
    kinds[2] &= np.uint32(0xFFFFFFFF) << self.rng.integers(8, 23, len(kinds[2]), np.uint32)  # ties of rounding
    kinds[3] = self.with_exponent(kinds[3], self.rng.integers(120, 162, len(kinds[3])))
    kinds[4] = self.with_exponent(kinds[4], self.rng.integers(98, 146, len(kinds[4])))  # float16's and around
    return np.concatenate([SPECIALS, *kinds])

  def pairs(self, n: int) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of specials, then about 2 n pairs: unrelated, close exponents, equal magnitudes but for a bit,
    products and quotients near both ends of the range, and exact ties."""
    a, b = self.words(n), self.words(n)
    self.rng.shuffle(b)
    k = len(a)
    exponent = (a >> 23 & 0xFF).astype(np.int64)
    close = self.with_exponent(self.raw(k), exponent + self.rng.integers(-27, 28, k))
    near = a ^ (np.uint32(1) << self.rng.integers(0, 32, k, np.uint32))
    offset = self.rng.choice([-149, -126, -24, 0, 24, 127], k) + self.rng.integers(-3, 4, k)
    product = self.with_exponent(self.raw(k), 254 - exponent + offset)
    quotient = self.with_exponent(self.raw(k), exponent - offset)
    choice = self.rng.integers(0, 4, k)
    related = np.choose(choice, [close, near, product, quotient])
    s = SPECIALS
    return np.concatenate([np.repeat(s, len(s)), a, a]), np.concatenate([np.tile(s, len(s)), b, related])

  def integer_pairs(self, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Integers of every size, with the ends of the ranges against each other."""
    ends = np.array([0, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1], np.uint32)
    a, b = (self.raw(n) >> self.rng.integers(0, 32, n, np.uint32) for _ in range(2))
    a, b = (np.where(self.rng.integers(0, 2, n), x, -x).astype(np.uint32) for x in (a, b))
    return np.concatenate([np.repeat(ends, len(ends)), a]), np.concatenate([np.tile(ends, len(ends)), b])

  @staticmethod
  def with_exponent(words: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """The words with their exponent fields replaced, clipped to the field."""
    return words & np.uint32(0x807FFFFF) | np.clip(exponent, 0, 255).astype(np.uint32) << np.uint32(23)

  @staticmethod
  def bits(values: np.ndarray) -> np.ndarray:
    """Float32 values as words, every NaN the canonical one."""
    words = values.astype(np.float32).view(np.uint32).copy()
    words[np.isnan(values)] = 0x7FC00000
    return words

  @staticmethod
  def check(got: np.ndarray, expected: np.ndarray, *operands: np.ndarray) -> None:
    """Equal bit for bit, or an error that lists the first differences in hexadecimal."""
    assert got.shape == expected.shape
    wrong = np.flatnonzero(got != expected)
    lines = [
      f"{' '.join(f'{x[i]:08x}' for x in operands)}: got {got[i]:08x}, expected {expected[i]:08x}" for i in wrong[:10]
    ]
    assert not len(wrong), f"{len(wrong)} of {len(got)} differ\n" + "\n".join(lines)


@pytest.fixture
def operands() -> Iterator[Operands]:
  """Random operands; the seed is printed, and set by TINYTPU_SEED to repeat a run."""
  seed = int(os.environ.get("TINYTPU_SEED") or np.random.SeedSequence().generate_state(1)[0])
  print(f"TINYTPU_SEED={seed}")
  with np.errstate(all="ignore"):
    yield Operands(seed)
