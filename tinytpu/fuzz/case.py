"""One random program with all it runs on, and the comparison of what engines make of it."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..asm import disassemble
from ..config import Config
from ..isa.instruction import Instr, ins, pack
from ..machine import Engine, RunResult
from .program import Tree

AREAS = 8
ROLES = {"vector": 4, "in": 2, "out": 2}
"""How many areas of VMEM, and as many of device memory, serve what."""
_SMALL = (1, 3, 4, 5, 16, 17)
_PITCHES = (4, 60, 64, 128, 132)
BASE = Config.ARG_BASE
END_TILES = 16
"""Tiles at the end of VMEM and of device memory that programs reach when they try to leave it."""
DIRTY_S = 31
"""Scalar registers 1 to DIRTY_S are random at first; the others are arguments."""


class Layout:
  """Where areas, images and programs lie, and which argument register holds what.

  Attributes: area: bytes of an area. setup, program, image, hbm: byte addresses in device memory of the program that sets
  the state, the random program, the image of the state, and the first area. end: bytes of device memory that are used.
  small, pitches, rows, counts: argument registers with small element counts, DMA lengths, rows, loop counts.
  """

  def __init__(self, config: Config):
    self.config = config
    block = config.ibuf_block_bytes
    self.area = max(4096, 16 * config.tile_bytes)
    self.middle = self.area // 4   # what base registers point to, so that offsets may be negative
    self.setup, self.program = 0, -(-16384 // block) * block
    self.image = self.program + -(-65536 // block) * block
    self.hbm = self.image + AREAS * self.area + (Config.VREGS + Config.PSUMS) * config.tile_bytes
    self.end = max(self.hbm + AREAS * self.area, config.vmem_bytes) + self.area  # VMEM addresses turn up in device memory too
    starts = BASE + 2 * AREAS
    self.small = tuple(range(starts, starts + len(_SMALL)))
    self.pitches = tuple(range(self.small[-1] + 1, self.small[-1] + 1 + len(_PITCHES)))
    one, three = self.small[:2]
    two, negative = self.pitches[-1] + 1, self.pitches[-1] + 2
    self.rows, self.counts = (one, two, three), (one, two, three, negative)
    self.bad_bases = tuple(range(negative + 1, negative + 4))
    self.bad_dma: tuple[dict[str, Any], ...] = tuple({field: r} for r in self.bad_bases for field in ("c", "c2", "a", "r", "zh", "d"))
    self.bad_dma += tuple({"x": r, "r": 0, "c2": 0, "z": 0} for r in self.bad_bases) * 4  # rows without end, onto each other
    self.bad_bases += (self.small[0],) * 3

  def registers(self, kind: str, role: str, phase: int) -> list[int]:
    """Argument registers that hold the bases of the areas of `kind` ("vmem" or "hbm") which serve `role` in `phase`."""
    first = {"vector": 0, "in": ROLES["vector"], "out": ROLES["vector"] + ROLES["in"]}[role]
    return [BASE + (AREAS if kind == "hbm" else 0) + (first + i + 2 * phase) % AREAS for i in range(ROLES[role])]

  def args(self) -> list[int]:
    """The launch's arguments, for the registers from Config.ARG_BASE on."""
    vmem = [i * self.area + self.middle for i in range(AREAS)]
    hbm = [self.hbm + i * self.area + self.middle for i in range(AREAS)]
    bad = [self.config.vmem_bytes - self.config.tile_bytes, self.config.hbm_bytes - 4 & 0xFFFFFFFF, 0xFFFFFFFE]
    return [*vmem, *hbm, *_SMALL, *_PITCHES, 2, -1, *bad]


@dataclass(frozen=True)
class Case:
  """A random program. seed: its number; limit: of the watchdog, in cycles; repeat: how many launches follow each other at once
  wherever it is launched."""
  config: Config
  seed: int
  tree: Tree
  limit: int
  repeat: int = 1

  def text(self) -> str:
    """The program as assembly text."""
    return disassemble(self.tree.words(), addresses=True)


@dataclass(frozen=True)
class Difference:
  """What two engines disagree in: launch number (0 sets the state, 1 is cold, 2 warm), what, and both values; of launches at
  once the last counts."""
  launch: int
  what: str
  values: tuple[str, str]

  def __str__(self) -> str:
    return f"launch {self.launch}: {self.what}: {self.values[0]} != {self.values[1]}"


@lru_cache(maxsize=8)
def _setup(config: Config) -> np.ndarray:
  """The program that sets scalar, vector and PSUM registers, the held tile, the areas of VMEM and its end. Arguments: address of the
  image of the areas in device memory, its bytes, 1, address of the image of the registers, then scalars."""
  tile = config.width
  image, nbytes, one, registers = range(BASE, BASE + 4)
  end = config.vmem_bytes - END_TILES * config.tile_bytes
  groups: list[list[Instr]] = [[ins("dmai", c=0, c2=0, a=image, r=0, d=nbytes, x=one)]]
  for i in range(Config.PSUMS):
    groups += [[ins("hld", d=i, a=registers)], [ins("ppush", d=i, a=i), ins("sadd", d=registers, a=registers, imm=4 * tile)]]
  for i in range(Config.VREGS):
    groups.append([ins("hld", d=i, a=registers), ins("sadd", d=registers, a=registers, imm=4 * tile)])
  groups.append([ins("sadd", d=1, a=0, imm=end), ins("mmld", a=0)])
  groups += [[ins("vst", d=i, a=1, off=i * tile)] for i in range(END_TILES)]
  groups += [[ins("sadd", d=i, a=registers + 1 + i % 27, imm=i * 0x01234567)] for i in range(1, DIRTY_S + 1)]
  return pack([*groups, [ins("halt")]])


@lru_cache(maxsize=8)
def _memory(config: Config) -> np.ndarray:
  """First contents of the used part of device memory, uint8: floats of all sizes, integers of all sizes, special values."""
  layout, rng = Layout(config), np.random.default_rng(1)
  n = layout.end // 4
  words = rng.integers(0, 1 << 32, n, dtype=np.uint32)
  kind = rng.integers(0, 5, n)
  words = np.where(kind == 1, rng.normal(0, 10, n).astype(np.float32).view(np.uint32), words)
  words = np.where(kind == 2, rng.integers(-40, 40, n).astype(np.int32).view(np.uint32), words)
  special = np.array([0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 1, 0x807FFFFF, 0x00800000, 0x7F7FFFFF], np.uint32)
  words = np.where(kind == 3, special[rng.integers(0, len(special), n)], words)
  # Half of the masks' usual values are zero.
  return np.where(rng.random(n) < 0.1, 0, words).astype(np.uint32).view(np.uint8)


Outcome = tuple[RunResult, dict[str, np.ndarray]]


def execute(case: Case, engine: Engine) -> list[Outcome]:
  """Run the case on `engine` from its known state: set-up, the program cold, and again warm.

  Returns:
    Result and state of every launch, without the state of the set-up; the state includes "hbm" and "end of hbm", the used
    parts of device memory.

  Raises:
    RuntimeError: the set-up program did not end well.
  """
  layout, config = Layout(case.config), case.config
  words, setup = case.tree.words(), _setup(case.config)
  engine.hbm[:layout.end] = _memory(config)
  end = engine.hbm[config.hbm_bytes - END_TILES * config.tile_bytes:]
  end[:] = 0
  engine.hbm[layout.setup:layout.setup + setup.nbytes] = setup.view(np.uint8)
  engine.hbm[layout.program:layout.image] = 0
  engine.hbm[layout.program:layout.program + words.nbytes] = words.view(np.uint8)
  rng = np.random.default_rng(case.seed)
  scalars = [int(v) for v in rng.integers(0, 1 << 32, 28)]
  scalars[:8] = [int(v) for v in rng.integers(0, 8, 8)]
  image = [layout.image, AREAS * layout.area, 1, layout.image + AREAS * layout.area, *scalars]
  result = engine.launch(layout.setup, image, invalidate=True)
  if result.fault:
    raise RuntimeError(f"the set-up program faulted: {result.fault}")
  # What state it leaves shows in what follows; reading all of it takes the RTL longer than a program does.
  outcomes: list[Outcome] = [(result, {})]
  for _ in range(2):
    result = engine.launch(layout.program, layout.args(), entry=case.tree.entry, limit=case.limit, repeat=case.repeat)
    outcomes.append((result, engine.state() | {"hbm": engine.hbm[:layout.end].copy(), "end of hbm": end.copy()}))
  return outcomes


def compare(outcomes: Sequence[Sequence[Outcome]]) -> list[Difference]:
  """Differences between two engines' outcomes of a case, of the first launch that has any."""
  for launch, ((result, state), (other, other_state)) in enumerate(zip(*outcomes, strict=True)):
    found = [Difference(launch, name, (str(a), str(b))) for name, a, b in (
      ("cycles", result.cycles, other.cycles), ("fault", result.fault, other.fault)) if a != b]
    for name, count in result.counters.items():
      if count != other.counters[name]:
        found.append(Difference(launch, f"counter {name}", (str(count), str(other.counters[name]))))
    for name, array in state.items():
      if (where := np.argwhere(array != other_state[name])).size:
        at = tuple(int(i) for i in where[0])
        found.append(Difference(launch, f"{name}{list(at)} and {len(where) - 1} more", (hex(array[at]), hex(other_state[name][at]))))
    if found:
      return found
  return []
