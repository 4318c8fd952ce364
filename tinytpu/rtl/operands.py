"""The operand stage: register files, and what each unit is given of the group that issues."""
from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import encoding as enc
from .decode import SLOTS, field, group, slot_reads
from .interfaces import cross_issue, memory_issue, scalar_issue, scalar_result, vector_issue, vector_result
from .regfile import SCALAR_WRITES, VECTOR_WRITES, ScalarFile, VectorFile

__all__ = ["Operands", "read_ports"]


def read_ports(file: str) -> tuple[str, ...]:
  """Names of the read ports of register file `file` ("s" or "v"): `<slot>_<field>`."""
  return tuple(dict.fromkeys(f"{slot}_{read.field.name}" for slot in SLOTS for read in slot_reads(slot) if read.file == file))


class Operands(wiring.Component):
  """Reads the registers that the decoded group names and forms the units' operands; combinational from group to outputs.

  Members:
    group: In(group()). issue: In(1), the group issues: `start` of its operations rises.
    branch_a, branch_c: Out(32), operands of slot C. scalar, vector, cross, load, store: issue signatures of slots S, V, X, L, T
    (`store` for all of slot T, DMA included).
    vector_<w>, scalar_<w>: In(result) for each write port w of the files.
    host: In(1), the host reads, in place of operands: the scalar register `host_scalar` (In(6)) appears on `host_word`, the
    vector register `host_vector` (In(6)) on `host_tile`.
  """

  def __init__(self, config: Config):
    self.config = config
    vector = vector_issue(config).members["a"].shape
    super().__init__({
      "group": In(group()), "issue": In(1), "branch_a": Out(32), "branch_c": Out(32),
      "scalar": Out(scalar_issue()), "vector": Out(vector_issue(config)), "cross": Out(cross_issue(config)),
      "load": Out(memory_issue(config)), "store": Out(memory_issue(config)),
      "host": In(1), "host_scalar": In(6), "host_vector": In(6), "host_tile": Out(vector), "host_word": Out(32)}
      | {f"vector_{w}": In(vector_result(config)) for w in VECTOR_WRITES}
      | {f"scalar_{w}": In(scalar_result()) for w in SCALAR_WRITES})

  def elaborate(self, platform) -> Module:
    m = Module()
    files: dict[str, wiring.Component] = {"s": ScalarFile(read_ports("s")), "v": VectorFile(self.config, read_ports("v"))}
    m.submodules.scalar_file, m.submodules.vector_file = files["s"], files["v"]
    for prefix, file, writes in (("scalar", "s", SCALAR_WRITES), ("vector", "v", VECTOR_WRITES)):
      for w in writes:
        source, sink = getattr(self, f"{prefix}_{w}"), getattr(files[file], f"write_{w}")
        m.d.comb += [sink.valid.eq(source.valid), sink.reg.eq(source.reg), sink.data.eq(source.data)]

    borrowed = {"C_a": self.host_scalar, "V_a": self.host_vector}  # read ports that the host uses while no program runs
    for file, unit in files.items():
      for name in read_ports(file):
        slot, field_name = name.split("_")
        number = field(getattr(self.group, slot).word, enc.FIELDS[field_name])
        host = borrowed.get(name) if name[0] == {"s": "C", "v": "V"}[file] else None
        m.d.comb += getattr(unit, f"{name}_reg").eq(number if host is None else Mux(self.host, host, number))
    s, v = files["s"], files["v"]
    m.d.comb += [self.host_tile.eq(v.V_a), self.host_word.eq(s.C_a), self.branch_a.eq(s.C_a), self.branch_c.eq(s.C_c)]

    def head(slot: str, payload: wiring.PureInterface) -> tuple[Value, wiring.PureInterface]:
      op = getattr(self.group, slot)
      m.d.comb += [payload.start.eq(self.issue & op.valid), payload.code.eq(field(op.word, enc.CODE)), payload.d.eq(field(op.word, enc.D))]
      return op.word, op.control

    def flexible(word: Value, register: Value) -> Value:
      return Mux(field(word, enc.BKIND) == enc.BKind.SREG, register, field(word, enc.IMM))

    word, control = head("S", self.scalar)
    self._swap(m, word, control, self.scalar, s.S_a, flexible(word, s.S_b), s.S_c)

    word, control = head("V", self.vector)
    one = flexible(word, s.V_b)
    b = Mux(field(word, enc.BKIND) == enc.BKind.VREG, v.V_b, one.replicate(self.config.width))
    self._swap(m, word, control, self.vector, v.V_a, b, v.V_c)

    word, control = head("X", self.cross)
    m.d.comb += [self.cross.bucket.eq(field(word, enc.A)), self.cross.a.eq(v.X_a), self.cross.b.eq(v.X_b),
                 self.cross.k.eq(flexible(word, s.X_b))]

    for slot, payload in (("L", self.load), ("T", self.store)):
      word, control = head(slot, payload)
      mask_tile = getattr(v, f"{slot}_c")
      elements = Cat(mask_tile.word_select(e, 32).any() for e in range(self.config.width))
      offset = word[enc.OFF.lsb:enc.OFF.lsb + enc.OFF.width].as_signed()
      m.d.comb += [
        payload.mtype.eq(field(word, enc.DTYPE)), payload.base.eq(getattr(s, f"{slot}_a")), payload.x.eq(getattr(s, f"{slot}_x")),
        payload.r.eq(getattr(s, f"{slot}_r")), payload.c2.eq(getattr(s, f"{slot}_c2")), payload.off.eq(offset),
        payload.index.eq(getattr(v, f"{slot}_r")),
        payload.mask.eq(elements | (~field(word, enc.MASKED)).replicate(self.config.width))]
    m.d.comb += [self.store.data.eq(v.T_d), self.store.vbase.eq(s.T_c), self.store.nbytes.eq(s.T_d),
                 self.store.planes.eq(Mux(field(self.group.T.word, enc.Z) == 0, 1, s.T_z)), self.store.hplane.eq(s.T_zh),
                 self.store.vplane.eq(s.T_zv)]
    return m

  @staticmethod
  def _swap(m: Module, word: Value, control, payload: wiring.PureInterface, a: Value, b: Value, c: Value) -> None:
    """The field swap: a and b change places, or of operations with a third operand b and c."""
    swap = field(word, enc.SWAP)
    ab, bc = control.swap_ab & swap, control.swap_bc & swap
    m.d.comb += [payload.a.eq(Mux(ab, b, a)), payload.b.eq(Mux(ab, a, Mux(bc, c, b))), payload.c.eq(Mux(bc, b, c))]
