"""The renderer: tinygrad's linear UOps to TASM, and the compiler that assembles it."""
from __future__ import annotations

from tinygrad.device import CompileError, Compiler
from tinygrad.dtype import DType
from tinygrad.helpers import Target
from tinygrad.renderer import Renderer
from tinygrad.uop.ops import UOp

from .. import __version__
from ..asm import TasmError, assemble
from ..asm.program import isa_hash
from ..config import Config, preset
from ..isa.table import OPS
from . import across, beam, decompose, optimize
from .coverage import Coverage
from .dump import Dump
from .ir import S0, Code, Inst, Label, Reg, flatten, inst
from .lower import Lowering
from .packing import BYTES
from .pipeline import pipeline
from .regalloc import allocate, spill_bytes
from .schedule import schedule
from .select import MEMORY_TYPE, SUPPORTED_OPS
from .staging import PLAIN, stage
from .tensorcore import tensor_cores
from .text import render

DEFAULT_PRESET = "4x4"


class TinyTPUCompiler(Compiler):
  """Assembles TASM to program containers for one config; its cache key changes with version, ISA and machine."""

  def __init__(self, config: Config):
    super().__init__(f"compile_tinytpu_{__version__}_{isa_hash().hex()}_{config.name}")
    self.config = config

  def compile(self, src: str) -> bytes:
    """Assemble.

    Raises:
      CompileError: the text is not a valid program (a defect of the renderer, or of a user's own text).
    """
    try:
      return assemble(src, self.config, file="<kernel>").to_bytes()
    except TasmError as error:
      raise CompileError(str(error)) from error


class TinyTPURenderer(Renderer):
  """Compiles kernels for the preset named by the target's architecture."""
  supports_float4 = False
  has_local = True
  has_shared = True
  code_for_op = dict.fromkeys(SUPPORTED_OPS, str)  # tinygrad looks at the keys alone: what need not be decomposed

  def __init__(self, target: Target):
    super().__init__(target)
    optimize.install()
    beam.install()
    across.install()
    decompose.install(SUPPORTED_OPS)
    self.config = preset(target.arch or DEFAULT_PRESET)
    self.compiler = TinyTPUCompiler(self.config)
    self.suffix = f"TINYTPU_{self.config.name}_{__version__}_{isa_hash().hex()[:8]}"
    self.tensor_cores = tensor_cores(self.config)
    self.shared_max = self.config.vmem_bytes - spill_bytes(self.config)

  def supported_dtypes(self) -> set[DType]:
    """64-bit integers and 8-bit floats are left to tinygrad's decompositions, float64 is not supported at all."""
    return set(MEMORY_TYPE)

  def render(self, uops: list[UOp]) -> str:
    """The kernel's TASM text.

    Raises:
      UnsupportedError: something has no lowering; names UOp, dtypes and kernel.
    """
    lowering = Lowering(self.config, uops, spill_bytes(self.config))
    with Dump(lowering.kernel, self.config) as dump:
      dump.uops(uops)
      program = lowering.run()
      dump.block("1-lowered.txt", program.items)
      program.items = pipeline(program.items, self.config)
      dump.block("2-pipelined.txt", program.items)
      used = lowering.local_base + program.local_bytes
      top, guarded = stage(program, Coverage(uops, lowering.lanes), self.config, used)
      dump.block("3-staged.txt", program.items)
      code = allocate(flatten(program.items, Config.LOOP_DEPTH), self.config, program.kernel, program.arguments)
      bases = lowering.packing.bases()
      if bases or guarded:
        code = Code([*_misaligned(bases), *code.items, *self._plain(uops).items], [])
      dump.code("4-allocated.txt", code)
      text = render(program.kernel, program.args, top or (used if program.local_bytes else 0), schedule(code, self.config), self.config)
      dump.text(text)
    return text

  def _plain(self, uops: list[UOp]) -> Code:
    """The program for buffers of bytes that do not start at words, and for those that overlap."""
    program = Lowering(self.config, uops, spill_bytes(self.config), aligned=False).run()
    items = flatten(pipeline(program.items, self.config), Config.LOOP_DEPTH, PLAIN)
    code = allocate(items, self.config, program.kernel, program.arguments)
    return Code([Label(PLAIN), *code.items], [])


def _misaligned(bases: list[Reg]) -> list[Inst]:
  """Code that goes to `PLAIN` if one of these registers holds no multiple of a word."""
  if not bases:
    return []
  bits = Reg("s", 1)  # nothing is in it yet
  code = [inst("sor", bits, S0 if i == 0 else bits, base) for i, base in enumerate(bases)]
  return [*code, inst("sand", bits, bits, BYTES - 1), Inst(OPS["bne"], None, [bits, S0], target=PLAIN)]
