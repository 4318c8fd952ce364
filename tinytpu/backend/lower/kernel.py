"""From tinygrad's linear UOps to machine IR: walks the program in order and hands each UOp to its pass."""
from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

from tinygrad.dtype import AddrSpace
from tinygrad.uop.ops import Ops, UOp

from ...config import Config
from ..errors import UnsupportedError
from ..mir.builder import Builder, Val, imm
from ..mir.ir import Inst, Loop, Origin, Reg, clone, inst
from ..uops import Across, integer
from . import cross_lane
from .accumulators import Accumulators
from .arithmetic import Values
from .control_flow import Loops
from .matrix import Matrix
from .memory import Memory, itemsize, local_bytes
from .packing import Packing
from .private_arrays import Arrays, register_buffer
from .uniformity import Lanes

MAX_WAVES = 64
"""Waves of one group that may be unrolled; more work items per group are refused."""
_SKIP = (Ops.CONST, Ops.SINK, Ops.NOOP, Ops.GROUP, Ops.AFTER, Ops.SPECIAL, Ops.PARAM,
         Ops.BARRIER)  # waves go in lock-step and memory keeps its order: barriers need no code

_FOREIGN = "its text is in another renderer's language; write it in UOps"
_REFUSED = {
  Ops.CUSTOM: _FOREIGN, Ops.CUSTOMI: _FOREIGN, Ops.INS: "it is an instruction of another machine; write it in UOps",
  Ops.CALL: "a kernel cannot call functions of the host; call them between kernels",
  Ops.SHRINK: "an access is of one element per work item; leave the renderer's `supports_float4` False"}


@dataclass(frozen=True)
class Parameter:
  """A buffer argument. slot: tinygrad's; number: its place among the buffers of a launch; base: the register that holds its address;
  itemsize: bytes of an element; origin: as an operation's."""
  slot: int
  number: int
  base: Reg
  elements: int
  itemsize: int
  origin: Origin = ()

  @property
  def bytes(self) -> int:
    """Bytes of the whole buffer."""
    return self.elements * self.itemsize


class Arguments:
  """Argument registers of a kernel, taken one after the other. lines: TASM directives about them."""

  def __init__(self, kernel: str, config: Config):
    self.kernel, self.limit = kernel, config.SREGS - config.ARG_BASE
    self.lines: list[str] = []

  def clone(self) -> Arguments:
    """The same registers, of which others may be taken from here on."""
    other = copy(self)
    other.lines = list(self.lines)
    return other

  @property
  def left(self) -> int:
    """Registers that are not taken."""
    return self.limit - len(self.lines)

  def take(self, what: str) -> Reg:
    """The next one; `what` it receives, as TASM names it.

    Raises:
      UnsupportedError: there is none left.
    """
    n = len(self.lines)
    if not self.left:
      raise UnsupportedError(f"kernel {self.kernel} takes more than {n} buffers, variables and grid sizes")
    self.lines.append(f".arg {n} {what}")
    return Reg("s", Config.ARG_BASE + n)


@dataclass
class Kernel:
  """A lowered kernel.

  Attributes:
    kernel: its name. items: machine IR. args: its argument registers. parameters: its buffers. local_bytes: VMEM bytes of LOCAL buffers.
  """
  kernel: str
  items: list[Inst | Loop]
  args: Arguments
  parameters: list[Parameter]
  local_bytes: int

  def clone(self) -> Kernel:
    """The kernel with operations and a list of arguments of its own."""
    return replace(self, items=clone(self.items), args=self.args.clone())


class Lowering:
  """Lowers one kernel.

  Args: config: the machine. uops: tinygrad's linear program. local_base: VMEM byte address at which LOCAL buffers start.
    aligned: whether buffers of bytes may be taken to start at words. origins: whether operations note which UOps they come from.
  """

  def __init__(self, config: Config, uops: list[UOp], local_base: int, aligned: bool = True, origins: bool = False):
    self.config, self.uops = config, uops
    sink = next((u for u in uops if u.op is Ops.SINK), None)
    self.kernel = sink.arg.function_name if sink is not None and sink.arg is not None else "kernel"
    sizes = {int(u.arg[-1]): u.src[0] for u in uops if u.op is Ops.SPECIAL and u.arg[0] == "l"}
    self.lanes = Lanes(config, [self._constant(sizes[i]) if i in sizes else 1 for i in range(max(sizes, default=-1) + 1)])
    if self.lanes.waves > MAX_WAVES:
      most = MAX_WAVES * config.width
      raise UnsupportedError(f"local size {self.lanes.count} in kernel {self.kernel}: at most {most} work items per group")
    self.b = Builder()
    self.values = Values(self.kernel, self.b, self.lanes)
    if origins:
      self.values.places = {u: i for i, u in enumerate(uops)}
    self.memory = Memory(self.values, self.b, self.lanes)
    self.accumulators = Accumulators(self.values, self.b, self.lanes.waves)
    self.arrays = Arrays(self.values, self.memory, uops, local_base)
    self.loops = Loops(self.values, self.memory, self.accumulators, self.arrays, uops)
    self.packing = Packing(self.values, self.b, self.memory, uops, aligned)
    self.matrix = Matrix(self.values, self.b, self.accumulators, self.lanes.waves, uops)
    self.args = Arguments(self.kernel, config)
    self.parameters: list[Parameter] = []
    self.local_base, self.local_top = local_base, self.arrays.top

  def _constant(self, u: UOp) -> int:
    if (size := integer(u)) is None:
      raise UnsupportedError(f"{u.op.name} of {u.dtype} as a local size in kernel {self.kernel}: local sizes must be constant")
    return size

  def run(self) -> Kernel:
    """Lower the program.

    Raises:
      UnsupportedError: naming the UOp, its dtypes and the kernel.
      MemoryError: a buffer that device memory cannot hold.
    """
    self._arguments()
    grid = self._grid()
    for i, u in enumerate(self.uops):
      self.b.origin = self.values.origin(u)
      self._lower(i, u)
    for _ in range(grid):
      self.b.close_loop()
    self.b.emit(inst("halt", None))
    return Kernel(self.kernel, self.b.scopes[0].items, self.args, self.parameters, self.local_top - self.local_base)

  # -- entry ----------------------------------------------------------------------------------------
  def _argument(self, what: str) -> Val:
    return Val("s", (self.args.take(what),))

  def _arguments(self) -> None:
    params = sorted((u for u in self.uops if u.op is Ops.PARAM), key=lambda u: u.arg.slot)
    buffers = [u for u in params if u.addrspace is not AddrSpace.ALU]
    slots = sorted({u.arg.slot for u in buffers})
    for slot in slots:
      base = self._argument(f"buf {slots.index(slot)}")
      mine = [u for u in buffers if u.arg.slot == slot]
      self.memory.bases.update((u, base) for u in mine)
      largest = max(mine, key=lambda u: u.max_numel() * itemsize(u))
      parameter = Parameter(slot, slots.index(slot), base.regs[0], largest.max_numel(), itemsize(largest),
                            self.values.origin(*mine))
      if parameter.bytes > self.config.hbm_bytes:
        raise MemoryError(f"kernel {self.kernel} takes a buffer of {parameter.bytes:,} bytes, device memory holds "
                          f"{self.config.hbm_bytes:,}; split the tensor, or raise Config.hbm_bytes (DEV=TINYTPU::4x4,hbm_bytes=N)")
      self.parameters.append(parameter)
    for u in params:
      if u.addrspace is AddrSpace.ALU:
        self.values.check(u, u.dtype)
        self.values.known[u] = self._argument(f"var {u.arg.name}")

  def _grid(self) -> int:
    """Loops over the group ids around everything, axis 0 innermost; returns their number."""
    axes = sorted((u for u in self.uops if u.op is Ops.SPECIAL and u.arg[0] == "g"), key=lambda u: u.arg, reverse=True)
    for u in self.uops:
      if u.op is Ops.SPECIAL and u.arg[0] not in "gl":
        raise self.values.fail(u, "only global and local ids are known")
    counts = [self._argument(f"grid {u.arg[-1]}") for u in axes]
    for u, count in zip(axes, counts, strict=True):
      self.b.origin = self.values.origin(u)
      self.values.known[u] = self.b.open_loop(count.regs[0], int(u.src[0].vmax))
    return len(axes)

  # -- statements -----------------------------------------------------------------------------------
  def _lower(self, at: int, u: UOp) -> None:
    known = self.values.known
    if u.op in _SKIP or u in self.packing.absorbed:
      return
    match u.op:
      case Ops.BUFFER:
        self._buffer(u)
      case Ops.LOAD:
        known[u] = self._load(u)
      case Ops.STORE:
        self._home(u).store(u, self.loops.gate())
      case Ops.WMMA:
        for s in u.src:
          if s.op is Ops.STACK and s not in known:
            known[s] = self.packing.operand(s)
        known[u] = self.matrix.wmma(u)
      case Ops.IF:
        self.loops.gates.append(self.values.value(u.src[0]))
      case Ops.ENDIF:
        self.loops.gates.pop()
      case Ops.RANGE:
        self.loops.begin(at, u)
      case Ops.END:
        self.loops.end(u)
      case Ops.INDEX | Ops.STACK | Ops.CAST | Ops.BITCAST:
        pass
      case Ops.CUSTOM if isinstance(u.arg, Across):
        self.values.value(u.src[0])
        known[u] = cross_lane.lower(self.values, u)
      case _ if u.op in _REFUSED:
        raise self.values.fail(u, _REFUSED[u.op])
      case _:
        pass  # arithmetic is computed where it is needed

  def _home(self, u: UOp) -> Memory | Accumulators | Arrays:
    """Where what a LOAD or STORE names is kept."""
    if register_buffer(u.src[0]) is None:
      return self.memory
    return self.arrays if self.arrays.holds(u.src[0]) else self.accumulators

  def _load(self, u: UOp) -> Val:
    v = self._home(u).load(u, self.loops.gate())
    return v if v.file != "p" or id(u) in self.matrix.feeds else self.b.to_vector(v)  # popped here: the bucket may change later

  def _buffer(self, u: UOp) -> None:
    if u.addrspace is AddrSpace.REG:
      return
    self.values.check(u, u.dtype)
    self.memory.bases[u] = imm(self.local_top)
    self.local_top += local_bytes(u)
    if self.local_top > self.config.vmem_bytes:
      raise self.values.fail(u, f"LOCAL buffers need {self.local_top - self.local_base} bytes of VMEM, "
                             f"there are {self.config.vmem_bytes - self.local_base}")
