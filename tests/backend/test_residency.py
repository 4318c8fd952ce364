"""VMEM under random launches: a machine of bytes that follows the plans sees the same memory as one that has no VMEM.

The machine moves bytes as kernels would: it fills, reads, writes and spills just what it is told. Each kernel checks what it reads.
"""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytpu.asm.link import Spill
from tinytpu.asm.program import Access, Arg, ArgKind, Buf, Program
from tinytpu.backend.batch import ALIGN, Batch, stand_in
from tinytpu.backend.residency import Admission, Residency, Span
from tinytpu.config import Config

CONFIG = Config("tiny", vmem_bytes=4096, hbm_bytes=1 << 20)
MEMORY = 12 << 10
"""Bytes of device memory in use: three times VMEM, so that entries make way for others."""
MANY = settings(max_examples=300, deadline=None, print_blob=True)


@dataclass
class Machine:
  """Device memory and VMEM that follow plans, and `truth`: what device memory holds on a machine without VMEM."""
  rng: np.random.Generator
  hbm: np.ndarray = field(init=False)
  vmem: np.ndarray = field(init=False)
  truth: np.ndarray = field(init=False)
  filled: int = 0
  spilled: int = 0

  def __post_init__(self) -> None:
    self.hbm = self.bytes(MEMORY)
    self.truth = self.hbm.copy()
    self.vmem = self.bytes(CONFIG.vmem_bytes)

  def bytes(self, n: int) -> np.ndarray:
    return self.rng.integers(0, 256, n, dtype=np.uint8)

  def spill(self, spills: list[Spill]) -> None:
    for s in spills:
      assert s.vmem % 4 == s.hbm % 4 == s.bytes % 4 == 0 and s.vmem + s.bytes <= CONFIG.vmem_bytes
      self.hbm[s.hbm:s.hbm + s.bytes] = self.vmem[s.vmem:s.vmem + s.bytes]
      self.spilled += s.bytes

  def kernel(self, program: Program, spans: list[Span], admission: Admission, fills: dict[int, int] | None = None) -> None:
    """fills: of buffers, where they differ from the admission's."""
    if not admission.direct:
      self.vmem[:program.vmem_bytes] = self.bytes(program.vmem_bytes)
    places: dict[int, tuple[np.ndarray, int]] = {}
    for b in program.bufs:
      address = spans[b.number].address
      if b.number not in admission.held:
        places[b.number] = self.hbm, address
        continue
      at = admission.values[ArgKind.VMEM, b.number]
      places[b.number] = self.vmem, at
      amount = (fills or {}).get(b.number, admission.values[ArgKind.FILL, b.number])
      assert at % 4 == address % 4 and at >= program.vmem_bytes
      self.vmem[at - at % 4:at - at % 4 + amount] = self.hbm[address - address % 4:address - address % 4 + amount]
      self.filled += amount
    for b in program.bufs:  # all reads come first, as the buffers that are written overlap no others here
      memory, at = places[b.number]
      if b.access is not Access.OUT:
        np.testing.assert_array_equal(memory[at:at + b.bytes], self.truth[spans[b.number].address:spans[b.number].address + b.bytes])
    for b in program.bufs:
      memory, at = places[b.number]
      address = spans[b.number].address
      if b.writes:
        new = self.bytes(b.bytes)
        mask = np.ones(b.bytes, bool) if b.access is Access.OUT else self.rng.random(b.bytes) < 0.3
        memory[at:at + b.bytes][mask] = new[mask]
        self.truth[address:address + b.bytes][mask] = new[mask]


def check(residency: Residency) -> None:
  """Entries are apart and in order, on both sides."""
  by_place = sorted(residency.entries, key=lambda e: e.at)
  assert all(a.high <= b.low for a, b in zip(residency.entries, residency.entries[1:], strict=False))
  assert all(a.end <= b.at for a, b in zip(by_place, by_place[1:], strict=False))
  assert all(0 <= e.at and e.end <= CONFIG.vmem_bytes and e.low % 4 == e.high % 4 == 0 for e in residency.entries)


@st.composite
def kernels(draw: st.DrawFn, ranges: list[tuple[int, int]]) -> tuple[Program, list[Span]]:
  """A kernel of some of the buffers `ranges` (address, size), and its buffers."""
  chosen = draw(st.lists(st.sampled_from(ranges), min_size=1, max_size=4))
  bufs, args = [], []
  written: list[tuple[int, int]] = []
  for number, (address, size) in enumerate(chosen):
    others = [r for i, r in enumerate(chosen) if i != number]
    apart = all(address + size <= a or a + s <= address for a, s in others)
    access = draw(st.sampled_from(list(Access))) if apart else Access.IN
    if access is not Access.IN:
      written.append((address, size))
    bufs.append(Buf(number, size, access, draw(st.booleans())))
    if draw(st.integers(0, 7)):
      args.append(Arg(len(args), ArgKind.VMEM, number))
      if access is not Access.OUT or draw(st.booleans()):
        args.append(Arg(len(args), ArgKind.FILL, number))
  cycles = draw(st.tuples(st.integers(1, 100), st.integers(1, 1500)))
  vmem = draw(st.sampled_from([0, 64, 700]))
  program = Program(np.zeros(8, np.uint64), "k", tuple(args), vmem, bufs=tuple(bufs), direct=4, cycles=cycles)
  return program, [Span(*r) for r in chosen]


@st.composite
def layouts(draw: st.DrawFn) -> list[tuple[int, int]]:
  """Buffers, and views of them that start and end anywhere."""
  ranges = []
  at = 0
  while at < MEMORY - 2600:
    size = draw(st.sampled_from([4, 64, 256, 1000, 1023, 1600, 2500]))
    ranges.append((at, size))
    for _ in range(draw(st.integers(0, 3)) if size > 64 else 0):
      low, end = sorted(draw(st.tuples(st.integers(0, size), st.integers(0, size))))
      if draw(st.booleans()):
        low, end = low // 4 * 4, end // 4 * 4
      if low < end:
        ranges.append((at + low, end - low))
    at += -(-size // 256) * 256
  return ranges


@MANY
@given(data=st.data(), seed=st.integers(0, 1 << 32))
def test_memory_is_as_without_vmem(data: st.DataObject, seed: int) -> None:
  ranges = data.draw(layouts())
  machine, residency = Machine(np.random.default_rng(seed)), Residency(CONFIG)
  for _ in range(data.draw(st.integers(1, 25))):
    what = data.draw(st.sampled_from(["kernel"] * 6 + ["read", "write", "free"]))
    if what == "kernel":
      program, spans = data.draw(kernels(ranges))
      admission = residency.admit(program, spans)
      machine.spill(admission.spills)
      machine.kernel(program, spans, admission)
    else:
      address, size = data.draw(st.sampled_from(ranges))
      host(machine, residency, what, address, size)
    check(residency)
  machine.spill(residency.read(0, MEMORY))
  np.testing.assert_array_equal(machine.hbm, machine.truth)


def host(machine: Machine, residency: Residency, what: str, address: int, size: int) -> None:
  """The host reads, writes, or frees a buffer and writes another one there."""
  span = slice(address, address + size)
  if what == "read":
    machine.spill(residency.read(address, address + size))
    np.testing.assert_array_equal(machine.hbm[span], machine.truth[span])
    return
  machine.spill(residency.write(address, address + size))
  machine.hbm[span] = machine.truth[span] = machine.bytes(size)


@MANY
@given(data=st.data(), seed=st.integers(0, 1 << 32))
def test_batches(data: st.DataObject, seed: int) -> None:
  """The same of batches that are planned once, with inputs that change, between other launches."""
  ranges = data.draw(layouts())
  machine, residency = Machine(np.random.default_rng(seed)), Residency(CONFIG)
  calls = [data.draw(kernels(ranges)) for _ in range(data.draw(st.integers(1, 9)))]
  inputs = data.draw(st.lists(st.sampled_from(ranges), max_size=2, unique=True))
  stands = {place: stand_in(number, *place) for number, place in enumerate(inputs)}
  planned = [(program, [stands.get((s.address, s.size), s) for s in spans]) for program, spans in calls]
  batch = Batch(CONFIG, planned)
  for _ in range(data.draw(st.integers(1, 4))):
    shifts = {}
    for number, (address, size) in enumerate(inputs):
      places = range(address % ALIGN, MEMORY - size, ALIGN)
      shifts[number] = data.draw(st.sampled_from([address, *places])) - address % ALIGN
    if batch.fits(shifts):
      run = batch.prepare(residency, shifts)
      machine.spill(run.spills)
      for number, ((program, spans), admission) in enumerate(zip(planned, batch.admissions, strict=True)):
        machine.spill(list(admission.spills))
        numbers = {a.register: int(a.value) for a in program.args}
        fills = {numbers[register]: amount for (call, register), amount in run.fills.items() if call == number}
        actual = [s if s.stays else Span(shifts[s.address // (1 << 40) - 1] + s.address % ALIGN, s.size) for s in spans]
        machine.kernel(program, actual, admission, fills)
      batch.finish(residency, shifts, run)
      check(residency)
    for _ in range(data.draw(st.integers(0, 3))):
      program, spans = data.draw(kernels(ranges))
      admission = residency.admit(program, spans)
      machine.spill(admission.spills)
      machine.kernel(program, spans, admission)
      check(residency)
    host(machine, residency, data.draw(st.sampled_from(["read", "write"])), *data.draw(st.sampled_from(ranges)))
  machine.spill(residency.read(0, MEMORY))
  np.testing.assert_array_equal(machine.hbm, machine.truth)
