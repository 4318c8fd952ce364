"""What operations compute, said again independently of the simulator: numpy, Python integers and IEEE 754's words."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

NAN = np.uint32(0x7FC00000)
SPECIALS = np.array(
  [0x00000000, 0x00000001, 0x00000002, 0x007FFFFE, 0x007FFFFF, 0x00800000, 0x00800001, 0x00FFFFFF, 0x01000000]
  + [0x32FFFFFF, 0x33000000, 0x33000001, 0x33800000, 0x33C00000, 0x33FFFFFF, 0x34000000, 0x387FC000, 0x387FE000, 0x38800000]
  + [0x3EFFFFFF, 0x3F000000, 0x3F000001, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x3F808000, 0x3F818000, 0x3F801000, 0x3F803000]
  + [0x3FC00000, 0x40000000, 0x40490FDB, 0x477FE000, 0x477FEFFF, 0x477FF000, 0x4AFFFFFF, 0x4B000000, 0x4B7FFFFF, 0x4B800000]
  + [0x4EFFFFFF, 0x4F000000, 0x4F7FFFFF, 0x4F800000, 0x7F000000, 0x7F7F7FFF, 0x7F7F8000, 0x7F7FFFFE, 0x7F7FFFFF]
  + [0x7F800000, 0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FFFFFFF],
  np.uint32,
)
SPECIALS = np.concatenate([SPECIALS, SPECIALS | np.uint32(1 << 31)])
INTEGERS = np.array(
  [0, 1, 2, 3, 7, 31, 32, 33, 0x7FFFFFFE, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFF9, 0xFFFFFFFE, 0xFFFFFFFF, 12345], np.uint32
)


def pairs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Every value with every value."""
  a, b = np.meshgrid(values, values)
  return a.reshape(-1), b.reshape(-1)


def random_words(rng: np.random.Generator, n: int) -> np.ndarray:
  """Words of all kinds: uniform bits, floats around 1, and floats with few significant bits (exact results and ties)."""
  uniform = rng.integers(0, 1 << 32, n, dtype=np.uint32)
  near = rng.normal(0, 1, n).astype(np.float32).view(np.uint32)
  short = (uniform & np.uint32(0xFF8F0000)) | np.uint32(0x3C000000)
  return np.where(uniform % 3 == 0, uniform, np.where(uniform % 3 == 1, near, short)).astype(np.uint32)


def f(x: np.ndarray) -> np.ndarray:
  return x.view(np.float32)


def bits(x: np.ndarray) -> np.ndarray:
  """The bits of float32 values, NaNs made canonical."""
  x = np.asarray(x)
  assert x.dtype == np.float32
  return np.where(np.isnan(x), NAN, x.view(np.uint32))


def flag(x: np.ndarray) -> np.ndarray:
  return x.astype(np.uint32)


def word(x: np.ndarray) -> np.ndarray:
  """Low 32 bits of int64 values."""
  return (x & 0xFFFFFFFF).astype(np.uint32)


def s(x: np.ndarray) -> np.ndarray:
  return x.view(np.int32).astype(np.int64)


def u(x: np.ndarray) -> np.ndarray:
  return x.astype(np.int64)


def _divide(a: np.ndarray, b: np.ndarray, how: Callable[[int, int], tuple[int, int]], signed: bool) -> tuple[np.ndarray, np.ndarray]:
  value = s if signed else u
  quotients, remainders = [], []
  for x, y in zip(value(a).tolist(), value(b).tolist(), strict=True):
    q, r = how(x, y) if y else (-1, x)
    quotients.append(q & 0xFFFFFFFF)
    remainders.append(r & 0xFFFFFFFF)
  return np.array(quotients, np.uint32), np.array(remainders, np.uint32)


def _toward_zero(x: int, y: int) -> tuple[int, int]:
  q = abs(x) // abs(y)
  q = q if (x < 0) == (y < 0) else -q
  return q, x - q * y


def _maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
  x, y = f(a), f(b)
  larger = np.where((x > y) | ((x == y) & ~np.signbit(x)), a, b)
  return np.where(np.isnan(x) | np.isnan(y), NAN, larger)


def _minimum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
  x, y = f(a), f(b)
  smaller = np.where((x < y) | ((x == y) & np.signbit(x)), a, b)
  return np.where(np.isnan(x) | np.isnan(y), NAN, smaller)


def half(a: np.ndarray) -> np.ndarray:
  """float32 bits to float16 bits."""
  with np.errstate(over="ignore"):
    h = f(a).astype(np.float16)
  return np.where(np.isnan(h), 0x7E00, h.view(np.uint16)).astype(np.uint32)


def from_half(a: np.ndarray) -> np.ndarray:
  return bits((a & 0xFFFF).astype(np.uint16).view(np.float16).astype(np.float32))


def bfloat(a: np.ndarray) -> np.ndarray:
  """float32 bits to bfloat16 bits: of the two neighbours the nearer, at equal distance the even one, beyond the last infinity."""
  low = a & np.uint32(0xFFFF0000)
  below = (a & 0xFFFF).astype(np.int64)
  upward = (below > 0x8000) | ((below == 0x8000) & ((low >> 16) & 1 == 1))
  return np.where(np.isnan(f(a)), 0x7FC0, (low.astype(np.int64) >> 16) + upward).astype(np.uint32)


def from_bfloat(a: np.ndarray) -> np.ndarray:
  return bits(f(((a.astype(np.uint64) << 16) & 0xFFFFFFFF).astype(np.uint32)))


def _to_integer(a: np.ndarray, low: int, high: int) -> np.ndarray:
  x = f(a).astype(np.float64)
  clipped = np.clip(np.trunc(np.nan_to_num(x, nan=0.0, posinf=1e30, neginf=-1e30)), low, high)
  return word(clipped.astype(np.int64))


Reference = Callable[..., np.ndarray]
INTEGER: dict[str, Reference] = {
  "add": lambda a, b: word(u(a) + u(b)),
  "sub": lambda a, b: word(u(a) - u(b)),
  "and": lambda a, b: a & b,
  "or": lambda a, b: a | b,
  "xor": lambda a, b: a ^ b,
  "shl": lambda a, b: word(u(a) << (u(b) % 32)),
  "shr": lambda a, b: word(u(a) >> (u(b) % 32)),
  "sar": lambda a, b: word(s(a) >> (u(b) % 32)),
  "min": lambda a, b: word(np.minimum(s(a), s(b))),
  "max": lambda a, b: word(np.maximum(s(a), s(b))),
  "minu": lambda a, b: np.minimum(a, b),
  "maxu": lambda a, b: np.maximum(a, b),
  "lt": lambda a, b: flag(s(a) < s(b)),
  "ltu": lambda a, b: flag(a < b),
  "eq": lambda a, b: flag(a == b),
  "ne": lambda a, b: flag(a != b),
  "mul": lambda a, b: word((u(a) & 0xFFFF) * u(b) + ((((u(a) >> 16) * u(b)) & 0xFFFF) << 16)),
  "div": lambda a, b: _divide(a, b, _toward_zero, True)[0],
  "rem": lambda a, b: _divide(a, b, _toward_zero, True)[1],
  "divu": lambda a, b: _divide(a, b, divmod, False)[0],
  "remu": lambda a, b: _divide(a, b, divmod, False)[1],
  "fldiv": lambda a, b: _divide(a, b, divmod, True)[0],
  "flmod": lambda a, b: _divide(a, b, divmod, True)[1],
}
FLOAT: dict[str, Reference] = {
  "vflt": lambda a, b: flag(f(a) < f(b)),
  "vfle": lambda a, b: flag(f(a) <= f(b)),
  "vfeq": lambda a, b: flag(f(a) == f(b)),
  "vfne": lambda a, b: flag(f(a) != f(b)),
  "vfmax": _maximum,
  "vfmin": _minimum,
  "vfsmax": lambda a, b: np.where(f(a) > f(b), a, b),
  "vfsmin": lambda a, b: np.where(f(a) < f(b), a, b),
  "vfadd": lambda a, b: bits(f(a) + f(b)),
  "vfsub": lambda a, b: bits(f(a) - f(b)),
  "vfmul": lambda a, b: bits(f(a) * f(b)),
  "vfdiv": lambda a, b: bits(f(a) / f(b)),
}
UNARY: dict[str, Reference] = {
  "vf2h": half,
  "vh2f": from_half,
  "vf2b": bfloat,
  "vb2f": from_bfloat,
  "vroundh": lambda a: from_half(half(a)),
  "vroundb": lambda a: from_bfloat(bfloat(a)),
  "vi2f": lambda a: bits(a.view(np.int32).astype(np.float32)),
  "vu2f": lambda a: bits(a.astype(np.float32)),
  "vf2i": lambda a: _to_integer(a, -(1 << 31), (1 << 31) - 1),
  "vf2u": lambda a: _to_integer(a, 0, (1 << 32) - 1),
  "vftrunc": lambda a: bits(np.trunc(f(a))),
  "vfrcp": lambda a: bits(np.float32(1) / f(a)),
  "vfsqrt": lambda a: bits(np.sqrt(f(a))),
}
TRANSCENDENTAL: dict[str, Reference] = {"vfexp2": np.exp2, "vflog2": np.log2, "vfsin": np.sin, "vfcos": np.cos}
"""Of float64 arguments: the operations are not rounded to the nearest, so they are compared within an error."""


def _length(x: np.ndarray) -> np.ndarray:
  """Bits up to the highest one, as int.bit_length says."""
  return np.frexp(x.astype(np.float64))[1].astype(np.int64)


def _clip(x: np.ndarray, low: int, high: int) -> np.ndarray:
  return word(np.clip(x, low, high))


def _rotated(a: np.ndarray, left: np.ndarray) -> np.ndarray:
  twice = u(a) * (1 + (1 << 32)) & ((1 << 63) - 1)  # the copy's top bit is not needed: for no rotation the lower copy is taken
  return np.where(left == 0, a, word(twice >> (32 - left) % 32))


def _bytes(f: Callable[..., np.ndarray]) -> Reference:
  """`f` of signed bytes (as int64 arrays) for all four bytes of words."""
  def packed(*operands: np.ndarray) -> np.ndarray:
    result = f(*(np.ascontiguousarray(x).view(np.int8).astype(np.int64) for x in operands))
    return (result & 0xFF).astype(np.uint8).view(np.uint32)
  return packed


WORDS: dict[str, Reference] = {
  "vmulh": lambda a, b: word(s(a) * s(b) >> 32),
  "vmulhu": lambda a, b: (a.astype(np.uint64) * b.astype(np.uint64) >> np.uint64(32)).astype(np.uint32),
  "vrotl": lambda a, b: _rotated(a, u(b) % 32),
  "vrotr": lambda a, b: _rotated(a, -u(b) % 32),
  "vabsd": lambda a, b: word(np.abs(s(a) - s(b))),
  "vabsdu": lambda a, b: word(np.abs(u(a) - u(b))),
  "vadds": lambda a, b: _clip(s(a) + s(b), -(1 << 31), (1 << 31) - 1),
  "vsubs": lambda a, b: _clip(s(a) - s(b), -(1 << 31), (1 << 31) - 1),
  "vaddsu": lambda a, b: _clip(u(a) + u(b), 0, (1 << 32) - 1),
  "vsubsu": lambda a, b: _clip(u(a) - u(b), 0, (1 << 32) - 1),
  "vb4adds": _bytes(lambda a, b: np.clip(a + b, -128, 127)),
  "vb4subs": _bytes(lambda a, b: np.clip(a - b, -128, 127)),
  "vb4min": _bytes(np.minimum),
  "vb4max": _bytes(np.maximum),
  "vb4eq": _bytes(np.equal),
  "vb4lt": _bytes(np.less),
  "vb4absd": _bytes(lambda a, b: np.abs(a - b)),
  "vb4mul": _bytes(np.multiply),
  "vb4mulh": _bytes(lambda a, b: a * b >> 8),
}
"""Integer operations of two operands that the scalar unit has not."""
UNARY |= {
  "vclz": lambda a: word(32 - _length(a)),
  "vctz": lambda a: np.where(a == 0, 32, _length(a & (~a + np.uint32(1))) - 1).astype(np.uint32),
  "vpopc": lambda a: np.bitwise_count(a).astype(np.uint32),
  "vbswap": lambda a: a.byteswap(),
  "vabs": lambda a: word(np.abs(s(a))),
  "vsign": lambda a: word(np.sign(s(a))),
  "vb4neg": _bytes(lambda a: np.minimum(-a, 127)),
  "vb4abs": _bytes(lambda a: np.minimum(np.abs(a), 127)),
  "vb4relu": _bytes(lambda a: np.maximum(a, 0)),
  "vb4sign": _bytes(np.sign),
  "vfabs": lambda a: bits(np.abs(f(a))),
  "vfneg": lambda a: bits(-f(a)),
  "vfsign": lambda a: bits(np.sign(f(a))),
}


def half_round(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
  """vaxr."""
  return _rotated(a, u(b) % 32) ^ word(u(a) + u(c))
