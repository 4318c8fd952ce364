"""The machine's parameters: one frozen `Config`, and the presets that are built and tested.

Everything else (assembler limits, simulator, RTL, compiler) takes its sizes from here. Units are in
the field names: bytes, words (32 bits), cycles.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


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
    vmem_bytes: size of the scratchpad, spread over one bank per element of a tile by word interleave.
    hbm_bytes: size of device memory; addresses are 32-bit byte addresses from 0.
    hbm_latency: cycles from an accepted HBM request to its response, at least 4.
    ibuf_blocks, ibuf_block_lines: the direct-mapped instruction buffer: blocks, and HBM lines per block.
    clock_hz: nominal clock, which turns cycles into reported seconds.
  """
  name: str = "4x4"
  sublanes: int = 4
  lanes: int = 4
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
    for field in ("sublanes", "vmem_bytes", "ibuf_blocks", "ibuf_block_lines"):
      if not _power_of_two(value := getattr(self, field)):
        raise ConfigError(f"{field} must be a power of two, not {value}")
    if not 4 <= self.sublanes <= 16:
      raise ConfigError(f"sublanes must be 4, 8 or 16, not {self.sublanes}")
    if self.hbm_bytes % self.line_bytes or not 0 < self.hbm_bytes <= 1 << 32:
      raise ConfigError(f"hbm_bytes must be a multiple of a line ({self.line_bytes} bytes) and at most 4 GiB, not {self.hbm_bytes}")
    if self.hbm_latency < 4:
      raise ConfigError(f"hbm_latency must be at least 4 cycles, not {self.hbm_latency}")
    if self.vmem_bytes < 64 * self.line_bytes:
      raise ConfigError(f"vmem_bytes must hold at least 64 tiles ({64 * self.line_bytes} bytes), not {self.vmem_bytes}")

  @property
  def width(self) -> int:
    """Elements (32-bit words) of a tile."""
    return self.sublanes * self.lanes

  @property
  def line_bytes(self) -> int:
    """Bytes of an HBM line: one tile, the most that one HBM request moves."""
    return 4 * self.width

  @property
  def vmem_words(self) -> int:
    """Words of VMEM."""
    return self.vmem_bytes // 4

  @property
  def ibuf_block_bytes(self) -> int:
    """Bytes of an instruction buffer block; programs are placed at multiples of it."""
    return self.ibuf_block_lines * self.line_bytes


PRESETS: dict[str, Config] = {"4x4": Config()}


def preset(name: str, **changes: Any) -> Config:
  """The preset called `name`, with fields replaced by `changes`.

  Raises:
    ConfigError: no such preset; the message lists those that exist.
  """
  if name not in PRESETS:
    raise ConfigError(f"unknown preset {name!r}; presets: {', '.join(PRESETS)}")
  return replace(PRESETS[name], **changes) if changes else PRESETS[name]
