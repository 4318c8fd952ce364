"""TASM, the assembly text: assembler, disassembler, and the container that programs are kept in."""
from .assembler import assemble
from .disassembler import disassemble
from .errors import ContainerError, TasmError
from .program import Arg, ArgKind, Program, isa_hash

__all__ = ["Arg", "ArgKind", "ContainerError", "Program", "TasmError", "assemble", "disassemble", "isa_hash"]
