"""The machine's parameters: one frozen `Config`, and the presets that are built and tested.

Everything else (assembler limits, simulator, RTL, compiler) takes its sizes from here. Units are in
the field names: bytes, words (32 bits), cycles.
"""
from __future__ import annotations

from dataclasses import Field, dataclass, field, fields, replace
from typing import Any

MIN_VECTOR_LANES, MAX_VECTOR_LANES, MAX_BEATS = 4, 64, 8
PACKET_BYTES = 32
"""Bytes of an instruction packet (isa.encoding), which an instruction buffer block holds whole."""


class ConfigError(ValueError):
  """A configuration that cannot be built; the message says which field and why."""


def _power_of_two(n: int) -> bool:
  return n > 0 and n & (n - 1) == 0


def _field(default: int, low: int, high: int, doc: str, power: bool = False) -> Any:
  """A field of `Config`: an integer from `low` to `high`, if `power` a power of two. docs/config.md prints these."""
  return field(default=default, metadata={"low": low, "high": high, "power": power, "doc": doc})


@dataclass(frozen=True)
class Config:
  """Parameters of one TinyTPU core and its memories.

  Attributes:
    name: preset name, shown in reports and used in cache keys; printable.
    others: integers; meaning and range stand in each field's metadata and in docs/config.md.

  Raises:
    ConfigError: a value that is no integer, out of its range, or does not go with another; names the field and the range.
  """
  name: str = "4x4"
  sublanes: int = _field(4, 4, 16, "rows of a tile (vector register, wave): `sublanes` x `lanes` 32-bit words, row-major, element index = "
                         "sublane * lanes + lane", power=True)
  lanes: int = _field(4, 4, 16, "columns of a tile; as many as sublanes, because the same tile is a matrix operand of the systolic array",
                      power=True)
  vector_lanes: int = _field(16, MIN_VECTOR_LANES, MAX_VECTOR_LANES, "physical lanes of the vector unit, banks of VMEM, and words of an "
                             f"HBM line; a tile goes through them in at most {MAX_BEATS} beats; not more than a tile has words; fewer "
                             "cannot feed a transcendental pipeline, more are too slow to simulate", power=True)
  vmem_bytes: int = _field(256 * 1024, 64 * 64, 1 << 30, "size of the scratchpad, one bank per vector lane by word interleave; "
                           "at least 64 tiles", power=True)
  hbm_bytes: int = _field(1 << 30, 1024, 1 << 32, "size of device memory (addresses are 32-bit byte addresses from 0); a multiple of a "
                          "line, and at least one block of the instruction buffer")
  hbm_latency: int = _field(32, 4, 4096, "cycles from an accepted HBM request to its response")
  ibuf_blocks: int = _field(32, 1, 256, "blocks of the direct-mapped instruction buffer", power=True)
  ibuf_block_lines: int = _field(16, 1, 64, f"HBM lines of a block; a block holds whole packets of {PACKET_BYTES} bytes", power=True)
  clock_hz: int = _field(1_000_000_000, 1, 100_000_000_000, "nominal clock, which turns cycles into reported seconds")

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
    if not isinstance(self.name, str) or not self.name or not self.name.isprintable():
      raise ConfigError(f"name must be printable text, not {self.name!r}")
    for f in parameters():
      self._check(f.name, getattr(self, f.name), **f.metadata)
    if self.sublanes != self.lanes:
      raise ConfigError(f"sublanes ({self.sublanes}) and lanes ({self.lanes}) must be equal: a tile is a square matrix operand")
    if self.vector_lanes > self.width:
      raise ConfigError(f"vector_lanes must be at most {self.width} for tiles of {self.width} words, not {self.vector_lanes}: "
                        "more than a tile has words would idle")
    if self.beats > MAX_BEATS:
      raise ConfigError(f"vector_lanes must be at least {self.width // MAX_BEATS} for tiles of {self.width} words, "
                        f"not {self.vector_lanes}: a tile goes through the lanes in at most {MAX_BEATS} beats")
    if self.hbm_bytes % self.line_bytes or self.hbm_bytes < self.ibuf_block_bytes:
      raise ConfigError(f"hbm_bytes must be a multiple of a line ({self.line_bytes} bytes) and at least a block of the instruction buffer "
                        f"({self.ibuf_block_bytes} bytes), not {self.hbm_bytes}")
    if self.vmem_bytes < 64 * self.tile_bytes:
      raise ConfigError(f"vmem_bytes must hold at least 64 tiles ({64 * self.tile_bytes} bytes), not {self.vmem_bytes}")
    if self.ibuf_block_bytes < PACKET_BYTES:
      raise ConfigError(f"ibuf_block_lines must be at least {PACKET_BYTES // self.line_bytes} lines of {self.line_bytes} bytes, "
                        f"not {self.ibuf_block_lines}: a block holds whole packets of {PACKET_BYTES} bytes")

  @staticmethod
  def _check(name: str, value: object, low: int, high: int, power: bool, doc: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high or power and not _power_of_two(value):
      found = value if not isinstance(value, int) or abs(value) < 1 << 64 else "a number of many digits"
      raise ConfigError(f"{name} must be {'a power of two' if power else 'an integer'} from {low} to {high}, not {str(found)[:60]}")

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


def parameters() -> list[Field[Any]]:
  """The fields of `Config` that are numbers, in order; metadata: low, high, power (whether a power of two), doc."""
  return [f for f in fields(Config) if f.metadata]


PRESETS: dict[str, Config] = {config.name: config for config in (
  Config(),
  Config("8x8", 8, 8, vector_lanes=64, vmem_bytes=512 * 1024, ibuf_block_lines=4),
  Config("16x16", 16, 16, vector_lanes=64, vmem_bytes=1024 * 1024, ibuf_block_lines=4))}


def preset(name: str, **changes: Any) -> Config:
  """The preset called `name`, with fields replaced by `changes`, or by `name` itself: "4x4,vector_lanes=4,hbm_latency=10".

  Raises:
    ConfigError: no such preset or field (the message lists those that exist), a field given twice, or no machine that can be built.
  """
  base, *assignments = name.split(",")
  if base not in PRESETS:
    raise ConfigError(f"unknown preset {base[:60]!r}; presets: {', '.join(PRESETS)}")
  numbers = [f.name for f in parameters()]
  named: dict[str, int] = {}
  for assignment in assignments:
    name_of, _, value = assignment.partition("=")
    if name_of not in numbers or not value.isascii() or not value.isdecimal() or len(value) > 20:
      raise ConfigError(f"{assignment[:60]!r} changes no field of preset {base}: write FIELD=NUMBER, a FIELD of {', '.join(numbers)}")
    if name_of in named:
      raise ConfigError(f"{name_of} is given twice in {name[:200]!r}")
    named[name_of] = int(value)
  if unknown := [change for change in changes if change not in ("name", *numbers)]:
    raise ConfigError(f"{unknown[0]!r} is no field of preset {base}; fields: {', '.join(numbers)}")
  if named:
    changes = {"name": name} | named | changes
  return replace(PRESETS[base], **changes) if changes else PRESETS[base]
