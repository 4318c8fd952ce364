"""A captured batch of kernels (TinyJit) as one program: launched once, it runs them all. JIT=2 launches them one by one instead,
as does PROFILE."""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import numpy as np
from tinygrad.device import Device
from tinygrad.engine.jit import GraphRunner
from tinygrad.engine.realize import get_call_arg_uops, resolve_params, unwrap_multi
from tinygrad.uop.ops import Ops, UOp

from ...asm.link import Call, link
from ...asm.program import ArgKind
from ...machine import RunResult
from ...machine.allow import Allow, Mode
from .check import checking, misaligned, of_spills, together
from .graph_plan import Batch, Preparation, stand_in
from .heap import ALIGN
from .vmem_cache import Span

if TYPE_CHECKING:
  from ..device import HbmBuffer, TinyTPUDevice, TinyTPUProgram


class TinyTPUGraph(GraphRunner):
  """Kernels of one device, linked: between two of them there is a barrier in place of a launch. Addresses of inputs and values of
  variables, which change from call to call, are in a table in HBM. What lies in VMEM when is planned once (`Batch`); a call with inputs
  that overlap what the plan takes to be apart launches the kernels one by one. Args: as tinygrad's."""

  def __init__(self, linear: UOp, input_uops: tuple[UOp, ...] = ()):
    super().__init__(linear, input_uops)
    self.dev: TinyTPUDevice = Device[self.calls[0][2][0].device]  # type: ignore[assignment]
    self.programs: list[TinyTPUProgram] = self.runtimes  # type: ignore[assignment]
    self.name = f"graph of {len(self.programs)} kernels"
    self.changing = self._changing()
    self.inputs: dict[int, Span] = {}
    """What stands for each input in the plan, by number."""
    containers = [program.container for program in self.programs]
    self.batch = Batch(self.dev.config, [(container, self._spans(j, input_uops)) for j, container in enumerate(containers)])
    calls = [Call(container, self._fixed(j, input_uops), admission.direct, admission.spills)
             for j, (container, admission) in enumerate(zip(containers, self.batch.admissions, strict=True))]
    tile = self.dev.config.line_bytes
    self.table_bytes = 4 * sum(value is None for call in calls for value in call.values) + tile
    with self.dev.exclusive.held():
      self.table = self.dev.heap.take(self.table_bytes, tile)
      self.linked = link(calls, self.table)
      self.parts = list(zip(self.linked.starts, (program.name for program in self.programs), strict=True))
      code = self.linked.code_bytes()
      self.address = self.dev.upload(code, self.linked.origins)
    for address, size in ((self.table, self.table_bytes), (self.address, len(code))):
      weakref.finalize(self, self.dev.release, address, size).atexit = False

  def __call__(self, input_uops: tuple[UOp, ...], var_vals: dict[str, int], wait: bool = False) -> float:
    """Launch and wait.

    Returns:
      simulated seconds.

    Raises:
      RuntimeError: a kernel faulted; names it and the fault.
    """
    with self.dev.exclusive.held():
      if (inputs := self._shifts(input_uops)) is None or not self.batch.fits(inputs):
        return self._one_by_one(input_uops, var_vals)
      residency = self.dev.residency
      before, run = residency.snapshot(), None
      try:
        prepared = self.batch.prepare(residency, inputs)
        self.dev.spill(prepared.spills)
        run = prepared
        result = self._launch(run, input_uops, var_vals)
        self.batch.finish(residency, inputs, run, failed=result.fault is not None)
      except BaseException:  # whatever stopped it: what may not have come in is not taken to be there
        if run is None:
          residency.restore(before)
        else:
          self.batch.finish(residency, inputs, run, failed=True)
        raise
    if result.fault is not None:
      call = self.linked.call_at(result.fault.pc)
      raise RuntimeError(f"kernel {self.programs[call].name}, number {call} of a {self.name}, on {self.dev.device} stopped: {result.fault}"
                         f"{misaligned(result.fault, [b.address for b in self._buffers(call, input_uops)])}")
    return result.cycles / self.dev.config.clock_hz

  def _launch(self, run: Preparation, input_uops: tuple[UOp, ...], var_vals: dict[str, int]) -> RunResult:
    given = {call: self._arguments(call, input_uops, var_vals) for call, _ in self.linked.cells}
    values = [run.fills.get((call, register), given[call][register]) for call, register in self.linked.cells]
    words = np.array([value & 0xFFFFFFFF for value in values], "<u4")
    self.dev.engine.hbm[self.table:self.table + words.nbytes] = words.view(np.uint8)
    return self.dev.launch(self.name, self.address, allow=self._allowed(input_uops), parts=self.parts)

  def _allowed(self, input_uops: tuple[UOp, ...]) -> Allow | None:
    """What all launches of a run together may touch; None: launches are not checked."""
    if not checking():
      return None
    parts = [Allow([(self.table, self.table + self.table_bytes, Mode.READ)])]  # read by whole tiles
    for j, admission in enumerate(self.batch.admissions):
      spans = [Span(b.address, b.size) for b in self._buffers(j, input_uops)]
      parts += [of_spills(admission.spills), self.dev.allowed(self.programs[j].container, spans, admission)]  # type: ignore[list-item]
    return together(parts)

  def _one_by_one(self, input_uops: tuple[UOp, ...], var_vals: dict[str, int]) -> float:
    seconds = 0.0
    for call, program in enumerate(self.programs):
      sizes, values = self._dims(call, var_vals)
      seconds += program(*self._buffers(call, input_uops), global_size=sizes, vals=values)
    return seconds

  # -- buffers --------------------------------------------------------------------------------------
  def _buffers(self, call: int, input_uops: tuple[UOp, ...]) -> list[HbmBuffer]:
    """What a kernel works on in this call of the graph, by number."""
    device, program, buffers, _ = self.calls[call]
    uop, numbers = self.changing[call]
    if numbers:
      buffers = list(unwrap_multi(uop, resolve_params(uop, input_uops)))[device][0]
    return [buffers[position].ensure_allocated()._buf for position in program.arg.globals]

  def _changing(self) -> list[tuple[UOp, dict[int, int]]]:
    """For each kernel its call, and which of the buffers there are inputs, or views of them: their numbers by position. tinygrad's own list
    leaves out the views."""
    numbers: dict[UOp, int] = {}
    found = []
    for uop in self.linear.src:
      mine = {p: numbers.setdefault(b, len(numbers)) for p, b in enumerate(get_call_arg_uops(uop))
              if any(x.op is Ops.PARAM for x in b.backward_slice_with_self)}
      found.append((uop, mine))
    assert len(found) == len(self.calls), "a graph is of one device"
    return found

  def _given(self, call: int) -> dict[int, int]:
    """The numbers of inputs, by that of the kernel's buffer."""
    _, numbers = self.changing[call]
    return {n: numbers[position] for n, position in enumerate(self.calls[call][1].arg.globals) if position in numbers}

  def _spans(self, call: int, input_uops: tuple[UOp, ...]) -> list[Span]:
    spans = [Span(b.address, b.size) for b in self._buffers(call, input_uops)]
    for n, number in self._given(call).items():
      spans[n] = self.inputs.setdefault(number, stand_in(number, spans[n].address, spans[n].size))
    return spans

  def _shifts(self, input_uops: tuple[UOp, ...]) -> dict[int, int] | None:
    """How far each input lies above its offset in the plan; None if one does not suit it."""
    shifts: dict[int, int] = {}
    for call in range(len(self.programs)):
      given = self._given(call)
      buffers = self._buffers(call, input_uops) if given else []
      for n, number in given.items():
        span = self.inputs[number]
        shifts[number] = buffers[n].address - span.address % ALIGN
        if shifts[number] % ALIGN or buffers[n].size < span.size:
          return None
    return shifts

  # -- arguments ------------------------------------------------------------------------------------
  def _dims(self, call: int, var_vals: dict[str, int]) -> tuple[tuple[int, ...], tuple[int | None, ...]]:
    """Grid and variables of a kernel in this call of the graph."""
    arg = self.calls[call][1].arg
    values = {**var_vals, **self.calls[call][3]}
    return arg.launch_dims(values)[0], arg.vals(values)

  def _arguments(self, call: int, input_uops: tuple[UOp, ...], var_vals: dict[str, int]) -> list[int]:
    """The argument registers' values of a kernel in this call of the graph."""
    return self.programs[call].arguments(self._buffers(call, input_uops), *self._dims(call, var_vals), self.batch.admissions[call])

  def _fixed(self, call: int, input_uops: tuple[UOp, ...]) -> list[int | None]:
    """The argument registers' values that are the same in all calls of the graph, and None for the others."""
    args = self.programs[call].container.args
    if call in self.var_vals_replace or call in self.launch_dims_replace:
      return [None] * len(args)
    given = self._given(call)
    changing = {a.register for a in args if a.kind is ArgKind.BUF and a.value in given}
    changing |= {first.register for first in self.batch.firsts if first.call == call}
    return [None if n in changing else value for n, value in enumerate(self._arguments(call, input_uops, {}))]
