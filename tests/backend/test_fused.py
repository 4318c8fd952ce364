"""Operations that stand for several UOps, and division by constants: the same values, and really in the program."""
from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from tinygrad import Tensor, codegen, dtypes
from tinygrad.helpers import Context

from tinytpu.backend import renderer


@pytest.fixture
def used(monkeypatch) -> Callable[..., tuple[np.ndarray, set[str]]]:
  """Compute something; returns it and the operations in the programs compiled for it."""
  def run(compute: Callable[[], Tensor]) -> tuple[np.ndarray, set[str]]:
    texts = []

    def render(*args):
      texts.append(theirs(*args))
      return texts[-1]
    theirs = renderer.render
    monkeypatch.setattr(renderer, "render", render)
    codegen.to_program_cache.clear()
    with Context(PARALLEL=0):
      result = compute().numpy()
    monkeypatch.setattr(renderer, "render", theirs)
    return result, set(re.findall(r"\b[svxh][a-z0-9]+\b", " ".join(texts)))
  return run


def threefry(counter: np.ndarray, key: np.ndarray) -> np.ndarray:
  """Threefry 2x32 of 20 rounds (Salmon et al., Random123), uint64 words with x1 and key 1 in their upper halves."""
  with np.errstate(over="ignore"):
    x, k = ([a.astype(np.uint32), (a >> np.uint64(32)).astype(np.uint32)] for a in (counter, key))
    k.append(k[0] ^ k[1] ^ np.uint32(0x1BD11BDA))
    x = [x[0] + k[0], x[1] + k[1]]
    for i in range(20):
      r = (13, 15, 26, 6, 17, 29, 16, 24)[i % 8]
      x[0] = x[0] + x[1]
      x[1] = (x[1] << np.uint32(r) | x[1] >> np.uint32(32 - r)) ^ x[0]
      if i % 4 == 3:
        s = i // 4 + 1
        x = [x[0] + k[s % 3], x[1] + k[(s + 1) % 3] + np.uint32(s)]
    return x[1].astype(np.uint64) << np.uint64(32) | x[0]


def test_threefry(used, rng):
  assert threefry(np.zeros(1, np.uint64), np.zeros(1, np.uint64))[0] == 0x99BA4EFE_6B200159  # Random123's known answer
  x, key = (rng.integers(0, 1 << 64, 50, np.uint64) for _ in range(2))
  got, operations = used(lambda: Tensor(x).threefry(Tensor(key)))
  np.testing.assert_array_equal(got, threefry(x, key))
  assert "vaxr" in operations and not operations & {"vshl", "vrotl"}


def test_rotation(used, rng):
  x = rng.integers(0, 1 << 32, 40, np.uint32)
  t = Tensor(x).realize()
  for n in (1, 7, 31):
    got, operations = used(lambda n=n: (t << n) | (t >> (32 - n)))
    np.testing.assert_array_equal(got, x << np.uint32(n) | x >> np.uint32(32 - n))
    assert "vrotl" in operations
  got, operations = used(lambda: (t << 5) | (t >> 26))  # none
  np.testing.assert_array_equal(got, x << np.uint32(5) | x >> np.uint32(26))
  assert "vrotl" not in operations


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38, 0.5, -2.5], np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int8, np.uint8, np.uint32])
def test_choices(dtype, used, rng):
  print("seed 7")
  if np.dtype(dtype).kind == "f":
    a, b = (x.ravel() for x in np.meshgrid(*2 * [SPECIAL[np.abs(SPECIAL) != np.float32(3.4e38)].astype(dtype)]))
  else:
    info = np.iinfo(dtype)
    a, b = (rng.choice(np.array([info.min, info.max, 0, 1, 2, *rng.integers(info.min, info.max, 9, dtype)], dtype), 60) for _ in range(2))
  x, y = Tensor(a).realize(), Tensor(b).realize()
  prefix = {"f": "vfs", "i": "v", "u": "v"}[np.dtype(dtype).kind]
  suffix = "u" if np.dtype(dtype).kind == "u" else ""
  got, operations = used(lambda: x.minimum(y))
  np.testing.assert_array_equal(got, np.where(b < a, b, a))
  assert f"{prefix}min{suffix}" in operations
  got, operations = used(lambda: x.clamp(1, 2))
  np.testing.assert_array_equal(got, np.clip(a, dtype(1), dtype(2)))
  assert f"{prefix}min{suffix}" in operations
  if not suffix:
    got, operations = used(lambda: x.abs())
    np.testing.assert_array_equal(got, np.abs(a))
    assert ("vfsmax" if prefix == "vfs" else "vabs") in operations
  np.testing.assert_array_equal((x < y).where(x, y).numpy(), np.where(a < b, a, b))
  np.testing.assert_array_equal((x < y).where(y, x).numpy(), np.where(a < b, b, a))
  if prefix == "v" and not suffix:
    got, operations = used(lambda: x.sign())
    np.testing.assert_array_equal(got, np.sign(a))
    assert "vsign" in operations


def truncated(n: np.ndarray, d: int) -> np.ndarray:
  """n / d rounded toward zero, by Python's integers."""
  return np.array([abs(int(x)) // abs(d) * (1 if (x < 0) == (d < 0) else -1) for x in n], np.int64)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int8, np.uint16])
def test_division_by_constants(dtype, used, rng):
  print("seed 7")
  info = np.iinfo(dtype)
  positive = [3, 7, 10, 100, 641, 1000003, info.max, info.max - 1, *(int(d) for d in rng.integers(2, info.max, 4, dtype))]
  for d in [d for d in positive if d <= info.max] + ([-3, -7, -info.max] if info.min else []):
    edges = [0, 1, info.max, info.min, info.max // d * d, max(info.min, min(info.max, info.max // d * d - 1))]
    a = np.concatenate([edges, rng.integers(info.min, info.max, 40, dtype, endpoint=True)]).astype(dtype)
    x, wide = Tensor(a).realize(), a.astype(np.int64)
    for compute, expected in ((lambda x, d: x // d, wide // d), (lambda x, d: x % d, wide % d),
                              (lambda x, d: x.div(d, rounding_mode="trunc"), truncated(a, d))):
      got, operations = used(partial(compute, x, d))
      np.testing.assert_array_equal(got, expected.astype(dtype), err_msg=str(d))
      assert not operations & {"vdiv", "vdivu", "vrem", "vremu"}


def test_division_of_indices(used):
  """Known not to be negative: the short form."""
  got, operations = used(lambda: (Tensor.arange(300, dtype=dtypes.int32).contiguous() // 7))
  np.testing.assert_array_equal(got, np.arange(300) // 7)
  assert "vdiv" not in operations


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_quotients_with_a_divisor_in_common(dtype, rng):
  """Each is rounded once, from the whole range."""
  print("seed 7")
  with np.errstate(all="ignore"):
    special = [0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38, 1e-38, 1]
    y = np.concatenate([rng.standard_normal(18) * 10.0 ** rng.integers(-44, 38, 18), special]).astype(dtype)
    x = rng.standard_normal((27, 40)) * 10.0 ** rng.integers(-44, 38, (27, 40))
    x = np.concatenate([x, np.repeat([special], 27, 0)], 1).astype(dtype)
    x[:, :4] = y[:, None]  # quotients near 1 of the smallest and largest
    got = (Tensor(x).realize() / Tensor(y.reshape(27, 1)).realize()).numpy()
    np.testing.assert_array_equal(got, (x.astype(np.float32) / y.astype(np.float32)[:, None]).astype(dtype))
