"""Memory operations in numpy, element by element, as docs/timing.md and the ISA's reference page describe them."""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tinytpu.config import Config
from tinytpu.isa.encoding import MemType
from tinytpu.isa.table import OPS

MODULUS = 1 << 32
FORMS = ("", "2", "x")


def to_f16(words: np.ndarray) -> np.ndarray:
  """float32 bits to float16 bits by numpy's conversion, NaNs made canonical."""
  values = words.astype(np.uint32).view(np.float32)
  with np.errstate(over="ignore", under="ignore", invalid="ignore"):
    half = values.astype(np.float16).view(np.uint16).astype(np.uint32)
  return np.where(np.isnan(values), np.uint32(0x7E00), half)


def to_bf16(words: np.ndarray) -> np.ndarray:
  """float32 bits to bfloat16 bits: the nearer neighbour, the even one of two equally near."""
  def double(bits: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # signalling NaNs
      return bits.astype(np.uint32).view(np.float32).astype(np.float64)

  def value(halves: np.ndarray) -> np.ndarray:  # magnitude, with infinity as the next step of the exponent
    return np.where((halves & np.uint64(0x7FFF)) == 0x7F80, 2.0 ** 128, np.abs(double(halves << np.uint64(16))))

  values, below = double(words), words.astype(np.uint64) >> np.uint64(16)
  finite = np.isfinite(values)
  magnitude = np.where(finite, np.abs(values), 0)
  down, up = magnitude - value(below), value(below + np.uint64(1)) - magnitude
  nearest = below + ((up < down) | ((up == down) & (below & np.uint64(1) == 1)))
  return np.where(np.isnan(values), 0x7FC0, np.where(finite, nearest, below)).astype(np.uint32)


def from_f16(halves: np.ndarray) -> np.ndarray:
  values = halves.astype(np.uint16).view(np.float16)
  return np.where(np.isnan(values), np.uint32(0x7FC00000), values.astype(np.float32).view(np.uint32))


def from_bf16(halves: np.ndarray) -> np.ndarray:
  words = halves.astype(np.uint32) << np.uint32(16)
  return np.where(np.isnan(words.view(np.float32)), np.uint32(0x7FC00000), words)


@dataclass
class Operation:
  """One load or store: its operands as the unit receives them."""
  name: str
  mtype: MemType = MemType.W
  base: int = 0
  x: int = 0
  off: int = 0
  r: int = 0
  c2: int = 0
  d: int = 0
  index: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint32))
  data: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint32))
  mask: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))

  @property
  def atomic(self) -> bool:
    return self.name.startswith("vatom")

  def addresses(self, config: Config) -> list[int]:
    """Byte address of every element."""
    out = []
    for e in range(config.width):
      i, j = divmod(e, config.lanes)
      form = self.name.removeprefix("vatom" if self.atomic else self.name[:3])
      place = {"": e, "2": i * self.r + j * self.c2, "x": int(self.index[e])}[form]
      out.append((self.base + self.mtype.bytes * (self.x + self.off + place)) % MODULUS)
    return out

  def active(self) -> list[int]:
    return [int(e) for e in np.flatnonzero(self.mask)]

  def fault(self, config: Config, size: int) -> tuple[str, int] | None:
    """("ALIGN" or "BOUNDS", address) of the lowest faulting element in a memory of `size` bytes."""
    addresses = self.addresses(config)
    for e in self.active():
      if addresses[e] % self.mtype.bytes:
        return "ALIGN", addresses[e]
      if addresses[e] + self.mtype.bytes > size:
        return "BOUNDS", addresses[e]
    return None

  def load(self, config: Config, memory: np.ndarray) -> np.ndarray:
    """The tile (uint32) loaded from `memory` (uint8)."""
    out = np.zeros(config.width, np.uint32)
    addresses = self.addresses(config)
    for e in self.active():
      raw = memory[addresses[e]:addresses[e] + self.mtype.bytes]
      kind = {MemType.W: "<u4", MemType.U8: "u1", MemType.I8: "i1", MemType.U16: "<u2", MemType.I16: "<i2"}.get(self.mtype, "<u2")
      value = raw.view(kind)
      if self.mtype == MemType.F16:
        value = from_f16(value)
      elif self.mtype == MemType.BF16:
        value = from_bf16(value)
      out[e] = int(value[0]) % MODULUS
    return out

  def store(self, config: Config, memory: np.ndarray) -> None:
    """Into `memory` (uint8), elements in order, so that the highest wins, or that all are added."""
    words = {MemType.F16: to_f16, MemType.BF16: to_bf16}.get(self.mtype, np.copy)(self.data)
    addresses = self.addresses(config)
    for e in self.active():
      if self.atomic:
        before = int.from_bytes(memory[addresses[e]:addresses[e] + 4].tobytes(), "little")
        words[e] = (before + int(self.data[e])) % MODULUS
      memory[addresses[e]:addresses[e] + self.mtype.bytes] = words[e:e + 1].astype("<u4").view(np.uint8)[:self.mtype.bytes]

  def beats(self, config: Config) -> list[list[int]]:
    """Addresses of the active elements, beat by beat."""
    addresses, lanes = self.addresses(config), config.vector_lanes
    return [[addresses[e] for e in self.active() if e // lanes == beat] for beat in range(config.width // lanes)]

  def bank_cycles(self, config: Config) -> int:
    """Of each beat the most distinct words of active elements in one bank, at least 1; of atomic adds most elements, and one more."""
    cycles = 0
    for addresses in self.beats(config):
      words = [address // 4 for address in addresses]
      banks = [w % config.vector_lanes for w in (words if self.atomic else set(words))]
      cycles += max([banks.count(b) for b in banks], default=1)
    return cycles + self.atomic

  def lines(self, config: Config) -> list[int]:
    """Of each beat the distinct lines of active elements, in the order of the lowest element that touches each."""
    return [line for addresses in self.beats(config) for line in dict.fromkeys(address // config.line_bytes for address in addresses)]

  def ports(self) -> dict[str, object]:
    """Values of the members of a memory_issue port."""
    return {"code": OPS[self.name].code, "d": self.d, "mtype": int(self.mtype), "base": self.base, "x": self.x % MODULUS,
            "r": self.r % MODULUS, "c2": self.c2 % MODULUS, "off": self.off % MODULUS, "index": self.index, "data": self.data,
            "mask": packed(self.mask)}


def packed(bits: np.ndarray) -> int | np.ndarray:
  """Bits as the value of a port: a number, or beyond 64 bits words."""
  if len(bits) > 64:
    return np.packbits(bits, bitorder="little").view(np.uint32)
  return sum(1 << int(k) for k in np.flatnonzero(bits))


def random_bits(rng: np.random.Generator, cycles: int, n: int) -> np.ndarray:
  """Values of a port of n bits over time."""
  if n > 64:
    return rng.integers(0, MODULUS, (cycles, n // 32), np.uint32)
  return rng.integers(0, (1 << n) - 1, cycles, np.uint64, endpoint=True)


def random_words(rng: np.random.Generator, n: int) -> np.ndarray:
  """uint32: random bits, small integers, and floats of every class around the limits of the 16-bit formats."""
  bits = rng.integers(0, MODULUS, n, dtype=np.uint32)
  exponents = (rng.choice([0, 1, 101, 102, 103, 112, 113, 127, 142, 143, 254, 255], n).astype(np.uint32) << 23)
  floats = (bits & np.uint32(0x807FFFFF)) | exponents
  tie = floats & np.uint32(0xFFFFE000) | rng.choice([0, 0x1000, 0x8000, 0x1001], n).astype(np.uint32)
  return np.choose(rng.integers(0, 4, n), [bits, bits & np.uint32(0x1FF), floats, tie]).astype(np.uint32)


def random_operation(rng: np.random.Generator, config: Config, prefix: str, size: int) -> Operation:
  """A random operation `prefix` + form, nearly always within `size` bytes, of all types, masks, overlaps and conflicts."""
  n, mtype = config.width, MemType(0 if prefix == "vatom" else rng.integers(0, 7))
  form = str(rng.choice(FORMS))
  room = size // mtype.bytes
  strides = [0, 1, 2, 3, config.lanes, config.lanes + 1, n, n + 1, n + config.lanes, 4 * n, -1, -n]
  r, c2 = int(rng.choice(strides)), int(rng.choice(strides))
  span = int(rng.choice([4, n, 8 * n, room // 2]))
  index = rng.integers(0, span, n).astype(np.uint32) if rng.random() < 0.8 else rng.integers(-n, n, n).astype(np.int32).view(np.uint32)
  if rng.random() < 0.2:  # elements whose addresses differ in one bit, whichever
    index = rng.choice([0, *(1 << k for k in range(room.bit_length() - 1))], n).astype(np.uint32)
  start = int(rng.integers(0, room) if rng.random() < 0.1 else rng.integers(room // 4, room // 2)) * mtype.bytes
  if rng.random() < 0.04:
    start += int(rng.integers(1, 4))
  if rng.random() < 0.02:
    start = int(rng.integers(0, MODULUS))
  x = int(rng.integers(0, 64) if rng.random() < 0.7 else rng.integers(0, MODULUS))
  off = int(rng.integers(-8192, 8192))
  mask = rng.random(n) < rng.choice([0.0, 0.2, 0.5, 0.9, 1.0, 1.0, 1.0])
  return Operation(prefix + form, mtype, (start - mtype.bytes * (x + off)) % MODULUS, x, off, r, c2, int(rng.integers(0, 64)), index,
                   random_words(rng, n), mask)


class Stimulus:
  """Inputs of a memory_issue port over time; what is not set is random, with `start` low."""

  def __init__(self, rng: np.random.Generator, config: Config, port: str, cycles: int) -> None:
    self.port, n = port, config.width
    word = {"base", "x", "r", "c2", "off", "vbase", "nbytes", "planes", "hplane", "vplane"}
    self.arrays = {name: rng.integers(0, MODULUS, cycles, dtype=np.uint32) for name in word}
    self.arrays |= {name: rng.integers(0, MODULUS, (cycles, n), dtype=np.uint32) for name in ("index", "data")}
    self.arrays |= {"start": np.zeros(cycles, np.uint32), "code": rng.integers(0, 256, cycles), "d": rng.integers(0, 64, cycles),
                    "mtype": rng.integers(0, 7, cycles), "mask": random_bits(rng, cycles, n)}

  def put(self, cycle: int, values: dict[str, object]) -> None:
    for name, value in values.items():
      self.arrays[name][cycle] = value
    self.arrays["start"][cycle] = 1

  def inputs(self) -> dict[str, np.ndarray]:
    return {f"{self.port}__{name}": array for name, array in self.arrays.items()}
