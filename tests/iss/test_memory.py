"""Memory operations of every form, element type and mask, and DMA, against a byte-wise reference."""

from __future__ import annotations

import numpy as np
import pytest

from tests.iss.reference import bfloat, from_bfloat, from_half, half
from tests.iss.support import DATA, W
from tinytpu.isa.encoding import MemType
from tinytpu.isa.instruction import ins
from tinytpu.isa.table import OPS, is_memory

BYTES = 4096
FORMS = ("", "2", "x")
A, X, R, C2 = 33, 34, 35, 36  # argument registers of an operand


def test_every_operation_has_a_test():
  names = {prefix + form for prefix in ("vld", "vst", "vatom", "hld", "hst") for form in FORMS} | {"dmai", "dmao"}
  assert (
    names
    == {op.name for op in OPS.values() if is_memory(op) or op.name.startswith("dma")}
    == {op.name for op in OPS.values() if op.slot in "LT" and op.slot}
  )


def addresses(form: str, size: int, base: int, x: int, off: int, r: int, c2: int, index: np.ndarray) -> np.ndarray:
  """Byte address of every element."""
  out = []
  for e in range(W):
    distance = {"": e, "2": (e // 4) * r + (e % 4) * c2, "x": int(index[e])}[form]
    out.append((base + size * (x + off + distance)) % (1 << 32))
  return np.array(out)


def load_reference(memory: np.ndarray, where: np.ndarray, active: np.ndarray, mtype: MemType) -> np.ndarray:
  """Register contents after a load, uint32."""
  out = np.zeros(W, np.uint32)
  for e in np.flatnonzero(active):
    raw = int.from_bytes(memory[where[e] : where[e] + mtype.bytes].tobytes(), "little")
    value = np.array([raw], np.uint32)
    if mtype in (MemType.I8, MemType.I16):
      sign = 1 << (8 * mtype.bytes - 1)
      value = np.array([((raw ^ sign) - sign) & 0xFFFFFFFF], np.uint32)
    elif mtype == MemType.F16:
      value = from_half(value)
    elif mtype == MemType.BF16:
      value = from_bfloat(value)
    out[e] = value[0]
  return out


def store_reference(memory: np.ndarray, where: np.ndarray, active: np.ndarray, mtype: MemType, data: np.ndarray) -> None:
  """Memory after a store: elements in order."""
  narrow = {MemType.F16: half, MemType.BF16: bfloat}.get(mtype, lambda x: x)(data)
  for e in np.flatnonzero(active):
    memory[where[e] : where[e] + mtype.bytes] = np.frombuffer(int(narrow[e]).to_bytes(4, "little")[: mtype.bytes], np.uint8)


class Case:
  """A random memory operand within the first BYTES of a space, with data, index and mask tiles."""

  def __init__(self, form: str, mtype: MemType, seed: int):
    rng = np.random.default_rng(seed)
    size = mtype.bytes
    self.rng, self.form, self.mtype = rng, form, mtype
    self.base = int(rng.integers(64, 256)) * 4 + (int(rng.integers(0, 4)) // size * size)
    self.x, self.off = int(rng.integers(0, 40)), int(rng.integers(-64, 64))
    self.r, self.c2 = (int(v) for v in rng.choice([0, 1, 3, 4, 5, 16, 17, 20, 0xFFFFFFFF, 0xFFFFFFFC], 2))
    self.index = rng.integers(0, 120, W, dtype=np.uint32)
    if form == "x":
      self.index[::5] = (-self.index[::5].astype(np.int64) // 4 & 0xFFFFFFFF).astype(np.uint32)
    self.data = rng.integers(0, 1 << 32, W, dtype=np.uint32)
    self.data[:4] = [0x3F800000, 0x477FEFFF, 0x7FC12345, 0x33000001]
    self.mask = rng.choice(np.array([0, 0, 1, 0x80000000], np.uint32), W)
    self.memory = rng.integers(0, 256, BYTES, dtype=np.uint8)
    self.where = addresses(form, size, self.base, self.x, self.off, self.r, self.c2, self.index)

  def fields(self, masked: bool) -> dict:
    r = 2 if self.form == "x" else R
    return {"d": 4, "a": A, "x": X, "r": r, "c2": C2, "off": self.off, "mtype": self.mtype, "masked": masked, "c": 3}

  def args(self, space: int) -> list[int]:
    return [0, space + self.base, self.x, self.r, self.c2]

  def active(self, masked: bool) -> np.ndarray:
    return self.mask != 0 if masked else np.ones(W, bool)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("mtype", MemType)
@pytest.mark.parametrize("form", FORMS)
def test_loads_and_stores(iss, form, mtype, masked):
  for seed in range(6):
    case = Case(form, mtype, seed)
    active = case.active(masked)
    loaded = load_reference(case.memory, case.where, active, mtype)
    stored = case.memory.copy()
    store_reference(stored, case.where, active, mtype, case.data)
    for prefix, space in (("v", 0), ("h", 2 * DATA)):
      iss.set_vmem(0, case.memory)
      iss.put(2 * DATA, case.memory)
      iss.set_vregs(1, np.stack([case.data, case.index, case.mask, np.full(W, 7, np.uint32)]))
      assert iss.run([[ins(f"{prefix}ld{form}", **case.fields(masked))], [ins("halt")]], case.args(space)).fault is None
      assert (iss.state("vregs")[4] == loaded).all()
      fields = case.fields(masked) | {"d": 1}
      assert iss.run([[ins(f"{prefix}st{form}", **fields)], [ins("halt")]], case.args(space)).fault is None
      memory = iss.state("vmem")[:BYTES] if prefix == "v" else iss.get(2 * DATA, BYTES, np.uint8)
      assert (memory == stored).all()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_atomic_adds(iss, form, masked):
  """Every active element is added, those that meet in a word too."""
  met = 0
  for seed in range(20):
    case = Case(form, MemType.W, seed)
    case.index %= np.uint32(8)
    case.where = addresses(form, 4, case.base, case.x, case.off, case.r, case.c2, case.index)
    if case.where.max() >= BYTES:
      continue
    active = case.active(masked)
    expected = case.memory.copy().view(np.uint32)
    np.add.at(expected, case.where[active] // 4, case.data[active])
    met += len(set(case.where[active])) < active.sum()
    iss.set_vmem(0, case.memory)
    iss.set_vregs(1, np.stack([case.data, case.index, case.mask]))
    assert iss.run([[ins(f"vatom{form}", **case.fields(masked) | {"d": 1})], [ins("halt")]], case.args(0)).fault is None
    assert (iss.state("vmem")[:BYTES].view(np.uint32) == expected).all()
  assert met > 4 or form == ""


def test_highest_element_wins(iss):
  iss.set_vmem(0, np.zeros(64, np.uint8))
  iss.set_vregs(1, np.stack([np.arange(100, 100 + W, dtype=np.uint32), np.arange(W, dtype=np.uint32) // 8]))
  assert iss.run([[ins("vstx", d=1, a=0, x=0, r=2)], [ins("halt")]]).fault is None
  assert list(iss.state("vmem")[:8].view(np.uint32)) == [107, 115]


def test_load_beside_store_reads_memory_before_it(iss):
  old, new = np.arange(W, dtype=np.uint32), np.arange(50, 50 + W, dtype=np.uint32)
  iss.set_vmem(0, old)
  iss.set_vregs(1, new[None])
  iss.run([[ins("vld", d=2, a=0), ins("vst", d=1, a=0)], [ins("vld", d=3, a=0)], [ins("halt")]])
  assert (iss.state("vregs")[2] == old).all() and (iss.state("vregs")[3] == new).all()


@pytest.mark.parametrize(
  "rows,nbytes,vpitch,hpitch",
  [(1, 4096, 0, 0), (5, 60, 64, 132), (3, 64, 32, 64), (4, 8, 0, 8), (7, 4, 68, 4), (2, 0, 8, 8), (0, 64, 8, 8), (3, 100, 0x100, 0)],
)
def test_dma(iss, rows, nbytes, vpitch, hpitch):
  rng = np.random.default_rng(rows)
  vmem, hbm = rng.integers(0, 256, (2, 8192), dtype=np.uint8)
  args = [0, 64, vpitch, 2 * DATA + 128, hpitch, nbytes, rows]
  for name in ("dmai", "dmao"):
    iss.set_vmem(0, vmem)
    iss.put(2 * DATA, hbm)
    iss.run([[ins(name, c=33, c2=34, a=35, r=36, d=37, x=38)], [ins("halt")]], args)
    expected = {"dmai": vmem.copy(), "dmao": hbm.copy()}[name]
    for row in range(rows):
      v, h = 64 + row * vpitch, 128 + row * hpitch
      if name == "dmai":
        expected[v : v + nbytes] = hbm[h : h + nbytes]
      else:
        expected[h : h + nbytes] = vmem[v : v + nbytes]
    result = iss.state("vmem")[:8192] if name == "dmai" else iss.get(2 * DATA, 8192, np.uint8)
    assert (result == expected).all()


@pytest.mark.parametrize("name", ["dmai", "dmao"])
@pytest.mark.parametrize("seed", range(12))
def test_dma_of_planes(iss, name, seed):
  """Three dimensions against numpy's strided views; the last ones written win where planes or rows overlap."""
  rng = np.random.default_rng(seed)
  vmem, hbm = rng.integers(0, 1 << 32, (2, 4096), dtype=np.uint32)
  planes, rows, words = (int(n) for n in rng.integers(1, 6, 3))
  vpitch, hpitch, vplane, hplane = (int(n) for n in rng.choice([0, 1, 5, 16, 17, 40, 100], 4))
  if seed == 0:
    planes = 0
  args = [256, 4 * vpitch, 2 * DATA + 512, 4 * hpitch, 4 * words, rows, planes, 4 * hplane, 4 * vplane]
  iss.set_vmem(0, vmem)
  iss.put(2 * DATA, hbm)
  move = ins(name, c=33, c2=34, a=35, r=36, d=37, x=38, z=39, zh=40, zv=9)
  result = iss.run([[ins("sadd", d=9, a=41)], [move], [ins("halt")]], [0, *args])
  assert result.fault is None
  target, source = (vmem, hbm) if name == "dmai" else (hbm, vmem)
  expected = target.copy()
  shape = (planes, rows, words)
  v, h = np.zeros(shape, int), np.zeros(shape, int)
  for p, r in np.ndindex(planes, rows):
    v[p, r], h[p, r] = (base + p * plane + r * pitch + np.arange(words)
                        for base, plane, pitch in ((64, vplane, vpitch), (128, hplane, hpitch)))
  to, of = (v, h) if name == "dmai" else (h, v)
  for p, r in np.ndindex(planes, rows):
    expected[to[p, r]] = source[of[p, r]]
  got = iss.state("vmem")[: vmem.nbytes].view(np.uint32) if name == "dmai" else iss.get(2 * DATA, 4096)
  assert (got == expected).all()
  assert result.counters["dma_lines"] == sum(len({w // W for w in h[p, r]}) for p, r in np.ndindex(planes, rows))


def test_s0_as_number_of_planes_means_one(iss):
  """Whatever else holds a zero means none."""
  iss.set_vmem(0, np.zeros(64, np.uint8))
  iss.put(2 * DATA, np.full(16, 7, np.uint32))
  for z, moved in ((0, 1), (36, 0)):
    result = iss.run([[ins("dmai", c=0, c2=0, a=32, r=0, d=33, x=34, z=z, zh=35)], [ins("halt")]], [2 * DATA, 64, 1, 0xFFFFFFFC, 0])
    assert (result.fault, result.counters["dma_lines"]) == (None, moved)
