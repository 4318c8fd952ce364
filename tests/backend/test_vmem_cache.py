"""VMEM under random launches: a machine of bytes that follows the plans sees the same memory as one that has no VMEM.

The machine moves bytes as kernels would: it fills, reads, writes and spills just what it is told. Each kernel checks what it reads.
A failure is cut down to the fewest steps that still fail, which are printed with their seed.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest

from tinytpu.asm.link import Spill
from tinytpu.asm.program import Access, Arg, ArgKind, Buf, Program
from tinytpu.backend.runtime.graph_plan import INPUTS, Batch, stand_in
from tinytpu.backend.runtime.heap import ALIGN
from tinytpu.backend.runtime.vmem_cache import Admission, Residency, Span
from tinytpu.config import Config

CONFIG = Config("tiny", vmem_bytes=4096, hbm_bytes=1 << 20)
MEMORY = 12 << 10
"""Bytes of device memory in use: three times VMEM, so that entries make way for others."""
SEEDS, STEPS = 2000, 60


@dataclass
class Machine:
  """Device memory and VMEM that follow plans, and `truth`: what device memory holds on a machine without VMEM."""
  rng: np.random.Generator
  hbm: np.ndarray = field(init=False)
  vmem: np.ndarray = field(init=False)
  truth: np.ndarray = field(init=False)
  filled: int = 0
  spilled: int = 0
  graphs: int = 0

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

  def host_writes(self, residency: Residency, low: int, high: int) -> None:
    self.spill(residency.write(low, high))
    self.hbm[low:high] = self.truth[low:high] = self.bytes(high - low)

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
    for b in program.bufs:  # all reads come first
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


class Launch(NamedTuple):
  """A step: a kernel and its buffers. stopped: before it has done anything."""
  program: Program
  spans: list[Span]
  stopped: bool = False


class Host(NamedTuple):
  """A step: the host reads a range, or writes it, be it a buffer or another one that takes the place of one that was freed."""
  writes: bool
  low: int
  high: int


class Graph(NamedTuple):
  """A step: a run of one of the batches. inputs: where those lie that change from run to run."""
  number: int
  inputs: list[int]


class Planned(NamedTuple):
  """A batch. calls: its kernels; inputs: which of their buffers change, as (address, size) in the first run."""
  calls: list[Launch]
  inputs: list[tuple[int, int]]


Step = Launch | Host | Graph


class Random:
  """Draws the steps of a case."""

  def __init__(self, seed: int):
    self.rng = np.random.default_rng(seed)
    self.ranges = self.layout()
    self.batches = [Planned([self.kernel() for _ in range(self.rng.integers(1, 9))], self.inputs()) for _ in range(2)]

  def choose(self, *options):
    return options[self.rng.integers(len(options))]

  def layout(self) -> list[tuple[int, int]]:
    """Buffers, as (address, size), and views of them that start and end anywhere, often near each other."""
    ranges, at, few = [], 0, self.rng.random() < 0.5
    while at < (2000 if few else MEMORY - 2600):
      size = self.choose(4, 64, 256, 1000, 1023, 1600, 2500)
      ranges.append((at, size))
      for _ in range(self.choose(0, 1, 8)):
        edges = [self.choose(self.rng.integers(2500), self.choose(0, 64, 128, 256, 1000) + self.rng.integers(-5, 6)) for _ in range(2)]
        low, high = sorted(int(min(max(edge, 0), size)) for edge in edges)
        if self.rng.random() < 0.5:
          low, high = low // 4 * 4, high // 4 * 4
        ranges += [(at + low, high - low)] if low < high else []
      at += -(-size // 256) * 256
    return ranges

  def kernel(self) -> Launch:
    chosen = [self.ranges[i] for i in self.rng.integers(len(self.ranges), size=self.rng.integers(1, 5))]
    bufs, args = [], []
    placed = self.choose(0, 0.5, 1, 1)
    for number, (_, size) in enumerate(chosen):
      bufs.append(Buf(number, size, self.choose(*Access), self.rng.random() < 0.2))
      if self.rng.random() < placed:
        args.append(Arg(len(args), ArgKind.VMEM, number))
        if bufs[-1].access is not Access.OUT or self.rng.random() < 0.5:
          args.append(Arg(len(args), ArgKind.FILL, number))
    cycles = self.choose((1, 1500), (1, 1500), (100, 200), (300, 100))
    program = Program(np.zeros(8, np.uint64), "k", tuple(args), self.choose(0, 0, 64, 700), bufs=tuple(bufs), direct=4, cycles=cycles)
    return Launch(program, [Span(*r) for r in chosen])

  def inputs(self) -> list[tuple[int, int]]:
    return list(dict.fromkeys(self.ranges[i] for i in self.rng.integers(len(self.ranges), size=self.choose(0, 0, 1, 2))))

  def step(self) -> Step:
    kind = self.choose("launch", "launch", "launch", "stopped", "host", "graph")
    if kind == "host":
      low, size = self.choose(*self.ranges)
      return Host(self.rng.random() < 0.5, low, low + size)
    if kind == "graph":
      number = self.choose(0, 1)
      return Graph(number, [self.choose(low, *range(low % ALIGN, MEMORY - size, ALIGN)) for low, size in self.batches[number].inputs])
    return self.kernel()._replace(stopped=kind == "stopped")


def run(batches: Sequence[Planned], steps: Sequence[Step], seed: int) -> Machine:
  """Follow the steps; raises AssertionError where memory is not as without VMEM."""
  machine, residency = Machine(np.random.default_rng(seed)), Residency(CONFIG)
  plans = [_plan(b) for b in batches]
  for step in steps:
    match step:
      case Launch(program, spans, stopped):
        admission = residency.admit(program, spans)
        machine.spill(admission.spills)
        if stopped:  # what it writes is undefined, until the host writes it
          residency.failed(admission)
          for low, size in [(spans[b.number].address, b.bytes) for b in program.bufs if b.writes]:
            machine.host_writes(residency, low, low + size)
        else:
          machine.kernel(program, spans, admission)
      case Host(True, low, high):
        machine.host_writes(residency, low, high)
      case Host(False, low, high):
        machine.spill(residency.read(low, high))
        np.testing.assert_array_equal(machine.hbm[low:high], machine.truth[low:high])
      case Graph(number, inputs):
        _run_graph(machine, residency, *plans[number], {n: at - at % ALIGN for n, at in enumerate(inputs)})
    check(residency)
  machine.spill(residency.read(0, MEMORY))
  np.testing.assert_array_equal(machine.hbm, machine.truth)
  return machine


def _plan(planned: Planned) -> tuple[Batch, list[tuple[Program, list[Span]]]]:
  stands = {place: stand_in(number, *place) for number, place in enumerate(planned.inputs)}
  calls = [(program, [stands.get((s.address, s.size), s) for s in spans]) for program, spans, _ in planned.calls]
  return Batch(CONFIG, calls), calls


def _run_graph(machine: Machine, residency: Residency, batch: Batch, calls: list[tuple[Program, list[Span]]],
               shifts: dict[int, int]) -> None:
  actual = [[s if s.stays else Span(shifts[s.address // INPUTS - 1] + s.address % INPUTS, s.size) for s in spans] for _, spans in calls]
  if not batch.fits(shifts):
    return
  done = batch.prepare(residency, shifts)
  machine.spill(done.spills)
  for number, ((program, _), admission) in enumerate(zip(calls, batch.admissions, strict=True)):
    machine.spill(admission.spills)
    buffers = {a.register: int(a.value) for a in program.args}
    fills = {buffers[register]: amount for (call, register), amount in done.fills.items() if call == number}
    machine.kernel(program, actual[number], admission, fills)
    machine.graphs += 1
  batch.finish(residency, shifts, done)


def smallest(batches: Sequence[Planned], steps: list[Step], seed: int) -> list[Step]:
  """The steps that are left when none can be left out any more."""
  at = 0
  while at < len(steps):
    fewer = steps[:at] + steps[at + 1:]
    try:
      run(batches, fewer, seed)
    except AssertionError:
      steps = fewer
    else:
      at += 1
  return steps


@pytest.mark.parametrize("first", range(0, SEEDS, 100))
def test_memory_is_as_without_vmem(first: int) -> None:
  filled = spilled = graphs = 0
  for seed in range(first, first + 100):
    case = Random(seed)
    steps = [case.step() for _ in range(STEPS)]
    try:
      machine = run(case.batches, steps, seed)
    except AssertionError as error:
      left = smallest(case.batches, steps, seed)
      used = {step.number: case.batches[step.number] for step in left if isinstance(step, Graph)}
      raise AssertionError("\n".join([f"seed {seed}, smallest program:", *map(str, left), f"batches: {used}"])) from error
    filled, spilled, graphs = filled + machine.filled, spilled + machine.spilled, graphs + machine.graphs
  assert min(filled, spilled) > 1000 * STEPS and graphs > 100
