"""A captured batch of kernels (TinyJit) as one program: launched once, it runs them all. JIT=2 launches them one by one instead,
as does PROFILE."""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import numpy as np
from tinygrad.device import Device, MultiBuffer
from tinygrad.engine.jit import GraphRunner
from tinygrad.uop.ops import UOp

from ..asm.link import link

if TYPE_CHECKING:
  from .device import TinyTPUDevice, TinyTPUProgram


class TinyTPUGraph(GraphRunner):
  """Kernels of one device, linked: between two of them there is a barrier in place of a launch. Addresses of inputs and values of
  variables, which change from call to call, are in a table in HBM. Args: as tinygrad's."""

  def __init__(self, linear: UOp, input_uops: tuple[UOp, ...] = ()):
    super().__init__(linear, input_uops)
    self.dev: TinyTPUDevice = Device[self.calls[0][2][0].device]  # type: ignore[assignment]
    self.programs: list[TinyTPUProgram] = self.runtimes  # type: ignore[assignment]
    self.name = f"graph of {len(self.programs)} kernels"
    changing = {j for j, replaced in enumerate(self.uop_replace) if replaced} | set(self.var_vals_replace) | set(self.launch_dims_replace)
    fixed = [[None] * len(program.container.args) if j in changing else self._arguments(j, input_uops, {})
             for j, program in enumerate(self.programs)]
    tile = self.dev.config.line_bytes
    table_bytes = 4 * sum(len(values) for values in fixed if None in values) + tile
    self.table = self.dev.heap.take(table_bytes, tile)
    self.linked = link([(program.container, values) for program, values in zip(self.programs, fixed, strict=True)], self.table)
    code = self.linked.code_bytes()
    self.address = self.dev.upload(code)
    for address, size in ((self.table, table_bytes), (self.address, len(code))):
      weakref.finalize(self, self.dev.release, address, size).atexit = False

  def __call__(self, input_uops: tuple[UOp, ...], var_vals: dict[str, int], wait: bool = False) -> float:
    """Launch and wait.

    Returns:
      simulated seconds.

    Raises:
      RuntimeError: a kernel faulted; names it and the fault.
    """
    given = {call: self._arguments(call, input_uops, var_vals) for call, _ in self.linked.cells}
    words = np.array([given[call][register] & 0xFFFFFFFF for call, register in self.linked.cells], "<u4")
    self.dev.engine.hbm[self.table:self.table + words.nbytes] = words.view(np.uint8)
    result = self.dev.launch(self.name, self.address)
    if result.fault is not None:
      call = self.linked.call_at(result.fault.pc)
      raise RuntimeError(f"kernel {self.programs[call].name}, number {call} of a {self.name}, on {self.dev.device} stopped: {result.fault}")
    return result.cycles / self.dev.config.clock_hz

  def _arguments(self, call: int, input_uops: tuple[UOp, ...], var_vals: dict[str, int]) -> list[int]:
    """The argument registers' values of a kernel in this call of the graph."""
    device, program, buffers, own_vars = self.calls[call]
    buffers = list(buffers)
    for position, number in self.uop_replace[call]:
      given = input_uops[number].buffer
      buffers[position] = given.bufs[device] if isinstance(given, MultiBuffer) else given
    values = {**var_vals, **own_vars}
    return self.programs[call].arguments([buffers[i]._buf for i in program.arg.globals], program.arg.launch_dims(values)[0],
                                         program.arg.vals(values))
