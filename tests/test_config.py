"""Configurations: what presets hold, what is refused and why."""
from __future__ import annotations

import pytest

from tinytpu.config import PRESETS, Config, ConfigError, parameters, preset
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
  ("4x4,sublanes=2,lanes=2", "sublanes must be a power of two from 4 to 16, not 2"),
  ("4x4,sublanes=32,lanes=32", "sublanes must be a power of two from 4 to 16, not 32"),
  ("8x8,vector_lanes=48", "vector_lanes must be a power of two from 4 to 64, not 48"),
  ("16x16,vector_lanes=128", "vector_lanes must be a power of two from 4 to 64, not 128"),
  ("4x4,vector_lanes=32", "vector_lanes must be at most 16 for tiles of 16 words, not 32: more than a tile has words would idle"),
  ("4x4,vector_lanes=2", "vector_lanes must be a power of two from 4 to 64, not 2"),
  ("16x16,vector_lanes=16", "vector_lanes must be at least 32 for tiles of 256 words, not 16: .* at most 8 beats"),
  ("8x8,vmem_bytes=8192", r"vmem_bytes must hold at least 64 tiles \(16384 bytes\)"),
  ("4x4,vmem_bytes=2147483648", "vmem_bytes must be a power of two from 4096 to 1073741824, not 2147483648"),
  ("4x4,vmem_bytes=300000", "vmem_bytes must be a power of two"),
  ("4x4,vector_lanes=4,ibuf_block_lines=1", "ibuf_block_lines must be at least 2 lines of 16 bytes, not 1"),
  ("4x4,ibuf_blocks=0", "ibuf_blocks must be a power of two from 1 to 256, not 0"),
  ("4x4,ibuf_blocks=512", "ibuf_blocks must be .*, not 512"), ("4x4,ibuf_block_lines=128", "ibuf_block_lines must be .*, not 128"),
  ("8x8,hbm_bytes=2000", r"hbm_bytes must be a multiple of a line \(256 bytes\)"),
  ("4x4,ibuf_block_lines=64,hbm_bytes=2048", r"at least a block of the instruction buffer \(4096 bytes\), not 2048"),
  ("4x4,hbm_bytes=0", "hbm_bytes must be an integer from 1024 to 4294967296, not 0"),
  ("4x4,hbm_bytes=8589934592", "hbm_bytes must be .*, not 8589934592"),
  ("4x4,hbm_latency=3", "hbm_latency must be an integer from 4 to 4096, not 3"), ("4x4,hbm_latency=4097", "hbm_latency must be"),
  ("4x4,clock_hz=0", "clock_hz must be an integer from 1 to 100000000000, not 0"), ("4x4,clock_hz=100000000001", "clock_hz must be"),
  ("4x4,hbm_latency=10,hbm_latency=12", "hbm_latency is given twice"), ("4x4,hbm_latency=-5", "'hbm_latency=-5' changes no field"),
  ("4x4,hbm_latency=\u0663\u0663", "changes no field"), ("4x4,hbm_latency=" + "9" * 5000, "changes no field"),
  ("4x4,", "'' changes no field"), ("4x4, hbm_latency=5", "' hbm_latency=5' changes no field"), ("x" * 10**6, "unknown preset")])
def test_refused(name, reason):
  with pytest.raises(ConfigError, match=reason):
    preset(name)


def test_the_smallest_block_holds_a_packet():
  assert preset("4x4,vector_lanes=4,ibuf_block_lines=2").ibuf_block_bytes == PACKET_WORDS * WORD_BYTES


@pytest.mark.parametrize("value", [None, "4", 4.0, 4.5, True, -1, 0, 1 << 70, pytest.param(-(1 << 20000), id="long"), float("nan"), [4]])
@pytest.mark.parametrize("field", [f.name for f in parameters()])
def test_nonsense_is_refused_by_name(field, value):
  with pytest.raises(ConfigError, match=rf"^{field} must be an? (integer|power of two) .*from \d+ to \d+, not ") as caught:
    Config(**{field: value})
  assert len(str(caught.value)) < 200


@pytest.mark.parametrize("name", ["", None, 5, "a\nb", "\x1b[1m"])
def test_names_are_printable(name):
  with pytest.raises(ConfigError, match="^name must be printable text"):
    Config(name)


def test_unknown_changes_are_refused():
  with pytest.raises(ConfigError, match="'speed' is no field of preset 4x4; fields: sublanes, "):
    preset("4x4", speed=3)


def test_limits_of_a_range_belong_to_it():
  assert all(preset("4x4", hbm_latency=n).hbm_latency == n for n in (4, 4096))
  assert all(preset("4x4", clock_hz=n).clock_hz == n for n in (1, 10**11))
  assert preset("16x16", hbm_bytes=1 << 32).hbm_bytes == 1 << 32
