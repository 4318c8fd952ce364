"""The renderer: tinygrad's linear UOps to TASM, and the compiler that assembles it."""
from __future__ import annotations

from tinygrad.device import CompileError, Compiler
from tinygrad.dtype import DType
from tinygrad.helpers import Target
from tinygrad.renderer import Renderer
from tinygrad.uop.ops import UOp

from .. import __version__
from ..asm import TasmError, assemble
from ..asm.program import VERSION, isa_hash
from ..config import Config, preset
from . import hooks, origins
from .decomp.copies import COPIES
from .emit.regalloc import allocate, spill_bytes
from .emit.schedule import schedule
from .emit.software_pipeline import pipeline
from .lower.kernel import Kernel, Lowering
from .lower.rules import SUPPORTED_OPS
from .mir.dump import Dump
from .mir.ir import Code, flatten
from .mir.text import render
from .mir.traffic import cycles
from .opt.tensorcore import tensor_cores
from .scratch.must_write import Coverage
from .scratch.staging import stage
from .types import TYPES

DEFAULT_PRESET = "4x4"


class TinyTPUCompiler(Compiler):
  """Assembles TASM to program containers for one config; its cache key changes with version, ISA and machine."""

  def __init__(self, config: Config):
    super().__init__(f"compile_tinytpu_{__version__}_{VERSION}_{isa_hash().hex()}_{config.name}")
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
  extra_matcher = COPIES
  code_for_op = dict.fromkeys(SUPPORTED_OPS, str)  # tinygrad looks at the keys alone: what need not be decomposed

  def __init__(self, target: Target):
    super().__init__(target)
    hooks.install()
    self.config = preset(target.arch or DEFAULT_PRESET)
    self.compiler = TinyTPUCompiler(self.config)
    self.suffix = f"TINYTPU_{self.config.name}_{__version__}_{isa_hash().hex()[:8]}"
    self.tensor_cores = tensor_cores(self.config)
    self.shared_max = self.config.vmem_bytes - spill_bytes(self.config)

  def supported_dtypes(self) -> set[DType]:
    """64-bit integers and 8-bit floats are left to tinygrad's decompositions, float64 is not supported at all."""
    return set(TYPES)

  def render(self, uops: list[UOp]) -> str:
    """The kernel's TASM text.

    Raises:
      UnsupportedError: something has no lowering; names UOp, dtypes and kernel.
    """
    told = origins.origins(uops) if origins.asked() else []
    lowering = Lowering(self.config, uops, spill_bytes(self.config), origins=bool(told))
    with Dump(lowering.kernel, self.config) as dump:
      dump.uops(uops)
      program = lowering.run()
      dump.block("1-lowered.txt", program.items)
      program.items = pipeline(program.items, self.config)
      dump.block("2-pipelined.txt", program.items)
      used = lowering.local_base + program.local_bytes
      words = set(lowering.packing.bases())
      plain = program.clone()
      staged = stage(program, Coverage(uops, lowering.lanes), self.config, used, words)
      dump.block("3-staged.txt", program.items)
      directives = [*program.args.lines, *map(str, staged.bufs)]
      if staged.moved or program.local_bytes:
        directives.append(f".vmem {staged.top}")
      versions = [self._allocate(program)]
      if staged.moved or words:  # these ask something of the buffers
        if words:  # loads of words are of the first version alone
          plain = Lowering(self.config, uops, spill_bytes(self.config), aligned=False, origins=bool(told)).run()
          plain.items = pipeline(plain.items, self.config)
        directives.append(f".cycles {staged.cycles} {cycles(plain.items, self.config, lambda base: False)}")
        versions.append(self._allocate(plain, "direct_"))
      dump.code("4-allocated.txt", *versions)
      text = render(program.kernel, directives, [schedule(code, self.config) for code in versions], self.config, told)
      dump.text(text)
    return text

  def _allocate(self, program: Kernel, prefix: str = "") -> Code:
    """Linear code of a program on physical registers; its labels begin with `prefix`."""
    return allocate(flatten(program.items, Config.LOOP_DEPTH, prefix), self.config, program.kernel, len(program.args.lines))
