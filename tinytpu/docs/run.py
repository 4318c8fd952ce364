"""Runs of programs that pages show: assembly text on the simulator, traced."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..asm import Program, assemble
from ..asm.disassembler import group_at
from ..config import Config, preset
from ..machine import RunResult, open_engine
from ..trace import SPAN_UNITS, Launch, Trace, spans

ARGUMENTS = (0x1000, 0x2000, 0x3000)
"""What programs of the pages find in s32 and on: addresses of buffers."""


@dataclass(frozen=True)
class Traced:
  """A launch. sregs: uint32, the scalar registers at its end."""
  config: Config
  program: Program
  launch: Launch
  result: RunResult
  sregs: np.ndarray

  def text(self, pc: int) -> str:
    """The group at a word, as text, without the `nop`s that fill its packet."""
    return " ; ".join(op for op in group_at(self.program, pc).split(" ; ") if op != "nop")

  def spans(self, unit: str) -> list[tuple[int, int, int]]:
    """First cycle, the one behind the last, and number of the event of each span of a unit."""
    words = np.array(self.program.words, np.uint64)
    return [(int(s["start"]), int(s["stop"]), int(s["event"])) for s in spans(self.launch, words, self.config)
            if SPAN_UNITS[s["unit"]] == unit]


def traced(text: str, machine: str = "4x4", warm: bool = False) -> Traced:
  """Run assembly text.

  Args:
    warm: run it once before, so that its code is in the instruction buffer.
  """
  config = preset(machine, hbm_bytes=1 << 20)
  program = assemble(text, config)
  trace = Trace()
  engine = open_engine(config, "iss", trace=trace)
  code = np.frombuffer(program.code_bytes(), np.uint8)
  engine.hbm[:len(code)] = code
  for _ in range(1 + warm):
    result = engine.launch(0, ARGUMENTS)
  if result.fault:
    raise RuntimeError(f"{program.name}: {result.fault}")
  done = Traced(config, program, trace.launches[-1], result, engine.state()["sregs"])
  engine.close()
  return done
