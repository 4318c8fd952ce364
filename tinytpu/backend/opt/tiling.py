"""How a matrix product is padded and blocked: as many tiles of C at once as there are accumulators, so that each tile that is loaded
is used several times. K is left to `emit/software_pipeline.py`, which keeps the order of the sum."""
from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from tinygrad.codegen.opt.tc import TensorCore
from tinygrad.dtype import dtypes
from tinygrad.uop.ops import AxisType, Ops, UOp

from ...config import Config
from .access_pattern import stride
from .tensorcore import steps

MAX_TILES = 8
"""Bound on the tiles of C that are upcast along M or N."""
MIN_K = 4
"""Least length of the sum, in tile sides, for which an M or N of a quarter of a tile or less is padded to one. Measured: shorter sums are
faster on the vector unit."""
BLOCK_CYCLES = 60
"""What a block of C takes beside its steps and stores: the latencies of its first loads."""
RELUCTANCE = 1.05
"""Cycles of a padded axis count so much more, for its masks."""


class Axes(NamedTuple):
  """The axes of a product, and tinygrad's number for this choice of them."""
  number: int
  n: UOp
  m: UOp
  k: UOp


class Tiling(NamedTuple):
  """sizes: axes to lengthen, and to what. m, n: tiles of C to upcast."""
  sizes: dict[UOp, int]
  m: int
  n: int


class _Side(NamedTuple):
  """M or N: its tiles, of which `block` at a time are upcast; taken: what is upcast already; padded: its new size, or 0."""
  tiles: int
  block: int
  taken: int
  padded: int


def worth_padding(axes: Axes, tc: TensorCore) -> bool:
  """Whether the axes are long enough for the matrix unit to make up for what it computes in vain."""
  _, side, depth = tc.dims
  long = axes.k.vmax + 1
  return long > depth // 4 and (long >= MIN_K * side or min(axes.m.vmax, axes.n.vmax) >= side // 4)


def vector_pays(matrix: UOp, own: set[UOp], config: Config) -> bool:
  """Whether a vector times a matrix is faster on the matrix unit, where all but a row of the array works in vain. Measured: of int8 it is,
  two to three times, but for fewer outputs than a tile has columns; of 16-bit floats their products are exact there besides. Of float32 the
  vector unit is as fast, but where tiles go through it in beats and outputs that lie side by side leave most of it idle.

  Args: matrix: the factor that is one. own: the axes that it has for itself.
  """
  n = math.prod(int(r.vmax) + 1 for r in own)
  loaded = {u.dtype for u in matrix.backward_slice_with_self if u.op is Ops.INDEX}
  if matrix.dtype in (dtypes.float16, dtypes.bfloat16) or loaded == {dtypes.int8}:
    return n >= config.lanes
  near = any(stride(u.src[1], r) == 1 for u in matrix.backward_slice_with_self if u.op is Ops.INDEX for r in own)
  return near and config.beats > 1 and n <= config.width // 4


def choose_tiling(factors: tuple[UOp, UOp], axes: Axes, tc: TensorCore) -> Tiling | None:
  """The blocking of a product that should take the least time; None if an axis without a constant size is no whole number of tiles."""
  _, side, depth = tc.dims
  length = int(axes.k.vmax) + 1
  if axes.k.src[0].op is not Ops.CONST and axes.k.src[0].divides(depth) is None:
    return None
  passes = -(-length // depth)

  def cycles(sides: tuple[_Side, _Side]) -> tuple[float, int]:
    m, n = sides
    tiles_m, tiles_n = m.block * m.taken, n.block * n.taken
    steady = passes * steps(tc) * side * max(tiles_m * tiles_n, tiles_m + tiles_n)  # steps, or the lines of their operands
    block = steady + BLOCK_CYCLES + side * tiles_m * tiles_n
    reluctance = math.prod(RELUCTANCE for s in sides if s.padded)
    return m.tiles // m.block * (n.tiles // n.block) * block * reluctance, tiles_m + tiles_n
  choices = [(m, n) for m in _sides(axes.m, factors[0], side) for n in _sides(axes.n, factors[1], side)
             if m.block * m.taken * n.block * n.taken <= Config.PSUMS]
  if not choices:
    return None
  m, n = min(choices, key=cycles)
  sizes = {rng: size for rng, size in ((axes.m, m.padded), (axes.n, n.padded), (axes.k, passes * depth if length % depth else 0)) if size}
  return Tiling(sizes, m.block, n.block)


def _sides(rng: UOp, factor: UOp, side: int) -> Iterator[_Side]:
  """The ways to block an output axis that a factor has."""
  taken = math.prod(int(r.vmax) + 1 for r in factor.ranges if r.arg[-1] is AxisType.UPCAST)
  size = int(rng.vmax) + 1
  for block in range(1, MAX_TILES + 1):
    if rng.src[0].divides(side * block) is not None:
      yield _Side(size // side, block, taken, 0)
    elif rng.src[0].op is Ops.CONST and block <= -(-size // side):
      padded = -(-size // (side * block)) * side * block
      yield _Side(padded // side, block, taken, padded)
