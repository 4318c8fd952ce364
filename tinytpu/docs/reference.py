"""The pages that are printed from tables whole: instruction set, parameters, traces."""
from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from types import ModuleType

from ..config import PRESETS, Config, parameters
from ..isa import counters, encoding, faults, stalls, timing
from ..isa.encoding import BKind, Field, MemType
from ..isa.table import OPS, SLOTS, Op

_OPERANDS = {  # kind: what the assembly text shows, and what it is
  "vd": ("vD", "vector register in field d: the result, or of stores the data"),
  "va": ("vA", "vector register in field a"), "vb": ("vB", "vector register in field b"), "vc": ("vC", "vector register in field c"),
  "sd": ("sD", "scalar register, result, in field d"), "sa": ("sA", "scalar register in field a"),
  "sb": ("sB", "scalar register in field b"), "sc": ("sC", "scalar register in field c"),
  "pd": ("pD", "PSUM bucket in field d: the result; steps that do not clear also read it"),
  "pa": ("pA", "PSUM bucket in field a"),
  "qd": ("qD", "predicate, result, in field d"), "qa": ("qA", "predicate in field a"),
  "b": ("b", "flexible: vector register, scalar register or 32-bit immediate, as field bkind says"),
  "k": ("k", "flexible without the vector: scalar register or immediate"),
  "imm": ("imm", "32-bit immediate in field imm"), "to": ("to", "branch target, word index in field imm; a label in text"),
  "mem": ("[sA + sX + off]", "memory operand, contiguous"), "mem2": ("[sA + sX + off : sR, sC2]", "memory operand, 2-D strided"),
  "memx": ("[sA + sX + off : vR]", "memory operand, gathered by index"),
  "dma": ("[sC : sC2, sZV], [sA : sR, sZH], sD, sX, sZ",
          "VMEM address, row and plane pitch, the same of HBM, bytes per row, rows, planes; plane pitches and planes may be left out"),
}
_OPERANDS |= {"vs": _OPERANDS["vd"], "pm": _OPERANDS["pd"]}
_LAYOUTS = (
  ("ALU, cross-lane, matrix and control operations; immediate in the upper half",
   (encoding.IMM, encoding.SWAP, encoding.BKIND, encoding.C, encoding.A, encoding.D, encoding.CODE, encoding.CHAIN)),
  ("the same with a register as operand b",
   (encoding.B, encoding.SWAP, encoding.BKIND, encoding.C, encoding.A, encoding.D, encoding.CODE, encoding.CHAIN)),
  ("memory operations",
   (encoding.OFF, encoding.C2, encoding.R, encoding.X, encoding.DTYPE, encoding.MASKED, encoding.C, encoding.A, encoding.D, encoding.CODE,
    encoding.CHAIN)),
  ("DMA",
   (encoding.ZH, encoding.Z, encoding.C2, encoding.R, encoding.X, encoding.ZV, encoding.C, encoding.A, encoding.D, encoding.CODE,
    encoding.CHAIN)),
)


def isa_page() -> str:
  """docs/isa.md: encoding, group rules, operations by slot, memory operands, latencies, faults, counters. Markdown."""
  parts = [
    "# The instruction set\n\nPrinted by `tinytpu docs` from `tinytpu/isa/`; do not edit. When operations issue and how long they wait "
    "is told in [timing.md](timing.md), how they are written in [asm.md](asm.md).",
    _machine(), _encoding(), _groups(), _operand_kinds(),
    *(_slot(slot, title) for slot, title in SLOTS.items()),
    _memory_types(), _latencies(), _faults(), _counters()]
  return "\n\n".join(parts) + "\n"


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
  cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
  return "\n".join(f"| {' | '.join(row)} |" for row in [list(header), ["---"] * len(header), *cells])


def _machine() -> str:
  rows = [(c.name, f"{c.sublanes} x {c.lanes}", c.vector_lanes, c.beats, f"{c.vmem_bytes // 1024} KiB", f"{c.hbm_bytes >> 20} MiB",
           c.line_bytes, c.hbm_latency) for c in PRESETS.values()]
  return (f"## Registers and memories\n\n{Config.VREGS} vector registers `v0`.. of one tile (sublanes x lanes 32-bit words, row-major), "
          f"{Config.SREGS} scalar registers `s0`.. of 32 bits (`s0` reads as zero; arguments arrive from `s{Config.ARG_BASE}` on), "
          f"{Config.PSUMS} PSUM buckets `p0`.. of one tile, "
          f"{Config.PREDICATES} predicates `q0`.. of one bit (0 at the start of a launch), a loop stack {Config.LOOP_DEPTH} deep.\n\n"
          + _table(("preset", "tile", "vector lanes", "beats", "VMEM", "HBM", "HBM line, bytes", "HBM latency, cycles"), rows))


def _encoding() -> str:
  parts = [f"## Encoding\n\nAn instruction is a {8 * encoding.WORD_BYTES}-bit word, little endian in memory. `chain` = 1 says that the "
           "next word belongs to the same issue group."]
  parts += [f"{title[0].upper()}{title[1:]}:\n\n```\n{_diagram(fields)}\n```" for title, fields in _LAYOUTS]
  kinds = ", ".join(f"{int(k)} {k.name.lower()}" for k in BKind)
  parts.append(f"`bkind`: {kinds}. `swap`: the operands a and b change places (of operations with a third one: b and c). `off` is signed. "
               "Unused fields are ignored.")
  return "\n\n".join(parts)


def _diagram(fields: Sequence[Field]) -> str:
  """Boxes for `fields`, highest bits first; gaps are unused bits."""
  boxes, top = [], 8 * encoding.WORD_BYTES
  for field in fields:
    if field.lsb + field.width < top:
      boxes.append(("-", top - 1, field.lsb + field.width))
    boxes.append((field.name, field.lsb + field.width - 1, field.lsb))
    top = field.lsb
  bits, names = "", ""
  for name, high, low in boxes:
    label = str(low) if high == low else f"{high}..{low}"
    width = max(len(label), len(name)) + 2
    bits += f" {label:^{width}}"
    names += f"|{name:^{width}}"
  return f"{bits.rstrip()}\n{names}|"


def _groups() -> str:
  return (f"## Issue groups\n\nUp to {Config.GROUP} operations issue together: at most one for each slot ({', '.join(SLOTS)}), "
          "no two of them writing the same register. All operands are read before any result is written. A group never crosses a packet of "
          f"{encoding.PACKET_WORDS} words; `nop`, which takes no slot, fills the gaps. Anything else faults (ILLEGAL).")


def _operand_kinds() -> str:
  used = {kind for op in OPS.values() for kind in op.operands}
  rows = [(f"`{text}`", meaning) for kind, (text, meaning) in _OPERANDS.items() if kind in used]
  return "## Operands\n\n" + _table(("as below", "meaning"), dict.fromkeys(rows))


def _slot(slot: str, title: str) -> str:
  rows = [(f"`{_text(op)}`", f"{op.code:#04x}", _latency(op), op.doc + (" †" if op.swappable else "")) for op in OPS.values()
          if op.slot == slot or slot == "C" and not op.slot]
  note = "\n\n† The flexible operand may stand first (field swap)." if any(row[3].endswith("†") for row in rows) else ""
  return f"## Slot {slot}: {title}\n\n" + _table(("operation", "code", "latency", "does"), rows) + note


def _text(op: Op) -> str:
  name = f"{op.name}.T" if any(kind.startswith("mem") for kind in op.operands) else op.name
  masked = " [? vC]" if name.endswith(".T") else ""
  return f"{name} {', '.join(_OPERANDS[kind][0] for kind in op.operands)}".rstrip() + masked


def _latency(op: Op) -> str:
  if not op.timing:
    return ""
  return {"LOAD": "LOAD + n", "HBM_ISSUE": "HBM_ISSUE + n + HBM"}.get(op.timing, op.timing)


def _memory_types() -> str:
  names = {"W": "any 32-bit word", "U8": "zero-extended", "I8": "sign-extended", "U16": "zero-extended", "I16": "sign-extended",
           "F16": "IEEE 754 binary16, float32 in the register", "BF16": "bfloat16, float32 in the register"}
  rows = [(f"`.{t.name.lower()}`", int(t), t.bytes, names[t.name]) for t in MemType]
  return ("## Memory operands\n\n`sA` is a byte address; everything that is added to it is counted in elements and multiplied by their "
          "size, modulo 2^32. Elements whose word of the mask register `vC` is zero are not accessed: loads give 0 there. Stores round "
          "floats to nearest even and keep the low bits of integers. In the latencies n is the number of cycles that bank conflicts "
          "(VMEM) or lines (HBM) take, HBM the latency of the preset.\n\n"
          + _table(("type T", "field dtype", "bytes", "in a register"), rows))


def _commented(module: ModuleType, pattern: str) -> list[tuple[str, str]]:
  """(name, comment) of the lines of a module's source that match `pattern`, whose groups are just these."""
  return re.findall(pattern, inspect.getsource(module), re.MULTILINE)


def _latencies() -> str:
  def cycles(name: str, c: Config) -> str:
    busy = timing.interval(c, name)
    return f"{timing.latency(c, name)}" + (f" / {busy}" if busy > 1 else "")

  rows = [(f"`{name}`", *(cycles(name, c) for c in PRESETS.values()), t.doc) for name, t in timing.CLASSES.items()]
  return ("## Latencies\n\nCycles until a result is readable, by preset, named as in timing.md; after a stroke the cycles after which the "
          "unit takes another operation, where that is not the next.\n\n" + _table(("name", *PRESETS, "of"), rows))


def _faults() -> str:
  comments = dict(_commented(faults, r"^  ([A-Z_]+) = \d+ *# *(.*)$"))
  rows = [(int(f), f.name, comments.get(f.name, "no fault")) for f in faults.Fault]
  return "## Faults\n\nA fault ends the launch and leaves cause, word index of the group, cycle and information.\n\n" + _table(
    ("code", "cause", "when"), rows)


def _counters() -> str:
  lines = _commented(counters, r'^  ((?:"\w+", *)+)# *(.*)$')
  found = {name: comment for names, comment in lines for name in re.findall(r'"(\w+)"', names)}
  return "## Counters\n\nKept for each launch, alike by both engines.\n\n" + _table(
    ("name", "counts"), [(f"`{name}`", found[name]) for name in counters.COUNTERS])


def config_page() -> str:
  """docs/config.md: every field of `Config` with its range and its value in each preset, and how to change one. Markdown."""
  rows = []
  for f in parameters():
    low, high = f.metadata["low"], f.metadata["high"]
    rows.append((f"`{f.name}`", f"{low:,} to {high:,}{', a power of two' if f.metadata['power'] else ''}",
                 *(f"{getattr(c, f.name):,}" for c in PRESETS.values()), f.metadata["doc"]))
  return f"""# The machine's parameters

Printed by `tinytpu docs` from `tinytpu/config.py`; do not edit.

A preset is named by the size of its tiles: {', '.join(PRESETS)}. Any of its fields can be changed behind a comma, in every place that
takes a preset:

```
DEV=TINYTPU::8x8 python hello.py
DEV=TINYTPU::4x4,hbm_latency=200 python hello.py
tinytpu run add.tasm --preset 4x4,hbm_latency=200,clock_hz=500000000
```

In assembly text the directive `.config` names it, in Python `tinytpu.config.preset("4x4", hbm_latency=200)` makes it. What cannot be
built is refused, with the field and its range. Each is a machine of its own: the hardware is built, and programs are assembled, for it.

The clock is nominal: nothing runs at it. It turns the cycles of a run, which are exact, into the seconds that `DEBUG=2`, `tinytpu run` and
tinygrad's profiler report.

{_table(("field", "range", *PRESETS, "meaning"), rows)}
"""


def trace_page() -> str:
  """docs/trace.md: how to get a trace, the fields of its events, and all causes. Markdown."""
  fields = [(f"`{name}`", doc) for name, doc in stalls.FIELDS.items()]
  causes = [(number, f"`{name}`", doc) for number, (name, doc) in enumerate(stalls.CAUSES.items())]
  return f"""# Traces

Printed by `tinytpu docs` from `tinytpu/isa/stalls.py`; do not edit.

A trace says of every issue group when it issued, and how long it waited for what; every cycle of a launch has one cause. What a cause is
in a cycle is part of the timing contract ([timing.md](timing.md#causes)), so that both engines trace the same, event by event.

```
tinytpu run FILE                            # where the cycles went, by cause (on the hardware: --trace)
tinytpu run FILE --events FILE.csv          # and what every group waited for; or FILE.json
tinytpu fuzz --trace                        # random programs, traces of both engines compared
```

In Python a `tinytpu.trace.Trace` is given to the engine, which adds a `Launch` for every launch:

```python
from tinytpu.config import preset
from tinytpu.machine import open_engine
from tinytpu.trace import Trace, describe

trace = Trace(capacity=1 << 20)             # events that are kept; later ones are dropped and counted
engine = open_engine(preset("4x4"), "iss", trace=trace)   # or "rtl", or "both", which compares them
...                                         # put a program into engine.hbm, engine.launch(address)
launch = trace.launches[-1]
print(launch.causes)                        # cycles by cause, which sum to launch.cycles
slowest = launch.events[launch.events["wait"].argmax()]
print(describe(slowest))                    # launch.events is a NumPy array of records
```

Of tinygrad's device, `Device["TINYTPU"].trace = Trace()` before its first use traces all kernels.

An engine opened without a trace is not slower for it: the one that traces is compiled apart, on the simulator as on the hardware, whose
Verilog has nothing of it otherwise. Sums are kept for all events, also for those that are dropped. A launch that an error or an
interrupt ends is not added; one whose result an interrupt lost may or may not be.

## Events
One for each group that issues, in order, and one for a fault. All fields are 64-bit integers; text formats have names in place of numbers.

{_table(("field", "meaning"), fields)}

`tinytpu.trace.spans(launch, words, config)` makes of the events and the program's words the cycles in which each unit was busy.

## Causes
{_table(("number", "cause", "in a cycle of this cause"), causes)}
"""


PAGES = {"isa.md": isa_page, "config.md": config_page, "trace.md": trace_page}
"""The generated pages of docs/, by file name."""
