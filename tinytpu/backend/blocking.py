"""How a matrix product is padded and blocked: as many tiles of C at once as there are accumulators, so that each tile that is loaded
is used several times. K is left to `pipeline`, which keeps the order of the sum."""
from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from tinygrad.codegen.opt.tc import TensorCore
from tinygrad.uop.ops import AxisType, Ops, UOp

from ..config import Config
from .strides import stride
from .tensorcore import steps

MAX_TILES = 8
"""Bound on the tiles of C that are upcast along M or N."""
MIN_K = 4
"""Least length of the sum, in tile sides, for which an M or N of a quarter of a tile or less is padded to one. Measured on 4x4: from
here on a vector of any length is faster on the matrix unit."""
BLOCK_CYCLES = 60
"""What a block of C takes beside its steps and stores: the latencies of its first loads."""
RELUCTANCE = 1.05
"""Cycles of a padded axis count so much more, for its masks."""


TILE_CYCLES = 1.2
VECTOR_CYCLES = 8
"""A vector times a matrix, per term of the sum: of a tile of outputs on the matrix unit, of a wave of them on the vector unit. Measured."""


class Axes(NamedTuple):
  """The axes of a product, and tinygrad's number for this choice of them."""
  number: int
  n: UOp
  m: UOp
  k: UOp


class Blocking(NamedTuple):
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
  """Whether a vector times a matrix is faster on the matrix unit, where all but a row of the array works in vain.

  Per term of the sum it takes a cycle and some for each tile of outputs. The vector unit takes `VECTOR_CYCLES` for a wave of outputs that
  lie side by side, and a line for each of them otherwise; but few outputs it computes with lanes spread along the sum, and
  where tiles have beats the matrix unit's lines are as many.

  Args: matrix: the factor that is one. own: the axes that it has for itself.
  """
  n = math.prod(int(r.vmax) + 1 for r in own)
  loads = [u for u in matrix.backward_slice_with_self if u.op is Ops.INDEX]
  if any(stride(u.src[1], r) == 1 for u in loads for r in own):
    return TILE_CYCLES * -(-n // config.lanes) < VECTOR_CYCLES * -(-n // config.width)
  return config.beats == 1 or n > config.width // 4


def plan(factors: tuple[UOp, UOp], axes: Axes, tc: TensorCore) -> Blocking | None:
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
  return Blocking(sizes, m.block, n.block)


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
