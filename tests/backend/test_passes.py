"""The compiler's passes one by one: heap, address forms, register allocation under pressure, scheduling."""
from __future__ import annotations

import numpy as np
import pytest

from tinytpu.asm import assemble
from tinytpu.backend.emit.regalloc import allocate
from tinytpu.backend.emit.schedule import schedule
from tinytpu.backend.lower.uniformity import pattern
from tinytpu.backend.mir.builder import Builder, Val
from tinytpu.backend.mir.ir import S0, Inst, Loop, Mem, Reg, flatten, inst
from tinytpu.backend.mir.text import render
from tinytpu.backend.runtime.heap import Heap
from tinytpu.config import Config
from tinytpu.isa.encoding import MemType
from tinytpu.isa.table import OPS
from tinytpu.machine import open_engine

CONFIG = Config(hbm_bytes=1 << 20)


def test_heap_gives_disjoint_aligned_ranges(rng):
  heap, live = Heap(0, 1 << 16), {}
  for _ in range(2000):
    if live and rng.random() < 0.45:
      at = list(live)[rng.integers(len(live))]
      heap.give(at, live.pop(at))
      continue
    size, align = int(rng.integers(1, 3000)), int(2 ** rng.integers(0, 9))
    try:
      at = heap.take(size, align)
    except MemoryError:
      continue
    assert at % align == 0 and at + size <= 1 << 16
    assert all(at + size <= a or a + n <= at for a, n in live.items())
    live[at] = size
  for at, size in live.items():
    heap.give(at, size)
  assert heap.free_ranges == [(0, 1 << 16)]


def test_heap_says_what_is_wrong():
  heap = Heap(0, 1024)
  at = heap.take(512, 1)
  with pytest.raises(MemoryError, match="no 600 bytes of HBM"):
    heap.take(600, 1)
  heap.give(at, 512)
  with pytest.raises(ValueError, match="given back twice"):
    heap.give(at, 512)


@pytest.mark.parametrize("offsets, active, form", [
  (np.arange(16) + 5, 16, ""), (np.arange(16) // 4 * 20 + np.arange(16) % 4, 16, "2"), (np.zeros(16, int), 16, "2"),
  (np.arange(16) * 3, 16, "2"), (np.arange(16) ** 2, 16, "x"), (np.minimum(np.arange(16), 12), 13, ""),
  (np.minimum(np.arange(16), 12) * 2, 13, "2"), (-np.arange(16), 16, "2")])
def test_pattern_addresses_what_was_asked(offsets, active, form):
  p = pattern(CONFIG, offsets.astype(np.int64), active)
  assert p.form == form
  e = np.arange(p.active)
  if form == "":
    np.testing.assert_array_equal(p.start + e, offsets[:p.active])
  elif form == "2":
    np.testing.assert_array_equal(p.start + e // CONFIG.lanes * p.r + e % CONFIG.lanes * p.c, offsets[:p.active])


def run(items: list[Inst | Loop], args: int = 1) -> np.ndarray:
  """Compile machine IR and run it with argument register 0 = 0; returns the first 4 KiB of memory as words."""
  code = allocate(flatten(items, Config.LOOP_DEPTH), CONFIG, "test", args)
  program = assemble(render("test", [], [schedule(code, CONFIG)], CONFIG), CONFIG)
  engine = open_engine(CONFIG)
  engine.hbm[1 << 16:(1 << 16) + len(program.code_bytes())] = np.frombuffer(program.code_bytes(), np.uint8)
  result = engine.launch(1 << 16, [0] * args, limit=1_000_000)
  assert result.fault is None, str(result.fault)
  return engine.hbm[:4096].view(np.uint32).copy()


def store(data: Reg, word: int) -> Inst:
  return Inst(OPS["hst"], None, [data], Mem(Reg("s", Config.ARG_BASE), MemType.W, S0, word))


def test_more_live_values_than_registers():
  lane, total = Reg("v"), Reg("v")
  items: list[Inst | Loop] = [inst("vlid", lane)]
  values = [Reg("v") for _ in range(150)]
  items += [inst("vmul", v, lane, i + 1) for i, v in enumerate(values)]
  items.append(inst("vmov", total, 0))
  items += [inst("vadd", total, total, v) for v in values]
  items += [store(total, 0), store(values[0], 16), store(values[149], 32), inst("halt", None)]
  got = run(items)
  np.testing.assert_array_equal(got[:48], np.concatenate([np.arange(16) * (150 * 151 // 2), np.arange(16), np.arange(16) * 150]))


def test_more_live_scalars_than_registers():
  values = [Reg("s") for _ in range(90)]
  first, out = Reg("s"), Reg("v")
  items: list[Inst | Loop] = [inst("scyc", first), inst("ssub", first, first, first)]  # zero, but no constant
  items += [inst("sadd", v, first, i) for i, v in enumerate(values)]
  total = Reg("s")
  items.append(inst("sadd", total, first, 0))
  items += [inst("sadd", total, total, v) for v in values]
  items += [inst("vmov", out, total), store(out, 0), inst("halt", None)]
  assert run(items)[:16].tolist() == [90 * 89 // 2] * 16


def test_values_survive_loops():
  count, counter, outer, acc = Reg("s"), Reg("s"), Reg("v"), Reg("v")
  pressure = [Reg("v") for _ in range(70)]
  body: list[Inst | Loop] = [inst("vmov", r, i) for i, r in enumerate(pressure)]
  body += [inst("vadd", acc, acc, r) for r in pressure] + [inst("vadd", acc, acc, outer)]
  items: list[Inst | Loop] = [
    inst("vlid", outer), inst("vmov", acc, 0), inst("sadd", count, S0, 5), inst("sadd", counter, S0, 0),
    Loop(body, count, counter), store(acc, 0), store(outer, 16), inst("halt", None)]
  got = run(items)
  np.testing.assert_array_equal(got[:16], 5 * (sum(range(70)) + np.arange(16)))
  np.testing.assert_array_equal(got[16:32], np.arange(16))


def test_loops_deeper_than_the_hardware_stack():
  acc, counters, count = Reg("v"), [], Reg("s")
  block: list[Inst | Loop] = [inst("vadd", acc, acc, 1)]
  for _ in range(Config.LOOP_DEPTH + 2):
    counters.append(Reg("s"))
    block = [inst("sadd", counters[-1], S0, 0), Loop(block, count, counters[-1])]
  got = run([inst("vmov", acc, 0), inst("sadd", count, S0, 2), *block, store(acc, 0), inst("halt", None)])
  assert got[:16].tolist() == [2 ** (Config.LOOP_DEPTH + 2)] * 16


def test_a_loop_of_no_passes_is_skipped():
  acc, count, counter = Reg("v"), Reg("s"), Reg("s")
  items = [inst("vmov", acc, 7), inst("sadd", count, S0, 0), inst("sadd", counter, S0, 0),
           Loop([inst("vadd", acc, acc, 1)], count, counter), store(acc, 0), inst("halt", None)]
  assert run(items)[:16].tolist() == [7] * 16


def test_memory_keeps_its_order():
  a, b, c = Reg("v"), Reg("v"), Reg("v")
  load = Inst(OPS["hld"], c, [], Mem(Reg("s", Config.ARG_BASE), MemType.W, S0, 0))
  got = run([inst("vmov", a, 1), inst("vmov", b, 2), store(a, 0), store(b, 0), load, store(a, 0), store(c, 16), inst("halt", None)])
  assert got[:32].tolist() == [1] * 16 + [2] * 16


def test_independent_operations_share_groups():
  regs = [Reg("v"), Reg("s"), Reg("v")]
  items = [inst("vmov", regs[0], 1), inst("sadd", regs[1], S0, 2), Inst(OPS["vld"], regs[2], [], Mem(S0, MemType.W)), inst("halt", None)]
  groups = schedule(allocate(flatten(items, 8), CONFIG, "test", 0), CONFIG)
  assert len(groups) == 1


def test_bucket_is_popped_again_after_a_step():
  """What was popped before a matrix step on the bucket is not its value any more."""
  b = Builder()
  bucket, tile = Val("p", (Reg("p"),)), Reg("v")
  before = b.to_vector(bucket)
  assert b.to_vector(bucket).regs == before.regs
  b.emit(inst("mmf", bucket.regs[0], tile, tile))
  assert b.to_vector(bucket).regs != before.regs
