"""The instruction buffer: refill of a block from HBM, and decoding of the group that starts at a word of it.

A group is decoded when it is first reached after its block's refill, and kept until the next refill: stale code is
executed until invalidated, as in hardware.
"""
from __future__ import annotations

from ..isa import encoding as enc
from . import layout as lay
from .jit import jit

CHAIN_LSB, CODE_LSB, CODE_MASK = enc.CHAIN.lsb, enc.CODE.lsb, enc.CODE.mask
BKIND_LSB, BKIND_MASK = enc.BKIND.lsb, enc.BKIND.mask
MASKED_LSB, DTYPE_LSB, DTYPE_MASK = enc.MASKED.lsb, enc.DTYPE.lsb, enc.DTYPE.mask
BUCKET_MASK = 15
PACKET, WORD_BYTES, TYPES = enc.PACKET_WORDS, enc.WORD_BYTES, lay.TYPES
K_NOT, B_NOT = enc.BKind.VREG, enc.BKIND.mask  # bkinds that a k operand, and any flexible operand, may not have
SLOT, FLEX, FORM, PORT, BUSY, WRITE, UNIT = lay.SLOT, lay.FLEX, lay.FORM, lay.PORT, lay.BUSY, lay.WRITE, lay.UNIT
N_ACCESS, ACCESS, NOP_SLOT, N_SLOTS, P0, C, T = lay.N_ACCESS, lay.ACCESS, lay.NOP_SLOT, lay.N_SLOTS, lay.P0, lay.C, lay.T
STATE, WORDS, DEPS, VLAT, SLAT, XLAT, SPECIAL = (int(m) for m in lay.Meta)
DMAI = int(lay.Unit.DMAI)


@jit
def refill(text, meta, hbm64, index, block, block_words):
  """Copy block number `block` of memory into the buffer at `index`; memory beyond the end reads as zeros."""
  for i in range(block_words):
    source = block * block_words + i
    text[index * block_words + i] = hbm64[source] if source < hbm64.size else 0
    meta[index * block_words + i, STATE] = 0


@jit
def register(word, access):
  """Entry of the ready array for an access code (see `layout`); bucket numbers count modulo 16."""
  base, number = access >> 16, (word >> (access & 255)) & ((access >> 8) & 255)
  return base + (number & BUCKET_MASK if base == P0 else number)


@jit
def decode(text, slots, deps, meta, latency, interval, g, pc):
  """Decode the group that starts at buffer word `g`, program word `pc`: fills row g of slots, deps and meta."""
  for s in range(N_SLOTS):
    slots[g, s] = 0
  for m in range(1, SPECIAL + 1):
    meta[g, m] = 0
  meta[g, STATE] = 2
  n_deps, position, start = 0, pc % PACKET, g
  while True:
    word = text[g]
    code = (word >> CODE_LSB) & CODE_MASK
    slot = SLOT[code]
    if slot < 0:
      return
    if slot != NOP_SLOT:
      if slots[start, slot] != 0:
        return
      bkind, masked = (word >> BKIND_LSB) & BKIND_MASK, 0
      if FLEX[code] != 0 and (bkind == B_NOT or (FLEX[code] == 2 and bkind == K_NOT)):
        return
      if FORM[code] != 0:
        masked = (word >> MASKED_LSB) & 1
        if (word >> DTYPE_LSB) & DTYPE_MASK > TYPES[code]:
          return
      if WRITE[code] >= 0:
        target = register(word, WRITE[code])
        for s in range(N_SLOTS):
          other = slots[start, s]
          if other != 0:
            other_write = WRITE[(other >> CODE_LSB) & CODE_MASK]
            if other_write >= 0 and register(other, other_write) == target:
              return
      slots[start, slot] = word
      for i in range(N_ACCESS[code, bkind, masked]):
        n_deps = _depend(deps, start, n_deps, register(word, ACCESS[code, bkind, masked, i]))
      if BUSY[code] >= 0 and interval[code] != 1:
        n_deps = _depend(deps, start, n_deps, BUSY[code])
      if PORT[code] == 1:
        meta[start, VLAT] = latency[code]
      elif PORT[code] == 2:
        meta[start, SLAT] = latency[code]
      elif PORT[code] == 3:
        meta[start, XLAT] = latency[code]
      if slot == C or (slot == T and UNIT[code] >= DMAI):
        meta[start, SPECIAL] = 1
    if (word >> CHAIN_LSB) & 1 == 0:
      break
    position += 1
    g += 1
    if position == PACKET:
      return
  meta[start, WORDS], meta[start, DEPS], meta[start, STATE] = g - start + 1, n_deps, 1


@jit
def _depend(deps, g, n, entry):
  """Add `entry` to the dependencies of group g unless it is there already, or is s0; returns their number."""
  if entry == 0:
    return n
  for i in range(n):
    if deps[g, i] == entry:
      return n
  deps[g, n] = entry
  return n + 1
