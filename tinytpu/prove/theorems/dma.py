"""The DMA engines: no transfer is lost, none reaches outside memory, and what is moved is the words of its rows."""
from __future__ import annotations

from amaranth.hdl import Assert, Assume, Cover, Signal
from amaranth.lib import data
from bitwuzla import Kind, Term

from tinytpu.config import preset
from tinytpu.isa.faults import Fault
from tinytpu.isa.table import OPS
from tinytpu.isa.timing import DMA_QUEUE
from tinytpu.rtl.dma import DmaEngine

from ..circuit import Circuit
from ..mutants import Mutant
from ..proof import Equation, Invariant, Theorem
from ..spec import Spec

CONFIG = preset("4x4,hbm_latency=4,vector_lanes=4")


def _engine() -> tuple[Spec, DmaEngine]:
  """The outbound engine; transfers issue only when it is ready, as the issue stage sees to."""
  unit = DmaEngine(CONFIG, inbound=False)
  s = Spec(unit)
  s.m.d.comb += Assume(~unit.issue.start | unit.ready)
  return s, unit


def queue() -> Spec:
  """Every transfer is in exactly one place: being checked, in the queue, at work, or in one of the two cycles after."""
  s, unit = _engine()
  count, waiting, working, ended, finishing, checking, last = (s.signals[n] for n in (
    "check", "waiting", "$signal", "$signal#5", "finishing", "_checking", "last"))
  enter, head, leave = (s.signals[n] for n in ("$signature__addr", "head__addr", "leave"))
  s.m.d.comb += [
    Assert(count == waiting + working + ended + finishing, "a transfer is lost or counted twice"),
    Assert(count + checking <= DMA_QUEUE, "more transfers than the queue has places"),
    Assert((enter - head)[:2] == waiting[:2], "the queue's pointers disagree with its count"),
    Assert(~(leave & (waiting == 0)), "a transfer leaves an empty queue"),
    Assert(unit.unfinished == count + checking, "the number of unfinished transfers is wrong"),
    Cover(waiting == DMA_QUEUE - 1, "one works, three wait"),
    Cover(working & last & (waiting != 0) & unit.issue.start, "one ends, one waits, one issues")]
  return s


def words() -> Spec:
  """What is done of a row is a prefix of it; each cycle moves those words after it that are in the cycle's line, and no others."""
  s, unit = _engine()
  n = CONFIG.vector_lanes
  working, row_ends = s.signals["$signal"], s.signals["row_ends"]
  row = data.View(unit.transfer, s.signals["$signal#2"])
  left, hbm, vmem = s.signals["left"], s.signals["$like"], s.signals["vmem"]
  done = Signal(30, name="done")
  s.m.d.comb += [
    done.eq(hbm - row.hbm),
    Assert(~working | ((done + left == row.words) & (left <= row.words)), "words of the row are lost"),
    Assert(~working | ((vmem - row.vmem)[:len(vmem)] == done[:len(vmem)]), "the row is elsewhere in VMEM than in HBM"),
    Assert(~working | (left != 0) | (row.words == 0), "a cycle moves nothing"),
    Cover(working & row_ends & (done == n + 1) & (left == 2) & (hbm[:2] == 0), "a row's last line, after two others, of two words")]
  for slot in range(n):
    place, word = Signal(30, name=f"place{slot}"), Signal(len(vmem), name=f"word{slot}")
    moved = unit.vmem.valid & unit.vmem.mask[slot]
    s.m.d.comb += [
      place.eq((hbm[2:] << 2) + slot - row.hbm), word.eq(unit.vmem.word + slot - row.vmem),
      Assert(~unit.vmem.valid | (unit.vmem.mask[slot] == ((place >= done) & (place < row.words))),
             f"slot {slot} is moved and no word of the row, or the other way round"),
      Assert(~moved | (word == place[:len(vmem)]), f"slot {slot} is another word in VMEM than in HBM")]
  return s


def _request() -> DmaEngine:
  return DmaEngine(CONFIG, inbound=False)


def _end(c: Circuit, base: str, pitch: str, plane: str) -> Term:
  """One behind the last byte of the last row of the last plane, of a transfer that is not empty: 64 bits hold the products, 68 the sums."""
  t, one = c.terms, c.terms.const(1, 32)

  def exact(term: Term, width: int = 68) -> Term:
    return t.extend(term, width)

  def product(steps: str, distance: str) -> Term:
    before_last = t(Kind.BV_SUB, c.input(f"issue__{steps}", 0), one)
    return exact(t(Kind.BV_MUL, exact(before_last, 64), exact(c.input(f"issue__{distance}", 0), 64)))

  reach = t(Kind.BV_ADD, product("x", pitch), product("planes", plane))
  return t(Kind.BV_ADD, t(Kind.BV_ADD, reach, exact(c.input(f"issue__{base}", 0))), exact(c.input("issue__nbytes", 0)))


def _within(c: Circuit) -> Term:
  """Without a fault every address lies in memory and is one of a word; and a transfer in bounds does not fault by DMA_BOUNDS."""
  t = c.terms
  c.bind("issue__start", 0, 1)
  c.bind("issue__code", 0, OPS["dmao"].code)
  empty = t.any([t.eq(c.input(f"issue__{name}", 0), 0) for name in ("x", "planes", "nbytes")])
  inside = t.all([t(Kind.BV_ULE, _end(c, *fields), t.const(size, 68)) for fields, size in (
    (("base", "r", "hplane"), CONFIG.hbm_bytes), (("vbase", "c2", "vplane"), CONFIG.vmem_bytes))])
  even = t.all([t.eq(t.slice(c.input(f"issue__{name}", 0), 0, 2), 0) for name in ("base", "r", "hplane", "vbase", "c2", "vplane",
    "nbytes")])
  fault, cause = t.truth(c.output("fault__valid", 1)), c.output("fault__cause", 1)
  return t.all([t.if_(t.isnt(fault), t.all([even, t.any([empty, inside])])),
                t.if_(t.all([fault, t.eq(cause, Fault.DMA_BOUNDS)]), t.isnt(t.any([empty, inside]))),
                t(Kind.EQUAL, t.all([fault, t.eq(cause, Fault.DMA_ALIGN)]), t.isnt(even))])


def _accepted(c: Circuit) -> Term:
  t = c.terms
  return t.all([t.eq(c.output("fault__valid", 1), 0), t.eq(_end(c, "vbase", "c2", "vplane"), CONFIG.vmem_bytes),
                t.eq(c.input("issue__x", 0), 3), t.eq(c.input("issue__planes", 0), 2)])


THEOREMS = [
  Theorem("dma.queue", "Every transfer is checked, waits, works or finishes, exactly one of these; never more than the queue has places.",
          "docs/timing.md, DMA; docs/rtl/dma.md", Invariant(queue, 1, reach=9),
          (Mutant("dma", "accepted & ~bypass", "accepted"),
           Mutant("dma", "free & (waiting == 0) & accepted", "free & accepted"),
           Mutant("dma", "self.unfinished < DMA_QUEUE", "self.unfinished <= DMA_QUEUE")), quick=True),
  Theorem("dma.words", "Each cycle of a row moves exactly those of its words that are left and in the cycle's HBM line, to the same places "
          "of the row in VMEM.",
          "docs/timing.md, DMA; docs/rtl/dma.md", Invariant(words, 1, reach=7),
          (Mutant("dma", "end <= n", "end < n"),
           Mutant("dma", "(below << slot)[:n]", "(below << slot >> 1)[:n]"),
           Mutant("dma", "vmem.eq(vmem + moved)", "vmem.eq(vmem + n)")), quick=True),
  Theorem("dma.bounds", "A transfer that is not refused lies within both memories, computed without wrap, at addresses of words; none is "
          "refused that does.",
          "docs/timing.md, Faults, DMA", Equation(_request, _within, {"two planes of three rows end where VMEM does": _accepted}),
          (Mutant("dma", "(reach[33:] != 0) |", "(reach[34:] != 0) |"),
           Mutant("dma", "reach[:33] + held[base] + held[\"nbytes\"]) > size", "reach[:33] + held[base] + held[\"nbytes\"]) >= size"))),
]
