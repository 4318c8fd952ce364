"""Operands to try rules on: everything at 8 bits, ends and random numbers of every length beyond, patterns of floats."""
from __future__ import annotations

from functools import cache

import numpy as np
from tinygrad.dtype import DType, dtypes

from tests.backend.uop_meaning import NUMPY, bitcast

RANDOM = 100_000
"""Random values, and random pairs."""
EXPONENTS = {16: (0, 1, 2, 5, 8, 10, 13, 14, 15, 16, 17, 20, 25, 29, 30, 31),
             32: (0, 1, 2, 23, 64, 100, 126, 127, 128, 129, 149, 157, 158, 200, 254, 255)}


def _rng(dtype: DType) -> np.random.Generator:
  return np.random.default_rng(dtype.bitsize)


@cache
def integers(dtype: DType) -> np.ndarray:
  """All of 8 and 16 bits (and both bools); of more, the neighbours of 0, of all powers of two and of their negatives, and random ones."""
  bits, to = dtype.bitsize, NUMPY[dtype]
  if bits <= 16:
    return np.arange(dtype.min, dtype.max + 1).astype(to)
  near = [s * (1 << k) + d for k in range(bits) for s in (1, -1) for d in (-2, -1, 0, 1, 2)]
  return np.concatenate([np.array(sorted({n % (1 << bits) for n in near}), np.uint64).astype(to), _random(dtype, _rng(dtype))])


def _random(dtype: DType, rng: np.random.Generator) -> np.ndarray:
  """Random numbers of every length in bits, of either sign."""
  bits = rng.integers(0, 2**64 - 1, RANDOM, np.uint64, endpoint=True)
  n = (bits >> rng.integers(64 - dtype.bitsize, 64, RANDOM).astype(np.uint64)).astype(NUMPY[dtype])
  return np.where(rng.random(RANDOM) < 0.5, n, np.zeros((), n.dtype) - n)


@cache
def ends(dtype: DType) -> np.ndarray:
  """A few hundred numbers at most: all of 8 bits, else what is next to powers of two."""
  if dtype.bitsize <= 8:
    return integers(dtype)
  powers = [1 << k for k in (0, 1, 2, 7, 8, 15, 16, 31, 32, 63) if k < dtype.bitsize]
  near = {s * n + d for n in powers for s in (1, -1) for d in (-1, 0, 1)} | {3, 5, 7, 10}
  return np.array(sorted({n % (1 << dtype.bitsize) for n in near}), np.uint64).astype(NUMPY[dtype])


@cache
def patterns(dtype: DType) -> np.ndarray:
  """256 floats of a format: both signs of 16 exponents with 8 mantissas; zeros, subnormals, infinities and NaNs among them."""
  bits, mantissa = dtype.bitsize, {dtypes.float16: 10, dtypes.bfloat16: 7, dtypes.float32: 23}[dtype]
  exponents = np.array(EXPONENTS[16 if dtype == dtypes.float16 else 32], np.uint64) << np.uint64(mantissa)
  top = 1 << mantissa
  fractions = np.array([0, 1, 2, top // 3, top // 2, top // 2 + 1, top - 2, top - 1], np.uint64)
  words = (exponents[:, None] | fractions).ravel()
  words = np.concatenate([words, words | np.uint64(1 << bits - 1)])
  return bitcast(words.astype(np.uint16 if bits == 16 else np.uint32), dtypes.uint16 if bits == 16 else dtypes.uint32, dtype)


@cache
def values(dtype: DType) -> np.ndarray:
  """Values of a dtype: all of 8 and 16 bits; of 32, ends or patterns, and random ones."""
  if dtype not in dtypes.floats:
    return integers(dtype)
  if dtype.bitsize == 16:
    return bitcast(np.arange(1 << 16).astype(np.uint16), dtypes.uint16, dtype)
  random = _rng(dtype).integers(0, 1 << 32, RANDOM, np.uint32).view(np.float32)
  return np.concatenate([patterns(dtype), random])


@cache
def pairs(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
  """Pairs: all at 8 bits and of two bools, all of the patterns of floats; of larger integers the ends and random ones, some close."""
  some = patterns(dtype) if dtype in dtypes.floats else ends(dtype)
  a, b = (x.ravel() for x in np.meshgrid(some, some, indexing="ij"))
  if dtype in dtypes.floats or dtype.bitsize <= 8:
    return a, b
  rng = _rng(dtype)
  x, y = _random(dtype, rng), _random(dtype, rng)
  near = x + rng.integers(-2, 3, RANDOM).astype(x.dtype)
  return np.concatenate([a, x, x]), np.concatenate([b, y, near])
