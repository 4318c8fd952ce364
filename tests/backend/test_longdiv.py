"""64-bit division, against Python's integers."""
from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor

COUNT = 512
ENDS = {np.int64: [-(2**63), -(2**63) + 1, -(2**32), -5, -1, 0, 1, 5, 2**16 - 1, 2**16, 2**32 - 1, 2**32, 2**63 - 1],
        np.uint64: [0, 1, 5, 2**16 - 1, 2**16, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63, 2**64 - 2, 2**64 - 1]}


def numbers(rng, dtype, count: int) -> list[int]:
  """Numbers of every length in bits, many of them next to a power of two, and the ends of the range."""
  lengths = rng.integers(1, 65, count)
  words = [int(w) >> 64 - int(n) for w, n in zip(rng.integers(0, 2**64, count, dtype=np.uint64), lengths, strict=True)]
  near = [(1 << int(n)) - int(d) for n, d in zip(lengths, rng.integers(0, 3, count), strict=True)]
  bits = np.array([w if c else n % 2**64 for w, n, c in zip(words, near, rng.random(count) < 0.7, strict=True)], np.uint64)
  return [*ENDS[dtype], *bits.astype(dtype).tolist()]


def wrapped(n: int, dtype) -> int:
  return n if dtype is np.uint64 else (n + 2**63) % 2**64 - 2**63


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_by_a_tensor(dtype, rng):
  a, b = numbers(rng, dtype, COUNT), [n or 3 for n in numbers(rng, dtype, COUNT)]
  b = [b[i] for i in rng.permutation(len(b))]
  x, y = Tensor(np.array(a, dtype)), Tensor(np.array(b, dtype))
  assert (x // y).tolist() == [wrapped(n // m, dtype) for n, m in zip(a, b, strict=True)]
  assert (x % y).tolist() == [n % m for n, m in zip(a, b, strict=True)]


@pytest.mark.parametrize("dtype, by", [(np.int64, n) for n in (-(2**63), -(2**32), -5, 1, 7, 2**16, 10**12, 2**63 - 1)]
                         + [(np.uint64, n) for n in (7, 2**16 - 1, 100_000, 2**32 - 1, 2**32 + 1, 2**63, 2**64 - 1)])
def test_by_a_constant(dtype, by, rng):
  a = numbers(rng, dtype, 40)
  x = Tensor(np.array(a, dtype))
  assert (x // by).tolist() == [wrapped(n // by, dtype) for n in a]
  assert (x % by).tolist() == [n % by for n in a]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_where_the_range_is_known(dtype, rng):
  """Quotients of what fits 32 bits, and of what is never negative, take shorter ways."""
  a, b = rng.integers(0, 2**32, 100, dtype=np.uint32), rng.integers(1, 2**32, 100, dtype=np.uint32)
  x, y = Tensor(a).cast(Tensor(np.zeros(1, dtype)).dtype), Tensor(b).cast(Tensor(np.zeros(1, dtype)).dtype)
  for n, m in ((x, y), (x * 8191, y), (x, y * 8191)):
    s, t = (8191 if n is not x else 1), (8191 if m is not y else 1)
    assert (n // m).tolist() == [int(p) * s // (int(q) * t) for p, q in zip(a, b, strict=True)]
    assert (n % m).tolist() == [int(p) * s % (int(q) * t) for p, q in zip(a, b, strict=True)]
