"""The simulator's checking mode: every access within the ranges that the launch names, to the byte."""

from __future__ import annotations

import numpy as np
import pytest

from tests.iss.support import CONFIG, Machine, W
from tinytpu.isa.encoding import MemType
from tinytpu.isa.instruction import Instr, Raw, ins
from tinytpu.machine import AccessError, Allow, LaunchError, Mode

AT = 1 << 16
"""Address that accesses are about, in VMEM and in device memory."""
HALT: list[Instr | Raw] = [ins("halt")]
S = CONFIG.lanes


@pytest.fixture(scope="module")
def machine() -> Machine:
  return Machine()


def allow(space: str, *ranges: tuple[int, int, int]) -> Allow:
  """Ranges of one space; all of the other."""
  whole = {"hbm": [(0, CONFIG.hbm_bytes, 3)], "vmem": [(0, CONFIG.vmem_bytes, 3)]}
  return Allow(**(whole | {space: list(ranges)}))


def refused(machine: Machine, op: Instr, args, permit: Allow) -> AccessError:
  with pytest.raises(AccessError) as caught:
    machine.run([[op], HALT], args, allow=permit)
  return caught.value


def agrees(machine: Machine, op: Instr, args, permit: Allow) -> None:
  """The launch runs, and in the cycles that it takes without the check."""
  plain = machine.run([[op], HALT], args)
  assert plain.fault is None and machine.run([[op], HALT], args, allow=permit) == plain


ACCESSES = {"vld": ("vmem", 1), "vst": ("vmem", 2), "vatom": ("vmem", 3), "hld": ("hbm", 1), "hst": ("hbm", 2)}


@pytest.mark.parametrize("mtype", list(MemType))
@pytest.mark.parametrize("name", ACCESSES)
def test_boundaries_of_a_tile(machine, name, mtype):
  """Exactly its bytes are enough; a byte less on either side, or the wrong mode, is not."""
  if name == "vatom" and mtype != MemType.W:
    return
  space, mode = ACCESSES[name]
  size, op = mtype.bytes, ins(name, d=1, a=32, mtype=mtype)
  end = AT + W * size
  agrees(machine, op, [AT], allow(space, (AT, end, mode)))
  error = refused(machine, op, [AT], allow(space, (AT + 1, end, mode)))
  assert (error.space, error.start, error.stop, error.pc) == (space, AT, AT + size, 0)
  error = refused(machine, op, [AT], allow(space, (AT, end - 1, mode)))
  assert (error.start, error.stop) == (end - size, end)
  for wrong in {1, 2} - {mode}:
    error = refused(machine, op, [AT], allow(space, (AT, end, wrong)))
    assert error.start == AT and error.write == (wrong == 1)


def test_an_atomic_operation_may_have_its_modes_apart(machine):
  agrees(machine, ins("vatom", d=1, a=32), [AT], allow("vmem", (AT, AT + 4 * W, 1), (0, AT + 4 * W + 4, 2)))


def test_masked_elements_are_free(machine):
  for last in range(W):
    machine.set_vregs(2, (np.arange(W) <= last).astype(np.uint32)[None])
    for name in ("vld", "vst", "vatom", "hld", "hst"):
      space, mode = ACCESSES[name]
      op = ins(name, d=1, a=32, masked=True, c=2)
      agrees(machine, op, [AT], allow(space, (AT, AT + 4 * last + 4, mode)))
      assert refused(machine, op, [AT], allow(space, (AT, AT + 4 * last + 3, mode))).start == AT + 4 * last


def test_no_active_element_needs_no_range(machine):
  machine.set_vregs(2, np.zeros((1, W), np.uint32))
  agrees(machine, ins("vst", d=1, a=32, masked=True, c=2), [AT], Allow())


@pytest.mark.parametrize("form,space", [("vld2", "vmem"), ("hld2", "hbm"), ("vst2", "vmem"), ("hst2", "hbm")])
def test_strides(machine, form, space):
  """A tile of rows 100 words apart: as many ranges as rows."""
  op = ins(form, d=1, a=32, r=33, c2=34)
  rows = [(AT + 400 * i, AT + 400 * i + 4 * S, 3) for i in range(S)]
  agrees(machine, op, [AT, 100, 1], allow(space, *reversed(rows)))
  for missing in range(S):
    error = refused(machine, op, [AT, 100, 1], allow(space, *rows[:missing], *rows[missing + 1:]))
    assert error.start == AT + 400 * missing


def test_random_gathers(machine):
  """Random indices, masks, types and ranges against sets of bytes."""
  rng = np.random.default_rng(7)
  ends = 0
  for _ in range(200):
    mtype = MemType(rng.integers(0, len(MemType)))
    name = str(rng.choice(["vldx", "vstx", "hldx", "hstx"]))
    space, mode = ACCESSES[name[:3]]
    index, mask = rng.integers(0, 16, W), rng.integers(0, 4, W) == 0
    cuts = np.sort(rng.choice(16 * mtype.bytes, 4, replace=False))
    ranges = [(AT, AT + int(cuts[0]), 3), (AT + int(cuts[1]), AT + int(cuts[2]), int(mode)), (AT + int(cuts[3]), AT + 64, int(mode))]
    machine.set_vregs(2, np.stack([index, mask]).astype(np.uint32))
    op = ins(name, d=1, a=32, r=2, mtype=mtype, masked=True, c=3)
    free = [set(range(start, stop)) for start, stop, _ in ranges]
    bytes_of = [set(range(AT + int(i) * mtype.bytes, AT + (int(i) + 1) * mtype.bytes)) for i in index]
    bad = [min(b) for b, active in zip(bytes_of, mask, strict=True) if active and not any(b <= f for f in free)]
    if bad:
      assert refused(machine, op, [AT], allow(space, *ranges)).start == bad[0], (name, mtype, index, mask, ranges)
    else:
      agrees(machine, op, [AT], allow(space, *ranges))
      ends += 1
  assert 20 < ends < 180


@pytest.mark.parametrize("name", ["dmai", "dmao"])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_transfers(machine, name, dimensions):
  """Every row, on either side, in one range."""
  op = ins(name, c=32, c2=33, a=34, r=35, d=36, x=37, **({"z": 38, "zh": 39, "zv": 1} if dimensions == 3 else {}))
  rows, planes = (3 if dimensions > 1 else 1), (2 if dimensions == 3 else 1)
  args = [AT, 32, AT, 64, 12, rows, planes, 1024]
  setup = [[ins("sadd", d=1, a=0, imm=512)]]
  starts = {"vmem": [AT + 512 * p + 32 * r for p in range(planes) for r in range(rows)],
            "hbm": [AT + 1024 * p + 64 * r for p in range(planes) for r in range(rows)]}
  modes = {"vmem": 2, "hbm": 1} if name == "dmai" else {"vmem": 1, "hbm": 2}

  def launch(permit: Allow | None):
    return machine.run([*setup, [op], HALT], args, allow=permit)

  for space, mode in modes.items():
    exact = [(start, start + 12, mode) for start in starts[space]]
    assert launch(allow(space, *exact)) == launch(None)
    for i, (start, stop, _) in enumerate(exact):
      for change in ((start + 1, stop, mode), (start, stop - 1, mode), (start, stop, 3 - mode)):
        with pytest.raises(AccessError) as caught:
          launch(allow(space, *exact[:i], change, *exact[i + 1:]))
        error = caught.value
        assert (error.space, error.start, error.stop, error.write, error.pc) == (space, start, stop, mode == 2, 1)


def test_a_row_does_not_run_from_range_to_range(machine):
  op = ins("dmai", c=32, c2=0, a=32, r=0, d=33, x=34)
  assert refused(machine, op, [AT, 64, 1], allow("hbm", (AT, AT + 32, 1), (AT + 32, AT + 64, 1))).start == AT


def test_transfers_that_move_nothing_are_free(machine):
  for rows, nbytes in ((0, 64), (1, 0)):
    agrees(machine, ins("dmao", c=32, c2=0, a=32, r=0, d=33, x=34), [AT, nbytes, rows], Allow())


def test_a_refused_access_has_no_effect(machine):
  """Nothing of it is stored, not even its permitted elements; the others of its group complete, and nothing after it."""
  machine.set_vregs(1, np.full((1, W), 9, np.uint32))
  machine.set_vmem(AT, np.zeros(W, np.uint32))
  with pytest.raises(AccessError):
    machine.run([[ins("sadd", d=1, a=0, imm=1)], [ins("vst", d=1, a=32), ins("sadd", d=2, a=0, imm=77)],
                 [ins("sadd", d=1, a=0, imm=5)], HALT], [AT], allow=allow("vmem", (AT, AT + 4 * W - 4, 3)))
  state = machine.engine.state()
  assert not state["vmem"][AT:AT + 4 * W].any() and (state["sregs"][1], state["sregs"][2]) == (1, 77)
  assert machine.run([HALT]).fault is None


@pytest.mark.parametrize("op,args", [(ins("dmao", c=32, c2=0, a=33, r=0, d=34, x=35), [0, 1024, 64, 1]),
                                     (ins("hst", d=1, a=33), [0, 1024])])
def test_code_is_not_written(machine, op, args):
  """A program that writes its own code, which no range of its data holds."""
  error = refused(machine, op, args, Allow(hbm=[(AT, 2 * AT, 3)], vmem=[(0, AT, 3)]))
  assert (error.start, error.space, error.write) == (1024, "hbm", True)


def test_faults_come_first(machine):
  """Misaligned and beyond memory are faults of the machine, with and without ranges."""
  for address in (AT + 2, CONFIG.vmem_bytes):
    plain = machine.run([[ins("vld", d=1, a=32)], HALT], [address])
    assert plain.fault and machine.run([[ins("vld", d=1, a=32)], HALT], [address], allow=Allow()) == plain


def test_fetching_is_not_checked(machine):
  assert machine.run([HALT], allow=Allow()).fault is None


def test_the_message(machine):
  with pytest.raises(AccessError) as caught:
    machine.run([[ins("nop")], [ins("nop")], [ins("vst", d=1, a=32)], HALT], [AT],
                allow=Allow(vmem=[(0, 64, 3), (AT - 64, AT, 2), (AT, AT + 64, 1)]))
  assert str(caught.value) == (f"word 2 (vst.w v1, [s32]), cycle {caught.value.cycle}: writes 4 bytes of VMEM at 0x10000, "
                               "outside all that it may write; the nearest range is 0xffc0 to 0x10000")
  error = refused(machine, ins("hld", d=1, a=32), [AT], Allow(hbm=[(0, 1 << 20, Mode.WRITE)]))
  assert str(error).endswith("reads 4 bytes of device memory at 0x10000, outside all that it may read; there is no such range")


@pytest.mark.parametrize("ranges,message", [
  ({"hbm": [(-1, 4, 1)]}, "allow.hbm: range -0x1 to 0x4 must lie within device memory"),
  ({"vmem": [(0, CONFIG.vmem_bytes + 1, 1)]}, "allow.vmem: range 0x0 to 0x.* must lie within VMEM"),
  ({"vmem": [(8, 4, 1)]}, "allow.vmem: range 0x8 to 0x4"),
  ({"vmem": [(0, 4, 0)]}, "must permit 1 .reading., 2 .writing. or 3, not 0"),
])
def test_ranges_that_make_no_sense(machine, ranges, message):
  with pytest.raises(LaunchError, match=message):
    machine.run([HALT], allow=Allow(**ranges))
