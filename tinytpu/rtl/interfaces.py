"""Signatures between the issue stage, the units and the memories, each said once.

Issue side: in cycle t the issue stage raises `start` together with the operation's fields and the operand values
that it read from the register files; the unit captures what it needs at the end of that cycle. Write-back side: in
cycle t + latency - 1 the unit raises `valid` with register number and value, which the register file takes at the end
of that cycle, so that a group issuing in t + latency reads it. A tile is a flat vector, element e in bits 32 e to
32 e + 31. All signatures are seen from the side that drives the requests.
"""
from __future__ import annotations

from amaranth.lib.wiring import In, Out, Signature

from ..config import Config


def tile_bits(config: Config) -> int:
  """Bits of a tile."""
  return 32 * config.width


def line_bits(config: Config) -> int:
  """Bits of an HBM line, which is also what a DMA engine moves in a cycle and what VMEM's banks hold side by side."""
  return 8 * config.line_bytes


def scalar_issue() -> Signature:
  """Scalar ALU operation: code, result register d, operand values a, b (register or immediate, swap done), c."""
  return Signature({"start": Out(1), "code": Out(8), "d": Out(6), "a": Out(32), "b": Out(32), "c": Out(32)})


def vector_issue(config: Config) -> Signature:
  """Vector ALU operation: operand tiles a, b, c; b already broadcast from scalar or immediate, swap already done."""
  t = tile_bits(config)
  return Signature({"start": Out(1), "code": Out(8), "d": Out(6), "a": Out(t), "b": Out(t), "c": Out(t)})


def cross_issue(config: Config) -> Signature:
  """Slot X operation, for cross-lane and matrix unit alike (each looks at its own codes): tiles a and b, scalar k
  (register or immediate), field d (result vector, scalar or bucket), field bucket = field a (ppop's source)."""
  t = tile_bits(config)
  return Signature({"start": Out(1), "code": Out(8), "d": Out(6), "bucket": Out(4), "a": Out(t), "b": Out(t), "k": Out(32)})


def memory_issue(config: Config) -> Signature:
  """Memory operation: `code` tells direction and address form (dmai and dmao come here too); register number d (load result);
  base, x, r, c2 scalar values; off sign-extended to 32 bits; index tile (memx); data tile (stores); mask: one bit per element,
  already all ones for unmasked operations; mtype: encoding.MemType. For DMA: base = HBM address (a), r = HBM pitch, hplane = distance of
  planes in HBM (zh), vbase = VMEM address (c), c2 = VMEM pitch, vplane = distance of planes in VMEM (zv), nbytes (d), x = rows, planes
  (z; 1 if that names s0)."""
  t = tile_bits(config)
  return Signature({
    "start": Out(1), "code": Out(8), "d": Out(6), "mtype": Out(4), "base": Out(32), "x": Out(32), "r": Out(32), "c2": Out(32),
    "off": Out(32), "vbase": Out(32), "nbytes": Out(32), "planes": Out(32), "hplane": Out(32), "vplane": Out(32),
    "index": Out(t), "data": Out(t), "mask": Out(config.width)})


def vector_result(config: Config) -> Signature:
  """Write-back of a tile to vector register `reg`."""
  return Signature({"valid": Out(1), "reg": Out(6), "data": Out(tile_bits(config))})


def scalar_result() -> Signature:
  """Write-back of a word to scalar register `reg`."""
  return Signature({"valid": Out(1), "reg": Out(6), "data": Out(32)})


def memory_fault() -> Signature:
  """Raised in t + 1 by a memory unit for the operation that issued in t: cause (isa.faults.Fault) and byte address.
  The issue stage uses it combinationally to hold the group of that cycle; the unit drops the operation itself."""
  return Signature({"valid": Out(1), "cause": Out(4), "info": Out(32)})


def hbm_port(config: Config) -> Signature:
  """One HBM port, seen from the client. `valid` requests the line at byte address `line * line_bytes`, always accepted;
  a write (`write` = 1) takes `data` under `bytemask` at once; a read samples memory as after all requests of earlier cycles and
  answers exactly hbm_latency cycles later (request in cycle u: `rdata` is valid during cycle u + hbm_latency).
  Reads outside memory give zeros. All reads and writes of one cycle on different ports: reads see memory before the writes."""
  n = line_bits(config)
  return Signature({
    "valid": Out(1), "write": Out(1), "line": Out(32), "data": Out(n), "bytemask": Out(config.line_bytes), "rdata": In(n)})


def vmem_dma_port(config: Config) -> Signature:
  """The port of a DMA engine into VMEM: up to one line of consecutive words from word address `word`, words enabled by `mask`
  (bit k: word + k). Writes take effect at the end of the cycle; `rdata` of a read is valid in the next cycle."""
  n = line_bits(config)
  return Signature({"valid": Out(1), "write": Out(1), "word": Out(32), "mask": Out(config.vector_lanes), "data": Out(n), "rdata": In(n)})


__all__ = ["In", "cross_issue", "hbm_port", "line_bits", "memory_fault", "memory_issue", "scalar_issue", "scalar_result", "tile_bits",
           "vector_issue", "vector_result", "vmem_dma_port"]
