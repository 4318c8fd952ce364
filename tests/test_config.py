"""Configurations: what presets hold, what is refused and why."""
from __future__ import annotations

import pytest

from tinytpu.config import PRESETS, Config, ConfigError, preset
from tinytpu.isa.encoding import PACKET_WORDS, WORD_BYTES


def test_presets():
  sizes = {name: (c.width, c.vector_lanes, c.beats, c.line_bytes, c.tile_bytes, c.ibuf_block_bytes, c.vmem_bytes >> 10)
           for name, c in PRESETS.items()}
  assert sizes == {"4x4": (16, 16, 1, 64, 64, 1024, 256), "8x8": (64, 64, 1, 256, 256, 1024, 512),
                   "16x16": (256, 64, 4, 256, 1024, 1024, 1024)}
  assert all(c.name == name for name, c in PRESETS.items())


def test_changes():
  assert preset("4x4,vector_lanes=8,hbm_latency=10") == Config("4x4,vector_lanes=8,hbm_latency=10", vector_lanes=8, hbm_latency=10)
  assert preset("8x8", hbm_latency=5).hbm_latency == 5
  assert preset("4x4,hbm_latency=10", hbm_latency=12).hbm_latency == 12


@pytest.mark.parametrize("name,reason", [
  ("5x5", "unknown preset '5x5'; presets: 4x4, 8x8, 16x16"),
  ("4x4,speed=3", "'speed=3' changes no field of preset 4x4: write FIELD=NUMBER, a FIELD of sublanes, lanes, vector_lanes"),
  ("4x4,name=3", "'name=3' changes no field"), ("4x4,vector_lanes=many", "'vector_lanes=many' changes no field"),
  ("4x4,lanes=8", r"sublanes \(4\) and lanes \(8\) must be equal: a tile is a square matrix operand"),
  ("4x4,sublanes=2,lanes=2", "sublanes must be 4, 8 or 16, not 2"), ("4x4,sublanes=32,lanes=32", "sublanes must be 4, 8 or 16, not 32"),
  ("8x8,vector_lanes=48", "vector_lanes must be a power of two, not 48"),
  ("16x16,vector_lanes=128", "vector_lanes must be 4 to 64 for tiles of 256 words, not 128: .* too slow to simulate"),
  ("4x4,vector_lanes=32", "vector_lanes must be 4 to 16 for tiles of 16 words, not 32: .* more than a tile has words would idle"),
  ("4x4,vector_lanes=2", "vector_lanes must be 4 to 16 for tiles of 16 words, not 2: fewer cannot feed a transcendental pipeline"),
  ("16x16,vector_lanes=16", "vector_lanes must be at least 32 for tiles of 256 words, not 16: .* at most 8 beats"),
  ("8x8,vmem_bytes=8192", r"vmem_bytes must hold at least 64 tiles \(16384 bytes\)"),
  ("4x4,vmem_bytes=2147483648", "at most 1 GiB"), ("4x4,vmem_bytes=300000", "vmem_bytes must be a power of two"),
  ("4x4,vector_lanes=4,ibuf_block_lines=1", "ibuf_block_lines must be at least 2 lines of 16 bytes, not 1"),
  ("4x4,ibuf_blocks=0", "ibuf_blocks must be a power of two, not 0"),
  ("8x8,hbm_bytes=1000", r"hbm_bytes must be a multiple of a line \(256 bytes\)"), ("4x4,hbm_bytes=8589934592", "at most 4 GiB"),
  ("4x4,hbm_latency=3", "hbm_latency must be at least 4 cycles, not 3")])
def test_refused(name, reason):
  with pytest.raises(ConfigError, match=reason):
    preset(name)


def test_the_smallest_block_holds_a_packet():
  assert preset("4x4,vector_lanes=4,ibuf_block_lines=2").ibuf_block_bytes == PACKET_WORDS * WORD_BYTES
