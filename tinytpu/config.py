"""The machine's parameters: one frozen `Config`, and the presets that are built and tested.

Everything else (assembler limits, simulator, RTL, compiler) takes its sizes from here. Units are in
the field names: bytes, words (32 bits), cycles.
"""
from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

MIN_VECTOR_LANES, MAX_VECTOR_LANES, MAX_BEATS = 4, 64, 8
PACKET_BYTES = 32
"""Bytes of an instruction packet (isa.encoding), which an instruction buffer block holds whole."""


class ConfigError(ValueError):
  """A configuration that cannot be built; the message says which field and why."""


def _power_of_two(n: int) -> bool:
  return n > 0 and n & (n - 1) == 0


@dataclass(frozen=True)
class Config:
  """Parameters of one TinyTPU core and its memories.

  Attributes:
    name: preset name, shown in reports and used in cache keys.
    sublanes, lanes: a tile (vector register, wave) is `sublanes` x `lanes` 32-bit words, row-major:
      element index = sublane * lanes + lane. Both powers of two, equal, because the same tile is a
      matrix operand of the systolic array.
    vector_lanes: physical lanes of the vector unit, banks of VMEM, and words of an HBM line: what has more elements, a tile, goes
      through them in `beats`. A power of two, 4 to 64.
    vmem_bytes: size of the scratchpad, spread over one bank per vector lane by word interleave.
    hbm_bytes: size of device memory; addresses are 32-bit byte addresses from 0.
    hbm_latency: cycles from an accepted HBM request to its response, at least 4.
    ibuf_blocks, ibuf_block_lines: the direct-mapped instruction buffer: blocks, and HBM lines per block.
    clock_hz: nominal clock, which turns cycles into reported seconds.
  """
  name: str = "4x4"
  sublanes: int = 4
  lanes: int = 4
  vector_lanes: int = 16
  vmem_bytes: int = 256 * 1024
  hbm_bytes: int = 1 << 30
  hbm_latency: int = 32
  ibuf_blocks: int = 32
  ibuf_block_lines: int = 16
  clock_hz: int = 1_000_000_000

  # Fixed by the instruction encoding (6-bit register fields), the same for every preset.
  VREGS = 64
  SREGS = 64
  PSUMS = 16
  PREDICATES = 4
  GROUP = 4
  LOOP_DEPTH = 8
  ARG_BASE = 32
  """Scalar registers from here on are written by the host before a launch: the argument registers."""

  def __post_init__(self) -> None:
    if self.sublanes != self.lanes:
      raise ConfigError(f"sublanes ({self.sublanes}) and lanes ({self.lanes}) must be equal: a tile is a square matrix operand")
    for field in ("sublanes", "vector_lanes", "vmem_bytes", "ibuf_blocks", "ibuf_block_lines"):
      if not _power_of_two(value := getattr(self, field)):
        raise ConfigError(f"{field} must be a power of two, not {value}")
    if not 4 <= self.sublanes <= 16:
      raise ConfigError(f"sublanes must be 4, 8 or 16, not {self.sublanes}")
    if not MIN_VECTOR_LANES <= self.vector_lanes <= min(MAX_VECTOR_LANES, self.width):
      raise ConfigError(f"vector_lanes must be {MIN_VECTOR_LANES} to {min(MAX_VECTOR_LANES, self.width)} for tiles of {self.width} words, "
                        f"not {self.vector_lanes}: fewer cannot feed a transcendental pipeline, more than {MAX_VECTOR_LANES} are too slow "
                        "to simulate, and more than a tile has words would idle")
    if self.beats > MAX_BEATS:
      raise ConfigError(f"vector_lanes must be at least {self.width // MAX_BEATS} for tiles of {self.width} words, "
                        f"not {self.vector_lanes}: a tile goes through the lanes in at most {MAX_BEATS} beats")
    if self.hbm_bytes % self.line_bytes or not 0 < self.hbm_bytes <= 1 << 32:
      raise ConfigError(f"hbm_bytes must be a multiple of a line ({self.line_bytes} bytes) and at most 4 GiB, not {self.hbm_bytes}")
    if self.hbm_latency < 4:
      raise ConfigError(f"hbm_latency must be at least 4 cycles, not {self.hbm_latency}")
    if not 64 * self.tile_bytes <= self.vmem_bytes <= 1 << 30:
      raise ConfigError(f"vmem_bytes must hold at least 64 tiles ({64 * self.tile_bytes} bytes) and be at most 1 GiB, "
                        f"not {self.vmem_bytes}")
    if self.ibuf_block_bytes < PACKET_BYTES:
      raise ConfigError(f"ibuf_block_lines must be at least {PACKET_BYTES // self.line_bytes} lines of {self.line_bytes} bytes, "
                        f"not {self.ibuf_block_lines}: a block holds whole packets of {PACKET_BYTES} bytes")

  @property
  def width(self) -> int:
    """Elements (32-bit words) of a tile."""
    return self.sublanes * self.lanes

  @property
  def beats(self) -> int:
    """Beats in which a tile goes through the vector lanes: beat b is elements b * vector_lanes and on."""
    return self.width // self.vector_lanes

  @property
  def tile_bytes(self) -> int:
    """Bytes of a tile."""
    return 4 * self.width

  @property
  def line_bytes(self) -> int:
    """Bytes of an HBM line, the most that one HBM request moves: a word for every vector lane."""
    return 4 * self.vector_lanes

  @property
  def vmem_words(self) -> int:
    """Words of VMEM."""
    return self.vmem_bytes // 4

  @property
  def ibuf_block_bytes(self) -> int:
    """Bytes of an instruction buffer block; programs are placed at multiples of it."""
    return self.ibuf_block_lines * self.line_bytes


PRESETS: dict[str, Config] = {config.name: config for config in (
  Config(),
  Config("8x8", 8, 8, vector_lanes=64, vmem_bytes=512 * 1024, ibuf_block_lines=4),
  Config("16x16", 16, 16, vector_lanes=64, vmem_bytes=1024 * 1024, ibuf_block_lines=4))}


def preset(name: str, **changes: Any) -> Config:
  """The preset called `name`, with fields replaced by `changes`, or by `name` itself: "4x4,vector_lanes=4,hbm_latency=10".

  Raises:
    ConfigError: no such preset or field (the message lists those that exist), or no machine that can be built.
  """
  base, *assignments = name.split(",")
  if base not in PRESETS:
    raise ConfigError(f"unknown preset {base!r}; presets: {', '.join(PRESETS)}")
  numbers = [field.name for field in fields(Config) if field.name != "name"]
  for assignment in assignments:
    field, _, value = assignment.partition("=")
    if field not in numbers or not value.isdecimal():
      raise ConfigError(f"{assignment!r} changes no field of preset {base}: write FIELD=NUMBER, a FIELD of {', '.join(numbers)}")
    changes = {"name": name, field: int(value)} | changes
  return replace(PRESETS[base], **changes) if changes else PRESETS[base]
