"""Running small programs on the simulator."""

from __future__ import annotations

import numpy as np

from tinytpu.config import Config, preset
from tinytpu.isa.encoding import BKind
from tinytpu.isa.instruction import Instr, Label, Raw, ins, pack
from tinytpu.machine import Engine, RunResult, open_engine

CONFIG = preset("4x4")
W = CONFIG.width
DATA = 1 << 20
"""Where tests put data in device memory; programs are at 0."""
VREG, SREG, IMM = BKind.VREG, BKind.SREG, BKind.IMM


class Machine:
  """An engine with shorthands. Everything is as the last test left it: tests set what they use."""

  def __init__(self, config: Config = CONFIG, engine: Engine | None = None):
    self.config = config
    self.engine = engine or open_engine(config)
    self.width = config.width

  def run(self, groups: list[list[Instr | Raw] | Label], args=(), **options) -> RunResult:
    """Pack the groups, place them at address 0 and launch; the instruction buffer is emptied first, unless told otherwise."""
    words = pack(groups)
    self.engine.hbm[: words.nbytes] = words.view(np.uint8)
    return self.engine.launch(0, args, **({"invalidate": True} | options))

  def warm(self, groups: list[list[Instr | Raw] | Label], args=(), **options) -> RunResult:
    """The second of two launches: the program is in the instruction buffer."""
    self.run(groups, args, **options)
    return self.engine.launch(0, args, **options)

  def put(self, address: int, array: np.ndarray) -> None:
    """Write `array` to device memory."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    self.engine.hbm[address : address + data.size] = data

  def get(self, address: int, count: int, dtype=np.uint32) -> np.ndarray:
    """Read `count` elements from device memory."""
    dtype = np.dtype(dtype)
    return self.engine.hbm[address : address + count * dtype.itemsize].copy().view(dtype)

  def state(self, name: str) -> np.ndarray:
    return self.engine.state()[name]

  def set_vmem(self, address: int, array: np.ndarray) -> None:
    """Write `array` (a multiple of four bytes) to VMEM, by DMA."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    self.put(DATA, data)
    result = self.run([[ins("dmai", c=32, c2=0, a=33, r=0, d=34, x=35)], [ins("halt")]], [address, DATA, data.size, 1])
    assert result.fault is None

  def set_vregs(self, first: int, tiles: np.ndarray) -> None:
    """Set vector registers from `first` on to the rows of `tiles`, uint32."""
    self.put(DATA, tiles)
    groups = [[ins("hld", d=first + i, a=32, off=i * self.width)] for i in range(len(tiles))]
    assert self.run([*groups, [ins("halt")]], [DATA]).fault is None

  def lanes(self, op: str, *operands: np.ndarray, **fields) -> np.ndarray:
    """Apply a vector operation to whole arrays (uint32, equally long): a, b and c as registers. Returns the results."""
    n = len(operands[0])
    chunk = 16 * 1024
    out = []
    kinds = {"a": 1, "b": 2, "c": 3}
    used = list(zip(kinds, operands, strict=False))
    bytes_each = 4 * chunk
    for start in range(0, n, chunk):
      part = min(chunk, n - start)
      tiles = -(-part // self.width)
      for i, (_, operand) in enumerate(used):
        self.put(DATA + i * bytes_each, operand[start : start + part])
      groups: list = [
        [ins("dmai", c=0, c2=0, a=32, r=0, d=33, x=34)],
        [ins("dwaiti")],
        [ins("sadd", d=1, a=0)],
        [ins("loop", a=35, target="end")],
        *[
          [ins("vld", d=kinds[k], a=0, x=1, off=0) if k == "a" else ins("vld", d=kinds[k], a=36 + i, x=1)] for i, (k, _) in enumerate(used)
        ],
        [ins(op, d=4, a=1, b=2, c=3, bkind=VREG, **fields)],
        [ins("vst", d=4, a=0, x=1)],
        [ins("sadd", d=1, a=1, imm=self.width), ins("lend")],
        Label("end"),
        [ins("dmao", c=0, c2=0, a=32, r=0, d=40, x=34)],
        [ins("halt")],
      ]
      args = [DATA, len(used) * bytes_each, 1, tiles, 0, bytes_each, 2 * bytes_each, 0, bytes_each]
      result = self.run(groups, args)
      assert result.fault is None
      out.append(self.get(DATA, part))
    return np.concatenate(out)

  def vector(self, op: str, **fields) -> np.ndarray:
    """Result tile, in register 60, of one operation."""
    assert self.run([[ins(op, d=60, **fields)], [ins("halt")]]).fault is None
    return self.state("vregs")[60]

  def scalar(self, op: str, a: int, b: int, c: int = 0, **fields) -> int:
    """Result of one scalar operation on registers a, b, c."""
    fields = {"bkind": SREG} | fields
    assert self.run([[ins(op, d=1, a=32, b=33, c=34, **fields)], [ins("halt")]], [a, b, c]).fault is None
    return int(self.state("sregs")[1])
