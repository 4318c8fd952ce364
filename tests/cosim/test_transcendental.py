"""exp2, log2, sin and cos of a million floats each, of all kinds, on both engines: the same bits and the same cycles."""
from __future__ import annotations

import numpy as np
import pytest

from tinytpu.isa.instruction import Label, ins, pack

COUNT = 1 << 20
SPECIAL = (0x00000000, 0x00000001, 0x007FFFFF, 0x00800000, 0x3F800000, 0x3FC90FDB, 0x40490FDB, 0x42FC0000, 0x42FE0000, 0x43000000,
           0x43150000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF)
"""Zeros, subnormals, one, pi / 2, pi, ends of exp2's range, infinity, NaNs; with either sign."""
INPUT, OUTPUT = 1 << 20, 1 << 24
UNROLL = 8


def inputs(seed: int) -> np.ndarray:
  """Bit patterns, uint32 of shape (COUNT,): specials and their neighbours, all exponents alike, and numbers of everyday size."""
  rng = np.random.default_rng(seed)
  words = rng.integers(0, 1 << 32, COUNT, dtype=np.uint32)
  words[COUNT // 2:] = (rng.standard_normal(COUNT // 2) * 10).astype(np.float32).view(np.uint32)
  near = (np.array(SPECIAL, np.uint32)[:, None] + np.arange(-20, 21).astype(np.uint32)).reshape(-1)
  words[:2 * len(near)] = np.concatenate([near, near ^ np.uint32(1 << 31)])
  return words


def program(name: str, tile_bytes: int) -> np.ndarray:
  """s32: input, s33: output, s34: passes of UNROLL tiles."""
  tile = tile_bytes // 4
  loads = [[ins("hld", d=i, a=32, off=i * tile)] for i in range(UNROLL)]
  work = [[ins(name, d=i, a=i)] for i in range(UNROLL)]
  stores = [[ins("hst", d=i, a=33, off=i * tile)] for i in range(UNROLL)]
  step = UNROLL * tile_bytes
  return pack([[ins("loop", a=34, target="end")], *loads, [ins("sadd", d=32, a=32, imm=step)], *work, *stores,
               [ins("sadd", d=33, a=33, imm=step), ins("lend")], Label("end"), [ins("halt")]])


@pytest.mark.parametrize("seed, name", list(enumerate(("vfexp2", "vflog2", "vfsin", "vfcos"))))
def test_a_million_inputs(engines, config, seed, name):
  x, tile_bytes = inputs(seed), 4 * config.width
  code = program(name, tile_bytes).view(np.uint8)
  results, outputs = [], []
  for engine in engines:
    engine.hbm[:len(code)] = code
    engine.hbm[INPUT:INPUT + x.nbytes] = x.view(np.uint8)
    results.append(engine.launch(0, [INPUT, OUTPUT, x.nbytes // (UNROLL * tile_bytes)], invalidate=True, limit=1 << 30))
    outputs.append(engine.hbm[OUTPUT:OUTPUT + x.nbytes].view(np.uint32).copy())
  assert results[0].fault is None and results[0] == results[1]
  np.testing.assert_array_equal(*outputs)
  with np.errstate(all="ignore"):  # and they are the function's: bench.ulp measures how well
    f = {"vfexp2": np.exp2, "vflog2": np.log2, "vfsin": np.sin, "vfcos": np.cos}[name]
    want = f(x[COUNT // 2:].view(np.float32).astype(np.float64)).astype(np.float32)
  np.testing.assert_allclose(outputs[0][COUNT // 2:].view(np.float32), want, rtol=1e-6, atol=1e-7)
