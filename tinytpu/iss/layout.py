"""Where the simulator keeps its state, and the ISA table as look-up arrays for compiled code.

Arrays named here are compile-time constants of the compiled simulator; `build` keys its cache by the sources they come from.
"""
from __future__ import annotations

from enum import IntEnum

import numpy as np

from ..config import Config, ConfigError
from ..isa import encoding as enc
from ..isa import table, timing
from ..isa.counters import COUNTERS

# -- rows of the register array R (rows x width words) ------------------------------------------------
PSUM_ROW = Config.VREGS
"""Row of PSUM bucket 0; rows before it are the vector registers."""
HELD_ROW = PSUM_ROW + Config.PSUMS
"""The tile that the matrix unit holds."""
B_ROW, ONES_ROW, V_ROW, X_ROW, L_ROW, T_ROW = range(HELD_ROW + 1, HELD_ROW + 7)
"""Scratch rows: broadcast operand, an all-ones mask, and the results of slots V, X, L and T before they are written back."""
WIDE_A, WIDE_B = T_ROW + 1, T_ROW + 3
"""Scratch rows, two each: low and high halfwords of a matrix step's operands, as float32."""
ROWS = WIDE_B + 2

# -- the ready array: cycle from which a register or unit is available --------------------------------
FILE_BASE = {"s": 0, "v": Config.SREGS, "p": Config.SREGS + Config.VREGS}
V0, P0 = FILE_BASE["v"], FILE_BASE["p"]
UNIT_BASE = P0 + Config.PSUMS
UNITS = {name: UNIT_BASE + i for i, name in enumerate(timing.UNITS)}
VDIV = UNITS["vector_divider"]
PSUM, VMEM, HBM = range(UNIT_BASE + len(UNITS), UNIT_BASE + len(UNITS) + 3)
READY = HBM + 1
MAX_DEPS = 32
"""Most entries of the ready array that one group can wait for, rounded up."""
MOST_LATENCY = 60
"""Cycles ahead for which a bit of a reservation stands, at most."""

# -- the DMA array: one row per direction, inbound first; entries before these say when the last DMA_QUEUE transfers finish ----
DMA_NEXT = timing.DMA_QUEUE   # which of them the next transfer takes: the oldest
DMA_END = DMA_NEXT + 1        # cycle in which the last transfer's requests end
DMA_ENTRIES = DMA_END + 1


class Ctl(IntEnum):
  """Entries of the control array (int64): the launch's inputs, its running state and its outcome."""
  PROGRAM = 0    # byte address of word 0
  LIMIT = 1      # cycle in which the watchdog bites
  PC = 2         # word index of the group to look up next
  LOOK = 3       # cycle in which it is looked up
  STATUS = 4     # 0 running, 1 halted, 2 faulted
  TAIL = 5       # first cycle in which nothing issued so far is outstanding
  FENCE = 6      # first cycle in which no direct HBM access is outstanding
  DEPTH = 7      # loops on the loop stack
  BASE = 8       # cycle to which the port reservations below are relative
  VPORT = 9      # bit k: the vector ALU's write port is taken in cycle BASE + k
  SPORT = 10     # the same of the slow scalar port
  XPORT = 11     # the same of slot X's port
  FAULT = 12     # isa.faults.Fault
  FAULT_PC = 13
  FAULT_CYCLE = 14
  FAULT_INFO = 15
  END = 16       # cycle in which halt issued or the fault was taken
  PREDICATES = 17  # one bit each


class Geometry(IntEnum):
  """Entries of the geometry array (int64): the Config in the form that the compiled code wants."""
  WIDTH = 0
  SIDE = 1           # sublanes = lanes
  VMEM_BYTES = 2
  HBM_BYTES = 3
  LINE_SHIFT = 4     # log2 of line bytes
  BLOCK_SHIFT = 5    # log2 of instruction buffer block bytes
  BLOCKS = 6
  LATENCY = 7        # hbm_latency
  REFILL = 8
  BEAT_SHIFT = 9     # log2 of beats


def geometry(config: Config) -> np.ndarray:
  """The geometry array of `config`: int64, indexed by `Geometry`."""
  g = np.zeros(len(Geometry), np.int64)
  g[Geometry.WIDTH], g[Geometry.SIDE] = config.width, config.lanes
  g[Geometry.VMEM_BYTES], g[Geometry.HBM_BYTES] = config.vmem_bytes, config.hbm_bytes
  g[Geometry.LINE_SHIFT], g[Geometry.BLOCK_SHIFT] = config.line_bytes.bit_length() - 1, config.ibuf_block_bytes.bit_length() - 1
  g[Geometry.BLOCKS], g[Geometry.LATENCY], g[Geometry.REFILL] = config.ibuf_blocks, config.hbm_latency, timing.refill(config)
  g[Geometry.BEAT_SHIFT] = config.beats.bit_length() - 1
  return g


def cycles(config: Config) -> tuple[np.ndarray, np.ndarray]:
  """Latencies and intervals of operations in `config`: int64 (256,) each, by code; intervals only of units in `UNITS`, 0 of others.

  Raises:
    ConfigError: a latency is beyond what the simulator's reservations of write ports hold.
  """
  latency, interval = np.zeros(_CODES, np.int64), np.zeros(_CODES, np.int64)
  for op in table.OPS.values():
    if op.timing:
      latency[op.code] = timing.latency(config, op.timing)
      interval[op.code] = timing.interval(config, op.timing) if BUSY[op.code] in UNITS.values() else 0
      if PORT[op.code] and latency[op.code] > MOST_LATENCY:
        raise ConfigError(f"vector_lanes ({config.vector_lanes}) are too few: {op.name} would take {latency[op.code]} cycles, "
                          f"and the simulator reserves write ports at most {MOST_LATENCY} cycles ahead")
  slow, *others = (timing.latency(config, name) for name in ("DIV", *set(timing.PORTS["V"]) - {"DIV"}))
  if slow != timing.interval(config, "DIV") or slow <= max(others):
    raise ConfigError("a vector division must take longer than all else, and its unit no longer than that: see PORT")
  return latency, interval


class Meta(IntEnum):
  """Columns of a decoded group (int32); its slots' words and dependencies are in arrays of their own."""
  STATE = 0      # 0 not decoded yet, 1 legal, 2 illegal
  WORDS = 1      # words of the group
  DEPS = 2       # entries of the ready array that it waits for
  VLAT = 3       # latency on the vector ALU's write port, 0 if it does not use it
  SLAT = 4       # the same for the slow scalar port
  XLAT = 5       # the same for slot X's port into the vector registers
  SPECIAL = 6    # 1 if the group needs more than `ready` before it issues: control that may wait or fault, or DMA


class Unit(IntEnum):
  """What executes an operation, where the slot alone does not tell."""
  NONE = 0
  VLOAD = 1
  VSTORE = 2
  VATOMIC = 3
  HLOAD = 4
  HSTORE = 5
  DMAI = 6
  DMAO = 7


class Format(IntEnum):
  """Element formats of matrix steps; the third letter of their names."""
  F = 0   # float32
  I = 1   # four signed bytes
  H = 2   # two float16
  B = 3   # two bfloat16


REDUCTION_NAMES = tuple(dict.fromkeys(op.name[:-1] for op in table.OPS.values() if op.timing in timing.REDUCTIONS))
"""Reductions, less the letter that says along what."""

SLOT_NAMES = tuple(table.SLOTS)
NOP_SLOT = len(SLOT_NAMES)
N_SLOTS = len(SLOT_NAMES)
C, S, V, X, L, T = range(N_SLOTS)

_CODES = 256
SLOT = np.full(_CODES, -1, np.int8)          # slot number, NOP_SLOT for nop, -1 for an unknown code
FLEX = np.zeros(_CODES, np.int8)             # 1: operand b, 2: operand k
FORM = np.zeros(_CODES, np.int8)             # 1 mem, 2 mem2, 3 memx
TYPES = np.zeros(_CODES, np.int8)            # highest legal element type
PORT = np.zeros(_CODES, np.int8)             # 1 vector ALU's write port, 2 slow scalar port, 3 slot X's
UNIT = np.zeros(_CODES, np.int8)             # Unit
BUSY = np.full(_CODES, -1, np.int16)         # ready entry of the unit that it occupies
SWAP = np.zeros(_CODES, np.int8)             # 1: swap exchanges a and b; 2: b and c
WRITE = np.full(_CODES, -1, np.int32)        # access code of the register written: ready base << 16 | mask of its number << 8 | lsb
INDEX = np.full(_CODES, -1, np.int16)        # number of the operation within its slot, for dispatch
N_ACCESS = np.zeros((_CODES, 4, 2), np.int8)  # by code, bkind, masked
ACCESS = np.zeros((_CODES, 4, 2, 12), np.int32)  # access code of every register waited for
STEP = np.zeros(_CODES, np.int8)             # 1 for matrix steps; of those
FORMAT = np.zeros(_CODES, np.int8)           # Format,
CLEAR = np.zeros(_CODES, np.int8)            # 1 if C is zero,
HELD = np.zeros(_CODES, np.int8)             # 1 if b is the held tile
REDUCTION = np.full(_CODES, -1, np.int8)     # of reductions: index in REDUCTION_NAMES
ALONG = np.zeros(_CODES, np.int8)            # 0 by sublane, 1 by lane, 2 over the tile


_CLASSES = ("", "SCALAR", "SMUL", "SDIV", "X2S", "ALU", "IMUL", "FLOAT", "DIV", "TRANS", "XLU", "PPOP", "PPUSH", "PCLR", "LOAD",
            "HBM_ISSUE", *timing.STEPS, *timing.REDUCTIONS)
"""Timing classes whose units and ports are modelled."""


def _access(access: table.Access) -> int:
  field = enc.FIELDS[access.field]
  return FILE_BASE[access.file] << 16 | field.mask << 8 | field.lsb


_MEMORY_UNITS = {"vld": Unit.VLOAD, "vst": Unit.VSTORE, "vat": Unit.VATOMIC, "hld": Unit.HLOAD, "hst": Unit.HSTORE}
"""Units of operations with a memory operand, by the first letters of their names."""


def _fill() -> None:
  counts = dict.fromkeys(table.SLOTS, 0)
  for op in table.OPS.values():
    c = op.code
    SLOT[c] = SLOT_NAMES.index(op.slot) if op.slot else NOP_SLOT
    if op.slot:
      INDEX[c], counts[op.slot] = counts[op.slot], counts[op.slot] + 1
    FLEX[c] = 1 if "b" in op.operands else 2 if "k" in op.operands else 0
    FORM[c] = next((i for i, kind in enumerate(("mem", "mem2", "memx"), 1) if kind in op.operands), 0)
    TYPES[c] = enc.MemType.W if op.words_only else max(enc.MemType)
    # Of a vector division PORT is 0: it takes so long that its result meets none that is outstanding when it issues, and what issues
    # later looks at the divider itself, which is free again when the result is due.
    PORT[c] = next((i for i, slot in enumerate("VSX", 1) if op.timing in timing.PORTS[slot] and op.timing != "DIV"), 0)
    UNIT[c] = _MEMORY_UNITS[op.name[:3]] if FORM[c] else {"dmai": Unit.DMAI, "dmao": Unit.DMAO}.get(op.name, Unit.NONE)
    if op.timing not in _CLASSES:
      raise TypeError(f"the simulator does not know the timing class {op.timing} of {op.name}: extend iss.layout and iss.core")
    step = op.timing in timing.STEPS
    BUSY[c] = next((UNITS[unit] for unit, classes in timing.UNITS.items() if op.timing in classes), -1)
    if step:
      STEP[c], FORMAT[c], CLEAR[c], HELD[c] = 1, Format[op.name[2].upper()], "pd" in op.operands, "vb" not in op.operands
    if op.timing in timing.REDUCTIONS:
      REDUCTION[c], ALONG[c] = REDUCTION_NAMES.index(op.name[:-1]), "rct".index(op.name[-1])
    if op.name == "pclra":
      BUSY[c] = PSUM  # when the last bucket is available
    if FORM[c]:
      BUSY[c] = VMEM if UNIT[c] in (Unit.VLOAD, Unit.VSTORE, Unit.VATOMIC) else HBM
    if op.slot in ("L", "T") and UNIT[c] == Unit.NONE:
      raise TypeError(f"the simulator has no memory unit for {op.name}: add it to iss.layout and iss.core")
    SWAP[c] = {"": 0, "ab": 1, "bc": 2}[op.swaps]
    # Predicates are read and written in the cycle of issue: nothing ever waits for one.
    for w in (a for a in table.writes(op) if a.file != "q"):
      WRITE[c] = _access(w)
    for bkind in range(4):
      for masked in range(2):
        # Matrix steps chain on their bucket, so they wait for registers but not for buckets.
        accesses = [a for a in (*table.reads(op, bkind, bool(masked)), *table.writes(op))
                    if a.file != "q" and not (step and a.file == "p")]
        N_ACCESS[c, bkind, masked] = len(accesses)
        for i, a in enumerate(accesses):
          ACCESS[c, bkind, masked, i] = _access(a)


_fill()

COUNTER = {name: i for i, name in enumerate(COUNTERS)}
"""Index of every counter in the counter array."""
